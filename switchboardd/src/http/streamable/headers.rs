//! Checks the headers in which a modern request repeats parts of its body: `Mcp-Method`, `Mcp-Name`,
//! `Mcp-Param-*`. Pure; the error is the message for the host.

use std::borrow::Cow;

use axum::http::HeaderMap;
use switchboard_wire::envelope::string;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

pub(super) use switchboard_mcp::era::headers::header_params;
use switchboard_mcp::era::headers::{HeaderParam, decoded, name_member};
use switchboard_mcp::header_names;

/// Checks the headers that every request must have.
pub(super) fn check(headers: &HeaderMap, method: &str, params: &Members<'_>) -> Result<(), String> {
    agree(headers, header_names::METHOD, Some(method))?;
    let name = name_member(method).and_then(|key| params.text(key));
    // A body that lacks the name is refused by the code that needs the name.
    name.map_or(Ok(()), |name| agree(headers, header_names::NAME, Some(&name)))
}

fn agree(headers: &HeaderMap, header: &str, body: Option<&str>) -> Result<(), String> {
    let given = value(headers, header)?;
    if given.as_deref() == body {
        return Ok(());
    }
    Err(differs(header, given.as_deref(), body))
}

fn differs(header: &str, given: Option<&str>, body: Option<&str>) -> String {
    match (given, body) {
        (None, _) => format!("the header `{header}` is missing"),
        (Some(given), Some(body)) => format!("the header `{header}` is `{given}`, the body says `{body}`"),
        (Some(given), None) => format!("the header `{header}` is `{given}`, the body does not say it"),
    }
}

/// The value of a header, trimmed and decoded. An error if the header is repeated.
fn value<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<Cow<'a, str>>, String> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(format!("the header `{name}` is there more than once"));
    }
    let text = value.to_str().map_err(|_| format!("the header `{name}` is not ASCII"))?.trim();
    decoded(text).map(Some).ok_or_else(|| format!("the header `{name}` is not base64 of text"))
}

/// Checks the `Mcp-Param-*` headers that the tool's schema requires.
pub(super) fn check_arguments(
    headers: &HeaderMap,
    header_params: &[HeaderParam],
    arguments: Option<Raw<'_>>,
) -> Result<(), String> {
    for header_param in header_params {
        let header = format!("{}{}", header_names::PARAM_PREFIX, header_param.header);
        let given = value(headers, &header)?;
        let body = header_param.value(arguments);
        if !matches_body(given.as_deref(), body) {
            return Err(differs(&header, given.as_deref(), body.map(Raw::get)));
        }
    }
    Ok(())
}

fn matches_body(given: Option<&str>, body: Option<Raw<'_>>) -> bool {
    let (given, body) = match (given, body) {
        (None, None) => return true,
        (Some(given), Some(body)) => (given, body),
        _ => return false,
    };
    let text: Cow<'_, str> = string(body).unwrap_or(Cow::Borrowed(body.get()));
    let number = |text: &str| text.parse::<f64>().ok();
    *text == *given || (string(body).is_none() && number(&text).is_some() && number(&text) == number(given))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| -> (HeaderName, _) {
            (name.parse().unwrap(), value.parse().unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn raw(text: &str) -> Raw<'_> {
        Raw::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn method_and_name_agree_with_the_body() {
        let none = Members::default();
        let members = |text: &'static str| Members::of(raw(text)).unwrap();
        let call = |pairs: &[(&str, &str)]| check(&headers(pairs), "tools/call", &members(r#"{"name":"é"}"#));
        assert!(call(&[("mcp-method", "tools/call"), ("Mcp-Name", " =?base64?w6k=?= ")]).is_ok());
        assert!(call(&[("mcp-method", "tools/call"), ("mcp-name", "e")]).is_err());
        assert!(call(&[("mcp-method", "tools/call")]).is_err());
        assert!(call(&[("mcp-method", "TOOLS/CALL"), ("mcp-name", "=?base64?w6k=?=")]).is_err());
        let twice = [("mcp-method", "tools/call"), ("mcp-method", "tools/call")];
        let mut given = headers(&twice[..1]);
        given.append("mcp-method", "tools/call".parse().unwrap());
        assert!(check(&given, "tools/list", &none).is_err());
        assert!(check(&headers(&[("mcp-method", "tools/list")]), "tools/list", &none).is_ok());
        assert!(check(&headers(&[]), "tools/list", &none).is_err());
        let read = [("mcp-method", "resources/read"), ("mcp-name", "a:b")];
        assert!(check(&headers(&read), "resources/read", &members(r#"{"uri":"a:b"}"#)).is_ok());
    }

    #[test]
    fn annotated_arguments_must_match_their_headers() {
        let schema = r#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"},
            "in":{"properties":{"count":{"type":"integer","x-mcp-header":"Count"}}}}}"#;
        let header_params = header_params(raw(schema));
        let agrees = |pairs: &[(&str, &str)], body: &str| {
            check_arguments(&headers(pairs), &header_params, Some(raw(body))).is_ok()
        };
        assert!(agrees(&[], "{}"));
        assert!(agrees(&[], r#"{"region":null}"#));
        assert!(agrees(&[("mcp-param-region", "eu")], r#"{"region":"eu"}"#));
        assert!(agrees(&[("Mcp-Param-Count", "5.0")], r#"{"in":{"count":5}}"#));
        assert!(!agrees(&[], r#"{"region":"eu"}"#));
        assert!(!agrees(&[("mcp-param-region", "eu")], "{}"));
        assert!(!agrees(&[("mcp-param-region", "us")], r#"{"region":"eu"}"#));
        assert!(!agrees(&[("mcp-param-region", "5.0")], r#"{"region":"5"}"#));
    }
}

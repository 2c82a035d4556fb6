//! Converts a server's questions between the eras: a request to the host, or an entry in `inputRequests`.

use switchboard_wire::envelope::{quoted, string};
use switchboard_wire::members::{Members, insert_members, remove_members};
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use switchboard_wire::visible::is_hidden;

use crate::error_codes::URL_ELICITATION_REQUIRED;
use crate::methods;

/// More than a host could show to a user.
const MAX_INPUTS: usize = 64;

/// A parsed `input_required` result.
#[derive(Debug)]
pub struct InputRequired<'a> {
    pub requests: Vec<InputRequest<'a>>,
    pub state: Option<Raw<'a>>,
}

#[derive(Debug)]
pub struct InputRequest<'a> {
    pub key: String,
    pub method: String,
    pub params: Option<Raw<'a>>,
}

impl<'a> InputRequired<'a> {
    /// Parses a result; the error says what is wrong with it.
    pub fn read(result: Raw<'a>) -> Result<Self, String> {
        let members = Members::of(result).ok_or("its `input_required` is not an object")?;
        let state = members.get("requestState").filter(|state| !state.is_null());
        let mut requests = Vec::new();
        for (key, request) in members.get("inputRequests").and_then(Members::of).unwrap_or_default().0 {
            let request =
                Members::of(request).ok_or_else(|| format!("its input request `{key}` is not an object"))?;
            let method =
                request.text("method").ok_or_else(|| format!("its input request `{key}` has no method"))?;
            if !matches!(&*method, methods::ELICITATION | methods::SAMPLING | methods::ROOTS_LIST) {
                return Err(format!("its input request `{key}` asks for `{method}`"));
            }
            if method == methods::ELICITATION
                && let Some(why) = bad_address(request.get("params"))
            {
                return Err(format!("its input request `{key}` is refused: {why}"));
            }
            let (key, method) = (key.into_owned(), method.into_owned());
            requests.push(InputRequest { key, method, params: request.get("params") });
        }
        if requests.len() > MAX_INPUTS {
            return Err(format!(
                "it asks {} questions at the same time; the limit is {MAX_INPUTS}",
                requests.len()
            ));
        }
        if requests.is_empty() && state.is_none() {
            return Err("its `input_required` asks nothing".to_owned());
        }
        Ok(Self { requests, state })
    }
}

impl InputRequest<'_> {
    /// The question as a request to a legacy host; the caller replaces the id. Legacy URL elicitations need
    /// an `elicitationId`: `mint` makes one.
    pub fn to_legacy(&self, mint: impl FnOnce() -> String) -> Vec<u8> {
        let params = self.params.map_or("{}", Raw::get);
        let members = self.params.and_then(Members::of).unwrap_or_default();
        let by_url = self.method == methods::ELICITATION && members.text("mode").as_deref() == Some("url");
        let params = if by_url && members.get("elicitationId").is_none() {
            insert_members(params, &format!(r#""elicitationId":{}"#, quoted(&mint())))
        } else {
            params.to_owned()
        };
        rpc::request("0", &self.method, Some(&params))
    }
}

/// What is wrong with the URL of an elicitation; `None` if it has none or a valid one. A host may pass it to
/// any URL opener, so only http and https are let through.
pub fn bad_address(params: Option<Raw<'_>>) -> Option<&'static str> {
    let params = Members::of(params?)?;
    let by_url = params.text("mode").as_deref() == Some("url");
    let Some(url) = params.get("url") else { return by_url.then_some("`url` is missing") };
    let Some(url) = string(url) else { return Some("`url` must be a string") };
    if url.chars().any(|c| is_hidden(c) || c == ' ') {
        return Some("`url` must not have spaces or control characters");
    }
    let scheme = url.split_once("://").filter(|(_, rest)| !rest.is_empty()).map(|(scheme, _)| scheme);
    let is_web = |scheme: &str| ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
    (!scheme.is_some_and(is_web)).then_some("`url` must begin with `https://` or `http://`")
}

/// `bad_address` for all input requests in a modern child's result.
pub fn bad_address_in_inputs(result: Raw<'_>) -> Option<String> {
    let inputs = Members::of(result)?.get("inputRequests").and_then(Members::of)?;
    inputs.0.iter().find_map(|(key, request)| {
        let why = bad_address(Members::of(*request)?.get("params"))?;
        Some(format!("its input request `{key}` is refused: {why}"))
    })
}

/// `bad_address` for an error that lists URLs to open.
pub fn bad_address_in_error(error: Raw<'_>) -> Option<String> {
    let error = Members::of(error)?;
    error.get("code").filter(|code| code.get().parse() == Ok(URL_ELICITATION_REQUIRED))?;
    let list = error.get("data").and_then(Members::of)?.get("elicitations")?;
    let list: Vec<&serde_json::value::RawValue> = serde_json::from_str(list.get()).ok()?;
    let why = list.into_iter().find_map(|one| bad_address(Some(one.into())))?;
    Some(format!("wants an address opened that is refused: {why}"))
}

/// A legacy child's question as an entry in `inputRequests`, without its key.
pub fn to_modern(method: &str, params: Option<Raw<'_>>) -> String {
    let params =
        params.map_or_else(|| "{}".to_owned(), |params| remove_members(params, |key| key == "elicitationId"));
    format!(r#"{{"method":{},"params":{params}}}"#, quoted(method))
}

/// The result of a host that has left or declines; `None` if only an error can express it.
pub fn declined_result(method: &str, action: &str) -> Option<String> {
    match method {
        methods::ELICITATION => Some(format!(r#"{{"action":"{action}"}}"#)),
        methods::ROOTS_LIST => Some(r#"{"roots":[]}"#.to_owned()),
        _ => None,
    }
}

/// The capability that a client must have declared to be asked this.
pub fn required_capability(method: &str, params: Option<Raw<'_>>) -> &'static str {
    let by_url =
        || params.and_then(Members::of).and_then(|params| params.text("mode")).as_deref() == Some("url");
    match method {
        methods::SAMPLING => r#"{"sampling":{}}"#,
        methods::ROOTS_LIST => r#"{"roots":{}}"#,
        _ if by_url() => r#"{"elicitation":{"url":{}}}"#,
        _ => r#"{"elicitation":{}}"#,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw<'_> {
        Raw::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn questions_are_converted_byte_for_byte() {
        let result = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","url":"http://u","n":1.0}},"b":{"method":"roots/list"}},"requestState":"s"}"#;
        let read = InputRequired::read(raw(result)).unwrap();
        assert_eq!(read.state.unwrap().get(), "\"s\"");
        let text = |request: Vec<u8>| String::from_utf8(request).unwrap();
        assert_eq!(
            text(read.requests[0].to_legacy(|| "e1".to_owned())),
            r#"{"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":{"mode":"url","url":"http://u","n":1.0,"elicitationId":"e1"}}"#
        );
        assert_eq!(
            text(read.requests[1].to_legacy(String::new)),
            r#"{"jsonrpc":"2.0","id":0,"method":"roots/list","params":{}}"#
        );
        assert_eq!(
            to_modern("elicitation/create", Some(raw(r#"{"elicitationId":"e","url":"u"}"#))),
            r#"{"method":"elicitation/create","params":{"url":"u"}}"#
        );
    }

    #[test]
    fn only_http_and_https_urls_are_passed_on() {
        let bad = |url: &str| {
            let params = serde_json::json!({"mode": "url", "url": url}).to_string();
            bad_address(Some(raw(&params))).is_some()
        };
        assert!(!bad("https://example.org/a?b=c#d") && !bad("HTTP://localhost:80/"));
        for url in [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:text/html,x",
            "https:example.org",
            "https://",
            "https://a\r\nb",
            "https://a b",
            " https://a",
            "https://a\u{202e}b",
            "vscode://x",
            "",
        ] {
            assert!(bad(url), "{url:?}");
        }
        assert!(bad_address(Some(raw(r#"{"mode":"url"}"#))).is_some());
        assert!(bad_address(Some(raw(r#"{"url":7}"#))).is_some());
        assert!(bad_address(Some(raw(r#"{"message":"m"}"#))).is_none() && bad_address(None).is_none());
        let error = r#"{"code":-32042,"data":{"elicitations":[{"mode":"url","url":"file:///x"}]}}"#;
        assert!(bad_address_in_error(raw(error)).is_some());
        assert!(bad_address_in_error(raw(&error.replace("file", "https"))).is_none());
        let inputs =
            r#"{"inputRequests":{"a":{"method":"elicitation/create","params":{"url":"file:///x"}}}}"#;
        assert!(bad_address_in_inputs(raw(inputs)).is_some_and(|why| why.contains("`a`")));
    }

    #[test]
    fn invalid_input_requests_are_refused() {
        for result in [
            "{}",
            r#"{"inputRequests":{}}"#,
            r#"{"inputRequests":{"a":1}}"#,
            r#"{"inputRequests":{"a":{}}}"#,
            r#"{"inputRequests":{"a":{"method":"tools/call"}}}"#,
        ] {
            assert!(InputRequired::read(raw(result)).is_err(), "{result}");
        }
        assert!(InputRequired::read(raw(r#"{"requestState":"s"}"#)).is_ok());
    }
}

//! The headers that a modern request repeats from its body: `Mcp-Method`, `Mcp-Name`, `Mcp-Param-*`.

use hyper::HeaderMap;
use serde_json::Value;

/// A tool argument that is sent as a header too.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HeaderArgument {
    /// The header's name without `Mcp-Param-`.
    header: String,
    /// The path to the argument in `arguments`.
    path: Vec<String>,
}

/// The value of a header, trimmed and decoded; an error if it cannot be decoded.
pub(super) fn value(headers: &HeaderMap, name: &str) -> Result<Option<String>, String> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().map_err(|_| format!("`{name}` is not ASCII"))?.trim();
    match text.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        None => Ok(Some(text.to_owned())),
        Some(encoded) => base64(encoded)
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .map(Some)
            .ok_or_else(|| format!("`{name}` is not base64")),
    }
}

/// The value that `Mcp-Name` must have.
pub(super) fn name<'a>(method: &str, params: &'a Value) -> Option<&'a str> {
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return None,
    };
    params[key].as_str()
}

/// Checks the headers that every request has; the error says what is wrong.
pub(super) fn complaint(headers: &HeaderMap, message: &Value) -> Result<(), String> {
    let method = message["method"].as_str().unwrap_or_default();
    same(headers, "mcp-method", Some(method))?;
    match name(method, &message["params"]) {
        None => Ok(()),
        name => same(headers, "mcp-name", name),
    }
}

fn same(headers: &HeaderMap, header: &str, body: Option<&str>) -> Result<(), String> {
    let given = value(headers, header)?;
    if given.as_deref() == body {
        Ok(())
    } else {
        Err(format!("`{header}` is {given:?} and the body says {body:?}"))
    }
}

/// The annotations in a tool's input schema.
pub(super) fn annotations(schema: &Value) -> Vec<HeaderArgument> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found);
    found
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<HeaderArgument>) {
    let Some(properties) = schema["properties"].as_object() else { return };
    for (name, property) in properties {
        path.push(name.clone());
        if let Some(header) = property["x-mcp-header"].as_str() {
            found.push(HeaderArgument { header: header.to_owned(), path: path.clone() });
        }
        collect(property, path, found);
        path.pop();
    }
}

/// Checks the headers for a tool's annotated arguments; the error says what is wrong.
pub(super) fn arguments(
    headers: &HeaderMap,
    annotations: &[HeaderArgument],
    arguments: &Value,
) -> Result<(), String> {
    for annotation in annotations {
        let header = format!("mcp-param-{}", annotation.header.to_ascii_lowercase());
        let given = value(headers, &header)?;
        let body = annotation.path.iter().fold(arguments, |value, key| &value[key.as_str()]);
        if !agrees(given.as_deref(), body) {
            return Err(format!("`{header}` is {given:?} and the body says {body}"));
        }
    }
    Ok(())
}

fn agrees(given: Option<&str>, body: &Value) -> bool {
    match (given, body) {
        (None, Value::Null) => true,
        (Some(given), Value::String(body)) => given == body,
        (Some(given), Value::Bool(body)) => given == body.to_string(),
        (Some(given), Value::Number(body)) => given.parse::<f64>().ok() == body.as_f64(),
        _ => false,
    }
}

/// Decodes standard base64 with padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = text.trim_end_matches('=');
    if text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::new();
    let (mut held, mut bits) = (0_u32, 0);
    for byte in digits.bytes() {
        held = held << 6 | u32::from(digit(byte)?);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn base64_is_strict() {
        assert_eq!(base64("SGVsbG8=").as_deref(), Some(&b"Hello"[..]));
        assert_eq!(base64("").as_deref(), Some(&b""[..]));
        for wrong in ["SGVsbG8", "SGVs!!!bG8=", "====", "S==="] {
            assert_eq!(base64(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn method_and_name_must_agree_with_the_body() {
        let call = json!({"method": "tools/call", "params": {"name": "a"}});
        assert!(complaint(&headers(&[("Mcp-Method", "tools/call"), ("Mcp-Name", "  a ")]), &call).is_ok());
        assert!(
            complaint(&headers(&[("Mcp-Method", "tools/call"), ("Mcp-Name", "=?base64?YQ==?=")]), &call)
                .is_ok()
        );
        assert!(complaint(&headers(&[("Mcp-Method", "tools/call")]), &call).is_err());
        assert!(complaint(&headers(&[("Mcp-Method", "TOOLS/CALL"), ("Mcp-Name", "a")]), &call).is_err());
        let list = json!({"method": "tools/list"});
        assert!(complaint(&headers(&[("Mcp-Method", "tools/list")]), &list).is_ok());
        assert!(complaint(&headers(&[]), &list).is_err());
    }

    #[test]
    fn annotated_arguments_must_be_headers_too() {
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "in": {"properties": {"count": {"type": "integer", "x-mcp-header": "Count"}}},
        }});
        let annotations = annotations(&schema);
        let check =
            |pairs: &[(&str, &str)], body: Value| arguments(&headers(pairs), &annotations, &body).is_ok();
        assert!(check(&[], json!({})));
        assert!(check(&[], json!({"region": null})));
        assert!(check(&[("Mcp-Param-Region", "eu")], json!({"region": "eu"})));
        assert!(check(&[("Mcp-Param-Count", "5.0")], json!({"in": {"count": 5}})));
        assert!(!check(&[], json!({"region": "eu"})));
        assert!(!check(&[("Mcp-Param-Region", "eu")], json!({})));
        assert!(!check(&[("Mcp-Param-Region", "us")], json!({"region": "eu"})));
    }
}

//! Decides which era a posted message belongs to, and rejects invalid ones before the server sees them.

use hyper::HeaderMap;
use serde_json::Value;

use super::headers;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const MODERN: &str = "2026-07-28";
const HEADER_MISMATCH: i64 = -32020;

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Modern,
    Legacy,
    /// A notification that has no meaning over HTTP.
    Ignored,
    /// Status 400, with this error code.
    Refused(i64, String),
}

pub(super) fn classify(given: &HeaderMap, message: &Value) -> Verdict {
    let version = given.get("mcp-protocol-version").and_then(|version| version.to_str().ok()).map(str::trim);
    let claim = message["params"]["_meta"].get(VERSION);
    let Some(method) = message["method"].as_str() else {
        return if message.get("id").is_some() { Verdict::Legacy } else { refused("not a JSON-RPC message") };
    };
    if message.get("id").is_none() {
        // A modern client cancels by closing its connection and sends no other notifications.
        return if claim.is_some() || version == Some(MODERN) { Verdict::Ignored } else { Verdict::Legacy };
    }
    match (claim, version) {
        (Some(claim), version) => match version {
            Some(version) if claim == version => match headers::complaint(given, message) {
                Ok(()) => Verdict::Modern,
                Err(why) => Verdict::Refused(HEADER_MISMATCH, why),
            },
            _ => Verdict::Refused(
                HEADER_MISMATCH,
                format!("`MCP-Protocol-Version` is {version:?} and the body says {claim}"),
            ),
        },
        (None, Some(MODERN)) if method == "initialize" => {
            Verdict::Refused(HEADER_MISMATCH, "`initialize` has no place in this revision".into())
        }
        (None, Some(MODERN)) => Verdict::Refused(-32602, format!("`_meta` lacks {VERSION}")),
        (None, _) => Verdict::Legacy,
    }
}

fn refused(why: &str) -> Verdict {
    Verdict::Refused(-32600, why.into())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(version: Option<&'static str>, message: &Value, wanted: &str) {
        let mut headers = HeaderMap::new();
        headers.insert("mcp-method", HeaderValue::from_static("tools/list"));
        if let Some(version) = version {
            headers.insert("mcp-protocol-version", HeaderValue::from_static(version));
        }
        let verdict = match classify(&headers, message) {
            Verdict::Refused(code, _) => code.to_string(),
            verdict => format!("{verdict:?}"),
        };
        assert_eq!(verdict, wanted, "{version:?} {message}");
    }

    #[test]
    fn the_ladder() {
        let claim =
            |version: &str| json!({"id": 1, "method": "tools/list", "params": {"_meta": {VERSION: version}}});
        let plain = json!({"id": 1, "method": "tools/list"});
        let handshake = json!({"id": 1, "method": "initialize", "params": {}});
        check(Some(MODERN), &claim(MODERN), "Modern");
        check(Some("v9"), &claim("v9"), "Modern");
        check(Some(MODERN), &claim("v9"), "-32020");
        check(None, &claim(MODERN), "-32020");
        check(Some(MODERN), &plain, "-32602");
        check(Some(MODERN), &handshake, "-32020");
        check(Some("2025-11-25"), &handshake, "Legacy");
        check(None, &plain, "Legacy");
        check(None, &json!({"id": 1, "result": {}}), "Legacy");
        check(None, &json!({"method": "notifications/initialized"}), "Legacy");
        check(Some(MODERN), &json!({"method": "notifications/cancelled"}), "Ignored");
        check(None, &json!([]), "-32600");
        check(None, &json!({}), "-32600");
    }
}

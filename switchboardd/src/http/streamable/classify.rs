//! Decides which era a posted message belongs to and refuses contradictory ones. Pure; the first check that
//! applies decides.

use axum::http::{HeaderMap, HeaderName, StatusCode};
use serde_json::json;
use switchboard_mcp::era::{
    CAPABILITIES_KEY as CAPABILITIES, ProtocolEra, VERSION_KEY as CLAIM, request_meta,
};
use switchboard_mcp::error_codes::{HEADER_MISMATCH, UNSUPPORTED_VERSION};
use switchboard_mcp::header_names;
use switchboard_mcp::methods::{self, MODERN_REVISIONS};
use switchboard_wire::envelope::{INVALID_PARAMS, Message};
use switchboard_wire::members::Members;

use super::headers;
use crate::http::errors::RpcError;

pub(super) const VERSION: HeaderName = HeaderName::from_static(header_names::PROTOCOL_VERSION);

pub(super) fn classify(given: &HeaderMap, message: &Message<'_>) -> Result<ProtocolEra, RpcError> {
    let version = given.get(VERSION).and_then(|version| version.to_str().ok()).map(str::trim);
    let has_modern_header = version.is_some_and(|version| MODERN_REVISIONS.contains(&version));
    let (id, method, params) = match message {
        // Only legacy sessions are asked questions, so only they send responses.
        Message::Response { .. } => return Ok(ProtocolEra::Legacy),
        Message::Notification { params, .. } => {
            let claims = request_meta::claimed_revision(&request_meta::meta(*params)).is_some();
            return Ok(if claims || has_modern_header { ProtocolEra::Modern } else { ProtocolEra::Legacy });
        }
        Message::Request { id, method, params } => (*id, method.name(), *params),
    };
    let refused = |code, why: String| Err(bad(code, why).about(Some(id.get())));
    let params = params.and_then(Members::of).unwrap_or_default();
    let meta = params.get("_meta").and_then(Members::of).unwrap_or_default();
    let Some(claim) = request_meta::claimed_revision(&meta) else {
        return match (has_modern_header, &*method) {
            (false, _) => Ok(ProtocolEra::Legacy),
            (true, methods::INITIALIZE) => {
                refused(HEADER_MISMATCH, "`initialize` has no place in the revision of the header".to_owned())
            }
            (true, _) => refused(INVALID_PARAMS, format!("`params._meta` lacks {}", missing(&meta))),
        };
    };
    let claim = match claim {
        Ok(claim) => claim,
        Err(invalid) => return refused(INVALID_PARAMS, invalid.to_string()),
    };
    if version != Some(&*claim) {
        let shown = version.unwrap_or("missing");
        return refused(HEADER_MISMATCH, format!("`{VERSION}` is `{shown}`, the body says `{claim}`"));
    }
    if !MODERN_REVISIONS.contains(&&*claim) {
        let complaint = bad(UNSUPPORTED_VERSION, format!("revision `{claim}` is not known here"));
        let data = json!({ "supported": MODERN_REVISIONS, "requested": claim });
        return Err(RpcError { data: Some(data), ..complaint.about(Some(id.get())) });
    }
    headers::check(given, &method, &params)
        .or_else(|why| refused(HEADER_MISMATCH, why).map(|_: ProtocolEra| ()))?;
    if request_meta::capabilities(&meta).is_none() {
        return refused(INVALID_PARAMS, format!("`params._meta` lacks `{CAPABILITIES}`, an object"));
    }
    Ok(ProtocolEra::Modern)
}

fn missing(meta: &Members<'_>) -> String {
    let lacking: Vec<String> = [CLAIM, CAPABILITIES]
        .into_iter()
        .filter(|key| meta.get(key).is_none())
        .map(|key| format!("`{key}`"))
        .collect();
    lacking.join(" and ")
}

fn bad(code: i64, why: String) -> RpcError {
    RpcError::new(StatusCode::BAD_REQUEST, code, why)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const MODERN: &str = MODERN_REVISIONS[0];

    #[track_caller]
    fn check(version: Option<&'static str>, body: &str, wanted: &str) {
        let mut headers = HeaderMap::new();
        headers.insert("mcp-method", HeaderValue::from_static("tools/list"));
        if let Some(version) = version {
            headers.insert(VERSION, HeaderValue::from_static(version));
        }
        let message = Message::parse(body.as_bytes()).unwrap();
        let verdict = match classify(&headers, &message) {
            Err(complaint) => complaint.code.to_string(),
            Ok(era) => format!("{era:?}"),
        };
        assert_eq!(verdict, wanted, "{version:?} {body}");
    }

    #[test]
    fn the_first_check_that_applies_decides() {
        let request = |method: &str, meta: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{meta}}}}}"#)
        };
        let claim = |version: &str| {
            request("tools/list", &format!(r#"{{"{CLAIM}":"{version}","{CAPABILITIES}":{{}}}}"#))
        };
        check(Some(MODERN), &claim(MODERN), "Modern");
        check(Some("v9"), &claim("v9"), "-32022");
        check(Some("2025-11-25"), &claim("2025-11-25"), "-32022");
        check(Some(MODERN), &claim("v9"), "-32020");
        check(None, &claim(MODERN), "-32020");
        check(Some(MODERN), &request("tools/list", &format!(r#"{{"{CLAIM}":7}}"#)), "-32602");
        check(Some(MODERN), &request("tools/list", &format!(r#"{{"{CLAIM}":"{MODERN}"}}"#)), "-32602");
        check(Some(MODERN), &request("prompts/list", &format!(r#"{{"{CLAIM}":"{MODERN}"}}"#)), "-32020");
        check(Some(MODERN), &request("tools/list", "{}"), "-32602");
        check(Some(MODERN), &request("initialize", "{}"), "-32020");
        check(Some("2025-11-25"), &request("initialize", "{}"), "Legacy");
        check(None, &request("tools/list", "{}"), "Legacy");
        check(Some("v9"), &request("tools/list", "{}"), "Legacy");
        check(None, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "Legacy");
        check(Some(MODERN), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "Legacy");
        check(None, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "Legacy");
        check(Some(MODERN), r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#, "Modern");
    }

    #[test]
    fn the_error_names_the_missing_members() {
        let mut headers = HeaderMap::new();
        headers.insert(VERSION, HeaderValue::from_static(MODERN));
        let message = Message::parse(br#"{"jsonrpc":"2.0","id":"a","method":"x"}"#).unwrap();
        let complaint = classify(&headers, &message).unwrap_err();
        assert!(complaint.message.contains(CLAIM) && complaint.message.contains(CAPABILITIES));
        assert_eq!(complaint.id.as_deref(), Some("\"a\""));
    }
}

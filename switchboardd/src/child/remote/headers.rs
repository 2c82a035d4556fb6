//! The headers of a message to a remote child, derived from the message. Pure.

use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use switchboard_mcp::era::VERSION_KEY;
use switchboard_mcp::era::headers::{encoded, header_params, header_value, name_member};
use switchboard_mcp::header_names;
use switchboard_mcp::methods;
use switchboard_wire::envelope::Message;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use super::RemoteState;
use crate::child::{Protocol, ToolList};

pub(super) const SESSION: HeaderName = HeaderName::from_static(header_names::SESSION_ID);
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static(header_names::LAST_EVENT_ID);
const VERSION: HeaderName = HeaderName::from_static(header_names::PROTOCOL_VERSION);
const METHOD: HeaderName = HeaderName::from_static(header_names::METHOD);
const NAME: HeaderName = HeaderName::from_static(header_names::NAME);

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_AND_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The headers of a posted message. `tools`: the child's tools, whose schemas may require more headers.
pub(super) fn of_message(state: &RemoteState, message: &Message<'_>, tools: Option<&ToolList>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, JSON_AND_EVENTS);
    headers.insert(CONTENT_TYPE, JSON);
    match state.protocol {
        Protocol::Modern => of_modern(message, tools, &mut headers),
        Protocol::Legacy | Protocol::LegacySse => of_session(state, &mut headers),
    }
    headers
}

/// The headers of the request for a legacy server's own stream.
pub(super) fn of_stream(state: &RemoteState, last_id: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, EVENTS);
    of_session(state, &mut headers);
    if let Some(id) = last_id.and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok()) {
        headers.insert(LAST_EVENT_ID, id);
    }
    headers
}

/// Adds the headers that identify the session at a legacy server.
pub(super) fn of_session(state: &RemoteState, headers: &mut HeaderMap) {
    if let Some(revision) = state.revision {
        headers.insert(VERSION, HeaderValue::from_static(revision));
    }
    if let Some(session) = &state.session {
        headers.insert(SESSION, session.clone());
    }
}

fn of_modern(message: &Message<'_>, tools: Option<&ToolList>, headers: &mut HeaderMap) {
    let (method, params) = match message {
        Message::Request { method, params, .. } | Message::Notification { method, params } => {
            (method.name(), params.and_then(Members::of).unwrap_or_default())
        }
        Message::Response { .. } => return,
    };
    let meta = params.get("_meta").and_then(Members::of).unwrap_or_default();
    let version = meta.text(VERSION_KEY).unwrap_or(methods::LATEST_MODERN.into());
    put(headers, VERSION, &version);
    put(headers, METHOD, &method);
    let name = name_member(&method).and_then(|member| params.text(member));
    if let Some(name) = &name {
        put(headers, NAME, name);
    }
    let tool = name.filter(|_| method == methods::TOOLS_CALL);
    if let Some(tool) = tool.and_then(|name| tools?.find(&name)) {
        let schema = tool.input_schema.as_deref().map(Raw::from);
        for header_param in schema.map(header_params).unwrap_or_default() {
            let value = header_param.value(params.get("arguments"));
            let header = HeaderName::from_bytes(
                format!("{}{}", header_names::PARAM_PREFIX, header_param.header).as_bytes(),
            );
            if let (Some(value), Ok(header)) = (value.and_then(header_value), header) {
                put(headers, header, &value);
            }
        }
    }
}

fn put(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    let value = HeaderValue::from_str(&encoded(text)).expect("BUG: what is encoded can be a header");
    headers.insert(name, value);
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn headers(state: &RemoteState, body: &str, tools: Option<&ToolList>) -> Vec<(String, String)> {
        let message = Message::parse(body.as_bytes()).unwrap();
        let headers = of_message(state, &message, tools);
        let mut pairs: Vec<_> = headers
            .iter()
            .filter(|(name, _)| **name != ACCEPT && **name != CONTENT_TYPE)
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        pairs.sort();
        pairs
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_headers_of_a_modern_request_repeat_its_body() {
        let tool = r#"{"name":"ü","inputSchema":{"properties":{"r":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}}"#;
        let tool = RawValue::from_string(tool.to_owned()).unwrap();
        let tools = ToolList::from_raw(&[&tool]);
        let state = RemoteState { protocol: Protocol::Modern, ..RemoteState::default() };
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ü","arguments":{"r":" x","n":5.0},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        assert_eq!(
            headers(&state, call, Some(&tools)),
            pairs(&[
                ("mcp-method", "tools/call"),
                ("mcp-name", "=?base64?w7w=?="),
                ("mcp-param-n", "5"),
                ("mcp-param-region", "=?base64?IHg=?="),
                ("mcp-protocol-version", "2026-07-28"),
            ])
        );
        let read = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}"#;
        assert_eq!(
            headers(&state, read, None),
            pairs(&[
                ("mcp-method", "resources/read"),
                ("mcp-name", "a:b"),
                ("mcp-protocol-version", methods::LATEST_MODERN)
            ])
        );
    }

    #[test]
    fn a_legacy_message_names_its_session() {
        let session = Some(HeaderValue::from_static("s1"));
        let state = RemoteState { revision: Some("2025-06-18"), session, ..RemoteState::default() };
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
        let expected = pairs(&[("mcp-protocol-version", "2025-06-18"), ("mcp-session-id", "s1")]);
        assert_eq!(headers(&state, call, None), expected);
        assert!(headers(&RemoteState::default(), call, None).is_empty());
    }
}

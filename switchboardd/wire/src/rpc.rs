//! Writes JSON-RPC 2.0 messages. Ids, params, results and errors go in as raw JSON and come out unchanged;
//! [`crate::envelope`] reads what is written here.

use crate::envelope::quoted;

const BEFORE_ID: &str = r#"{"jsonrpc":"2.0","id":"#;
const BEFORE_METHOD: &str = r#"{"jsonrpc":"2.0","method":"#;

/// Where the id of a [`request`], [`result`] or [`error`] begins.
pub const ID_START: usize = BEFORE_ID.len();

/// A request; `id` and `params` are JSON, `method` is the plain name.
pub fn request(id: &str, method: &str, params: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + id.len() + method.len() + params.map_or(0, str::len));
    push_request_start(id, method, &mut out);
    push_params(params, &mut out);
    out
}

/// The beginning of a request, up to and including its method. What follows is `,"params":…` or nothing, then `}`.
pub fn push_request_start(id: &str, method: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(BEFORE_ID.as_bytes());
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(br#","method":"#);
    out.extend_from_slice(quoted(method).as_bytes());
}

/// A notification; `params` is JSON, `method` is the plain name.
pub fn notification(method: &str, params: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + method.len() + params.map_or(0, str::len));
    out.extend_from_slice(BEFORE_METHOD.as_bytes());
    out.extend_from_slice(quoted(method).as_bytes());
    push_params(params, &mut out);
    out
}

/// The answer to a request that succeeded.
pub fn result(id: &str, result: &str) -> Vec<u8> {
    response(id, r#""result":"#, result)
}

/// The answer to a request that failed. `error` is the whole error object.
pub fn error(id: &str, error: &str) -> Vec<u8> {
    response(id, r#""error":"#, error)
}

/// An answer whose outcome is a whole member: `"result":…` or `"error":…`.
pub fn response_with(id: &str, outcome: &str) -> Vec<u8> {
    response(id, "", outcome)
}

/// The error for a message whose id could not be read.
pub fn error_without_id(error: &str) -> Vec<u8> {
    [r#"{"jsonrpc":"2.0","error":"#, error, r#","id":null}"#].concat().into_bytes()
}

/// The member of a tool's result that holds one text: `"content":[{"type":"text","text":…}]`.
pub fn text_content(text: &str) -> String {
    [r#""content":[{"type":"text","text":"#, &quoted(text), "}]"].concat()
}

/// The result of `tools/list`; `tools` are JSON objects with commas between them.
pub fn tools_result(tools: &str) -> String {
    [r#"{"tools":["#, tools, "]}"].concat()
}

fn push_params(params: Option<&str>, out: &mut Vec<u8>) {
    if let Some(params) = params {
        out.extend_from_slice(br#","params":"#);
        out.extend_from_slice(params.as_bytes());
    }
    out.push(b'}');
}

fn response(id: &str, name: &str, value: &str) -> Vec<u8> {
    [BEFORE_ID, id, ",", name, value, "}"].concat().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Message;

    #[track_caller]
    fn check(written: Vec<u8>, expect: &str) {
        Message::parse(&written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), expect);
    }

    #[test]
    fn every_message_has_its_members_in_one_order() {
        check(request("1.0", "a\"b", None), r#"{"jsonrpc":"2.0","id":1.0,"method":"a\"b"}"#);
        check(
            request("\"x\"", "a/b", Some("{ \"n\":1.0}")),
            r#"{"jsonrpc":"2.0","id":"x","method":"a/b","params":{ "n":1.0}}"#,
        );
        check(notification("a", None), r#"{"jsonrpc":"2.0","method":"a"}"#);
        check(notification("a", Some("[]")), r#"{"jsonrpc":"2.0","method":"a","params":[]}"#);
        check(result("7", "{}"), r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        check(error("7", r#"{"code":1}"#), r#"{"jsonrpc":"2.0","id":7,"error":{"code":1}}"#);
        check(response_with("7", r#""result":null"#), r#"{"jsonrpc":"2.0","id":7,"result":null}"#);
        check(error_without_id("{}"), r#"{"jsonrpc":"2.0","error":{},"id":null}"#);
    }

    #[test]
    fn the_id_stands_where_it_is_said_to() {
        for written in [request("42", "a", None), result("42", "{}"), error("42", "{}")] {
            assert_eq!(&written[ID_START..ID_START + 2], b"42");
        }
    }

    #[test]
    fn results_of_tools() {
        assert_eq!(text_content("a \"b\""), r#""content":[{"type":"text","text":"a \"b\""}]"#);
        assert_eq!(tools_result(r#"{"name":"a"},{"name":"b"}"#), r#"{"tools":[{"name":"a"},{"name":"b"}]}"#);
    }
}

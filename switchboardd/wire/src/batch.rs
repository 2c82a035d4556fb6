//! Several messages in one array. Only one revision of MCP has batches.
//!
//! All entry points follow one policy: the messages of a batch run concurrently, an invalid message gets its
//! own error while the others run, and an array that is not a batch is refused as a whole.

use serde_json::value::RawValue;

use crate::envelope::{Malformed, Message, quoted};
use crate::oversize::readable_id;
use crate::raw::Raw;
use crate::rpc;

/// The revision that has batches.
pub const REVISION: &str = "2025-03-26";

pub const MAX_MESSAGES: usize = 320;

/// Whether a body is an array, which can only be a batch.
pub fn is_array(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'[')
}

/// The messages of an array, unparsed, or the reason why the array is refused as a whole.
pub fn split(body: &[u8]) -> Result<Vec<&RawValue>, Malformed> {
    let messages: Vec<&RawValue> = serde_json::from_slice(body).map_err(|_| Malformed::NotJson)?;
    match messages.len() {
        0 => Err(Malformed::NotMessage("a batch has at least one message")),
        1..=MAX_MESSAGES => Ok(messages),
        _ => Err(Malformed::NotMessage("a batch has at most 320 messages")),
    }
}

/// Reads one message of a batch, or returns the error for an invalid one. `is_excluded`: whether a request
/// with this method and these params must not be in a batch.
pub fn read<'a>(
    message: &'a [u8],
    is_excluded: impl FnOnce(&str, Option<Raw<'a>>) -> bool,
) -> Result<Message<'a>, Vec<u8>> {
    let refused = |id: &str, malformed: &Malformed, why: &str| {
        rpc::error(id, &format!(r#"{{"code":{},"message":{}}}"#, malformed.code(), quoted(why)))
    };
    match Message::parse(message) {
        Ok(Message::Request { id, method, params }) if is_excluded(&method.name(), params) => {
            let why = format!("`{}` must not be in a batch", method.name());
            Err(refused(id.get(), &Malformed::NotMessage(""), &why))
        }
        Ok(message) => Ok(message),
        Err(malformed) => {
            let id = readable_id(message);
            Err(refused(id.as_deref().unwrap_or("null"), &malformed, &malformed.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_batch_is_refused_as_a_whole() {
        let many = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        assert_eq!(split(many(MAX_MESSAGES).as_bytes()).unwrap().len(), MAX_MESSAGES);
        let messages = split(br#" [{"a": 1.0}, 2]"#).unwrap();
        assert_eq!(messages.iter().map(|message| message.get()).collect::<Vec<_>>(), [r#"{"a": 1.0}"#, "2"]);
        let Err(Malformed::NotMessage(why)) = split(many(MAX_MESSAGES + 1).as_bytes()) else { panic!() };
        assert!(why.contains(&MAX_MESSAGES.to_string()), "{why}");
        assert!(matches!(split(b" []"), Err(Malformed::NotMessage(_))));
        assert!(matches!(split(b"[1,"), Err(Malformed::NotJson)));
        assert!(is_array(b" [1]") && !is_array(b"{}"));
    }

    #[test]
    fn a_bad_message_is_answered_by_itself() {
        let answer = |message: &str| {
            read(message.as_bytes(), |method, _| method == "initialize")
                .map(|_| ())
                .map_err(|answer| String::from_utf8(answer).unwrap())
        };
        assert_eq!(answer(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), Ok(()));
        assert_eq!(
            answer(r#"{"jsonrpc":"2.0","id":"a","method":"initialize"}"#).unwrap_err(),
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32600,"message":"`initialize` must not be in a batch"}}"#
        );
        let id = |message: &str| {
            let answer: serde_json::Value = serde_json::from_str(&answer(message).unwrap_err()).unwrap();
            assert_eq!(answer["error"]["code"], -32600, "{answer}");
            answer["id"].clone()
        };
        assert_eq!(id(r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#), 7);
        assert!(id("1").is_null() && id("[]").is_null() && id(r#"{"id":{}}"#).is_null());
    }
}

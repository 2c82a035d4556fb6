//! Handles malformed messages of a child. Batches, which one revision has, are split; a malformed
//! answer fails its call; a malformed question gets an error. What is malformed is skipped and stored
//! with the child's stderr.

use std::sync::Arc;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use switchboard_definitions::definition::Redactor;
use switchboard_mcp::era::ProtocolEra;
use switchboard_wire::envelope::Malformed;
use switchboard_wire::framing::{Frame, Framing};
use switchboard_wire::oversize::IdScan;
use switchboard_wire::visible::visible;

use super::calls::{CallOutcome, ChildId};
use super::message_id::{is_id, our_id};
use super::questions::error;
use super::{Child, ChildError, ChildTransport};

/// Limit of messages in one batch; no revision needs many.
const MAX_BATCH_MESSAGES: usize = 256;

/// Characters shown on each side of a JSON error.
const CONTEXT_CHARS: usize = 12;

/// An array that is not long. A longer one is not read to its end.
struct BoundedVec<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for BoundedVec<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BoundedVisitor;
        impl<'de> Visitor<'de> for BoundedVisitor {
            type Value = BoundedVec<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "at most {MAX_BATCH_MESSAGES} messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    if list.len() >= MAX_BATCH_MESSAGES {
                        return Err(serde::de::Error::invalid_length(list.len() + 1, &self));
                    }
                    list.push(item);
                }
                Ok(BoundedVec(list))
            }
        }
        deserializer.deserialize_seq(BoundedVisitor)
    }
}

/// The messages of a batch; `None` if it is not an array, or is too long.
fn batch(body: &[u8]) -> Option<Vec<Bytes>> {
    let BoundedVec(list) = body.starts_with(b"[").then(|| serde_json::from_slice(body).ok()).flatten()?;
    // An array within the array is no message.
    let messages = list.into_iter().filter(|item| item.get().starts_with('{'));
    Some(messages.map(|item| Bytes::copy_from_slice(item.get().as_bytes())).collect())
}

impl Child {
    pub(super) fn on_malformed(self: &Arc<Self>, body: &Bytes, about: Option<ChildId>, what: &Malformed) {
        match batch(body) {
            Some(messages) if !messages.is_empty() => {
                for body in messages {
                    self.on_frame_for(Frame::Message { body, framing: Framing::Line }, about);
                }
                return;
            }
            _ => {}
        }
        let mut scan = IdScan::default();
        scan.feed(body.strip_prefix(b"[").unwrap_or(body));
        let found = scan.finish();
        if let Some(id) = &found.id {
            if found.is_answer() {
                let failed = || {
                    let why = wrong_answer(body, what, self.stderr.hidden());
                    CallOutcome::Failed(ChildError::Unusable { why })
                };
                our_id(id).map(|ours| self.deliver(ours, failed()));
            } else if found.asks && is_id(id) && self.era() == ProtocolEra::Legacy {
                self.reply(id, &error(what.code(), &what.to_string()));
            }
        }
        self.skip(body, what);
    }

    /// The last frame of its output, which may be a truncated message.
    pub(super) fn on_last_frame(self: &Arc<Self>, frame: Frame) {
        use switchboard_wire::envelope::Message;
        match &frame {
            Frame::Message { body, .. } if matches!(Message::parse(body), Err(Malformed::NotJson)) => {
                self.skip(body, &Malformed::NotJson);
            }
            _ => self.on_frame(frame),
        }
    }

    /// Skips a line that is no message. For a process, stores it with its stderr.
    pub(super) fn skip(&self, line: &[u8], what: &Malformed) {
        self.count_noise(what);
        if matches!(self.transport, ChildTransport::Stdio(_)) {
            self.stderr.push_stdout(line, self.name());
        }
    }
}

/// What is wrong with an answer, in enough detail for the author of the server.
fn wrong_answer(body: &[u8], what: &Malformed, hidden: &Redactor) -> String {
    match (what, std::str::from_utf8(body)) {
        (Malformed::NotMessage(why), _) => format!("answered with a message that is not JSON-RPC: {why}"),
        (Malformed::NotJson, Err(error)) => {
            format!("answered with text that is not UTF-8, at byte {}", error.valid_up_to() + 1)
        }
        (Malformed::NotJson, Ok(text)) => match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => "answered with something that is not JSON".to_owned(),
            // The excerpt could show a part of a secret, which the redactor would not recognise.
            Err(error) if !hidden.is_clean(text) => format!("answered with text that is not JSON: {error}"),
            Err(error) => {
                let at = if error.line() == 1 { error.column().min(text.len()) } else { 0 };
                let from = text.char_indices().map(|(from, _)| from).find(|from| from + CONTEXT_CHARS >= at);
                let around: String = text[from.unwrap_or(0)..].chars().take(2 * CONTEXT_CHARS).collect();
                format!("answered with text that is not JSON: {error}, near `{}`", visible(&around))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_a_list_of_messages() {
        let count = |body: &str| batch(body.as_bytes()).map(|list| list.len());
        assert_eq!(count(r#"[{"a":1}, {"b":2}]"#), Some(2));
        assert_eq!(count(r#"[[{"a":1}],7]"#), Some(0));
        assert_eq!(count(r#"{"a":1}"#), None);
        assert_eq!(count(r#"[{"a":NaN}]"#), None);
        assert_eq!(count(&format!("[{}{{}}]", "{},".repeat(MAX_BATCH_MESSAGES))), None);
    }

    #[test]
    fn the_error_says_what_is_wrong() {
        let wrong = |body: &[u8]| wrong_answer(body, &Malformed::NotJson, &Redactor::default());
        let nan = wrong(br#"{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}"#);
        assert!(nan.contains("column") && nan.contains("NaN"), "{nan}");
        assert!(wrong(b"{\"id\":1,\"result\":\"\xe9\"}").contains("not UTF-8, at byte 19"));
        let why =
            wrong_answer(b"{}", &Malformed::NotMessage("`jsonrpc` must be \"2.0\""), &Redactor::default());
        assert!(why.ends_with("`jsonrpc` must be \"2.0\""), "{why}");
    }
}

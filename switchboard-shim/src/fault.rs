//! The few JSON texts that the shim writes itself: faults, its own answers, cancellations. Ids go in
//! as the raw JSON they came in, so `1`, `1.0` and `"1"` stay what they are.

use switchboard_wire::envelope::{INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR};

/// The longest message a host is sent: the strictest one reads lines up to 8 MiB.
pub(crate) const MAX_TO_HOST: usize = 7 * 1024 * 1024;

/// The code of a failure that is the daemon's or the hop's.
const SERVER_ERROR: i64 = -32000;

/// A failure of the hop that some request has to be told about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    DaemonGone,
    ConnectionLost,
    /// The daemon cannot be reached; says why.
    NoDaemon(String),
    Stopped,
    /// Shim and daemon speak different hop versions; says which.
    Versions(String),
    AnswerTooLong {
        bytes: u64,
    },
    /// Too many requests are waiting.
    Busy {
        waiting: usize,
    },
    /// The host closed its end before the answer was there.
    InputClosed {
        why: Option<String>,
    },
    /// The daemon answered with something that is no JSON-RPC answer.
    Refused {
        status: u16,
    },
}

impl Fault {
    pub(crate) fn to(&self, id: &str) -> Vec<u8> {
        self.to_host(id, false)
    }

    /// The modern era has no codes that a server could choose for itself.
    pub(crate) fn to_host(&self, id: &str, modern: bool) -> Vec<u8> {
        let code = if modern { INTERNAL_ERROR } else { SERVER_ERROR };
        let (kind, retryable, text) = match self {
            Self::DaemonGone => {
                ("daemon_gone", false, "switchboardd restarted; the call may or may not have run".into())
            }
            Self::ConnectionLost => {
                ("connection_lost", false, "switchboardd restarted; the call may or may not have run".into())
            }
            Self::NoDaemon(why) => ("no_daemon", true, why.clone()),
            Self::Stopped => {
                ("stopped", false, "switchboardd was stopped; run `switchboard start`".to_owned())
            }
            Self::Versions(why) => ("versions", false, why.clone()),
            Self::AnswerTooLong { bytes } => (
                "answer_too_long",
                false,
                format!("the answer is {bytes} bytes long, over the limit of {MAX_TO_HOST} bytes"),
            ),
            Self::Busy { waiting } => {
                ("busy", true, format!("{waiting} requests are waiting already, which is the limit"))
            }
            Self::InputClosed { why: None } => {
                ("input_closed", false, "the host closed its output before the answer came".to_owned())
            }
            Self::InputClosed { why: Some(why) } => ("input_closed", true, why.clone()),
            Self::Refused { status } => {
                let text = format!("switchboardd answered with HTTP status {status} and no JSON-RPC message");
                return error(id, INTERNAL_ERROR, &text, Some(("refused", false)));
            }
        };
        error(id, code, &text, Some((kind, retryable)))
    }
}

/// A whole error answer.
fn error(id: &str, code: i64, text: &str, kind: Option<(&str, bool)>) -> Vec<u8> {
    let text = serde_json::Value::from(text);
    let data = kind.map_or(String::new(), |(kind, retryable)| {
        format!(r#","data":{{"switchboard":{{"kind":"{kind}","retryable":{retryable}}}}}"#)
    });
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{text}{data}}}}}"#).into_bytes()
}

/// For bytes that are no JSON at all.
pub(crate) fn parse_error() -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","error":{{"code":{PARSE_ERROR},"message":"Parse error"}},"id":null}}"#)
        .into_bytes()
}

pub(crate) fn invalid_request(id: Option<&str>, text: &str) -> Vec<u8> {
    error(id.unwrap_or("null"), INVALID_REQUEST, text, None)
}

/// An error of somebody else's, under the id of the request it is about. `body` is its `error` member.
pub(crate) fn with_id(id: &str, body: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{body}}}"#).into_bytes()
}

pub(crate) fn empty_result(id: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#).into_bytes()
}

/// A `notifications/cancelled`, to the host for a question or to the daemon for a call.
pub(crate) fn cancelled(id: &str, reason: &str) -> Vec<u8> {
    let reason = serde_json::Value::from(reason);
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":{reason}}}}}"#
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use switchboard_wire::envelope::Message;

    use super::*;

    #[test]
    fn every_text_is_a_message() {
        for body in [
            Fault::DaemonGone.to("1.0"),
            Fault::NoDaemon("a \"quoted\"\nreason".into()).to("\"x\""),
            Fault::AnswerTooLong { bytes: 8 << 20 }.to("1"),
            Fault::Refused { status: 500 }.to("1"),
            parse_error(),
            invalid_request(None, "x"),
            with_id("7", r#"{"code":-32600,"message":"x"}"#),
            empty_result("7"),
            cancelled("\"b-1\"", "gone"),
        ] {
            Message::parse(&body).unwrap_or_else(|error| panic!("{error}: {}", body.escape_ascii()));
            assert!(!body.contains(&b'\n'));
        }
    }

    #[test]
    fn a_fault_names_its_kind() {
        assert_eq!(
            String::from_utf8(Fault::DaemonGone.to("\"a\"")).unwrap(),
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32000,"message":"switchboardd restarted; the call may or may not have run","data":{"switchboard":{"kind":"daemon_gone","retryable":false}}}}"#
        );
    }
}

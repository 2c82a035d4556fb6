//! The few JSON messages that the shim writes itself: faults, its own answers, cancellations. Ids are
//! inserted as the raw JSON they arrived in, so `1`, `1.0` and `"1"` stay distinct.

use switchboard_wire::envelope::{INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, quoted};
use switchboard_wire::rpc;

use crate::methods::{self, HostMethod, OutgoingKind, OutgoingMessage};

/// The longest message we send to a host: the strictest host reads lines up to 8 MiB.
pub(crate) const MAX_TO_HOST: usize = 7 * 1024 * 1024;

/// The error code for failures of the daemon or of the hop.
const SERVER_ERROR: i64 = -32000;

/// The `_meta` key under which a modern result names its server.
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// A failure of the hop that a request has to be answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    DaemonGone,
    ConnectionLost,
    /// The daemon cannot be reached; holds the reason.
    NoDaemon(String),
    Stopped,
    /// Shim and daemon speak different hop versions; holds the message.
    Versions(String),
    AnswerTooLong {
        bytes: u64,
    },
    /// Too many requests are waiting.
    Busy {
        waiting: usize,
    },
    /// The host closed stdin before the answer arrived.
    InputClosed {
        why: Option<String>,
    },
    /// The daemon's answer is not a JSON-RPC response.
    Refused {
        status: u16,
    },
    /// The daemon did not accept the message; holds the reason.
    NotTaken {
        status: u16,
        why: String,
    },
}

impl Fault {
    /// The answer to this message, if it is a request. A `tools/call` gets a result with `isError`: it may
    /// have run, and hosts retry calls that end with a protocol error.
    pub(crate) fn answer(&self, message: &OutgoingMessage) -> Option<Vec<u8>> {
        let OutgoingKind::Request { id, method } = &message.kind else { return None };
        let modern = methods::is_modern(&message.body);
        let told = self.text();
        Some(match (method, self) {
            (HostMethod::Call, _) => told.result(id, modern),
            (_, Self::Refused { .. }) => told.error(id, INTERNAL_ERROR),
            // The modern era has no error codes that a server may choose itself.
            _ => told.error(id, if modern { INTERNAL_ERROR } else { SERVER_ERROR }),
        })
    }

    /// The answer to a call of which only the id is known.
    pub(crate) fn to_call(&self, id: &str, modern: bool) -> Vec<u8> {
        self.text().result(id, modern)
    }

    /// The answer to the daemon's question, when the question cannot reach the host.
    pub(crate) fn to_question(&self, id: &str) -> Vec<u8> {
        self.text().error(id, SERVER_ERROR)
    }

    fn text(&self) -> FaultText {
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
                format!(
                    "the request was handled, but its answer of {bytes} bytes is over the limit of {MAX_TO_HOST} bytes; ask for less"
                ),
            ),
            Self::Busy { waiting } => {
                ("busy", true, format!("{waiting} requests are waiting already, which is the limit"))
            }
            Self::InputClosed { why: None } => {
                ("input_closed", false, "the editor closed its output before the answer came".to_owned())
            }
            Self::InputClosed { why: Some(why) } => ("input_closed", true, why.clone()),
            Self::NotTaken { status: 429, why } => ("busy", true, why.clone()),
            Self::NotTaken { status: 409, why } => ("refused", false, why.clone()),
            Self::NotTaken { why, .. } => ("too_long", false, why.clone()),
            Self::Refused { status } => (
                "refused",
                false,
                format!("switchboardd answered with HTTP status {status} and no JSON-RPC message"),
            ),
        };
        FaultText { kind, retryable, text }
    }
}

/// A fault as it appears in a message.
struct FaultText {
    kind: &'static str,
    retryable: bool,
    text: String,
}

impl FaultText {
    fn error(&self, id: &str, code: i64) -> Vec<u8> {
        error(id, code, &self.text, &format!(r#","data":{{{}}}"#, self.about()))
    }

    /// As the result of a call.
    fn result(&self, id: &str, modern: bool) -> Vec<u8> {
        let (content, about) = (rpc::text_content(&self.text), self.about());
        let version = env!("CARGO_PKG_VERSION");
        let (kind, server) = if modern {
            let server = format!(r#","{SERVER_KEY}":{{"name":"switchboard","version":"{version}"}}"#);
            (r#""resultType":"complete","#, server)
        } else {
            ("", String::new())
        };
        rpc::result(id, &format!(r#"{{{kind}{content},"isError":true,"_meta":{{{about}{server}}}}}"#))
    }

    fn about(&self) -> String {
        let Self { kind, retryable, .. } = self;
        format!(r#""switchboard":{{"kind":"{kind}","retryable":{retryable}}}"#)
    }
}

/// A complete JSON-RPC error response.
fn error(id: &str, code: i64, text: &str, data: &str) -> Vec<u8> {
    rpc::error(id, &format!(r#"{{"code":{code},"message":{}{data}}}"#, quoted(text)))
}

/// For bytes that are not JSON.
pub(crate) fn parse_error() -> Vec<u8> {
    rpc::error_without_id(&format!(r#"{{"code":{PARSE_ERROR},"message":"Parse error"}}"#))
}

/// For a request whose id could be read although its body is not valid JSON.
pub(crate) fn parse_error_of(id: &str) -> Vec<u8> {
    error(id, PARSE_ERROR, "Parse error", "")
}

pub(crate) fn invalid_request(id: Option<&str>, text: &str) -> Vec<u8> {
    error(id.unwrap_or("null"), INVALID_REQUEST, text, "")
}

/// The daemon's error under the id of the request it is about. `body` is its `error` member.
pub(crate) fn with_id(id: &str, body: &str) -> Vec<u8> {
    rpc::error(id, body)
}

pub(crate) fn empty_result(id: &str) -> Vec<u8> {
    rpc::result(id, "{}")
}

/// A `notifications/cancelled`: to the host about a question, or to the daemon about a call.
pub(crate) fn cancelled(id: &str, reason: &str) -> Vec<u8> {
    let params = format!(r#"{{"requestId":{id},"reason":{}}}"#, quoted(reason));
    rpc::notification("notifications/cancelled", Some(&params))
}

#[cfg(test)]
pub(crate) mod tests {
    use bytes::Bytes;
    use switchboard_wire::envelope::Message;
    use tokio::time::Instant;

    use super::*;
    use crate::methods::HostMessage;

    /// A host request as it is sent to the daemon.
    pub(crate) fn request(id: &str, method: &str, params: &str) -> OutgoingMessage {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let body = Bytes::from(body);
        let Ok(HostMessage::Forward(kind)) = methods::read(&body) else { panic!("{body:?}") };
        OutgoingMessage { arrival: 1, arrived: Instant::now(), body, kind, tries: 0 }
    }

    #[test]
    fn every_fault_is_a_valid_message() {
        let told = |fault: Fault, id| {
            ["prompts/get", "tools/call"].map(|method| fault.answer(&request(id, method, "{}")).unwrap())
        };
        let faults = [
            told(Fault::DaemonGone, "1.0"),
            told(Fault::NoDaemon("a \"quoted\"\nreason".into()), "\"x\""),
            told(Fault::AnswerTooLong { bytes: 8 << 20 }, "1"),
            told(Fault::Refused { status: 500 }, "1"),
        ];
        for body in faults.concat().into_iter().chain([
            Fault::AnswerTooLong { bytes: 8 << 20 }.to_question("1"),
            parse_error(),
            invalid_request(None, "x"),
            with_id("7", r#"{"code":-32600,"message":"x"}"#),
            empty_result("7"),
            cancelled("\"b-1\"", "gone"),
        ]) {
            Message::parse(&body).unwrap_or_else(|error| panic!("{error}: {}", body.escape_ascii()));
            assert!(!body.contains(&b'\n'));
        }
    }

    #[test]
    fn a_fault_names_its_kind() {
        let told = |method, params| {
            String::from_utf8(Fault::DaemonGone.answer(&request("\"a\"", method, params)).unwrap()).unwrap()
        };
        assert_eq!(
            told("x", "{}"),
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32000,"message":"switchboardd restarted; the call may or may not have run","data":{"switchboard":{"kind":"daemon_gone","retryable":false}}}}"#
        );
        assert_eq!(
            told("tools/call", "{}"),
            r#"{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"switchboardd restarted; the call may or may not have run"}],"isError":true,"_meta":{"switchboard":{"kind":"daemon_gone","retryable":false}}}}"#
        );
    }

    #[test]
    fn a_modern_host_gets_a_modern_result() {
        let params = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        let answer = Fault::DaemonGone.answer(&request("1", "tools/call", params)).unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["result"]["resultType"], "complete");
        assert_eq!(answer["result"]["_meta"][SERVER_KEY]["name"], "switchboard");
        assert_eq!(answer["result"]["_meta"]["switchboard"]["kind"], "daemon_gone");
        let answer = Fault::DaemonGone.answer(&request("1", "x", params)).unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["error"]["code"], INTERNAL_ERROR);
    }

    #[test]
    fn only_a_request_is_answered() {
        let body = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let Ok(HostMessage::Forward(kind)) = methods::read(&body) else { panic!("{body:?}") };
        let message = OutgoingMessage { arrival: 1, arrived: Instant::now(), body, kind, tries: 0 };
        assert_eq!(Fault::DaemonGone.answer(&message), None);
    }
}

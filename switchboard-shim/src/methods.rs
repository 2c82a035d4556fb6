//! What the shim knows about MCP: which methods it answers itself, which it may send twice, and which it
//! replays to a new session. The only file that names methods.

use bytes::Bytes;
use switchboard_wire::batch;
use switchboard_wire::envelope::{Malformed, Message, Outcome};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use tokio::time::Instant;

/// One message of the host.
#[derive(Debug)]
pub(crate) enum HostMessage {
    Ping {
        id: Box<str>,
    },
    /// The host no longer wants this request answered.
    Cancel {
        request: Box<str>,
        body: Bytes,
    },
    Forward(OutgoingKind),
}

/// The kind of a message that is forwarded to the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutgoingKind {
    Request {
        id: Box<str>,
        method: HostMethod,
    },
    Notification(NotificationKind),
    /// The answer to a question from the daemon.
    Response {
        id: Box<str>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostMethod {
    Initialize,
    SetLevel,
    Subscribe {
        uri: Box<str>,
    },
    Unsubscribe {
        uri: Box<str>,
    },
    /// Stays open while the host listens; it is sent again to the next daemon.
    Listen,
    /// Safe to send twice.
    Safe,
    /// `tools/call`: never sent twice, and failures are reported as a result.
    Call,
    /// An unknown method: never sent twice.
    Once,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotificationKind {
    Initialized,
    /// Harmless to send twice, harmful to lose.
    RootsChanged,
    Other,
}

/// A message on its way to the daemon.
#[derive(Debug)]
pub(crate) struct OutgoingMessage {
    /// Position in the order of the host's messages; also identifies the message inside the shim.
    pub(crate) arrival: u64,
    pub(crate) arrived: Instant,
    pub(crate) body: Bytes,
    pub(crate) kind: OutgoingKind,
    /// How often it was sent without an answer.
    pub(crate) tries: u8,
}

impl OutgoingMessage {
    /// The id, if the message is a request.
    pub(crate) fn request_id(&self) -> Option<&str> {
        match &self.kind {
            OutgoingKind::Request { id, .. } => Some(id),
            OutgoingKind::Notification(_) | OutgoingKind::Response { .. } => None,
        }
    }

    /// Whether it answers a question from the daemon.
    pub(crate) fn is_response(&self) -> bool {
        matches!(self.kind, OutgoingKind::Response { .. })
    }

    /// Whether it may be sent again even though the daemon may have acted on it.
    pub(crate) fn may_repeat(&self) -> bool {
        match &self.kind {
            OutgoingKind::Request { method, .. } => !matches!(method, HostMethod::Call | HostMethod::Once),
            OutgoingKind::Notification(note) => *note != NotificationKind::Other,
            // The question died with the daemon that asked it.
            OutgoingKind::Response { .. } => false,
        }
    }
}

/// Classifies a message. Does not check that a forwarded message is valid JSON throughout: the daemon does.
pub(crate) fn read(body: &Bytes) -> Result<HostMessage, Malformed> {
    let spoken = classify(body)?;
    if !matches!(spoken, HostMessage::Forward(_)) {
        // The daemon never sees these.
        Message::parse(body)?;
    }
    Ok(spoken)
}

fn classify(body: &Bytes) -> Result<HostMessage, Malformed> {
    Ok(match Message::peek(body)? {
        Message::Request { id, method, params } => {
            let id = Box::from(id.get());
            match method.name().as_ref() {
                // The modern era has no `ping`; the daemon rejects it.
                "ping" if !is_modern(body) => HostMessage::Ping { id },
                name => HostMessage::Forward(OutgoingKind::Request { id, method: class(name, params) }),
            }
        }
        Message::Notification { method, params } => match method.name().as_ref() {
            "notifications/cancelled" => match params.and_then(|params| member(params, "requestId")) {
                Some(request) => HostMessage::Cancel { request: request.get().into(), body: body.clone() },
                None => HostMessage::Forward(OutgoingKind::Notification(NotificationKind::Other)),
            },
            "notifications/initialized" => {
                HostMessage::Forward(OutgoingKind::Notification(NotificationKind::Initialized))
            }
            "notifications/roots/list_changed" => {
                HostMessage::Forward(OutgoingKind::Notification(NotificationKind::RootsChanged))
            }
            _ => HostMessage::Forward(OutgoingKind::Notification(NotificationKind::Other)),
        },
        Message::Response { id, .. } => HostMessage::Forward(OutgoingKind::Response { id: id.get().into() }),
    })
}

fn class(name: &str, params: Option<Raw<'_>>) -> HostMethod {
    let uri = || params.and_then(|params| member(params, "uri")).map_or("", Raw::get).into();
    match name {
        "tools/call" => HostMethod::Call,
        "initialize" => HostMethod::Initialize,
        "logging/setLevel" => HostMethod::SetLevel,
        "resources/subscribe" => HostMethod::Subscribe { uri: uri() },
        "resources/unsubscribe" => HostMethod::Unsubscribe { uri: uri() },
        "subscriptions/listen" => HostMethod::Listen,
        "server/discover"
        | "ping"
        | "tools/list"
        | "prompts/list"
        | "resources/list"
        | "resources/templates/list"
        | "prompts/get"
        | "resources/read"
        | "completion/complete" => HostMethod::Safe,
        _ => HostMethod::Once,
    }
}

/// The notifications a host gets when its lists have changed.
pub(crate) const LIST_CHANGES: [&str; 3] = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
];

/// Revisions with `initialize`, newest first; the same list as in the daemon.
const REVISIONS: [&str; 5] = ["2025-11-25", "2025-06-18", batch::REVISION, "2024-11-05", "2024-10-07"];

/// The revision that an `initialize` is answered with: the one it asks for if it is known, else the newest.
pub(crate) fn revision(body: &[u8]) -> &'static str {
    let wanted = match Message::parse(body) {
        Ok(Message::Request { params: Some(params), .. }) => member(params, "protocolVersion"),
        _ => None,
    };
    let wanted = wanted.and_then(switchboard_wire::envelope::string);
    REVISIONS.into_iter().find(|known| Some(*known) == wanted.as_deref()).unwrap_or(REVISIONS[0])
}

/// An empty result for a list request; `None` for any other method.
pub(crate) fn empty_list(body: &[u8]) -> Option<&'static str> {
    let Ok(Message::Request { method, .. }) = Message::parse(body) else { return None };
    match method.name().as_ref() {
        "tools/list" => Some(r#"{"tools":[]}"#),
        "prompts/list" => Some(r#"{"prompts":[]}"#),
        "resources/list" => Some(r#"{"resources":[]}"#),
        "resources/templates/list" => Some(r#"{"resourceTemplates":[]}"#),
        _ => None,
    }
}

/// Whether a message declares the modern era in `_meta`.
pub(crate) fn is_modern(body: &[u8]) -> bool {
    let Ok(Message::Request { params, .. }) = Message::parse(body) else { return false };
    claims_modern_era(params)
}

fn claims_modern_era(params: Option<Raw<'_>>) -> bool {
    let meta = params.and_then(|params| member(params, "_meta")).and_then(Members::of);
    meta.is_some_and(|meta| meta.get("io.modelcontextprotocol/protocolVersion").is_some())
}

/// Whether a request must not be in a batch.
pub(crate) fn is_excluded_from_batches(method: &str, params: Option<Raw<'_>>) -> bool {
    method == "initialize" || claims_modern_era(params)
}

/// Whether the answer to `initialize` agrees on 2025-03-26, the only revision with batches.
pub(crate) fn agrees_on_batches(answer: &[u8]) -> bool {
    let Ok(Message::Response { outcome: Outcome::Result(result), .. }) = Message::parse(answer) else {
        return false;
    };
    let version = member(result, "protocolVersion").and_then(switchboard_wire::envelope::string);
    version.as_deref() == Some(batch::REVISION)
}

fn member<'a>(params: Raw<'a>, name: &str) -> Option<Raw<'a>> {
    Members::of(params)?.get(name)
}

/// What a mailbox message means for the host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mail {
    /// An answer with this id is expected.
    Question(Box<str>),
    /// The question with this id is no longer open.
    Withdrawn(Box<str>),
    Other,
}

pub(crate) fn read_mail(body: &[u8]) -> Mail {
    match Message::parse(body) {
        Ok(Message::Request { id, .. }) => Mail::Question(id.get().into()),
        Ok(Message::Notification { method, params: Some(params) })
            if method.name() == "notifications/cancelled" =>
        {
            member(params, "requestId").map_or(Mail::Other, |id| Mail::Withdrawn(id.get().into()))
        }
        _ => Mail::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(body: &str) -> OutgoingKind {
        match read(&Bytes::copy_from_slice(body.as_bytes())).unwrap() {
            HostMessage::Forward(kind) => kind,
            other => panic!("{other:?}"),
        }
    }

    fn method(name: &str) -> HostMethod {
        match kind(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}","params":{{"uri":"u"}}}}"#)) {
            OutgoingKind::Request { method, .. } => method,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_that_are_not_forwarded_are_parsed_in_full() {
        for body in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping""#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"} and more"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}"#,
        ] {
            assert_eq!(read(&Bytes::from_static(body.as_bytes())).unwrap_err(), Malformed::NotJson, "{body}");
        }
    }

    #[test]
    fn calls_and_unknown_methods_are_never_repeated() {
        assert_eq!(method("tools/call"), HostMethod::Call);
        for name in ["x/list", "sampling/createMessage", "tools/list2"] {
            assert_eq!(method(name), HostMethod::Once, "{name}");
        }
        for name in ["tools/list", "resources/templates/list", "prompts/get", "completion/complete"] {
            assert_eq!(method(name), HostMethod::Safe, "{name}");
        }
        assert_eq!(method("resources/subscribe"), HostMethod::Subscribe { uri: "\"u\"".into() });
        assert_eq!(method("initialize"), HostMethod::Initialize);
    }

    #[test]
    fn modern_requests_go_to_the_daemon() {
        assert_eq!(method("server/discover"), HostMethod::Safe);
        assert_eq!(method("subscriptions/listen"), HostMethod::Listen);
        let ping = |params: &str| {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{params}}}"#);
            matches!(read(&Bytes::from(body)).unwrap(), HostMessage::Ping { .. })
        };
        assert!(ping("{}"));
        assert!(!ping(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#));
    }

    #[test]
    fn batches_are_for_one_revision_and_not_for_every_request() {
        let excluded = |method: &str, params: &'static str| {
            is_excluded_from_batches(method, Raw::parse(params.as_bytes()))
        };
        assert!(excluded("initialize", "{}"));
        assert!(excluded("x", r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#));
        assert!(!excluded("x", r#"{"_meta":{}}"#));
        let answer = |revision: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"{revision}"}}}}"#)
        };
        assert!(agrees_on_batches(answer("2025-03-26").as_bytes()));
        assert!(!agrees_on_batches(answer("2025-06-18").as_bytes()));
    }

    #[test]
    fn a_cancel_keeps_the_raw_request_id() {
        let body = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId": "1" }}"#;
        match read(&Bytes::from_static(body.as_bytes())).unwrap() {
            HostMessage::Cancel { request, .. } => assert_eq!(&*request, "\"1\""),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn questions_are_recognised() {
        assert_eq!(
            read_mail(br#"{"jsonrpc":"2.0","id":"b-1","method":"roots/list"}"#),
            Mail::Question("\"b-1\"".into())
        );
        assert_eq!(
            read_mail(br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#),
            Mail::Other
        );
        assert_eq!(
            read_mail(
                br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b-1"}}"#
            ),
            Mail::Withdrawn("\"b-1\"".into())
        );
    }
}

//! What the shim has to know of MCP: which methods it answers itself, which may be sent a second time,
//! which ones a new session must hear of again. The only file that names methods.

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
    Forward(Kind),
}

/// What a message that goes to the daemon is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Request {
        id: Box<str>,
        method: Method,
    },
    Notification(NotificationKind),
    /// The answer to a question of the daemon's.
    Response {
        id: Box<str>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Method {
    Initialize,
    SetLevel,
    Subscribe {
        uri: Box<str>,
    },
    Unsubscribe {
        uri: Box<str>,
    },
    /// Stays open for as long as the host wants to hear; the next daemon is told too.
    Listen,
    /// Asking twice does nothing that asking once did not.
    Safe,
    /// `tools/call`: never sent twice, and what fails on it is told as its result.
    Call,
    /// Whatever we do not know: never sent twice.
    Once,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotificationKind {
    Initialized,
    /// Saying it twice is harmless and losing it is not.
    RootsChanged,
    Other,
}

/// A message on its way to the daemon, in the order the host wrote it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Counts the host's messages; also names the message inside the shim.
    pub(crate) arrival: u64,
    pub(crate) arrived: Instant,
    pub(crate) body: Bytes,
    pub(crate) kind: Kind,
    /// How often it was sent without having been answered.
    pub(crate) tries: u8,
}

impl Outgoing {
    /// The id, if an answer is owed.
    pub(crate) fn request_id(&self) -> Option<&str> {
        match &self.kind {
            Kind::Request { id, .. } => Some(id),
            Kind::Notification(_) | Kind::Response { .. } => None,
        }
    }

    /// Whether it answers a question.
    pub(crate) fn is_response(&self) -> bool {
        matches!(self.kind, Kind::Response { .. })
    }

    /// Whether it may be sent again although the daemon may have acted on it.
    pub(crate) fn may_repeat(&self) -> bool {
        match &self.kind {
            Kind::Request { method, .. } => !matches!(method, Method::Call | Method::Once),
            Kind::Notification(note) => *note != NotificationKind::Other,
            // The question died with the daemon that asked it.
            Kind::Response { .. } => false,
        }
    }
}

/// Reads what one message is. Whether it is JSON to its end is for the daemon to find out.
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
                // There is none in the modern era; the daemon says so.
                "ping" if !is_modern(body) => HostMessage::Ping { id },
                name => HostMessage::Forward(Kind::Request { id, method: class(name, params) }),
            }
        }
        Message::Notification { method, params } => match method.name().as_ref() {
            "notifications/cancelled" => match params.and_then(|params| member(params, "requestId")) {
                Some(request) => HostMessage::Cancel { request: request.get().into(), body: body.clone() },
                None => HostMessage::Forward(Kind::Notification(NotificationKind::Other)),
            },
            "notifications/initialized" => {
                HostMessage::Forward(Kind::Notification(NotificationKind::Initialized))
            }
            "notifications/roots/list_changed" => {
                HostMessage::Forward(Kind::Notification(NotificationKind::RootsChanged))
            }
            _ => HostMessage::Forward(Kind::Notification(NotificationKind::Other)),
        },
        Message::Response { id, .. } => HostMessage::Forward(Kind::Response { id: id.get().into() }),
    })
}

fn class(name: &str, params: Option<Raw<'_>>) -> Method {
    let uri = || params.and_then(|params| member(params, "uri")).map_or("", Raw::get).into();
    match name {
        "tools/call" => Method::Call,
        "initialize" => Method::Initialize,
        "logging/setLevel" => Method::SetLevel,
        "resources/subscribe" => Method::Subscribe { uri: uri() },
        "resources/unsubscribe" => Method::Unsubscribe { uri: uri() },
        "subscriptions/listen" => Method::Listen,
        "server/discover"
        | "ping"
        | "tools/list"
        | "prompts/list"
        | "resources/list"
        | "resources/templates/list"
        | "prompts/get"
        | "resources/read"
        | "completion/complete" => Method::Safe,
        _ => Method::Once,
    }
}

/// What a host hears when its lists are others than before.
pub(crate) const LIST_CHANGES: [&str; 3] = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
];

/// Revisions with `initialize`, newest first; the daemon has the same.
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

/// The result of a request for a list, where there is nothing.
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

/// Whether a message says of itself that it is of the modern era.
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

/// Whether the answer to `initialize` agrees on the one revision that has batches.
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

/// What a message of the daemon's asks of the host.
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

    fn kind(body: &str) -> Kind {
        match read(&Bytes::copy_from_slice(body.as_bytes())).unwrap() {
            HostMessage::Forward(kind) => kind,
            other => panic!("{other:?}"),
        }
    }

    fn method(name: &str) -> Method {
        match kind(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}","params":{{"uri":"u"}}}}"#)) {
            Kind::Request { method, .. } => method,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_the_daemon_never_sees_is_checked_here() {
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
        assert_eq!(method("tools/call"), Method::Call);
        for name in ["x/list", "sampling/createMessage", "tools/list2"] {
            assert_eq!(method(name), Method::Once, "{name}");
        }
        for name in ["tools/list", "resources/templates/list", "prompts/get", "completion/complete"] {
            assert_eq!(method(name), Method::Safe, "{name}");
        }
        assert_eq!(method("resources/subscribe"), Method::Subscribe { uri: "\"u\"".into() });
        assert_eq!(method("initialize"), Method::Initialize);
    }

    #[test]
    fn what_the_modern_era_asks_goes_to_the_daemon() {
        assert_eq!(method("server/discover"), Method::Safe);
        assert_eq!(method("subscriptions/listen"), Method::Listen);
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
    fn a_cancel_names_its_request_as_it_was_written() {
        let body = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId": "1" }}"#;
        match read(&Bytes::from_static(body.as_bytes())).unwrap() {
            HostMessage::Cancel { request, .. } => assert_eq!(&*request, "\"1\""),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn questions_are_told_from_news() {
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

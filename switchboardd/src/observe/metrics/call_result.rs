//! What came of a call, in one word. Pure.

use super::{ReplyKind, outcome};

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallResult {
    /// The server answered.
    Ok,
    /// The server answered with an error, or with a result that says `isError`.
    Error,
    /// Switchboard did not send it to the server.
    Refused,
    /// The server, or this version of it, waits for the user's consent.
    Held,
    /// The host has to put a question to its user first.
    Asked,
    /// The user said no.
    Declined,
    /// The host cancelled it, or went away.
    Cancelled,
    TimedOut,
    /// The server ended before it answered.
    Crashed,
    /// The server could not be started or reached.
    Unavailable,
    /// The daemon was stopped.
    Stopped,
    /// The server's answer cannot be used, or the daemon failed.
    Failed,
}

impl CallResult {
    /// Judges a reply and the kind of error that was noted with it.
    pub fn of(reply: ReplyKind, error: Option<&'static str>) -> (Self, Option<&'static str>) {
        match (reply, error) {
            (ReplyKind::Refusal(kind), _) => (Self::of_kind(kind, Self::Refused), Some(kind)),
            (ReplyKind::Question, None) => (Self::Asked, None),
            (_, Some(kind)) => (Self::of_kind(kind, Self::Failed), Some(kind)),
            (ReplyKind::Answer, None) => (Self::Ok, None),
        }
    }

    /// By the words of `suite/failure.rs`, `child/failure.rs`, `child/remote/failure.rs` and
    /// `observe/metrics/outcome.rs`.
    fn of_kind(kind: &'static str, otherwise: Self) -> Self {
        match kind {
            outcome::TOOL_ERROR | "_other" => Self::Error,
            code if code.starts_with('-') => Self::Error,
            outcome::CANCELLED => Self::Cancelled,
            "held" => Self::Held,
            "declined" => Self::Declined,
            "not_allowed"
            | "invalid_params"
            | "unknown_method"
            | "unsupported_version"
            | "lacks_capability"
            | "request_state"
            | "no_such_child"
            | "no_such_resource"
            | "busy"
            | "no_room" => Self::Refused,
            "rpc_timeout" | "child_unresponsive" => Self::TimedOut,
            "child_exited" | "child_stopped" | "connection_lost" => Self::Crashed,
            "misconfigured"
            | "child_resting"
            | "child_still_starting"
            | "child_spawn_failed"
            | "child_spawn_timeout"
            | "child_busy"
            | "child_unreachable"
            | "needs_login"
            | "credentials_refused"
            | "redirected" => Self::Unavailable,
            "daemon_draining" => Self::Stopped,
            _ => otherwise,
        }
    }

    /// Whether nothing went wrong at the server: the call was not sent, or the server says that the call itself is wrong.
    /// Mistakes of a model and decisions of the user say nothing about a server.
    pub fn is_refusal(self, error: Option<&'static str>) -> bool {
        match self {
            Self::Refused | Self::Held | Self::Declined => true,
            Self::Error => matches!(error, Some("-32601" | "-32602")),
            _ => false,
        }
    }

    /// The word in the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Refused => "refused",
            Self::Held => "held",
            Self::Asked => "asked",
            Self::Declined => "declined",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed out",
            Self::Crashed => "crashed",
            Self::Unavailable => "unavailable",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_no_failure_of_the_server() {
        for (reply, error, refused) in [
            (ReplyKind::Answer, None, false),
            (ReplyKind::Answer, Some("tool_error"), false),
            (ReplyKind::Answer, Some("-32603"), false),
            (ReplyKind::Answer, Some("-32602"), true),
            (ReplyKind::Answer, Some("unknown_method"), true),
            (ReplyKind::Answer, Some("held"), true),
            (ReplyKind::Refusal("invalid_call"), Some("tool_error"), true),
            (ReplyKind::Refusal("declined"), Some("tool_error"), true),
            (ReplyKind::Answer, Some("child_exited"), false),
            (ReplyKind::Answer, Some("misconfigured"), false),
        ] {
            assert_eq!(CallResult::of(reply, error).0.is_refusal(error), refused, "{reply:?} {error:?}");
        }
    }

    #[test]
    fn every_end_of_a_call_has_its_word() {
        for (reply, error, word) in [
            (ReplyKind::Answer, None, "ok"),
            (ReplyKind::Answer, Some("tool_error"), "error"),
            (ReplyKind::Answer, Some("-32602"), "error"),
            (ReplyKind::Refusal("not_allowed"), Some("tool_error"), "refused"),
            (ReplyKind::Refusal("invalid_call"), Some("tool_error"), "refused"),
            (ReplyKind::Refusal("declined"), Some("tool_error"), "declined"),
            (ReplyKind::Question, None, "asked"),
            (ReplyKind::Question, Some("no_room"), "refused"),
            (ReplyKind::Answer, Some("held"), "held"),
            (ReplyKind::Answer, Some("cancelled"), "cancelled"),
            (ReplyKind::Answer, Some("rpc_timeout"), "timed out"),
            (ReplyKind::Answer, Some("child_exited"), "crashed"),
            (ReplyKind::Answer, Some("child_spawn_failed"), "unavailable"),
            (ReplyKind::Answer, Some("daemon_draining"), "stopped"),
            (ReplyKind::Answer, Some("child_unusable"), "failed"),
        ] {
            assert_eq!(CallResult::of(reply, error).0.as_str(), word, "{reply:?} {error:?}");
        }
    }
}

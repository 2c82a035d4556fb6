//! What came of a call, in one word. Pure.

use super::failure_kind::FailureKind;
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
    /// The server, this version of it, or the tool as it is now waits for the user's consent.
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
    /// Judges a reply and the kind of error that was noted with it. `was_asked`: the daemon had put a question to the
    /// user before.
    pub fn of(
        reply: ReplyKind,
        error: Option<&'static str>,
        was_asked: bool,
    ) -> (Self, Option<&'static str>) {
        match (reply, error) {
            (ReplyKind::Refusal(kind), _) => (Self::of_kind(kind, was_asked), Some(kind.as_str())),
            (ReplyKind::Question, None) => (Self::Asked, None),
            (_, Some(word)) => (Self::of_word(word, was_asked), Some(word)),
            (ReplyKind::Answer, None) => (Self::Ok, None),
        }
    }

    /// By a failure of the daemon's, or a word of `observe/metrics/outcome.rs` about an answer of the server.
    fn of_word(word: &'static str, was_asked: bool) -> Self {
        match FailureKind::find(word) {
            Some(kind) => Self::of_kind(kind, was_asked),
            None if word == outcome::CANCELLED => Self::Cancelled,
            None => Self::Error,
        }
    }

    fn of_kind(kind: FailureKind, was_asked: bool) -> Self {
        use FailureKind as Kind;
        match kind {
            Kind::Held | Kind::ToolHeld => Self::Held,
            Kind::NotConfirmed if was_asked => Self::Declined,
            Kind::NotConfirmed
            | Kind::UnknownMethod
            | Kind::InvalidParams
            | Kind::UnsupportedVersion
            | Kind::LacksCapability
            | Kind::RequestState
            | Kind::NoSuchChild
            | Kind::NoSuchResource
            | Kind::NotAllowed
            | Kind::WrongTool
            | Kind::UnknownTool
            | Kind::InvalidArguments
            | Kind::InvalidCall
            | Kind::NoWorkspace
            | Kind::NoRoom
            | Kind::Busy => Self::Refused,
            Kind::RpcTimeout | Kind::ChildUnresponsive => Self::TimedOut,
            Kind::ChildExited | Kind::ChildStopped | Kind::ConnectionLost => Self::Crashed,
            Kind::Misconfigured
            | Kind::ChildResting
            | Kind::ChildStillStarting
            | Kind::ChildSpawnFailed
            | Kind::ChildSpawnTimeout
            | Kind::ChildBusy
            | Kind::ChildUnreachable
            | Kind::NeedsLogin
            | Kind::CredentialsRefused
            | Kind::Redirected => Self::Unavailable,
            Kind::DaemonDraining => Self::Stopped,
            Kind::ChildUnusable
            | Kind::ChildChanged
            | Kind::AnswerTooLong
            | Kind::BadAnswer
            | Kind::DaemonFailed => Self::Failed,
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
            (ReplyKind::Refusal(FailureKind::InvalidCall), Some("tool_error"), true),
            (ReplyKind::Answer, Some("not_confirmed"), true),
            (ReplyKind::Answer, Some("child_exited"), false),
            (ReplyKind::Answer, Some("misconfigured"), false),
        ] {
            let of = CallResult::of(reply, error, false).0;
            assert_eq!(of.is_refusal(error), refused, "{reply:?} {error:?}");
        }
    }

    #[test]
    fn every_end_of_a_call_has_its_word() {
        use FailureKind as Kind;
        for (reply, error, was_asked, word) in [
            (ReplyKind::Answer, None, false, "ok"),
            (ReplyKind::Answer, None, true, "ok"),
            (ReplyKind::Answer, Some("tool_error"), false, "error"),
            (ReplyKind::Answer, Some("-32602"), false, "error"),
            (ReplyKind::Answer, Some("_other"), false, "error"),
            (ReplyKind::Refusal(Kind::NotAllowed), Some("tool_error"), false, "refused"),
            (ReplyKind::Refusal(Kind::InvalidCall), Some("tool_error"), false, "refused"),
            (ReplyKind::Question, None, true, "asked"),
            (ReplyKind::Question, Some("no_room"), true, "refused"),
            (ReplyKind::Answer, Some("wrong_tool"), false, "refused"),
            (ReplyKind::Answer, Some("no_workspace"), false, "refused"),
            (ReplyKind::Answer, Some("not_confirmed"), false, "refused"),
            (ReplyKind::Answer, Some("not_confirmed"), true, "declined"),
            (ReplyKind::Answer, Some("held"), false, "held"),
            (ReplyKind::Answer, Some("held"), true, "held"),
            (ReplyKind::Answer, Some("tool_held"), false, "held"),
            (ReplyKind::Answer, Some("cancelled"), false, "cancelled"),
            (ReplyKind::Answer, Some("rpc_timeout"), false, "timed out"),
            (ReplyKind::Answer, Some("child_exited"), false, "crashed"),
            (ReplyKind::Answer, Some("child_spawn_failed"), false, "unavailable"),
            (ReplyKind::Answer, Some("daemon_draining"), false, "stopped"),
            (ReplyKind::Answer, Some("child_unusable"), false, "failed"),
        ] {
            assert_eq!(CallResult::of(reply, error, was_asked).0.as_str(), word, "{reply:?} {error:?}");
        }
    }

    #[test]
    fn each_kind_has_a_word_of_its_own() {
        for kind in FailureKind::ALL {
            assert_eq!(FailureKind::find(kind.as_str()), Some(*kind));
        }
    }
}

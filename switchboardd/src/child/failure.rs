//! Why a child gave no answer, as text for users and models.

use switchboard_definitions::definition::Redactor;
use switchboard_wire::visible::clipped_lines;

use super::ChildExit;
use super::remote::RemoteError;
use crate::observe::metrics::failure_kind::FailureKind;

/// More than a clipped text of a child and our words about it take, hidden characters escaped.
const MAX_REASON_BYTES: usize = 16 * 1024;

/// Why a child gave no answer. The texts continue the words "child `name` …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChildError {
    #[error("could not be started: {why}")]
    Spawn { why: String },
    #[error("did not answer `initialize` within {ms} ms (`timeouts.childSpawnMs`){}", stderr_suffix(.stderr))]
    SpawnTimeout { ms: u64, stderr: String },
    #[error("{exit} before answering `initialize`{}", stderr_suffix(.stderr))]
    ExitedAtStart { exit: ChildExit, stderr: String },
    #[error("{why}")]
    Unusable { why: String },
    #[error("{exit} before answering{}", stderr_suffix(.stderr))]
    Exited { exit: ChildExit, stderr: String },
    #[error("closed its output before answering{}", stderr_suffix(.stderr))]
    ClosedOutput { stderr: String },
    #[error("closed its input{}", stderr_suffix(.stderr))]
    ClosedInput { stderr: String },
    #[error("was stopped before it answered")]
    Stopped,
    #[error("was silent for {ms} ms (`timeouts.rpcMs`); the call was cancelled")]
    Silent { ms: u64 },
    #[error("did not finish within {ms} ms (`timeouts.maxMs`); the call was cancelled")]
    Endless { ms: u64 },
    /// No byte of the call reached the child: it is safe to send it to another one.
    #[error("ended before the call could be sent")]
    Unsent,
    #[error("did not answer a `ping` for {ms} ms after it had been silent on a call")]
    Unresponsive { ms: u64 },
    #[error("does not read its input and has too much waiting already")]
    Busy,
    #[error("was changed while the user answered its question, and did not get the answer; call again")]
    Changed,
    #[error("answered with {bytes} bytes, more than the {} MiB one message may have",
        switchboard_wire::framing::MAX_MESSAGE >> 20)]
    TooLong { bytes: u64 },
    #[error("{0}")]
    Remote(#[from] RemoteError),
}

impl ChildError {
    /// Removes the values that the child was given: its error text may repeat them. Its stderr is
    /// redacted when it is stored.
    pub(super) fn without_values(self, hidden: &Redactor) -> Self {
        match self {
            Self::Spawn { why } => Self::Spawn { why: redacted(hidden, &why) },
            Self::Unusable { why } => Self::Unusable { why: redacted(hidden, &why) },
            other => other,
        }
    }

    /// A stable identifier for programs.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Spawn { .. } => FailureKind::ChildSpawnFailed,
            Self::SpawnTimeout { .. } => FailureKind::ChildSpawnTimeout,
            Self::Unusable { .. } => FailureKind::ChildUnusable,
            Self::ExitedAtStart { .. }
            | Self::Exited { .. }
            | Self::ClosedOutput { .. }
            | Self::ClosedInput { .. } => FailureKind::ChildExited,
            Self::Stopped | Self::Unsent => FailureKind::ChildStopped,
            Self::Silent { .. } | Self::Endless { .. } => FailureKind::RpcTimeout,
            Self::Unresponsive { .. } => FailureKind::ChildUnresponsive,
            Self::Busy => FailureKind::ChildBusy,
            Self::Changed => FailureKind::ChildChanged,
            Self::TooLong { .. } => FailureKind::AnswerTooLong,
            Self::Remote(error) => error.kind(),
        }
    }

    /// Whether the child seems to have been killed from outside.
    pub fn is_a_kill(&self) -> bool {
        matches!(self, Self::Exited { exit: ChildExit::Signal(9 | 15) | ChildExit::Unknown, .. })
    }

    /// Whether only the user can fix it: a back-off would not help.
    pub fn needs_user(&self) -> bool {
        matches!(self, Self::Remote(RemoteError::Auth(_)))
    }
}

/// Redacts first: an escaped value would not be recognized.
fn redacted(hidden: &Redactor, why: &str) -> String {
    clipped_lines(&hidden.redact_cut(why), MAX_REASON_BYTES)
}

/// `words` as [`super::StderrRing::last_lines`] returns them.
fn stderr_suffix(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!("; {words}") }
}

#[cfg(test)]
mod tests {
    use super::super::clip::clip;
    use super::*;

    #[track_caller]
    fn check(said: &str, ends_with: &str) {
        let hidden = Redactor::new([("hunter2-\u{a0}-hunter3".to_owned(), "${KEY}".to_owned())].into_iter());
        let why = format!("refused `initialize`: {}", clip(said));
        let ChildError::Unusable { why } = (ChildError::Unusable { why }).without_values(&hidden) else {
            panic!()
        };
        assert!(why.ends_with(ends_with) && !why.contains("hunter2"), "{why}");
    }

    #[test]
    fn a_value_in_a_refusal_is_redacted_whole_cut_and_with_hidden_characters() {
        check("env: hunter2-\u{a0}-hunter3", "env: ${KEY}");
        // The limit of 1024 bytes cuts the value.
        check(&format!("{}hunter2-\u{a0}-hunter3", "x".repeat(1014)), "x${KEY}");
        check("a\u{202e}b", "a\\u{202e}b");
    }
}

//! The replies of a suite to a host.

use std::time::Duration;

use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;

use super::InputNeeded;
use crate::child::ChildResponse;
use crate::observe::metrics::failure_kind::FailureKind;
use crate::observe::metrics::{ReplyKind, names, outcome};

/// The reply of a suite.
#[derive(Debug)]
pub enum SuiteReply {
    /// The child's response, to be passed on unchanged.
    Child(ChildResponse),
    /// A result of the daemon's own, as JSON.
    Own(String),
    /// The daemon refuses the call. `kind` says why, for programs; `result` is the answer as JSON.
    Refused { kind: FailureKind, result: String },
    /// The error that the host answered a child's question with, as JSON.
    Error(String),
    /// A question to a modern host.
    NeedsInput(Box<InputNeeded>),
    /// The user said yes to the question whether the request may be run. The request is run again, with that yes.
    /// What the yes is for: see [`crate::caller::StatelessRequest::is_confirmed`].
    Confirmed(Box<str>),
}

impl SuiteReply {
    /// The kind of error that the reply reports; `None` on success.
    pub fn error(&self) -> Option<&'static str> {
        match self {
            Self::Child(answer) => answer.error,
            Self::Own(result) => outcome::of_text(result),
            Self::Refused { .. } => Some(outcome::TOOL_ERROR),
            Self::Error(error) => Some(Raw::parse(error.as_bytes()).map_or(names::OTHER, outcome::of_error)),
            Self::NeedsInput(_) | Self::Confirmed(_) => None,
        }
    }

    /// How long its user took to answer questions of the child.
    pub fn user_time(&self) -> Duration {
        if let Self::Child(answer) = self { answer.asked } else { Duration::ZERO }
    }

    /// What the record of calls says of it.
    pub fn kind(&self) -> ReplyKind {
        match self {
            Self::Refused { kind, .. } => ReplyKind::Refusal(*kind),
            Self::NeedsInput(_) => ReplyKind::Question,
            Self::Child(_) | Self::Own(_) | Self::Error(_) | Self::Confirmed(_) => ReplyKind::Answer,
        }
    }
}

/// Refuses a call that cannot be understood.
pub(super) fn tool_error(sentence: &str) -> SuiteReply {
    refusal(FailureKind::InvalidCall, sentence)
}

pub(super) fn refusal(kind: FailureKind, sentence: &str) -> SuiteReply {
    SuiteReply::Refused { kind, result: text_result(sentence, true) }
}

pub(super) fn text_result(text: &str, is_error: bool) -> String {
    let mark = if is_error { r#","isError":true"# } else { "" };
    format!("{{{}{mark}}}", rpc::text_content(text))
}

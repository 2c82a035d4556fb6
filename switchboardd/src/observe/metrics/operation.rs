//! A host's request while it runs, and what is learned about it.

use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use switchboard_mcp::methods;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::visible::clipped_lines;
use tokio::time::Instant;

use super::failure_kind::FailureKind;
use super::names::LabelName;
use super::series::EntryPoint;
use super::suite_metrics::SuiteMetrics;
use crate::observe::telemetry::trace::SpanContext;

/// Longer names of suites that do not exist are cut to this.
const MAX_NAME_CHARS: usize = 128;
/// Longer error messages are cut to this.
const MAX_ERROR_CHARS: usize = 400;

/// What metrics and traces record of a host's request.
#[derive(Debug, Clone, Copy)]
pub struct HostOperation<'a> {
    pub via: EntryPoint,
    /// Whether the request is for the face of a single child.
    pub single: bool,
    pub method: &'a str,
    pub id: Raw<'a>,
    pub meta: &'a Members<'a>,
    /// A parent span from outside `_meta`.
    pub parent: Option<SpanContext>,
    /// Whether the arguments of calls are recorded.
    pub wants_arguments: bool,
}

/// A host's request in flight.
#[derive(Debug)]
pub struct Operation {
    pub(super) via: EntryPoint,
    pub(super) single: bool,
    pub(super) method: &'static str,
    pub(super) started_at: Instant,
    pub notes: OperationNotes,
    pub(super) traced: Option<Box<TracedOperation>>,
}

/// What is known only of traced operations.
#[derive(Debug)]
pub(super) struct TracedOperation {
    pub(super) context: SpanContext,
    pub(super) parent: Option<SpanContext>,
    pub(super) id: Box<str>,
    pub(super) started_at: SystemTime,
}

/// What is learned about an operation while it runs.
#[derive(Debug)]
pub struct OperationNotes {
    pub(super) is_call: bool,
    /// Whether the arguments of calls are recorded.
    pub wants_arguments: bool,
    /// The operation's own span, the parent of the spans of its requests to children.
    pub span: Option<SpanContext>,
    // A leaf lock that only this operation uses; it is here because futures must be `Send`.
    pub(super) state: Mutex<NotesState>,
}

#[derive(Debug, Default)]
pub(super) struct NotesState {
    pub(super) suite: Option<Arc<SuiteMetrics>>,
    pub(super) tool: Option<ToolLabel>,
    pub(super) introspects: bool,
    pub(super) error: Option<&'static str>,
    pub(super) message: Option<String>,
    pub(super) ended: bool,
    pub(super) reply: ReplyKind,
    pub(super) is_retry: bool,
    pub(super) details: Option<Box<CallDetails>>,
    /// How long it waited for the user's answers.
    pub(super) user_time: Duration,
}

/// What a host's request is answered with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReplyKind {
    /// What the child said, or a failure.
    #[default]
    Answer,
    /// A refusal of the daemon: nothing was sent to the child. With the reason for programs.
    Refusal(FailureKind),
    /// A question. A modern host comes back with the answer in a request of its own.
    Question,
}

/// What is noted of few calls.
#[derive(Debug, Default)]
pub struct CallDetails {
    /// The name that was called, if there is no such suite.
    pub unknown_suite: Option<Box<str>>,
    /// The arguments as JSON, redacted.
    pub arguments: Option<Box<str>>,
    /// Whether the daemon asked the user before it sent the call.
    pub asked: bool,
}

/// A host's request that is over, for the record of calls.
#[derive(Debug)]
pub struct EndedOperation {
    /// When it ended.
    pub at: Instant,
    /// Without the time that the user took to answer questions.
    pub took: Duration,
    pub user_time: Duration,
    pub via: EntryPoint,
    pub method: &'static str,
    pub suite: Option<Arc<SuiteMetrics>>,
    pub tool: Option<ToolLabel>,
    pub introspects: bool,
    pub error: Option<&'static str>,
    pub reply: ReplyKind,
    /// Whether it continues a call that was answered with a question.
    pub is_retry: bool,
    pub details: Option<Box<CallDetails>>,
}

/// The name of a called tool.
#[derive(Debug)]
pub enum ToolLabel {
    Known(LabelName),
    /// Not interned yet, and not yet confirmed to exist.
    New(Box<str>),
}

impl OperationNotes {
    pub(super) fn of(method: &'static str, span: Option<SpanContext>, wants_arguments: bool) -> Self {
        Self { is_call: method == methods::TOOLS_CALL, wants_arguments, span, state: Mutex::default() }
    }

    /// Sets the suite that the operation belongs to; only the first call counts.
    pub fn suite(&self, metrics: &Arc<SuiteMetrics>) {
        let mut noted = self.lock();
        if noted.suite.is_none() {
            if self.is_call {
                metrics.enter();
            }
            noted.suite = Some(metrics.clone());
        }
    }

    /// Sets the child's tool that is called.
    pub fn tool(&self, name: &str) {
        let mut noted = self.lock();
        let known = noted.suite.as_ref().and_then(|suite| suite.names.find(name));
        noted.tool = Some(known.map_or_else(|| ToolLabel::New(name.into()), ToolLabel::Known));
    }

    /// Whether the tool is not yet confirmed to exist.
    pub fn is_new_tool(&self) -> bool {
        matches!(self.lock().tool, Some(ToolLabel::New(_)))
    }

    /// Confirms that the child has the called tool.
    pub fn tool_exists(&self) {
        let mut noted = self.lock();
        if let NotesState { suite: Some(suite), tool: Some(ToolLabel::New(name)), .. } = &*noted {
            // The name stays if there is no room for it.
            match suite.names.number(name) {
                LabelName::OTHER => {}
                known => noted.tool = Some(ToolLabel::Known(known)),
            }
        }
    }

    /// The host called a suite that does not exist.
    pub fn unknown_suite(&self, name: &str) {
        self.lock().details.get_or_insert_default().unknown_suite =
            Some(name.chars().take(MAX_NAME_CHARS).collect());
    }

    /// Sets the arguments to record, redacted.
    pub fn arguments(&self, redacted: String) {
        self.lock().details.get_or_insert_default().arguments = Some(redacted.into());
    }

    /// The daemon asks the user before it sends the call.
    pub fn record_question(&self) {
        self.lock().details.get_or_insert_default().asked = true;
    }

    /// The operation waited this long for an answer of the user, which is not counted as latency.
    pub fn record_user_time(&self, waited: Duration) {
        if !waited.is_zero() {
            self.lock().user_time += waited;
        }
    }

    /// The request continues a call that was answered with a question.
    pub fn record_retry(&self) {
        self.lock().is_retry = true;
    }

    /// The request is answered with something else than the child's answer or a failure.
    pub fn record_reply(&self, reply: ReplyKind) {
        self.lock().reply = reply;
    }

    /// Marks the operation as an introspection.
    pub fn introspects(&self) {
        self.lock().introspects = true;
    }

    /// The operation failed in the daemon or in transit.
    pub fn record_failure(&self, kind: FailureKind, why: &impl Display) {
        let mut noted = self.lock();
        noted.error = Some(kind.as_str());
        noted.message = Some(clipped_lines(&why.to_string(), MAX_ERROR_CHARS));
    }

    /// The operation was answered; `error` classifies an error that the child sent.
    pub fn record_answer(&self, error: Option<&'static str>) {
        let mut noted = self.lock();
        noted.error = noted.error.or(error);
    }

    /// The operation finished. One that is dropped unfinished counts as cancelled.
    pub fn record_end(&self) {
        self.lock().ended = true;
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, NotesState> {
        self.state.lock().expect("BUG: a note panicked")
    }
}

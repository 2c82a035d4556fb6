//! A call in flight: awaited with its timeouts, and cancelled in the child when dropped.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::calls::{CallOutcome, ChildId, ChildResponse};
use super::{Child, ChildError, Limits};
use crate::observe::metrics::child_metrics::FinishedCall;
use crate::observe::metrics::{ToolLabel, outcome};
use crate::observe::telemetry::trace::SpanContext;

/// A call in flight. Dropping it cancels the call in the child.
pub struct InFlight {
    pub(super) child: Arc<Child>,
    pub(super) id: ChildId,
    pub(super) reply: oneshot::Receiver<CallOutcome>,
    pub(super) open: bool,
    /// Whether the child is sent a cancel notification.
    pub(super) cancellable: bool,
    pub(super) timed: CallTiming,
}

/// What metrics and traces record when the call is over.
pub(super) struct CallTiming {
    pub(super) started_at: Instant,
    pub(super) method: &'static str,
    pub(super) tool: Option<ToolLabel>,
    /// Its outcome, once known; the inner `None` is success.
    pub(super) ended: Option<Option<&'static str>>,
    /// Its span and the parent span, if it is traced.
    pub(super) span: Option<(SpanContext, SpanContext)>,
}

impl InFlight {
    pub fn id(&self) -> ChildId {
        self.id
    }

    /// Waits for the answer, no longer than `limits` allow (`child/timeouts.rs`).
    pub async fn answer(mut self, limits: Limits) -> Result<ChildResponse, ChildError> {
        self.child.limit(self.id, limits);
        let reply = (&mut self.reply).await;
        let answer = self.on_outcome(reply);
        self.timed.ended = Some(match &answer {
            Ok(answer) => answer.error,
            Err(error) => Some(error.kind().as_str()),
        });
        answer
    }

    fn on_outcome(
        &mut self,
        reply: Result<CallOutcome, oneshot::error::RecvError>,
    ) -> Result<ChildResponse, ChildError> {
        match reply {
            Ok(CallOutcome::Response(answer)) => {
                self.open = false;
                Ok(answer)
            }
            Ok(CallOutcome::TooLong(bytes)) => {
                self.open = false;
                Err(ChildError::TooLong { bytes })
            }
            Ok(CallOutcome::Failed(error)) => {
                self.open = false;
                Err(error)
            }
            // Still open: the drop cancels the call, and a late answer is possible.
            Ok(CallOutcome::Overdue(error)) => Err(error),
            Err(_) => {
                self.open = false;
                Err(self.child.why_ended())
            }
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let CallTiming { started_at: begun, method, ref mut tool, ended, span } = self.timed;
        let call = FinishedCall {
            remote: self.child.is_remote(),
            method,
            id: self.id.0,
            tool: tool.take(),
            error: ended.unwrap_or(Some(outcome::CANCELLED)),
            took: begun.elapsed(),
            span,
        };
        let has = |name: &str| self.child.known_tools().is_some_and(|list| list.find(name).is_some());
        self.child.metrics.record_request(call, has);
        // The lock is held for the bookkeeping only; the write comes after it.
        if self.open && self.child.abandon(self.id) {
            self.child.cancel(self.id, self.cancellable);
        }
    }
}

//! A call on its way: awaited with its limits, cancelled in the child when nobody waits any more.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::calls::{CallOutcome, ChildId, ChildResponse};
use super::{Child, ChildError, Limits};
use crate::metrics::child_metrics::FinishedCall;
use crate::metrics::{ToolLabel, outcome};
use crate::telemetry::trace::Context;

/// A call on its way. Dropping it tells the child that nobody waits any more.
pub struct InFlight {
    pub(super) child: Arc<Child>,
    pub(super) id: ChildId,
    pub(super) reply: oneshot::Receiver<CallOutcome>,
    pub(super) open: bool,
    /// Whether the child is told when nobody waits any more.
    pub(super) cancellable: bool,
    pub(super) timed: CallTiming,
}

/// What is counted of it when it is over.
pub(super) struct CallTiming {
    pub(super) begun: Instant,
    pub(super) method: &'static str,
    pub(super) tool: Option<ToolLabel>,
    /// How it went, once that is known.
    pub(super) ended: Option<Option<&'static str>>,
    /// Its span and the one above, if anybody wants to know.
    pub(super) span: Option<(Context, Context)>,
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
            Err(error) => Some(error.kind()),
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
            // Still open: the child is told, and its answer may yet come.
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
        let CallTiming { begun, method, ref mut tool, ended, span } = self.timed;
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
        // Take the lock for the bookkeeping only; the write comes after it.
        if self.open && self.child.abandon(self.id) {
            self.child.cancel(self.id, self.cancellable);
        }
    }
}

//! A call on its way: awaited with its limits, cancelled in the child when nobody waits any more.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::calls::{CallOutcome, ChildId, ChildResponse};
use super::{Child, ChildError, Limits};
use crate::metrics::series::OperationKind;
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

    /// The tool that it is about.
    pub fn about(mut self, tool: Option<&str>) -> Self {
        self.timed.tool = tool.map(|tool| self.child.metrics.tool(tool));
        self
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
        let CallTiming { begun, method, tool, ended, span } = &mut self.timed;
        let (remote, took) = (self.child.is_remote(), begun.elapsed());
        let what = OperationKind::ChildRequest { remote, method };
        let error = ended.unwrap_or(Some(outcome::CANCELLED));
        let has = |name: &str| self.child.known_tools().is_some_and(|list| list.find(name).is_some());
        let tool = self.child.metrics.record_request(what, tool.take(), error, took, has);
        if let Some(span) = span {
            self.child.metrics.traced(*span, remote, method, self.id.0, tool, error, took);
        }
        // Take the lock for the bookkeeping only; the write comes after it.
        if self.open && self.child.abandon(self.id) {
            self.child.cancel(self.id, self.cancellable);
        }
    }
}

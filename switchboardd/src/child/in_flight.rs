//! A call on its way: awaited with its limits, cancelled in the child when nobody waits any more.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::calls::{Answer, ChildId, Reply};
use super::{Child, ChildError, Limits};
use crate::measures::series::What;
use crate::measures::{Tool, outcome};
use crate::telemetry::trace::Context;

/// A call on its way. Dropping it tells the child that nobody waits any more.
pub struct InFlight {
    pub(super) child: Arc<Child>,
    pub(super) id: ChildId,
    pub(super) reply: oneshot::Receiver<Reply>,
    pub(super) open: bool,
    /// Whether the child is told when nobody waits any more.
    pub(super) cancellable: bool,
    pub(super) timed: Timed,
}

/// What is counted of it when it is over.
pub(super) struct Timed {
    pub(super) begun: Instant,
    pub(super) method: &'static str,
    pub(super) tool: Option<Tool>,
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
        self.timed.tool = tool.map(|tool| self.child.tally.tool(tool));
        self
    }

    /// Waits for the answer, no longer than `limits` allow (`child/clock.rs`).
    pub async fn answer(mut self, limits: Limits) -> Result<Answer, ChildError> {
        self.child.limit(self.id, limits);
        let reply = (&mut self.reply).await;
        let answer = self.taken(reply);
        self.timed.ended = Some(match &answer {
            Ok(answer) => answer.error,
            Err(error) => Some(error.kind()),
        });
        answer
    }

    fn taken(&mut self, reply: Result<Reply, oneshot::error::RecvError>) -> Result<Answer, ChildError> {
        match reply {
            Ok(Reply::Answer(answer)) => {
                self.open = false;
                Ok(answer)
            }
            Ok(Reply::TooLong(bytes)) => {
                self.open = false;
                Err(ChildError::TooLong { bytes })
            }
            Ok(Reply::Failed(error)) => {
                self.open = false;
                Err(error)
            }
            // Still open: the child is told, and its answer may yet come.
            Ok(Reply::Overdue(error)) => Err(error),
            Err(_) => {
                self.open = false;
                Err(self.child.why_ended())
            }
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Timed { begun, method, tool, ended, span } = &mut self.timed;
        let (remote, took) = (self.child.is_remote(), begun.elapsed());
        let what = What::Sent { remote, method };
        let error = ended.unwrap_or(Some(outcome::CANCELLED));
        let has = |name: &str| self.child.known_tools().is_some_and(|list| list.find(name).is_some());
        let tool = self.child.tally.sent(what, tool.take(), error, took, has);
        if let Some(span) = span {
            self.child.tally.traced(*span, remote, method, self.id.0, tool, error, took);
        }
        // Take the lock for the bookkeeping only; the write comes after it.
        if self.open && self.child.abandon(self.id) {
            self.child.cancel(self.id, self.cancellable);
        }
    }
}

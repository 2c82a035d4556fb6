//! A call on its way: awaited with its limits, cancelled in the child when nobody waits any more.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::calls::{Answer, ChildId, Reply};
use super::{Child, ChildError, Limits};

/// A call on its way. Dropping it tells the child that nobody waits any more.
pub struct InFlight {
    pub(super) child: Arc<Child>,
    pub(super) id: ChildId,
    pub(super) reply: oneshot::Receiver<Reply>,
    pub(super) open: bool,
    /// Whether the child is told when nobody waits any more.
    pub(super) cancellable: bool,
}

impl InFlight {
    pub fn id(&self) -> ChildId {
        self.id
    }

    /// Waits for the answer, no longer than `limits` allow (`child/clock.rs`).
    pub async fn answer(mut self, limits: Limits) -> Result<Answer, ChildError> {
        self.child.limit(self.id, limits);
        let reply = (&mut self.reply).await;
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
        // Take the lock for the bookkeeping only; the write comes after it.
        if self.open && self.child.calls().abandon(self.id) {
            self.child.cancel(self.id, self.cancellable);
        }
    }
}

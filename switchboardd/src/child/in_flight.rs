//! A call on its way: awaited with its limits, cancelled in the child when nobody waits any more.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::calls::{Answer, ChildId, Reply};
use super::{Child, ChildError, Limits, millis};
use crate::methods;

/// A call on its way. Dropping it tells the child that nobody waits any more.
pub struct InFlight {
    pub(super) child: Arc<Child>,
    pub(super) id: ChildId,
    pub(super) reply: oneshot::Receiver<Reply>,
    pub(super) started: Instant,
    pub(super) open: bool,
    /// Whether the child is told when nobody waits any more.
    pub(super) cancellable: bool,
}

impl InFlight {
    /// Waits for the answer. The limit counts silence: progress starts it anew, an open question to
    /// the host stops it, and `max` ends the call all the same.
    pub async fn answer(mut self, limits: Limits) -> Result<Answer, ChildError> {
        let end = self.started + limits.max;
        let mut due = end.min(self.started + limits.rpc);
        loop {
            match timeout_at(due, &mut self.reply).await {
                Ok(reply) => {
                    self.open = false;
                    return match reply {
                        Ok(Reply::Answer(answer)) => Ok(answer),
                        Ok(Reply::TooLong(bytes)) => Err(ChildError::TooLong { bytes }),
                        Err(_) => Err(self.child.why_ended()),
                    };
                }
                Err(_) if due >= end => return Err(ChildError::Endless { ms: millis(limits.max) }),
                Err(_) => {
                    let silent_since = self.child.calls().silent_since(self.id);
                    let next = end.min(silent_since.unwrap_or_else(Instant::now) + limits.rpc);
                    if next <= Instant::now() {
                        return Err(ChildError::Silent { ms: millis(limits.rpc) });
                    }
                    due = next;
                }
            }
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // Take the lock for the bookkeeping only; the write comes after it.
        if self.open && self.child.calls().abandon(self.id) && self.cancellable {
            let (id, cancelled) = (self.id.0, methods::CANCELLED);
            let body = format!(
                r#"{{"jsonrpc":"2.0","method":"{cancelled}","params":{{"requestId":{id},"reason":"the caller no longer waits"}}}}"#
            );
            self.child.notify(body.as_bytes());
        }
    }
}

//! How long calls may take. The limit counts silence: progress starts it anew, an open question to the host stops
//! it, and a call as a whole ends all the same.
//!
//! One timer for all calls of a child, which fires when the first of them may be due. Nearly every call is
//! answered long before, and then has cost no timer at all.

use std::sync::Mutex;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::calls::{Calls, ChildId};
use super::{Child, Limits};

#[derive(Default)]
pub(super) struct CallTable {
    // A leaf lock: held to look up or change entries, never across an await or a write.
    pub(super) calls: Mutex<Calls>,
    /// A call may be due sooner than was thought.
    timeouts_changed: Notify,
}

impl Child {
    /// From now on this call is bound by `limits`.
    pub(super) fn limit(&self, id: ChildId, limits: Limits) {
        if self.calls().limit(id, limits) {
            self.call_table.timeouts_changed.notify_one();
        }
    }

    /// The timeouts of some calls started again, so that the next one may be due sooner; or none will ever be again.
    pub(super) fn reschedule_timeouts(&self) {
        self.call_table.timeouts_changed.notify_one();
    }

    /// Gives up on calls when they are due, until the child has ended.
    pub(super) async fn run_timeouts(&self) {
        loop {
            let sooner = self.call_table.timeouts_changed.notified();
            if self.calls().is_closed() {
                return;
            }
            let (due, ended) = {
                let (mut calls, now) = (self.calls(), Instant::now());
                (calls.give_up_overdue(now), calls.take_ended_questions(now))
            };
            let (late, ended) = ended.into_iter().partition(|(_, question)| question.may_be_late());
            self.do_without_roots(late);
            self.withdraw(ended, "it was not answered in time");
            match due {
                Some(due) => drop(timeout_at(due, sooner).await),
                None => sooner.await,
            }
        }
    }
}

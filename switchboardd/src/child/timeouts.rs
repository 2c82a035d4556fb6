//! Timeouts of calls. `rpc` limits silence: progress restarts it, and an open question to the host suspends
//! it. `max` limits the call as a whole.
//!
//! All calls of a child share one timer, which fires when the first of them may be due. Nearly every call is
//! answered long before and costs no timer at all.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::calls::{Calls, ChildId};
use super::{Child, Limits};

/// A timer that fires so late was held up: this process was stopped, or the machine slept. What the child wrote
/// meanwhile is read before anybody is told that it was silent.
const OVERSLEPT: Duration = Duration::from_millis(500);
const CATCH_UP: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(super) struct CallTable {
    // A leaf lock: held to look up or change entries, never across an await or a write.
    pub(super) calls: Mutex<Calls>,
    /// Notified when the next timeout may be due sooner than scheduled.
    timeouts_changed: Notify,
}

impl Child {
    /// Applies `limits` to this call from now on.
    pub(super) fn limit(&self, id: ChildId, limits: Limits) {
        if self.calls().limit(id, limits) {
            self.call_table.timeouts_changed.notify_one();
        }
    }

    /// Wakes the timer: a timeout was restarted and may now be the next one due, or the child has ended.
    pub(super) fn reschedule_timeouts(&self) {
        self.call_table.timeouts_changed.notify_one();
    }

    /// Fails overdue calls and questions until the child has ended.
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
            self.answer_no_roots(late);
            self.withdraw(ended, "it was not answered in time");
            match due {
                Some(due) => {
                    drop(timeout_at(due, sooner).await);
                    let mut until = due;
                    while until.elapsed() > OVERSLEPT {
                        until = Instant::now() + CATCH_UP;
                        sleep_until(until).await;
                    }
                }
                None => sooner.await,
            }
        }
    }
}

//! The deadlines of calls. Progress and questions extend them.

use std::sync::Arc;

use tokio::time::Instant;

use super::{CallOutcome, Calls, ChildId, ChildQuestion, SESSION_QUESTION_TIMEOUT};
use crate::caller::Caller;
use crate::child::Limits;

impl Calls {
    /// Applies `limits` to a call. True if it may be due before `next_check`.
    pub(in crate::child) fn limit(&mut self, id: ChildId, limits: Limits) -> bool {
        let Some(waiting) = self.waiting.get_mut(&id.0) else { return false };
        waiting.limits = Some(limits);
        let due = waiting.started + limits.rpc.min(limits.max);
        self.next_check.is_none_or(|alarm| due < alarm)
    }

    /// Fails the calls that are overdue, ends the session's questions that are, and returns when the
    /// next one may be due.
    pub(in crate::child) fn give_up_overdue(&mut self, now: Instant) -> Option<Instant> {
        self.next_check = None;
        let mut waiting = std::mem::take(&mut self.waiting);
        for call in waiting.values_mut().filter(|call| call.reply.is_some()) {
            let Some((due, error)) = call.due(self.is_asking(call)) else { continue };
            if due > now {
                self.next_check = Some(self.next_check.map_or(due, |alarm| alarm.min(due)));
            } else if let Some(reply) = call.reply.take() {
                let _ = reply.send(CallOutcome::Overdue(error));
            }
        }
        self.waiting = waiting;
        let is_due =
            |question: &ChildQuestion| !question.bound && question.since + SESSION_QUESTION_TIMEOUT <= now;
        self.ended.extend(self.questions.extract_if(|_, question| is_due(question)));
        let open = self.questions.values().filter(|question| !question.bound);
        self.next_check =
            open.map(|question| question.since + SESSION_QUESTION_TIMEOUT).chain(self.next_check).min();
        self.next_check
    }

    /// Progress on a call restarts its silence timeout. Returns the caller and its progress
    /// token, if it has one.
    pub(in crate::child) fn progress(
        &mut self,
        id: ChildId,
        now: Instant,
    ) -> Option<(Arc<Caller>, Box<str>)> {
        let waiting = self.waiting.get_mut(&id.0)?;
        waiting.heard = now;
        Some((waiting.caller.clone()?, waiting.token.clone()?))
    }
}

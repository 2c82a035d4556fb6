//! The questions of a child that hosts have not answered yet, and the calls that each belongs to.

use std::sync::Arc;

use switchboard_mcp::methods;
use tokio::time::Instant;

use super::{Calls, ChildId, PendingCall};
use crate::caller::Caller;

/// A question of the child that a host has not answered.
#[derive(Debug)]
pub(in crate::child) struct ChildQuestion {
    pub(in crate::child) caller: Arc<Caller>,
    /// The id of the question at the host.
    pub(in crate::child) ours: Box<str>,
    pub(in crate::child) method: Box<str>,
    /// The calls of that host that were open when the child asked and still are. A bound question
    /// ends with the last one.
    within: Vec<u64>,
    /// False for a question that belongs to the session and not to a call: it suspends no timeout.
    pub(super) bound: bool,
    pub(super) since: Instant,
}

impl ChildQuestion {
    /// Whether a late answer is still useful: roots are, for as long as the session lasts.
    pub(in crate::child) fn may_be_late(&self) -> bool {
        !self.bound && &*self.method == methods::ROOTS_LIST && self.caller.as_stateless().is_none()
    }
}

impl Calls {
    /// A call was answered or given up on. Ends the questions that belong to no other call.
    pub(super) fn call_ended(&mut self, id: ChildId) {
        if self.questions.is_empty() {
            return;
        }
        let ends = |question: &mut ChildQuestion| {
            question.within.retain(|call| *call != id.0);
            question.bound && question.within.is_empty()
        };
        self.ended.extend(self.questions.extract_if(|_, question| ends(question)));
    }

    /// Takes the questions that ended with their calls. Whoever changes a call must tell
    /// both sides about them.
    pub(in crate::child) fn take_ended_questions(&mut self, now: Instant) -> Vec<(Box<str>, ChildQuestion)> {
        let ended = std::mem::take(&mut self.ended);
        ended.iter().for_each(|(_, question)| self.restart_timeouts(question, now));
        ended
    }

    pub(super) fn is_asking(&self, waiting: &PendingCall) -> bool {
        let caller = waiting.caller.as_ref();
        let mut questions = self.questions.values();
        caller.is_some_and(|caller| {
            questions.any(|question| question.bound && question.caller.is_same_host(caller))
        })
    }

    /// Whether a question to this caller belongs to an open call; to `about`, if that is known.
    pub(in crate::child) fn may_ask(&self, caller: &Arc<Caller>, about: Option<ChildId>) -> bool {
        !self.calls_of(caller, about).is_empty()
    }

    fn calls_of(&self, caller: &Arc<Caller>, about: Option<ChildId>) -> Vec<u64> {
        if let Some(id) = about.filter(|id| self.caller_of(*id).is_some()) {
            return if self.waiting.contains_key(&id.0) { vec![id.0] } else { Vec::new() };
        }
        let is_theirs = |waiting: &PendingCall| {
            waiting.reply.is_some()
                && waiting.caller.as_ref().is_some_and(|waiting| waiting.shares_mailbox_with(caller))
        };
        self.waiting.iter().filter(|(_, waiting)| is_theirs(waiting)).map(|(id, _)| *id).collect()
    }

    /// Registers a question to this caller. If it belongs to a call, it suspends the silence timeouts of the
    /// caller's calls. Returns the open question with the same id, if any.
    pub(in crate::child) fn question_opened(
        &mut self,
        theirs: Box<str>,
        caller: &Arc<Caller>,
        ours: Box<str>,
        method: &str,
        about: Option<ChildId>,
        now: Instant,
    ) -> Option<ChildQuestion> {
        let within = self.calls_of(caller, about);
        // `roots/list` belongs to the session, whatever call is open; a modern host gets
        // it within one request.
        let is_sessions = method == methods::ROOTS_LIST && caller.as_stateless().is_none();
        let bound = !within.is_empty() && !is_sessions;
        let question =
            ChildQuestion { caller: caller.clone(), ours, method: method.into(), within, bound, since: now };
        self.questions.insert(theirs, question)
    }

    /// The question was answered or withdrawn: restarts the timeouts.
    pub(in crate::child) fn question_closed(&mut self, theirs: &str, now: Instant) -> Option<ChildQuestion> {
        let question = self.questions.remove(theirs)?;
        self.restart_timeouts(&question, now);
        for call in question.within.iter().filter(|_| question.bound) {
            if let Some(waiting) = self.waiting.get_mut(call) {
                waiting.asked += now - question.since;
            }
        }
        Some(question)
    }

    pub(in crate::child) fn open_questions(&self) -> usize {
        self.questions.len()
    }

    pub(in crate::child) fn is_open_question(&self, theirs: &str) -> bool {
        self.questions.contains_key(theirs)
    }

    /// Restarts the timeouts that this question suspended. A question of the session suspended none: a child
    /// that keeps asking for roots is still silent on its calls.
    fn restart_timeouts(&mut self, ended: &ChildQuestion, now: Instant) {
        for waiting in self.waiting.values_mut().filter(|_| ended.bound) {
            if waiting.caller.as_ref().is_some_and(|waiting| waiting.is_same_host(&ended.caller)) {
                waiting.heard = now;
            }
        }
    }

    /// Whether there are calls and each of them waits for its host.
    pub(in crate::child) fn all_asking(&self) -> bool {
        let mut calls = self.waiting.iter().filter(|(id, _)| !self.is_internal(**id));
        self.in_flight() > 0 && calls.all(|(_, waiting)| self.is_asking(waiting))
    }
}

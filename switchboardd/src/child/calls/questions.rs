//! The questions of a child that are open at hosts, and the calls that each belongs to.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Calls, ChildId, PendingCall};
use crate::caller::Caller;
use crate::methods;

/// A question of the child that is open at a host.
#[derive(Debug)]
pub(in crate::child) struct ChildQuestion {
    pub(in crate::child) caller: Arc<Caller>,
    /// The id under which the host knows it.
    pub(in crate::child) ours: Box<str>,
    pub(in crate::child) method: Box<str>,
    /// The calls of that host that were open when it was asked and still are. It lives as long as one of them.
    within: Vec<u64>,
    /// False for a question that belongs to the session and not to a call: it stops no call's timeout.
    pub(super) bound: bool,
    pub(super) since: Instant,
}

impl ChildQuestion {
    /// Whether its host may answer it later, too: roots are of use for as long as the session lasts.
    pub(in crate::child) fn may_be_late(&self) -> bool {
        !self.bound && &*self.method == methods::ROOTS_LIST && self.caller.as_stateless().is_none()
    }
}

impl Calls {
    /// A call was answered or given up on. Questions that belong to no other call end with it.
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

    /// Questions that ended with their calls: whoever changes a call tells both sides of them.
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

    /// Whether a question to this caller belongs to a call that is open: to `about`, if that is known.
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

    /// A question to this caller opened: if it belongs to a call, the timeouts of its calls stop. Gives one of the same id that was open.
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
        // Roots are the session's, whatever call is open; a modern host is asked for them by one request.
        let is_sessions = method == methods::ROOTS_LIST && caller.as_stateless().is_none();
        let bound = !within.is_empty() && !is_sessions;
        let question =
            ChildQuestion { caller: caller.clone(), ours, method: method.into(), within, bound, since: now };
        self.questions.insert(theirs, question)
    }

    /// It was answered or withdrawn: the timeouts start again.
    pub(in crate::child) fn question_closed(&mut self, theirs: &str, now: Instant) -> Option<ChildQuestion> {
        let question = self.questions.remove(theirs)?;
        self.restart_timeouts(&question, now);
        Some(question)
    }

    pub(in crate::child) fn open_questions(&self) -> usize {
        self.questions.len()
    }

    pub(in crate::child) fn is_open_question(&self, theirs: &str) -> bool {
        self.questions.contains_key(theirs)
    }

    /// A question has ended. One of the session has stopped no clock: a child that asks for roots again and again is
    /// silent on its calls all the same.
    fn restart_timeouts(&mut self, ended: &ChildQuestion, now: Instant) {
        for waiting in self.waiting.values_mut().filter(|_| ended.bound) {
            if waiting.caller.as_ref().is_some_and(|waiting| waiting.is_same_host(&ended.caller)) {
                waiting.heard = now;
            }
        }
    }

    /// There are calls, and each of them waits for its host.
    pub(in crate::child) fn all_asking(&self) -> bool {
        let mut calls = self.waiting.iter().filter(|(id, _)| !self.is_nobodys(**id));
        self.in_flight() > 0 && calls.all(|(_, waiting)| self.is_asking(waiting))
    }
}

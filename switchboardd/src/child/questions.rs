//! What a child asks of a host: put to the one host that it can be for, and taken back when the call that it belongs
//! to, the session or the child ends.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use switchboard_wire::envelope::{self, Malformed, quoted, range_of, splice};
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use tokio::time::Instant;

use super::calls::{About, CallOutcome, Candidates, ChildId, ChildQuestion, Delivered};
use super::{Child, Ownership};
use crate::caller::Caller;
use crate::era::{ProtocolEra, question};
use crate::methods;

/// Questions of one child that may be open at once; a host could not answer more either.
const MAX_QUESTIONS: usize = 64;

/// Why a question ends with its call.
pub(super) const CALL_ENDED: &str = "the call that it belongs to has ended";

impl Child {
    pub(super) fn on_question(
        self: &Arc<Self>,
        body: &Bytes,
        id: Raw<'_>,
        method: &str,
        params: Option<Raw<'_>>,
        about: Option<ChildId>,
    ) {
        if self.era() == ProtocolEra::Modern {
            // Nothing may be asked this way in that era, and no answer may be written.
            return self.count_noise(&Malformed::NotMessage("a request of a modern server"));
        }
        let refusal = match method {
            methods::ELICITATION if question::bad_address(params).is_some() => {
                let why = question::bad_address(params).unwrap_or_default();
                Some(error(envelope::INVALID_PARAMS, why))
            }
            methods::PING => Some("\"result\":{}".to_owned()),
            methods::SAMPLING | methods::ELICITATION => {
                self.asks.store(true, Relaxed);
                self.asked(about)
                    .and_then(|caller| self.put_question(&caller, body, id, method, params, about))
                    .err()
            }
            methods::ROOTS_LIST => self.put_roots(body, id, params, about),
            _ => Some(error(envelope::METHOD_NOT_FOUND, &format!("Method not found: {method}"))),
        };
        if let Some(refusal) = refusal {
            self.reply(id.get(), &refusal);
        }
    }

    /// The one host whose call is unanswered here. Never broadcast, never a guess.
    fn asked(&self, about: Option<ChildId>) -> Result<Arc<Caller>, String> {
        let several = "several hosts have calls open here, so it is not known whom to ask; `scope: session` gives each host a child of its own";
        match self.candidates(About::Question, about) {
            Candidates::One(caller) => Ok(caller),
            Candidates::Nobody => Err(error(envelope::METHOD_NOT_FOUND, "no host has a call open to ask")),
            Candidates::Several { only_abandoned_left } => {
                // Many servers never answer a call that was cancelled. Such a child cannot ask anybody
                // any more, so the next callers get another one.
                if only_abandoned_left {
                    self.retire();
                }
                Err(error(envelope::METHOD_NOT_FOUND, several))
            }
        }
    }

    /// Roots are one host's: only a child that belongs to one session is told them, a spare has none.
    fn put_roots(
        self: &Arc<Self>,
        body: &Bytes,
        id: Raw<'_>,
        params: Option<Raw<'_>>,
        about: Option<ChildId>,
    ) -> Option<String> {
        let none = || Some(r#""result":{"roots":[]}"#.to_owned());
        match self.ownership() {
            Ownership::Shared => {
                let why = "a child that several hosts share is told no host's roots";
                Some(error(envelope::METHOD_NOT_FOUND, why))
            }
            Ownership::Host(owner) => {
                // By the call that it is about, if there is one; a modern host cannot be asked otherwise.
                let asked = match self.candidates(About::Question, about) {
                    Candidates::One(caller) if self.serves(&caller) => caller,
                    _ => owner.clone(),
                };
                if !asked.profile().client_capabilities.roots {
                    return self.workspace_roots(&owner).or_else(none);
                }
                if self.tell_late_roots(id.get()) {
                    return None;
                }
                let put = self.put_question(&asked, body, id, methods::ROOTS_LIST, params, about);
                if put.is_ok() {
                    self.roots.asked(id.get());
                    self.reschedule_timeouts();
                }
                put.err().and_then(|_| none())
            }
            Ownership::Spare => none(),
        }
    }

    /// Passes a question on to `caller`'s host, under an id of ours. Roots are the session's; every other question
    /// belongs to a call that somebody waits for.
    fn put_question(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        body: &Bytes,
        id: Raw<'_>,
        method: &str,
        params: Option<Raw<'_>>,
        about: Option<ChildId>,
    ) -> Result<(), String> {
        let theirs: Box<str> = id.get().into();
        let answer = {
            let child = Arc::downgrade(self);
            let theirs = theirs.clone();
            move |response: &[u8], host_id: Raw<'_>| {
                if let Some(child) = child.upgrade() {
                    child.on_host_answer(&theirs, response, host_id);
                }
            }
        };
        let (open, belongs) = {
            let calls = self.calls();
            (calls.open_questions(), calls.may_ask(caller, about))
        };
        if open >= MAX_QUESTIONS {
            return Err(declined(method));
        }
        if !belongs && method != methods::ROOTS_LIST {
            return Err(withdrawn(method));
        }
        // The child does not know any more which of two questions of one id an answer is to: the later one stays.
        let same = self.calls().question_closed(&theirs, Instant::now());
        if let Some(earlier) = same {
            earlier.caller.withdraw(&earlier.ours, "the server asked something else under the same id");
        }
        let Some(ours) = caller.ask(body, id, method, params, answer) else {
            return Err(declined(method));
        };
        self.calls().question_opened(theirs, caller, ours, method, about, Instant::now());
        Ok(())
    }

    fn on_host_answer(&self, theirs: &str, response: &[u8], host_id: Raw<'_>) {
        if self.take_late_roots(response, host_id) {
            return;
        }
        let closed = self.calls().question_closed(theirs, Instant::now());
        if closed.is_some() {
            self.reschedule_timeouts();
            let body = splice(response, range_of(response, host_id.get()), theirs.as_bytes());
            self.notify(&body);
        }
    }

    /// Hands a reply to the call that it is for, and ends the questions that belonged to that call only.
    pub(super) fn deliver(&self, id: ChildId, reply: CallOutcome) -> Delivered {
        let (delivered, ended) = {
            let mut calls = self.calls();
            (calls.deliver(id, reply), calls.take_ended_questions(Instant::now()))
        };
        self.withdraw(ended, CALL_ENDED);
        delivered
    }

    /// These questions have ended: the host hears that nobody asks any more, and why, the child that nobody
    /// answers.
    pub(super) fn withdraw(&self, ended: Vec<(Box<str>, ChildQuestion)>, why: &str) {
        if ended.is_empty() {
            return;
        }
        self.reschedule_timeouts();
        for (theirs, question) in ended {
            question.caller.withdraw(&question.ours, why);
            self.reply(&theirs, &withdrawn(&question.method));
        }
    }

    /// Tells hosts that what a child that ended wanted to know no longer matters.
    pub(super) fn withdraw_questions(&self, open: Vec<ChildQuestion>) {
        self.withdraw_late_roots("the server that asked has ended");
        for question in open {
            question.caller.withdraw(&question.ours, "the server that asked has ended");
        }
    }

    pub(super) fn reply(&self, id: &str, outcome: &str) {
        self.notify(&rpc::response_with(id, outcome));
    }
}

/// What the child hears of a question whose call has ended.
fn withdrawn(method: &str) -> String {
    match question::declined_result(method, "cancel") {
        Some(result) => format!(r#""result":{result}"#),
        None => error(envelope::INTERNAL_ERROR, "the call that this belongs to has ended"),
    }
}

/// What stands in for a host that cannot take this question.
fn declined(method: &str) -> String {
    match method {
        methods::ELICITATION => r#""result":{"action":"decline"}"#.to_owned(),
        method => error(envelope::METHOD_NOT_FOUND, &format!("the host does not support `{method}`")),
    }
}

pub(super) fn error(code: i64, message: &str) -> String {
    format!(r#""error":{{"code":{code},"message":{}}}"#, quoted(message))
}

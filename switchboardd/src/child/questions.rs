//! Questions of a child: passed to the only host they can be for, and withdrawn when their call, the
//! session or the child ends.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use switchboard_mcp::era::{ProtocolEra, question};
use switchboard_mcp::methods;
use switchboard_wire::envelope::{self, Malformed, quoted, range_of, splice};
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use tokio::time::Instant;

use super::calls::{CallOutcome, Candidates, ChildId, ChildQuestion, Delivery, MessageTopic};
use super::{Child, Ownership};
use crate::caller::Caller;

/// Limit of open questions of one child; a host could not answer more either.
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
            // The modern era has no requests from servers, and the daemon may not answer one.
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

    /// The only host with an unanswered call here. A question is never broadcast, and its
    /// host is never guessed.
    fn asked(&self, about: Option<ChildId>) -> Result<Arc<Caller>, String> {
        let several = "several editors have calls open here, so it is not known which one to ask; with `pool.scope` `session` each editor has its own process";
        match self.candidates(MessageTopic::Question, about) {
            Candidates::One(caller) => Ok(caller),
            Candidates::Nobody => {
                Err(error(envelope::METHOD_NOT_FOUND, "no editor has a call open in which it could ask"))
            }
            Candidates::Several { only_abandoned_left } => {
                // Many servers never answer a cancelled call. Such a child can no longer ask any host, so it
                // is retired: new callers get a different child.
                if only_abandoned_left {
                    self.retire();
                }
                Err(error(envelope::METHOD_NOT_FOUND, several))
            }
        }
    }

    /// Roots belong to one host: only a child of one session is told them; a spare gets an empty list. A child of
    /// a workspace is told that workspace, whatever its hosts have.
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
                let why = "a server that several editors share gets no editor's roots";
                Some(error(envelope::METHOD_NOT_FOUND, why))
            }
            Ownership::Workspace(root) => self.roots_of_workspace(&root).or_else(none),
            Ownership::Host(owner) => {
                // Through the call that it is about, if there is one: a modern host cannot be
                // asked in any other way.
                let asked = match self.candidates(MessageTopic::Question, about) {
                    Candidates::One(caller) if self.may_serve(&caller) => caller,
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

    /// Passes a question to `caller`'s host, under an id of ours. `roots/list` belongs to the session; every
    /// other question belongs to an open call.
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
        // The child could not tell which of two questions with one id was answered: the later
        // one replaces the other.
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

    /// Delivers a reply to its call, and withdraws the questions that belonged only to that call.
    pub(super) fn deliver(&self, id: ChildId, reply: CallOutcome) -> Delivery {
        let (delivered, ended) = {
            let mut calls = self.calls();
            (calls.deliver(id, reply), calls.take_ended_questions(Instant::now()))
        };
        self.withdraw(ended, CALL_ENDED);
        delivered
    }

    /// Withdraws ended questions: tells the host why, and answers the child.
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

    /// Withdraws the open questions of a child that has ended from their hosts.
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

/// The answer to a child's question whose call has ended.
fn withdrawn(method: &str) -> String {
    match question::declined_result(method, "cancel") {
        Some(result) => format!(r#""result":{result}"#),
        None => error(envelope::INTERNAL_ERROR, "the call that this belongs to has ended"),
    }
}

/// The answer to a question that the host cannot take.
fn declined(method: &str) -> String {
    match method {
        methods::ELICITATION => r#""result":{"action":"decline"}"#.to_owned(),
        method => error(envelope::METHOD_NOT_FOUND, &format!("the editor does not support `{method}`")),
    }
}

pub(super) fn error(code: i64, message: &str) -> String {
    format!(r#""error":{{"code":{code},"message":{}}}"#, quoted(message))
}

//! The calls that a child has not answered, and who waits for them.
//!
//! Pure bookkeeping; `now` is passed in. A call whose caller gave up stays as an `AbandonedCall` until the
//! child answers it, so that the late answer is dropped silently and the child's questions still count that
//! caller as a candidate.

mod candidates;
mod hosts;
mod limits;
mod questions;
mod response;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::id_map::IdMap;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{ChildError, Limits, millis};
use crate::caller::Caller;

pub(super) use candidates::{Candidates, MessageTopic};
pub(super) use questions::ChildQuestion;
pub(super) use response::CallOutcome;
pub use response::{ChildId, ChildResponse};

/// Limit of abandoned calls per child. A child that leaves more calls unanswered is not worth more memory.
const MAX_ABANDONED: usize = 4096;

/// How long after a cancel a question of a legacy child may still belong to the cancelled call.
const LATE_QUESTION_WINDOW: Duration = Duration::from_secs(60);

/// How long a host may take to answer a question that belongs to its session and not to a call.
const SESSION_QUESTION_TIMEOUT: Duration = Duration::from_secs(30);

struct PendingCall {
    /// `None` once the caller was told that the call is overdue.
    reply: Option<oneshot::Sender<CallOutcome>>,
    /// `None` for the daemon's own requests.
    caller: Option<Arc<Caller>>,
    /// The host's own progress token, as it wrote it.
    token: Option<Box<str>>,
    started: Instant,
    heard: Instant,
    limits: Option<Limits>,
    /// How long its questions were open.
    asked: Duration,
}

impl PendingCall {
    /// When the call times out, and with which error. `asking`: it waits for its host.
    fn due(&self, asking: bool) -> Option<(Instant, ChildError)> {
        let Limits { rpc, max, .. } = self.limits?;
        let end = (self.started + max, ChildError::Endless { ms: millis(max) });
        let silent = (self.heard + rpc, ChildError::Silent { ms: millis(rpc) });
        Some(if asking || end.0 <= silent.0 { end } else { silent })
    }
}

#[derive(Default)]
pub(super) struct Calls {
    issued: u64,
    waiting: IdMap<PendingCall>,
    abandoned: IdMap<AbandonedCall>,
    /// The last abandoned call that did not fit into `abandoned`.
    lost_track: Option<AbandonedCall>,
    /// Open questions of the child to hosts, by the child's own id.
    questions: HashMap<Box<str>, ChildQuestion>,
    /// Questions whose calls have all ended, until [`Calls::take_ended_questions`].
    ended: Vec<(Box<str>, ChildQuestion)>,
    /// The open `subscriptions/listen` request. It does not count as use of the child.
    listen_call: Option<u64>,
    /// The `ping` that shows whether the child has read its cancels. It does not count as use either.
    check: Option<u64>,
    /// When [`Calls::give_up_overdue`] runs next.
    next_check: Option<Instant>,
    closed: bool,
}

/// A call whose caller gave up.
struct AbandonedCall {
    caller: Option<Arc<Caller>>,
    /// The latest call id when the cancel was sent.
    after: u64,
    since: Instant,
    /// The child has read the cancel: it answered a request that was sent later.
    read: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    ToCaller,
    /// The caller had given up.
    Late,
    /// No such call: it was never sent, or was answered before.
    Unknown,
}

impl Calls {
    /// Registers a call before it is written, so that even the fastest answer finds it. `None` once
    /// the child has ended.
    pub(super) fn open(
        &mut self,
        caller: Option<Arc<Caller>>,
        token: Option<Box<str>>,
        now: Instant,
    ) -> Option<(ChildId, oneshot::Receiver<CallOutcome>)> {
        if self.closed {
            return None;
        }
        self.issued += 1;
        let (reply, receiver) = oneshot::channel();
        let waiting = PendingCall {
            reply: Some(reply),
            caller,
            token,
            started: now,
            heard: now,
            limits: None,
            asked: Duration::ZERO,
        };
        self.waiting.insert(self.issued, waiting);
        Some((ChildId(self.issued), receiver))
    }

    pub(super) fn deliver(&mut self, id: ChildId, mut reply: CallOutcome) -> Delivery {
        self.call_ended(id);
        if let Some(waiting) = self.waiting.remove(&id.0) {
            if let CallOutcome::Response(answer) = &mut reply {
                answer.asked = waiting.asked;
            }
            // A receiver that is being dropped right now does not want the answer.
            let Some(caller) = waiting.reply else { return Delivery::Late };
            let _ = caller.send(reply);
            return Delivery::ToCaller;
        }
        match self.abandoned.remove(&id.0) {
            Some(_) => Delivery::Late,
            None => Delivery::Unknown,
        }
    }

    /// The caller gave up. True if the child had not answered.
    pub(super) fn abandon(&mut self, id: ChildId, now: Instant) -> bool {
        self.call_ended(id);
        let Some(waiting) = self.waiting.remove(&id.0) else { return false };
        let call = AbandonedCall { caller: waiting.caller, after: self.issued, since: now, read: false };
        if self.abandoned.len() < MAX_ABANDONED {
            self.abandoned.insert(id.0, call);
        } else if call.caller.is_some() {
            self.lost_track = Some(call);
        }
        true
    }

    /// A modern child that answered this call has read every cancel sent before it. By protocol it sends
    /// nothing further about cancelled calls, so these are forgotten.
    pub(super) fn drop_cancelled_before(&mut self, id: ChildId) {
        if !self.abandoned.is_empty() {
            self.abandoned.retain(|_, call| call.after >= id.0);
        }
    }

    /// A legacy child that answered this call has read every cancel sent before it. It may still work on the
    /// cancelled calls, so these are remembered for a while.
    pub(super) fn mark_cancels_read(&mut self, id: ChildId) {
        for call in self.abandoned.values_mut().chain(&mut self.lost_track) {
            call.read |= call.after < id.0;
        }
    }

    /// Whether a host's cancelled call is unanswered and the child may not have read the cancel.
    pub(super) fn has_unread_cancel(&self) -> bool {
        let unread = |call: &AbandonedCall| !call.read && call.caller.is_some();
        self.abandoned.values().chain(&self.lost_track).any(unread)
    }

    /// Marks the long-lived `subscriptions/listen` request, which is normally never answered.
    pub(super) fn set_listen_call(&mut self, id: ChildId) {
        self.listen_call = Some(id.0);
    }

    /// Marks the `ping` that shows whether the child has read its cancels. A child may answer none of these,
    /// so only the last abandoned one is remembered.
    pub(super) fn check(&mut self, id: ChildId) {
        if let Some(before) = self.check.replace(id.0) {
            self.abandoned.remove(&before);
        }
    }

    /// Whether this call does not count as use of the child.
    fn is_internal(&self, id: u64) -> bool {
        Some(id) == self.listen_call || Some(id) == self.check
    }

    /// Whether the child has not answered this call, even if its caller gave up.
    pub(super) fn is_unanswered(&self, id: ChildId) -> bool {
        self.waiting.contains_key(&id.0) || self.abandoned.contains_key(&id.0)
    }

    /// The caller of this call, unless the child has answered it.
    pub(super) fn caller_of(&self, id: ChildId) -> Option<Arc<Caller>> {
        let gone = || self.abandoned.get(&id.0).and_then(|call| call.caller.clone());
        self.waiting.get(&id.0).and_then(|waiting| waiting.caller.clone()).or_else(gone)
    }

    pub(super) fn is_listen_call(&self, id: ChildId) -> bool {
        self.listen_call == Some(id.0)
    }

    /// The call was never written: removes it.
    pub(super) fn retract(&mut self, id: ChildId) {
        self.call_ended(id);
        self.waiting.remove(&id.0);
    }

    /// The host continues this call with another request, which has another progress token.
    pub(super) fn retoken(&mut self, id: ChildId, token: Option<Box<str>>) {
        if let Some(waiting) = self.waiting.get_mut(&id.0) {
            waiting.token = token;
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        let is_open = |id: &Option<u64>| id.is_some_and(|id| self.waiting.contains_key(&id));
        let nobodys = [self.listen_call, self.check].iter().filter(|id| is_open(id)).count();
        self.waiting.len() - nobodys
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The child has ended: dropping the table fails every call. Returns the questions that were open.
    pub(super) fn close(&mut self) -> Vec<ChildQuestion> {
        let questions = std::mem::take(&mut self.questions).into_values();
        let ended = std::mem::take(&mut self.ended).into_iter().map(|(_, question)| question);
        let open = questions.chain(ended).collect();
        *self = Self { closed: true, issued: self.issued, ..Self::default() };
        open
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

//! The hosts that a child's message may be for if it names no call.

use std::sync::Arc;

use tokio::time::Instant;

use super::{AbandonedCall, Calls, LATE_QUESTION_WINDOW};
use crate::caller::{Caller, StatelessRequest};

/// The kind of a child's message, for [`Calls::candidates`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::child) enum MessageTopic {
    Question,
    /// Harmless if it is about a call that was cancelled a while ago.
    Log,
}

/// Who a child's message without a request id may be for.
#[derive(Debug)]
pub(in crate::child) enum Candidates {
    Nobody,
    One(Arc<Caller>),
    /// `only_abandoned_left`: at most one of them still waits; the child may not know
    /// that the others gave up.
    Several {
        only_abandoned_left: bool,
    },
}

impl Calls {
    /// Candidate recipients for a child message without a request id. Callers who gave up still count until
    /// the child answers them, because it may still be working on their calls; so do callers whose call is
    /// suspended. If all candidates belong to one host, picks its only unsuspended call.
    pub(in crate::child) fn candidates(&self, about: MessageTopic, now: Instant) -> Candidates {
        let may_speak = |call: &AbandonedCall| match about {
            MessageTopic::Log => !call.read,
            MessageTopic::Question => !call.read || now < call.since + LATE_QUESTION_WINDOW,
        };
        if self.lost_track.as_ref().is_some_and(may_speak) {
            return Candidates::Several { only_abandoned_left: true };
        }
        let mut waiting: Vec<_> =
            self.waiting.iter().filter_map(|(id, waiting)| Some((*id, waiting.caller.as_ref()?))).collect();
        // Newest first: for a legacy host, the message is most likely about its latest call.
        waiting.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
        let given_up = self.abandoned.values().filter(|call| may_speak(call));
        let given_up = given_up.filter_map(|call| call.caller.as_ref());
        let mut all = waiting.iter().map(|(_, caller)| *caller).chain(given_up);
        let Some(first) = all.next() else { return Candidates::Nobody };
        let is_one_host = all.all(|other| other.is_same_host(first));
        let is_parked =
            |caller: &Arc<Caller>| caller.as_stateless().is_some_and(StatelessRequest::is_suspended);
        let mut live: Vec<&Arc<Caller>> = Vec::new();
        for (_, caller) in waiting.iter().filter(|(_, caller)| !is_one_host || !is_parked(caller)) {
            if !live.iter().any(|known| known.shares_mailbox_with(caller)) {
                live.push(caller);
            }
        }
        match live.as_slice() {
            [] if is_one_host => Candidates::One(first.clone()),
            [caller] if is_one_host => Candidates::One((*caller).clone()),
            live => Candidates::Several { only_abandoned_left: live.len() <= 1 },
        }
    }
}

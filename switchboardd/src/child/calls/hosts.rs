//! Which hosts a child works for, as far as the child knows. Pools use this to choose a child for a caller.

use std::sync::Arc;

use tokio::time::Instant;

use super::{AbandonedCall, Calls, ChildId, LATE_QUESTION_WINDOW};
use crate::caller::Caller;

impl Calls {
    /// The latest call that was opened.
    pub(in crate::child) fn last(&self) -> ChildId {
        ChildId(self.issued)
    }

    /// The latest abandoned call of a host that the child has not answered.
    pub(in crate::child) fn last_unanswered(&self) -> Option<ChildId> {
        let owed = self.abandoned.iter().filter(|(_, call)| call.caller.is_some());
        owed.map(|(id, _)| *id).max().map(ChildId)
    }

    /// Whether a host's abandoned call with an id above `after` and up to `up_to` is unanswered.
    pub(in crate::child) fn has_unanswered_between(&self, after: u64, up_to: ChildId) -> bool {
        let owed = self.abandoned.iter().filter(|(_, call)| call.caller.is_some());
        owed.map(|(id, _)| *id).any(|id| id > after && id <= up_to.0)
    }

    /// How many open calls this host has here.
    pub(in crate::child) fn open_of(&self, caller: &Arc<Caller>) -> usize {
        let is_own = |own: &Arc<Caller>| own.is_same_host(caller);
        self.waiting.values().filter(|waiting| waiting.caller.as_ref().is_some_and(is_own)).count()
    }

    /// Whether the child may still ask something for another host's abandoned call.
    pub(in crate::child) fn has_abandoned_of_others(&self, caller: &Arc<Caller>, now: Instant) -> bool {
        let may_ask = |call: &&AbandonedCall| !call.read || now < call.since + LATE_QUESTION_WINDOW;
        let mut abandoned = self.abandoned.values().filter(may_ask).filter_map(|call| call.caller.as_ref());
        abandoned.any(|other| !other.is_same_host(caller))
    }
}

//! What a pool wants to know of a child before it gives it to a caller.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::{Child, ChildId, ChildTransport};
use crate::caller::Caller;
use crate::era::ProtocolEra;

/// What a child owes to hosts that gave up on their calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Debt {
    None,
    /// It has answered something else since: it need not answer what was cancelled.
    Dropped,
    /// It may still be working on it.
    Open,
}

impl Child {
    pub fn debt(&self) -> Debt {
        let Some(ChildId(owed)) = self.calls().last_owed() else { return Debt::None };
        if owed <= self.forgiven.load(Ordering::Relaxed) {
            Debt::None
        } else if owed <= self.dropped.load(Ordering::Relaxed) {
            Debt::Dropped
        } else {
            Debt::Open
        }
    }

    /// The last call that was sent to it.
    pub fn last_call(&self) -> ChildId {
        self.calls().last()
    }

    /// Whether it has not answered a call up to this one that was given up on.
    pub fn still_owes(&self, up_to: ChildId) -> bool {
        self.calls().owes_between(self.forgiven.load(Ordering::Relaxed), up_to)
    }

    /// It has answered something that came after these calls.
    pub fn dropped(&self, up_to: ChildId) {
        self.dropped.fetch_max(up_to.0, Ordering::Relaxed);
    }

    /// What was given up on of these calls counts no more.
    pub fn forgive(&self, up_to: ChildId) {
        self.forgiven.fetch_max(up_to.0, Ordering::Relaxed);
    }

    /// Whether another host's call is open on it, or about to be, so that what it asks or logs could be for either. One
    /// that runs elsewhere says with which call a message comes; a modern one asks within its answers.
    pub fn is_crowded_for(&self, caller: &Arc<Caller>) -> bool {
        if !matches!(self.transport, ChildTransport::Stdio(_)) || self.era() == ProtocolEra::Modern {
            return false;
        }
        let calls = self.calls();
        let own = i64::try_from(calls.open_of(caller)).unwrap_or(i64::MAX);
        self.leases() > own || calls.has_abandoned_of_others(caller, Instant::now())
    }

    /// Whether it is known to ask its hosts, and could not ask this one: as far as it knows, it works for another
    /// that has given up.
    pub fn is_unsure_of(&self, caller: &Arc<Caller>) -> bool {
        self.asks.load(Ordering::Relaxed)
            && matches!(self.transport, ChildTransport::Stdio(_))
            && self.era() == ProtocolEra::Legacy
            && self.calls().has_abandoned_of_others(caller, Instant::now())
    }
}

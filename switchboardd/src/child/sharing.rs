//! What whoever shares out a child wants to know of it before a caller gets it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use switchboard_mcp::era::ProtocolEra;
use tokio::time::Instant;

use super::{Child, ChildId, ChildTransport};
use crate::caller::Caller;

impl Child {
    /// The latest call that was sent to it.
    pub fn last_call(&self) -> ChildId {
        self.calls().last()
    }

    /// The latest call of a host that was given up on and that it has not answered.
    pub fn last_owed(&self) -> Option<ChildId> {
        self.calls().last_unanswered()
    }

    /// Whether it has not answered a call of a host after one and up to another that was given up on.
    pub fn owes_between(&self, after: u64, up_to: ChildId) -> bool {
        self.calls().has_unanswered_between(after, up_to)
    }

    /// Whether what it asks or logs names no call, so that it could be for any host that has one open. A child that runs
    /// elsewhere says with which call a message comes; a modern one asks within its answers.
    pub fn names_no_call(&self) -> bool {
        matches!(self.transport, ChildTransport::Stdio(_)) && self.era() == ProtocolEra::Legacy
    }

    /// How many answers it owes to this host, and whether it may ask something for another that has given up on its
    /// call.
    pub fn open_calls_of(&self, caller: &Arc<Caller>) -> (usize, bool) {
        let calls = self.calls();
        (calls.open_of(caller), calls.has_abandoned_of_others(caller, Instant::now()))
    }

    /// Whether the child is known to ask questions and could not ask this caller, because it may still be
    /// working on another host's cancelled call.
    pub fn could_not_ask(&self, caller: &Arc<Caller>) -> bool {
        self.asks.load(Ordering::Relaxed)
            && self.names_no_call()
            && self.calls().has_abandoned_of_others(caller, Instant::now())
    }
}

//! What a pool checks before it leases a child to a caller.

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

    /// The latest abandoned call of a host that the child has not answered.
    pub fn last_owed(&self) -> Option<ChildId> {
        self.calls().last_unanswered()
    }

    /// Whether an abandoned call of a host after `after` and up to `up_to` is unanswered.
    pub fn owes_between(&self, after: u64, up_to: ChildId) -> bool {
        self.calls().has_unanswered_between(after, up_to)
    }

    /// Whether the child's questions and logs name no call, so that they could be for any host with an open
    /// call. A remote child's messages arrive with their call; a modern child asks within its answers.
    pub fn names_no_call(&self) -> bool {
        matches!(self.transport, ChildTransport::Stdio(_)) && self.era() == ProtocolEra::Legacy
    }

    /// The number of this host's open calls, and whether the child may still ask something for another host's
    /// abandoned call.
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

//! Checks with a `ping` whether a child still answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use switchboard_mcp::era::ProtocolEra;
use switchboard_mcp::methods;

use super::{Child, ChildError, Limits, millis};

/// After a child was silent on a call, it must answer a `ping` within this time, or the daemon ends it.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

impl Child {
    /// Sends a `ping` to a child that was silent on a call, one at a time, and ends the child
    /// if it does not answer.
    pub fn probe(self: &Arc<Self>) {
        if self.probing.swap(true, Ordering::Relaxed) {
            return;
        }
        let child = self.clone();
        tokio::spawn(async move {
            if !child.is_responsive(PING_TIMEOUT).await {
                child.give_up(ChildError::Unresponsive { ms: millis(PING_TIMEOUT) });
            }
            child.probing.store(false, Ordering::Relaxed);
        });
    }

    /// Whether the child answers a `ping` within this time.
    pub async fn is_responsive(self: &Arc<Self>, within: Duration) -> bool {
        let limits = Limits { spawn: within, rpc: within, max: within };
        // The modern era has no `ping`.
        let method = if self.era() == ProtocolEra::Modern { methods::DISCOVER } else { methods::PING };
        match self.request(method, b"") {
            Ok(call) => call.answer(limits).await.is_ok(),
            Err(_) => false,
        }
    }
}

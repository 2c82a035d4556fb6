//! Whether a child still answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Child, ChildError, Limits, millis};
use crate::era::ProtocolEra;
use crate::methods;

/// A child that was silent on a call and does not answer a `ping` within this is not coming back.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

impl Child {
    /// It has been silent on a call: busy, or gone? One `ping` at a time finds out, and ends it if it is gone.
    pub fn probe(self: &Arc<Self>) {
        if self.probing.swap(true, Ordering::Relaxed) {
            return;
        }
        let child = self.clone();
        tokio::spawn(async move {
            if !child.answers(PING_TIMEOUT).await {
                child.give_up(ChildError::Unresponsive { ms: millis(PING_TIMEOUT) });
            }
            child.probing.store(false, Ordering::Relaxed);
        });
    }

    /// Whether it answers a `ping` in time. A child that has been silent on a call may be busy, or gone.
    pub async fn answers(self: &Arc<Self>, within: Duration) -> bool {
        let limits = Limits { spawn: within, rpc: within, max: within };
        // There is no `ping` in the modern era.
        let method = if self.era() == ProtocolEra::Modern { methods::DISCOVER } else { methods::PING };
        match self.request(method, b"") {
            Ok(call) => call.answer(limits).await.is_ok(),
            Err(_) => false,
        }
    }
}

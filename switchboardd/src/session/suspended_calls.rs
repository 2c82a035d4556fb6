//! Calls of modern hosts that wait for input, until the host retries with answers. If it does not retry in
//! time, the questions and the call are cancelled.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_mcp::era::request_state::{BadState, StateBinding, StateSigner, StateTarget};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::suite::SuspendableCall;

/// Time limit for a user to answer a form.
const INPUT_TIMEOUT: Duration = Duration::from_secs(600);

/// Limit of all suspended calls, most of which occupy a child.
const MAX_SUSPENDED: usize = 256;
/// Limit per session, so that no host takes the room of all others.
const MAX_PER_SESSION: usize = 64;

#[derive(Debug)]
pub struct SuspendedCalls {
    signer: StateSigner,
    /// States expire relative to this time, independent of the system clock.
    started_at: Instant,
    /// Until when a host may retry a call to a modern child, in seconds since `started_at`. A retry does not
    /// reset it.
    retry_possible_until: AtomicU64,
    // A leaf lock: held for an insert or a removal. Removed calls are dropped after it is released.
    calls: Mutex<HashMap<String, SuspendedCall>>,
}

#[derive(Debug)]
struct SuspendedCall {
    call: SuspendableCall,
    session: Box<str>,
    expiry_task: AbortHandle,
}

impl SuspendedCalls {
    pub fn new(run_id: &str) -> Arc<Self> {
        Arc::new(Self {
            signer: StateSigner::new(run_id),
            started_at: Instant::now(),
            retry_possible_until: AtomicU64::new(0),
            calls: Mutex::default(),
        })
    }

    /// Suspends a call and returns the state to retry with; `None` if a limit is reached.
    pub fn suspend(self: &Arc<Self>, call: SuspendableCall, binding: StateBinding<'_>) -> Option<String> {
        let timeout = INPUT_TIMEOUT.min(call.longest);
        let name = switchboard_wire::random::hex(16);
        {
            let mut calls = self.lock();
            let own = calls.values().filter(|suspended| *suspended.session == *binding.session).count();
            if calls.len() >= MAX_SUSPENDED || own >= MAX_PER_SESSION {
                return None;
            }
            let expiry_task = self.spawn_expiry(name.clone(), timeout);
            calls.insert(name.clone(), SuspendedCall { call, session: binding.session.into(), expiry_task });
        }
        let state = self.signer.issue(
            &StateTarget::SuspendedCall(name.clone()),
            binding,
            self.seconds() + timeout.as_secs() + 1,
        );
        Some(state)
    }

    /// Drops the call if the host has not retried in time.
    fn spawn_expiry(self: &Arc<Self>, name: String, timeout: Duration) -> AbortHandle {
        let suspended_calls = Arc::downgrade(self);
        let expiry_task = tokio::spawn(async move {
            tokio::time::sleep(timeout).await;
            let abandoned =
                suspended_calls.upgrade().and_then(|suspended_calls| suspended_calls.lock().remove(&name));
            if let Some(suspended) = abandoned {
                tracing::debug!(target: "parking", conversation = ?suspended.call, "nobody came back");
            }
        });
        expiry_task.abort_handle()
    }

    /// Signs the state of a modern child together with its process id, so that the retry reaches the same
    /// process.
    pub fn seal_child_state(&self, pid: u32, state: Option<String>, binding: StateBinding<'_>) -> String {
        let until = self.seconds() + INPUT_TIMEOUT.as_secs();
        self.retry_possible_until.fetch_max(until, Ordering::Relaxed);
        self.signer.issue(&StateTarget::Child { pid, state }, binding, until)
    }

    /// Whether a valid state may be outstanding that leads to a child of this daemon.
    pub fn may_be_retried(&self) -> bool {
        self.seconds() < self.retry_possible_until.load(Ordering::Relaxed)
    }

    pub fn verify_state(&self, state: &str, binding: StateBinding<'_>) -> Result<StateTarget, BadState> {
        self.signer.verify(state, binding, self.seconds())
    }

    pub fn take(&self, name: &str) -> Option<SuspendableCall> {
        let suspended = self.lock().remove(name)?;
        suspended.expiry_task.abort();
        Some(suspended.call)
    }

    /// Drops the calls of a session that has ended.
    pub fn session_ended(&self, session: &str) {
        let gone: Vec<SuspendedCall> = {
            let mut calls = self.lock();
            calls
                .extract_if(|_, suspended| &*suspended.session == session)
                .map(|(_, suspended)| suspended)
                .collect()
        };
        gone.iter().for_each(|suspended| suspended.expiry_task.abort());
    }

    fn seconds(&self) -> u64 {
        self.started_at.elapsed().as_secs()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, SuspendedCall>> {
        self.calls.lock().expect("BUG: bookkeeping panicked")
    }
}

//! Calls of modern hosts that wait for input, until the host retries with answers. If it does not retry in
//! time, the questions and the call are cancelled.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_mcp::era::request_state::{BadState, StateBinding, StateSigner, StateTarget};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::caller::SentAs;
use crate::suite::SuspendableCall;

/// Time limit for a user to answer a form.
const INPUT_TIMEOUT: Duration = Duration::from_secs(600);

/// Limit of all suspended calls, most of which occupy a child.
const MAX_SUSPENDED: usize = 256;
/// Limit per session, so that no host takes the room of all others.
const MAX_PER_SESSION: usize = 64;

/// Limits of the states of modern children that may still be used: the oldest are forgotten. They occupy no child.
const MAX_STATES: usize = 4096;
const MAX_STATES_PER_SESSION: usize = 512;

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
    // A leaf lock: held for an insert or a removal.
    child_states: Mutex<ChildStates>,
}

/// The states of modern children that no host has used yet. Each is good for one retry.
#[derive(Debug, Default)]
struct ChildStates {
    issued: u64,
    /// By number, the oldest first.
    unused: BTreeMap<u64, UnusedState>,
}

#[derive(Debug)]
struct UnusedState {
    session: Box<str>,
    until: u64,
    sent_as: SentAs,
}

impl ChildStates {
    /// Returns the number of a new state.
    fn issue(&mut self, session: &str, sent_as: SentAs, now: u64, until: u64) -> u64 {
        self.unused.retain(|_, state| state.until >= now);
        let mut own = self.unused.iter().filter(|(_, state)| *state.session == *session);
        let oldest_own =
            own.next().map(|(number, _)| *number).filter(|_| own.count() + 1 >= MAX_STATES_PER_SESSION);
        if let Some(number) = oldest_own {
            self.unused.remove(&number);
        }
        while self.unused.len() >= MAX_STATES {
            self.unused.pop_first();
        }
        self.issued += 1;
        self.unused.insert(self.issued, UnusedState { session: session.into(), until, sent_as });
        self.issued
    }
}

/// What a host came back to.
#[derive(Debug)]
pub enum UsedState {
    /// A suspended call, by its name.
    SuspendedCall(String),
    /// A modern child, with the state that it gave.
    Child { sent_as: SentAs, state: Option<String> },
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
            child_states: Mutex::default(),
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

    /// Signs the state of a modern child, and keeps how its request was sent. The result is good for one retry.
    pub fn seal_child_state(
        &self,
        sent_as: SentAs,
        state: Option<String>,
        binding: StateBinding<'_>,
    ) -> String {
        let now = self.seconds();
        let until = now + INPUT_TIMEOUT.as_secs();
        self.retry_possible_until.fetch_max(until, Ordering::Relaxed);
        let number = self.lock_child_states().issue(binding.session, sent_as, now, until);
        self.signer.issue(&StateTarget::Child { number, state }, binding, until)
    }

    /// Whether a valid state may be outstanding that leads to a child of this daemon.
    pub fn may_be_retried(&self) -> bool {
        self.seconds() < self.retry_possible_until.load(Ordering::Relaxed)
    }

    /// Verifies a state that a host came back with. It does not verify again.
    pub fn use_state(&self, state: &str, binding: StateBinding<'_>) -> Result<UsedState, BadState> {
        match self.signer.verify(state, binding, self.seconds())? {
            StateTarget::SuspendedCall(name) => Ok(UsedState::SuspendedCall(name)),
            StateTarget::Child { number, state } => {
                let unused = self.lock_child_states().unused.remove(&number).ok_or(BadState::Expired)?;
                Ok(UsedState::Child { sent_as: unused.sent_as, state })
            }
        }
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
        self.lock_child_states().unused.retain(|_, state| &*state.session != session);
    }

    fn seconds(&self) -> u64 {
        self.started_at.elapsed().as_secs()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, SuspendedCall>> {
        self.calls.lock().expect("BUG: bookkeeping panicked")
    }

    fn lock_child_states(&self) -> std::sync::MutexGuard<'_, ChildStates> {
        self.child_states.lock().expect("BUG: bookkeeping panicked")
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_session_forgets_its_own_states_only() {
        let mut states = ChildStates::default();
        let other = states.issue("other", SentAs::default(), 0, 600);
        let first = states.issue("own", SentAs::default(), 0, 600);
        for _ in 0..2 * MAX_STATES_PER_SESSION {
            states.issue("own", SentAs::default(), 0, 600);
        }
        assert!(states.unused.contains_key(&other) && !states.unused.contains_key(&first));
        assert_eq!(states.unused.len(), MAX_STATES_PER_SESSION + 1);
        for session in 0..2 * MAX_STATES {
            states.issue(&session.to_string(), SentAs::default(), 0, 600);
        }
        assert_eq!(states.unused.len(), MAX_STATES);
        states.issue("late", SentAs::default(), 601, 1200);
        assert_eq!(states.unused.len(), 1, "the others have expired");
    }
}

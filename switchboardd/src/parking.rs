//! Calls of modern hosts that wait in their legacy children until the host comes back with answers. Nobody has to
//! come back: what is not fetched in time is cancelled, questions and call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use crate::era::seal::{Bound, Broken, Leads, Seal};
use crate::suite::Conversation;

/// A person may take their time with a form; nobody fills one in for longer than this.
const PATIENCE: Duration = Duration::from_secs(600);

/// Each holds a place in a child. More than this and somebody only asks and never answers.
const MAX_PARKED: usize = 256;
/// Of one session, so that no host takes the places of all others.
const MAX_OF_ONE: usize = 64;

#[derive(Debug)]
pub struct Parking {
    seal: Seal,
    /// States are good for some time from here, whatever the clock on the wall does.
    begun: Instant,
    /// Until when somebody may come back to a modern child, in seconds from there. They need not tell when they do.
    awaited: AtomicU64,
    // A leaf lock: held for an insert or a removal. What is taken out is dropped after it.
    calls: Mutex<HashMap<String, Parked>>,
}

#[derive(Debug)]
struct Parked {
    conversation: Conversation,
    session: Box<str>,
    alarm: AbortHandle,
}

impl Parking {
    pub fn new(boot: &str) -> Arc<Self> {
        Arc::new(Self {
            seal: Seal::new(boot),
            begun: Instant::now(),
            awaited: AtomicU64::new(0),
            calls: Mutex::default(),
        })
    }

    /// Keeps a call until somebody comes with the state that this gives; `None` if there is no room.
    pub fn park(self: &Arc<Self>, conversation: Conversation, bound: Bound<'_>) -> Option<String> {
        let patience = PATIENCE.min(conversation.longest);
        let name = crate::random::hex(16);
        {
            let mut calls = self.lock();
            let own = calls.values().filter(|parked| *parked.session == *bound.session).count();
            if calls.len() >= MAX_PARKED || own >= MAX_OF_ONE {
                return None;
            }
            let alarm = self.alarm(name.clone(), patience);
            calls.insert(name.clone(), Parked { conversation, session: bound.session.into(), alarm });
        }
        let state =
            self.seal.close(&Leads::ToParked(name.clone()), bound, self.seconds() + patience.as_secs() + 1);
        Some(state)
    }

    /// Lets a call go when nobody came back for it.
    fn alarm(self: &Arc<Self>, name: String, patience: Duration) -> AbortHandle {
        let parking = Arc::downgrade(self);
        let alarm = tokio::spawn(async move {
            tokio::time::sleep(patience).await;
            let abandoned = parking.upgrade().and_then(|parking| parking.lock().remove(&name));
            if let Some(parked) = abandoned {
                tracing::debug!(target: "parking", conversation = ?parked.conversation, "nobody came back");
            }
        });
        alarm.abort_handle()
    }

    /// The state of a modern child, so that its host comes back to the process that gave it.
    pub fn wrap(&self, pid: u32, state: Option<String>, bound: Bound<'_>) -> String {
        let until = self.seconds() + PATIENCE.as_secs();
        self.awaited.fetch_max(until, Ordering::Relaxed);
        self.seal.close(&Leads::ToChild { pid, state }, bound, until)
    }

    /// Whether a state is out that leads to a child of this daemon and to no other's.
    pub fn is_awaited(&self) -> bool {
        self.seconds() < self.awaited.load(Ordering::Relaxed)
    }

    pub fn open(&self, state: &str, bound: Bound<'_>) -> Result<Leads, Broken> {
        self.seal.open(state, bound, self.seconds())
    }

    pub fn take(&self, name: &str) -> Option<Conversation> {
        let parked = self.lock().remove(name)?;
        parked.alarm.abort();
        Some(parked.conversation)
    }

    /// A session has ended: nobody comes back for what is its own.
    pub fn session_ended(&self, session: &str) {
        let gone: Vec<Parked> = {
            let mut calls = self.lock();
            calls.extract_if(|_, parked| &*parked.session == session).map(|(_, parked)| parked).collect()
        };
        gone.iter().for_each(|parked| parked.alarm.abort());
    }

    fn seconds(&self) -> u64 {
        self.begun.elapsed().as_secs()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Parked>> {
        self.calls.lock().expect("BUG: bookkeeping panicked")
    }
}

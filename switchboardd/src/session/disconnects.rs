//! Which sessions have lost their last connection, and which know that the daemon is shutting down.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Session, Sessions};

#[derive(Debug, Default)]
pub struct Disconnects {
    // A leaf lock: held for an insert, a lookup or a removal.
    known: Mutex<KnownDisconnects>,
    /// Fires when a session lost its last connection, or acknowledged the drain.
    changed: Notify,
}

#[derive(Debug, Default)]
struct KnownDisconnects {
    /// Sessions that know that the daemon is shutting down.
    drain_acked: HashSet<Box<str>>,
    /// When each session last lost its last connection.
    disconnected_at: HashMap<Box<str>, Instant>,
}

impl Disconnects {
    /// Notes that a session has polled again after it was told of the drain: it sends nothing new.
    pub fn ack_drain(&self, session: &Session) {
        self.lock().drain_acked.insert(session.id.clone());
        self.changed.notify_waiters();
    }

    /// Resolves when every connected session knows that the daemon is shutting down.
    pub async fn wait_for_drain_acks(&self, sessions: &Sessions) {
        loop {
            let changed = self.changed.notified();
            let waits = |session: &Arc<Session>| {
                session.is_connected() && !self.lock().drain_acked.contains(&session.id)
            };
            if !sessions.all().iter().any(waits) {
                return;
            }
            changed.await;
        }
    }

    /// Records that the last connection of this session closed at `at`.
    pub fn note(&self, session: &Session, at: Instant) {
        self.lock().disconnected_at.insert(session.id.clone(), at);
        self.changed.notify_waiters();
    }

    /// Whether the latest recorded disconnect of this session was at `at`.
    pub fn is_latest(&self, session: &Session, at: Instant) -> bool {
        self.lock().disconnected_at.get(&session.id) == Some(&at)
    }

    pub fn forget(&self, session: &Session) {
        self.lock().disconnected_at.remove(&session.id);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, KnownDisconnects> {
        self.known.lock().expect("BUG: bookkeeping panicked")
    }
}

//! Which sessions have lost their last connection, and which know that the daemon goes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Session, Sessions};

#[derive(Debug, Default)]
pub struct Disconnects {
    // A leaf lock: held for an insert, a look or a removal.
    known: Mutex<KnownDisconnects>,
    /// A session went, or is known to have heard that the daemon goes.
    changed: Notify,
}

#[derive(Debug, Default)]
struct KnownDisconnects {
    /// Sessions that know that the daemon goes.
    drain_acked: HashSet<Box<str>>,
    /// When the last connection of a session closed, the latest time it did.
    disconnected_at: HashMap<Box<str>, Instant>,
}

impl Disconnects {
    /// A session asked for more mail after it was told that the daemon goes: it sends nothing new.
    pub fn ack_drain(&self, session: &Session) {
        self.lock().drain_acked.insert(session.id.clone());
        self.changed.notify_waiters();
    }

    /// Resolves when every session that is connected knows that the daemon goes.
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

    /// The last connection of this session closed at this time.
    pub fn note(&self, session: &Session, at: Instant) {
        self.lock().disconnected_at.insert(session.id.clone(), at);
        self.changed.notify_waiters();
    }

    /// Whether no connection of this session closed after `at`.
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

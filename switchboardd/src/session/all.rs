//! All sessions: those of hosts, by id, and one per workspace for requests without a session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::Session;
use crate::catalog::workspace::Workspace;

#[derive(Debug, Default)]
pub struct Sessions {
    // A leaf lock: held for an insert, a lookup or a removal.
    by_id: Mutex<HashMap<Box<str>, Arc<Session>>>,
    /// One per workspace that is used without a session.
    // A leaf lock: held for an insert, a lookup or a removal.
    anonymous: Mutex<Vec<Arc<Session>>>,
    /// Fires when a session was added or removed, or when `notify_changed` is called.
    changed_notify: Notify,
}

impl Sessions {
    pub fn insert(&self, session: &Arc<Session>) {
        self.lock().insert(session.id.clone(), session.clone());
        self.notify_changed();
    }

    pub fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.lock().get(id).cloned()
    }

    /// False if it was removed before.
    pub fn remove(&self, id: &str) -> bool {
        let removed = self.lock().remove(id).is_some();
        self.notify_changed();
        removed
    }

    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Resolves when a session is added or removed, or when what sessions see changes.
    pub fn changed(&self) -> Notified<'_> {
        self.changed_notify.notified()
    }

    pub fn notify_changed(&self) {
        self.changed_notify.notify_waiters();
    }

    pub fn all(&self) -> Vec<Arc<Session>> {
        self.lock().values().cloned().collect()
    }

    /// The session of requests about this workspace that have no session. `is_loaded`: whether the workspace
    /// is still loaded.
    pub fn anonymous(&self, workspace: &Arc<Workspace>, is_loaded: impl FnOnce() -> bool) -> Arc<Session> {
        let mut all = self.lock_anonymous();
        if let Some(known) = all.iter().find(|session| session.is_in(workspace)) {
            return known.clone();
        }
        let session = Session::anonymous(workspace);
        // A workspace that was unloaded meanwhile is not remembered.
        if is_loaded() {
            all.push(session.clone());
        }
        session
    }

    pub fn all_anonymous(&self) -> Vec<Arc<Session>> {
        self.lock_anonymous().clone()
    }

    pub fn forget_anonymous(&self, workspace: &Workspace) {
        self.lock_anonymous().retain(|session| !session.is_in(workspace));
    }

    fn lock_anonymous(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Session>>> {
        self.anonymous.lock().expect("BUG: bookkeeping panicked")
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, Arc<Session>>> {
        self.by_id.lock().expect("BUG: bookkeeping panicked")
    }
}

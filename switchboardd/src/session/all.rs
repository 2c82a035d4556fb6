//! All sessions: those of hosts by id, and one for each workspace that is asked about without a session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::Session;
use crate::workspace::Workspace;

#[derive(Debug, Default)]
pub struct Sessions {
    // A leaf lock: held for an insert, a look or a removal.
    by_id: Mutex<HashMap<Box<str>, Arc<Session>>>,
    /// One for each workspace that is asked about without a session.
    // A leaf lock: held for an insert, a look or a removal.
    anonymous: Mutex<Vec<Arc<Session>>>,
    /// One came or went, or there is something else to see.
    stirred: Notify,
}

impl Sessions {
    pub fn insert(&self, session: &Arc<Session>) {
        self.lock().insert(session.id.clone(), session.clone());
        self.stir();
    }

    pub fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.lock().get(id).cloned()
    }

    /// False if it had gone before.
    pub fn remove(&self, id: &str) -> bool {
        let removed = self.lock().remove(id).is_some();
        self.stir();
        removed
    }

    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Resolves when a session comes or goes, or what they see changes.
    pub fn changed(&self) -> Notified<'_> {
        self.stirred.notified()
    }

    pub fn stir(&self) {
        self.stirred.notify_waiters();
    }

    pub fn all(&self) -> Vec<Arc<Session>> {
        self.lock().values().cloned().collect()
    }

    /// Whoever asks about this workspace without a session. `is_loaded`: whether the workspace is
    /// loaded still.
    pub fn anonymous(&self, workspace: &Arc<Workspace>, is_loaded: impl FnOnce() -> bool) -> Arc<Session> {
        let mut all = self.lock_anonymous();
        if let Some(known) = all.iter().find(|session| session.is_in(workspace)) {
            return known.clone();
        }
        let session = Session::anonymous(workspace);
        // One that was let go meanwhile is nobody's to remember.
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

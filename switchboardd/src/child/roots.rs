//! Roots of a child that is one session's own: which it is told, and that its first call waits for them.
//!
//! Servers that follow roots ask for them right after the handshake. A call that overtakes the answer would find a
//! server that knows no folder yet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

use super::{Child, Tie};
use crate::caller::Caller;
use crate::era::Era;

/// A host that does not answer `roots/list` holds up the first call for this long.
const LONGEST: Duration = Duration::from_secs(2);

/// Some servers send what they ask a moment after they answered the next request.
const GRACE: Duration = Duration::from_millis(20);

/// How often we look whether the host has answered.
const LOOK: Duration = Duration::from_millis(5);

/// Servers look at the folders on the disk before they use them.
const SETTLE: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct Roots {
    /// The first call need not wait any longer.
    ready: AtomicBool,
    waited: OnceCell<()>,
    /// The child's ids of its requests for roots that went to the host.
    // A leaf lock: held for a look or an insert.
    asked: Mutex<Vec<Box<str>>>,
    was_told: AtomicBool,
}

impl Roots {
    /// The child's request `id` was put to the host.
    pub(super) fn asked(&self, id: &str) {
        self.was_told.store(true, Ordering::Relaxed);
        if !self.ready.load(Ordering::Relaxed) {
            self.asked.lock().expect("BUG: a note panicked").push(id.into());
        }
    }
}

impl Child {
    /// Resolves when a child that is a session's own has the roots that it asked for after its handshake.
    pub async fn wait_for_roots(self: &Arc<Self>) {
        if self.roots.ready.load(Ordering::Relaxed) {
            return;
        }
        let is_owned = matches!(self.tie(), Tie::Session(_));
        if is_owned && self.era() == Era::Legacy && !self.is_remote() {
            self.roots.waited.get_or_init(|| self.roots_told()).await;
        }
        self.roots.ready.store(true, Ordering::Relaxed);
    }

    async fn roots_told(self: &Arc<Self>) {
        let until = Instant::now() + LONGEST;
        // A server that answers this has taken `initialized` in, and has asked by now if it asks at all.
        self.answers(LONGEST).await;
        if !self.roots.was_told.load(Ordering::Relaxed) {
            sleep(GRACE).await;
        }
        while Instant::now() < until && self.is_asking_for_roots() {
            sleep(LOOK).await;
        }
        if self.roots.was_told.load(Ordering::Relaxed) {
            sleep(SETTLE).await;
        }
    }

    fn is_asking_for_roots(&self) -> bool {
        let asked = self.roots.asked.lock().expect("BUG: a note panicked").clone();
        let calls = self.calls();
        asked.iter().any(|id| calls.is_open_question(id))
    }

    /// The outcome of `roots/list` for a host that has no roots: its workspace, unless the definition names folders.
    pub(super) fn workspace_roots(&self, owner: &Arc<Caller>) -> Option<String> {
        if !self.lends_workspace {
            return None;
        }
        let roots = owner.workspace_as_roots()?;
        self.roots.was_told.store(true, Ordering::Relaxed);
        Some(format!(r#""result":{roots}"#))
    }
}

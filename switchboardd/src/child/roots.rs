//! Roots of a child that is one session's own: which it is told, and that its first call waits for them.
//!
//! Servers that follow roots ask for them right after the handshake. A call that overtakes the answer would find a
//! server that knows no folder yet.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use switchboard_wire::envelope::{range_of, splice, string};
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

use super::calls::ChildQuestion;
use super::{Child, Ownership};
use crate::caller::Caller;
use crate::era::ProtocolEra;
use crate::methods;

/// A host that does not answer `roots/list` holds up the first call for this long.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(2);

/// Some servers send what they ask a moment after they answered the next request.
const LATE_QUESTION_GRACE: Duration = Duration::from_millis(20);

/// How often we look whether the host has answered.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Servers look at the folders on the disk before they use them.
const FOLDER_CHECK_GRACE: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct Roots {
    /// Whether a host without roots lends its workspace as a root.
    lends_workspace: bool,
    /// The first call need not wait any longer.
    ready: AtomicBool,
    waited: OnceCell<()>,
    /// The child's ids of its requests for roots that went to the host.
    // A leaf lock: held for a look or an insert.
    asked: Mutex<Vec<Box<str>>>,
    was_told: AtomicBool,
    // A leaf lock: held for a look or a change.
    late: Mutex<Option<Late>>,
}

/// The host has not answered `roots/list` in time, and the child was told that there are none.
#[derive(Debug)]
enum Late {
    /// The host has the question still. Some ask their person first, or have just been started.
    Open { host: Arc<Caller>, ours: Box<str> },
    /// What the host answered, and where the id is in it: for the child, which was told to ask again.
    Answered { response: Vec<u8>, id: Range<usize> },
}

impl Roots {
    pub(super) fn new(lends_workspace: bool) -> Self {
        Self { lends_workspace, ..Self::default() }
    }

    fn late(&self) -> MutexGuard<'_, Option<Late>> {
        self.late.lock().expect("BUG: a note panicked")
    }

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
        let is_owned = matches!(self.ownership(), Ownership::Host(_));
        if is_owned && self.era() == ProtocolEra::Legacy && !self.is_remote() {
            self.roots.waited.get_or_init(|| self.roots_told()).await;
        }
        self.roots.ready.store(true, Ordering::Relaxed);
    }

    async fn roots_told(self: &Arc<Self>) {
        let until = Instant::now() + ROOTS_TIMEOUT;
        // A server that answers this has taken `initialized` in, and has asked by now if it asks at all.
        self.answers(ROOTS_TIMEOUT).await;
        if !self.roots.was_told.load(Ordering::Relaxed) {
            sleep(LATE_QUESTION_GRACE).await;
        }
        while Instant::now() < until && self.is_asking_for_roots() {
            sleep(POLL_INTERVAL).await;
        }
        if self.roots.was_told.load(Ordering::Relaxed) {
            sleep(FOLDER_CHECK_GRACE).await;
        }
    }

    fn is_asking_for_roots(&self) -> bool {
        let asked = self.roots.asked.lock().expect("BUG: a note panicked").clone();
        let calls = self.calls();
        asked.iter().any(|id| calls.is_open_question(id))
    }

    /// There may be other roots than those the host has told of.
    pub fn roots_changed(&self) {
        self.roots.late().take_if(|late| matches!(late, Late::Answered { .. }));
        self.tell_roots_changed();
    }

    fn tell_roots_changed(&self) {
        if self.era() == ProtocolEra::Modern {
            return;
        }
        self.notify(&rpc::notification(methods::ROOTS_CHANGED, None));
    }

    /// A host did not answer these in time: the child goes on without roots. The host is not told to stop: what it
    /// answers later reaches the child, too.
    pub(super) fn do_without_roots(&self, unanswered: Vec<(Box<str>, ChildQuestion)>) {
        for (theirs, question) in unanswered {
            self.withdraw_late_roots("the server has asked again");
            *self.roots.late() = Some(Late::Open { host: question.caller, ours: question.ours });
            self.reply(&theirs, r#""result":{"roots":[]}"#);
        }
    }

    /// Whether this is a host's late answer to `roots/list`. The child is told to ask again.
    pub(super) fn take_late_roots(&self, response: &[u8], host_id: Raw<'_>) -> bool {
        let host = {
            let mut late = self.roots.late();
            let Some(Late::Open { host, ours }) = &*late else { return false };
            if string(host_id).as_deref() != Some(&**ours) {
                return false;
            }
            let host = host.clone();
            let id = range_of(response, host_id.get());
            *late = Some(Late::Answered { response: response.to_vec(), id });
            host
        };
        // A session that ends answers what it was asked.
        if !host.is_closed() {
            self.tell_roots_changed();
        }
        true
    }

    /// Answers a `roots/list` of the child with what its host said too late before. If the host has not said anything
    /// yet, it is asked anew.
    pub(super) fn tell_late_roots(&self, theirs: &str) -> bool {
        let answered = self.roots.late().take_if(|late| matches!(late, Late::Answered { .. }));
        if let Some(Late::Answered { response, id }) = answered {
            self.notify(&splice(&response, id, theirs.as_bytes()));
            return true;
        }
        self.withdraw_late_roots("the server has asked again");
        false
    }

    pub(super) fn withdraw_late_roots(&self, why: &str) {
        let late = self.roots.late().take();
        if let Some(Late::Open { host, ours }) = late {
            host.withdraw(&ours, why);
        }
    }

    /// The outcome of `roots/list` for a host that has no roots: its workspace, unless the definition names folders.
    pub(super) fn workspace_roots(&self, owner: &Arc<Caller>) -> Option<String> {
        if !self.roots.lends_workspace {
            return None;
        }
        let roots = owner.workspace_as_roots()?;
        self.roots.was_told.store(true, Ordering::Relaxed);
        Some(format!(r#""result":{roots}"#))
    }
}

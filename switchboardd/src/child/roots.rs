//! Roots of a child that belongs to one session: how it is told the host's roots, and how its first
//! call waits for them.
//!
//! Servers that use roots request them right after the handshake. A call that overtakes the answer would
//! reach a server that knows no folder yet.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use switchboard_mcp::era::ProtocolEra;
use switchboard_mcp::methods;
use switchboard_wire::envelope::{range_of, splice, string};
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

use super::calls::ChildQuestion;
use super::{Child, Ownership};
use crate::caller::{Caller, folder_as_roots};

/// How long the first call waits for a host that does not answer `roots/list`.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(2);

/// Some servers send `roots/list` a moment after they answered a `ping`.
const LATE_QUESTION_GRACE: Duration = Duration::from_millis(20);

/// How often the daemon checks whether the host has answered.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Servers check the folders on disk before they use them.
const FOLDER_CHECK_GRACE: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct Roots {
    /// Whether a host without roots has its workspace listed as its root.
    lends_workspace: bool,
    /// Calls no longer wait for roots.
    ready: AtomicBool,
    waited: OnceCell<()>,
    /// Ids of the child's `roots/list` requests that were passed to the host.
    // A leaf lock: held to copy or push.
    asked: Mutex<Vec<Box<str>>>,
    was_told: AtomicBool,
    // A leaf lock: held to read or change it.
    late: Mutex<Option<LateRoots>>,
}

/// A `roots/list` that the host did not answer in time; the child was told that there are no roots.
#[derive(Debug)]
enum LateRoots {
    /// The host still has the question. Some hosts ask their user first, or have just been started.
    Open { host: Arc<Caller>, ours: Box<str> },
    /// The host's late answer, and the range of its id. The child was told to ask again and then gets it.
    Answered { response: Vec<u8>, id: Range<usize> },
}

impl Roots {
    pub(super) fn new(lends_workspace: bool) -> Self {
        Self { lends_workspace, ..Self::default() }
    }

    fn late(&self) -> MutexGuard<'_, Option<LateRoots>> {
        self.late.lock().expect("BUG: a note panicked")
    }

    /// Records that the child's request `id` was passed to the host.
    pub(super) fn asked(&self, id: &str) {
        self.was_told.store(true, Ordering::Relaxed);
        if !self.ready.load(Ordering::Relaxed) {
            self.asked.lock().expect("BUG: a note panicked").push(id.into());
        }
    }
}

impl Child {
    /// Resolves when a session's own child has the roots that it requested after its
    /// handshake, or on timeout.
    pub async fn wait_for_roots(self: &Arc<Self>) {
        if self.roots.ready.load(Ordering::Relaxed) {
            return;
        }
        let is_owned = matches!(self.ownership(), Ownership::Host(_) | Ownership::Workspace(_));
        if is_owned && self.era() == ProtocolEra::Legacy && !self.is_remote() {
            self.roots.waited.get_or_init(|| self.roots_told()).await;
        }
        self.roots.ready.store(true, Ordering::Relaxed);
    }

    async fn roots_told(self: &Arc<Self>) {
        let until = Instant::now() + ROOTS_TIMEOUT;
        // A server that answers this has processed `initialized`, and has asked for roots if it ever does.
        self.is_responsive(ROOTS_TIMEOUT).await;
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

    /// The roots may have changed: drops the host's late answer and tells the child.
    pub fn roots_changed(&self) {
        self.roots.late().take_if(|late| matches!(late, LateRoots::Answered { .. }));
        self.tell_roots_changed();
    }

    fn tell_roots_changed(&self) {
        if self.era() == ProtocolEra::Modern {
            return;
        }
        self.notify(&rpc::notification(methods::ROOTS_CHANGED, None));
    }

    /// The host did not answer these `roots/list` requests in time: the child gets an empty list. The host
    /// keeps the question, and its late answer still reaches the child.
    pub(super) fn answer_no_roots(&self, unanswered: Vec<(Box<str>, ChildQuestion)>) {
        for (theirs, question) in unanswered {
            self.withdraw_late_roots("the server has asked again");
            *self.roots.late() = Some(LateRoots::Open { host: question.caller, ours: question.ours });
            self.reply(&theirs, r#""result":{"roots":[]}"#);
        }
    }

    /// Takes a host's late answer to `roots/list` and tells the child to ask again. False
    /// for any other answer.
    pub(super) fn take_late_roots(&self, response: &[u8], host_id: Raw<'_>) -> bool {
        let host = {
            let mut late = self.roots.late();
            let Some(LateRoots::Open { host, ours }) = &*late else { return false };
            if string(host_id).as_deref() != Some(&**ours) {
                return false;
            }
            let host = host.clone();
            let id = range_of(response, host_id.get());
            *late = Some(LateRoots::Answered { response: response.to_vec(), id });
            host
        };
        // A session that ends answers its open questions itself; the child need not ask again.
        if !host.is_closed() {
            self.tell_roots_changed();
        }
        true
    }

    /// Answers a `roots/list` of the child with the late answer of its host. Without one, withdraws the old
    /// question and returns false, so that the host is asked again.
    pub(super) fn tell_late_roots(&self, theirs: &str) -> bool {
        let answered = self.roots.late().take_if(|late| matches!(late, LateRoots::Answered { .. }));
        if let Some(LateRoots::Answered { response, id }) = answered {
            self.notify(&splice(&response, id, theirs.as_bytes()));
            return true;
        }
        self.withdraw_late_roots("the server has asked again");
        false
    }

    pub(super) fn withdraw_late_roots(&self, why: &str) {
        let late = self.roots.late().take();
        if let Some(LateRoots::Open { host, ours }) = late {
            host.withdraw(&ours, why);
        }
    }

    /// The outcome of `roots/list` for a host without roots: its workspace, unless the
    /// definition names folders.
    pub(super) fn workspace_roots(&self, owner: &Arc<Caller>) -> Option<String> {
        if !self.roots.lends_workspace {
            return None;
        }
        let roots = owner.workspace_as_roots()?;
        self.roots.was_told.store(true, Ordering::Relaxed);
        Some(format!(r#""result":{roots}"#))
    }

    /// The outcome of `roots/list` for a child of a workspace: that one, unless the definition names folders.
    pub(super) fn roots_of_workspace(&self, root: &Path) -> Option<String> {
        let roots = folder_as_roots(root).filter(|_| self.roots.lends_workspace)?;
        self.roots.was_told.store(true, Ordering::Relaxed);
        Some(format!(r#""result":{roots}"#))
    }
}

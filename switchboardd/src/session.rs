//! The daemon's record of one host's conversation: who the host is, the order of its messages, and its
//! requests in flight.

mod all;
mod disconnects;
mod face;
mod sequencer;
mod streams;
pub mod suspended_calls;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use switchboard_definitions::discover::host_files::ProjectHost;
use switchboard_wire::id_map::IdMap;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use all::Sessions;
pub use disconnects::Disconnects;
pub use face::Face;
pub use sequencer::{Admission, SequenceTicket};
pub use streams::{EventId, ReadGuard, Streams};

use crate::caller::{Caller, RunId};
use crate::catalog::workspace::Workspace;
use crate::catalog::{Catalog, ListFingerprints, ShownTools};
use sequencer::Sequencer;

/// Limit of named clients without a session, per workspace.
const MAX_NAMED_CALLERS: usize = 64;

#[derive(Debug)]
pub struct Session {
    pub id: Box<str>,
    /// The workspace whose catalog it sees.
    // A leaf lock: held to copy or replace the handle.
    workspace: RwLock<Arc<Workspace>>,
    /// The directory in which its shim was started; over HTTP, the workspace's root.
    pub folder: Option<PathBuf>,
    /// Whether a shim opened it: then there is a host with a user behind it.
    pub is_shims: bool,
    pub face: Face,
    pub caller: Arc<Caller>,
    /// The event streams of a host that speaks HTTP.
    pub streams: Option<Arc<Streams>>,
    /// Fingerprints of the lists that the host was last shown or notified of; `list_changes` compares them.
    // A leaf lock: held to copy or replace it.
    fingerprints: Mutex<Option<ListFingerprints>>,
    /// The tools that the host was last shown.
    // A leaf lock: held to copy or replace the handle.
    shown_tools: RwLock<Option<Arc<ShownTools>>>,
    // A leaf lock: held for an insert or a lookup.
    asked: Mutex<HashSet<String>>,
    /// Sessionless modern clients, by the name that they give.
    // A leaf lock: held for a lookup or an insert.
    named: Mutex<HashMap<Box<str>, Arc<Caller>>>,
    pub opened: Instant,
    sequencer: Sequencer,
    // A leaf lock: held for an insert, a removal or a search.
    open_requests: Mutex<OpenRequests>,
    connections: AtomicUsize,
    /// The process id of its shim; 0 if unknown.
    shim: AtomicU32,
    told_draining: AtomicBool,
}

#[derive(Debug, Default)]
struct OpenRequests {
    issued: u64,
    open: IdMap<OpenRequest>,
}

#[derive(Debug)]
struct OpenRequest {
    host_id: Box<str>,
    abort: oneshot::Sender<AbortReason>,
}

/// Why a request was aborted before its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbortReason {
    /// Its caller cancelled it.
    Cancelled,
    /// The daemon is shutting down, and the time to finish requests is over.
    ShuttingDown,
}

impl Session {
    /// A session that a shim opens.
    pub fn open(
        run_id: &Arc<RunId>,
        workspace: &Arc<Workspace>,
        folder: Option<PathBuf>,
        face: Face,
    ) -> Arc<Self> {
        let id = switchboard_wire::random::hex(16).into();
        Self::new(id, workspace, folder, face, Caller::for_session(run_id.clone()), None)
    }

    /// A session of a host that speaks HTTP.
    pub fn over_http(run_id: &Arc<RunId>, workspace: &Arc<Workspace>, face: Face) -> Arc<Self> {
        let caller = Caller::for_session(run_id.clone());
        let streams = caller.mailbox().map(|own| Streams::new(own.clone()));
        let (id, folder) = (switchboard_wire::random::hex(16).into(), workspace.root.clone());
        Self::new(id, workspace, folder, face, caller, streams)
    }

    /// The session that all sessionless callers of a workspace share: they get answers and nothing else.
    pub fn anonymous(workspace: &Arc<Workspace>) -> Arc<Self> {
        Self::new("".into(), workspace, None, Face::Aggregate, Caller::anonymous(), None)
    }

    fn new(
        id: Box<str>,
        workspace: &Arc<Workspace>,
        folder: Option<PathBuf>,
        face: Face,
        caller: Arc<Caller>,
        streams: Option<Arc<Streams>>,
    ) -> Arc<Self> {
        workspace.root.iter().for_each(|root| caller.set_folder(root));
        // For the face of a single child, comparison starts when its lists are first shown.
        let has_suites = !id.is_empty() && face.child().is_none();
        let fingerprints = has_suites.then(|| ListFingerprints::of_tools(&workspace.catalog()));
        Arc::new(Self {
            is_shims: !id.is_empty() && streams.is_none(),
            id,
            workspace: RwLock::new(workspace.clone()),
            folder,
            face,
            caller,
            streams,
            fingerprints: Mutex::new(fingerprints),
            shown_tools: RwLock::default(),
            asked: Mutex::default(),
            named: Mutex::default(),
            opened: Instant::now(),
            sequencer: Sequencer::default(),
            open_requests: Mutex::default(),
            connections: AtomicUsize::new(0),
            shim: AtomicU32::new(0),
            told_draining: AtomicBool::new(false),
        })
    }

    /// The owner of a modern request. Sessionless requests are owned by the client name that they give,
    /// because things that belong to one host, such as a child with its roots, are not shared with others.
    pub fn request_owner(&self, client: Option<&str>) -> Arc<Caller> {
        let Some(client) = client.filter(|_| self.id.is_empty()) else { return self.caller.clone() };
        let mut named = self.named.lock().expect("BUG: a copy panicked");
        if let Some(known) = named.get(client) {
            return known.clone();
        }
        if named.len() >= MAX_NAMED_CALLERS {
            named.retain(|_, caller| Arc::strong_count(caller) > 1);
        }
        if named.len() >= MAX_NAMED_CALLERS {
            return self.caller.clone();
        }
        named.entry(client.into()).or_insert_with(Caller::named).clone()
    }

    /// The process id of its shim.
    pub fn shim(&self) -> Option<u32> {
        Some(self.shim.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
    }

    pub fn set_shim_pid(&self, shim: u32) {
        self.shim.store(shim, Ordering::Relaxed);
    }

    pub fn workspace(&self) -> Arc<Workspace> {
        self.workspace.read().expect("BUG: a copy panicked").clone()
    }

    /// What its host sees.
    pub fn catalog(&self) -> Arc<Catalog> {
        match self.face.child() {
            // The user chose the server for this host.
            Some(_) => self.workspace().catalog(),
            None => self.catalog_for(|| self.caller.profile().client_name()),
        }
    }

    /// What a host of this name sees. `client` is called only where hosts see different suites.
    pub fn catalog_for(&self, client: impl FnOnce() -> Option<String>) -> Arc<Catalog> {
        let workspace = self.workspace();
        let catalog = workspace.catalog();
        match catalog.is_for_all() {
            true => catalog,
            false => catalog.for_host(self.file_reader(&workspace, client)),
        }
    }

    /// The host, if it reads files of the workspace itself.
    pub fn file_reader(
        &self,
        workspace: &Workspace,
        client: impl FnOnce() -> Option<String>,
    ) -> Option<ProjectHost> {
        let is_below = self.folder.as_ref().zip(workspace.root.as_ref()).is_some_and(|(folder, root)| {
            folder.strip_prefix(root).is_ok_and(|below| below.components().next().is_some())
        });
        let host = ProjectHost::of_client(&client()?)?;
        (!is_below || host.searches_parents()).then_some(host)
    }

    /// Replaces the workspace, when it took longer to load than a host waits.
    pub fn set_workspace(&self, workspace: Arc<Workspace>) {
        workspace.root.iter().for_each(|root| self.caller.set_folder(root));
        *self.workspace.write().expect("BUG: a copy panicked") = workspace;
    }

    pub fn is_in(&self, workspace: &Workspace) -> bool {
        std::ptr::eq(&**self.workspace.read().expect("BUG: a copy panicked"), workspace)
    }

    /// Fingerprints of the lists that the host was last shown or notified of; `None` if it was shown none.
    pub fn fingerprints(&self) -> Option<ListFingerprints> {
        self.fingerprints.lock().expect("BUG: a copy panicked").clone()
    }

    pub fn set_fingerprints(&self, now: ListFingerprints) {
        *self.fingerprints.lock().expect("BUG: a copy panicked") = Some(now);
    }

    /// The tools that the host was last shown; `None` if it was shown none. Its calls are judged by them.
    pub fn shown_tools(&self) -> Option<Arc<ShownTools>> {
        self.shown_tools.read().expect("BUG: a copy panicked").clone()
    }

    pub fn set_shown_tools(&self, shown: Arc<ShownTools>) {
        // Callers without a session share one.
        if !self.id.is_empty() {
            *self.shown_tools.write().expect("BUG: a copy panicked") = Some(shown);
        }
    }

    /// True the first time for each `what`: a session is asked each question only once.
    pub fn may_ask(&self, what: &str) -> bool {
        self.asked.lock().expect("BUG: bookkeeping panicked").insert(what.to_owned())
    }

    /// Takes a place in the order of this session's messages.
    pub fn admit(self: &Arc<Self>, seq: u64) -> Admission {
        Sequencer::admit(self.clone(), seq)
    }

    /// Registers a request while it is in flight.
    pub fn register_request(
        self: &Arc<Self>,
        host_id: &str,
    ) -> (RequestGuard, oneshot::Receiver<AbortReason>) {
        let (abort, aborted) = oneshot::channel();
        let mut requests = self.open_requests();
        requests.issued += 1;
        let number = requests.issued;
        requests.open.insert(number, OpenRequest { host_id: host_id.into(), abort });
        (RequestGuard { session: self.clone(), number }, aborted)
    }

    /// Aborts a request that the host has cancelled. Unknown ids are ignored.
    pub fn cancel(&self, host_id: &str) {
        let mut requests = self.open_requests();
        let number =
            requests.open.iter().find(|(_, request)| &*request.host_id == host_id).map(|(at, _)| *at);
        if let Some(request) = number.and_then(|number| requests.open.remove(&number)) {
            let _ = request.abort.send(AbortReason::Cancelled);
        }
    }

    pub fn abort_all(&self, why: AbortReason) {
        for (_, request) in self.open_requests().open.drain() {
            let _ = request.abort.send(why);
        }
    }

    pub fn in_flight(&self) -> usize {
        self.open_requests().open.len()
    }

    /// Messages to its host that were dropped.
    pub fn mail_dropped(&self) -> u64 {
        self.caller.mailbox().map_or(0, |mailbox| mailbox.dropped_count())
    }

    pub fn add_connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// True if that was the last connection.
    pub fn remove_connection(&self) -> bool {
        self.connections.fetch_sub(1, Ordering::Relaxed) == 1
    }

    pub fn is_connected(&self) -> bool {
        self.connections() > 0
    }

    /// True the first time: the start of draining interrupts one waiting poll.
    pub fn tell_draining(&self) -> bool {
        !self.told_draining.swap(true, Ordering::Relaxed)
    }

    fn open_requests(&self) -> std::sync::MutexGuard<'_, OpenRequests> {
        self.open_requests.lock().expect("BUG: bookkeeping panicked")
    }
}

/// A registered request; dropping the guard removes it.
#[derive(Debug)]
pub struct RequestGuard {
    session: Arc<Session>,
    number: u64,
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.session.open_requests().open.remove(&self.number);
    }
}

//! The daemon's state: what every route shares. How it is kept current is in `reload.rs`.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use switchboard_wire::hop::Draining;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::budget::Budget;
use crate::caller::{Caller, RunId};
use crate::catalog::Catalog;
use crate::child::{ChildRegistry, RunLog, Runners};
use crate::config::Config;
use crate::daemon_info::DaemonInfo;
use crate::document::Problem;
use crate::layer::Locations;
use crate::listen_requests::ListenRequests;
use crate::manifest::Manifests;
use crate::metrics::series::EntryPoint;
use crate::oauth::Logins;
use crate::page_access::PageAccess;
use crate::pool::{ChildServices, Member, MemberRegistry, Pools};
use crate::reload::{self, ValueChecks};
use crate::savings::SavingsCache;
use crate::savings_recorder::SavingsRecorder;
use crate::session::{AbortReason, Session, Sessions};
use crate::suspended_calls::SuspendedCalls;
use crate::value_resolver::ValueResolver;
use crate::watch::Watcher;
use crate::workspace::{Workspace, Workspaces};

/// On the unix socket a session outlives its last connection by this.
const SESSION_LINGER: Duration = Duration::from_secs(2);

/// A session over HTTP ends this long after its host was last heard of.
const HTTP_SESSION: Duration = Duration::from_secs(90);

/// How far the daemon is with going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Serving,
    /// Calls in flight finish, nothing new begins.
    Draining(Draining),
    /// They have: whoever still waits for mail is sent away.
    Leaving(Draining),
}

impl Phase {
    /// What a shim is to make of the daemon's going, if it goes.
    pub fn draining(self) -> Option<Draining> {
        match self {
            Self::Serving => None,
            Self::Draining(draining) | Self::Leaving(draining) => Some(draining),
        }
    }
}

/// Another binary that stands where this daemon's was.
#[derive(Debug, Clone)]
pub struct Successor {
    pub binary: PathBuf,
    pub version: Option<String>,
    /// Why it cannot take over.
    pub problem: Option<String>,
}

#[derive(Debug)]
pub struct Daemon {
    pub run_id: Arc<RunId>,
    pub sessions: Sessions,
    /// One for each workspace that is asked about without a session.
    // A leaf lock: held for an insert, a look or a removal.
    anonymous_sessions: Mutex<Vec<Arc<Session>>>,
    pub services: ChildServices,
    /// Calls that wait for their hosts to come back with answers.
    pub suspended_calls: Arc<SuspendedCalls>,
    /// Requests that stay open to hear of changes.
    pub listen_requests: ListenRequests,
    pub pools: Pools,
    /// What those see who belong to no workspace.
    pub personal: Arc<Workspace>,
    pub workspaces: Workspaces,
    pub locations: Locations,
    pub token: String,
    /// Browsers that look on.
    pub page_access: Arc<PageAccess>,
    pub started: Instant,
    pub config_file: PathBuf,
    /// What was last found to be saved.
    pub savings: SavingsCache,
    /// Set once it serves.
    pub info: OnceLock<DaemonInfo>,
    /// What the config said of the TCP address when the daemon started.
    pub(crate) listen: String,
    /// Whoever reloads holds it: one at a time.
    pub(crate) reloading: tokio::sync::Mutex<()>,
    // Held while folders are watched, beside the one thread that works; who finds it held does without.
    pub(crate) watcher: Arc<Mutex<Watcher>>,
    /// What the values of `${…}` were last found to be made of.
    pub(crate) checks: Arc<ValueChecks>,
    /// It is time to look again.
    pub(crate) changed: Arc<Notify>,
    /// Why the config that stands there is not the one that is used.
    // A leaf lock: held to compare or copy.
    pub(crate) broken_config: Mutex<Vec<Problem>>,
    // A leaf lock: held to copy or replace it.
    successor: Mutex<Option<Successor>>,
    phase: watch::Sender<Phase>,
    requests: AtomicUsize,
    total_requests: AtomicU64,
    idle: Notify,
    // A leaf lock: held for an insert or a look.
    disconnects: Mutex<Disconnects>,
    /// A session went, or is known to have heard that the daemon goes.
    session_left: Notify,
}

/// What is remembered of sessions' comings and goings.
#[derive(Debug, Default)]
struct Disconnects {
    /// Sessions that know that the daemon goes.
    drain_acked: HashSet<Box<str>>,
    /// When the last connection of a session closed, the latest time it did.
    disconnected_at: HashMap<Box<str>, Instant>,
}

impl Daemon {
    /// `config`: what `config_file` says.
    pub fn new(
        config_file: PathBuf,
        config: Config,
        locations: Locations,
        token: String,
        run_log: RunLog,
    ) -> Arc<Self> {
        let registry = Arc::new(ChildRegistry::default());
        let members = Arc::new(MemberRegistry::default());
        let resolver = Arc::new(ValueResolver::new(&config.folder, &locations.state));
        let services = ChildServices {
            logins: Arc::new(Logins::new(&locations.state, &resolver)),
            value_resolver: resolver,
            budget: Arc::new(Budget::new(registry.clone(), members.clone())),
            registry,
            members,
            manifests: Manifests::new(&locations.state),
            run_log: Arc::new(run_log),
            runners: Arc::new(Runners::new(&locations.state, &config.folder)),
            list_changes: Arc::default(),
            status_changed: Arc::default(),
            level: Arc::default(),
            http_clients: Arc::default(),
            metrics: Arc::default(),
            savings_recorder: SavingsRecorder::new(&locations.state),
        };
        services.budget.set(config.budget);
        services.logins.set(config.oauth.clone());
        let listen = config.http.listen.clone();
        let pools = Pools::default();
        let (layer, memory) = reload::load_personal(config, &locations, &services.manifests);
        let catalog = Catalog::build(&layer, None, &pools, &services, 1);
        reload::report(&catalog, None);
        let personal = Workspace::new(None, catalog, memory);
        let changed = Arc::new(Notify::new());
        let run_id = RunId::new();
        Arc::new(Self {
            suspended_calls: SuspendedCalls::new(run_id.name()),
            listen_requests: ListenRequests::default(),
            run_id,
            sessions: Sessions::default(),
            anonymous_sessions: Mutex::default(),
            services,
            pools,
            personal,
            workspaces: Workspaces::default(),
            locations,
            token,
            page_access: Arc::default(),
            started: Instant::now(),
            config_file,
            savings: SavingsCache::default(),
            info: OnceLock::new(),
            listen,
            reloading: tokio::sync::Mutex::default(),
            watcher: Arc::new(Mutex::new(Watcher::new(changed.clone()))),
            checks: Arc::default(),
            changed,
            broken_config: Mutex::default(),
            successor: Mutex::default(),
            phase: watch::Sender::new(Phase::Serving),
            requests: AtomicUsize::new(0),
            total_requests: AtomicU64::new(0),
            idle: Notify::new(),
            disconnects: Mutex::default(),
            session_left: Notify::new(),
        })
    }

    /// What is set for the daemon as a whole stands here, too.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.personal.catalog()
    }

    /// Whoever asks about this workspace without a session.
    pub fn anonymous_session(&self, workspace: &Arc<Workspace>) -> Arc<Session> {
        let mut all = self.anonymous_sessions();
        if let Some(known) = all.iter().find(|session| session.is_in(workspace)) {
            return known.clone();
        }
        let session = Session::anonymous(workspace);
        // One that was let go meanwhile is nobody's to remember.
        if workspace.root.is_none() || self.workspaces.has(workspace) {
            all.push(session.clone());
        }
        session
    }

    pub(crate) fn all_anonymous_sessions(&self) -> Vec<Arc<Session>> {
        self.anonymous_sessions().clone()
    }

    pub(crate) fn forget_anonymous_session(&self, workspace: &Workspace) {
        self.anonymous_sessions().retain(|session| !session.is_in(workspace));
    }

    /// How many folders are watched for changes, and whether somebody has to look now and then all the same; `None`
    /// while that changes.
    pub fn watched(&self) -> Option<(usize, bool)> {
        self.watcher.try_lock().ok().map(|watcher| (watcher.folders(), watcher.has_failed()))
    }

    fn anonymous_sessions(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Session>>> {
        self.anonymous_sessions.lock().expect("BUG: bookkeeping panicked")
    }

    /// Why the personal config is not the one that its file says.
    pub fn broken_config(&self) -> Vec<Problem> {
        self.broken_config.lock().expect("BUG: a note panicked").clone()
    }

    /// A host's roots changed: the children that are its own are told.
    pub fn roots_changed(&self, caller: &Arc<Caller>) {
        for child in self.services.registry.all() {
            if child.is_owned_by(caller) {
                child.roots_changed();
            }
        }
    }

    /// What takes over when nothing is under way, if the binary was replaced.
    pub fn successor(&self) -> Option<Successor> {
        self.successor.lock().expect("BUG: a copy panicked").clone()
    }

    pub fn set_successor(&self, successor: Option<Successor>) {
        *self.successor.lock().expect("BUG: a copy panicked") = successor;
    }

    /// Whether another daemon could go on with everything: no call, no child that keeps something for one session, no
    /// session that would not find its way there, no person who is logging in, nobody who was asked something.
    pub fn can_hand_over(&self) -> bool {
        let is_free = |child: &Arc<crate::child::Child>| child.in_flight() == 0 && !child.is_owned();
        let is_unused = |member: &Arc<Member>| member.leases() == 0 && !member.has_suspended_calls();
        self.requests.load(Ordering::Relaxed) == 0
            && self.services.registry.all().iter().all(is_free)
            && self.services.members.all().iter().all(is_unused)
            && self.sessions.all().iter().all(|session| session.is_shims)
            && !self.services.logins.any_open()
            && !self.suspended_calls.is_awaited()
    }

    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// What shims are to make of the daemon's going, if it goes.
    pub fn draining(&self) -> Option<Draining> {
        self.phase.borrow().draining()
    }

    /// Resolves when the daemon begins to go.
    pub async fn wait_for_drain(&self) -> Draining {
        let mut phase = self.phase();
        let gone = phase.wait_for(|phase| phase.draining().is_some()).await;
        gone.ok().and_then(|phase| phase.draining()).unwrap_or(Draining::Stop)
    }

    /// From now on nothing new is taken in.
    pub fn drain(&self, draining: Draining) {
        self.phase.send_if_modified(|phase| {
            // What has begun is not undone: neither a stop by a restart, nor the leaving by anything.
            let later = match *phase {
                Phase::Serving => true,
                Phase::Draining(before) => before == Draining::Restart && draining == Draining::Stop,
                Phase::Leaving(_) => false,
            };
            if later {
                *phase = Phase::Draining(draining);
            }
            later
        });
    }

    /// A session asked for more mail after it was told that the daemon goes: it sends nothing new.
    pub fn ack_drain(&self, session: &Session) {
        self.disconnects().drain_acked.insert(session.id.clone());
        self.session_left.notify_waiters();
    }

    /// Resolves when every session that is connected knows that the daemon goes.
    pub async fn wait_for_drain_acks(&self) {
        loop {
            let parted = self.session_left.notified();
            let waits = |session: &Arc<Session>| {
                session.is_connected() && !self.disconnects().drain_acked.contains(&session.id)
            };
            if !self.sessions.all().iter().any(waits) {
                return;
            }
            parted.await;
        }
    }

    /// Nothing is under way any more: the mailboxes close.
    pub fn leave(&self) {
        self.phase.send_modify(|phase| {
            if let Phase::Draining(draining) = *phase {
                *phase = Phase::Leaving(draining);
            }
        });
    }

    /// Counts a request, and as one under way if it `is_awaited`: then [`Daemon::end_request`] has to follow. One that stays
    /// open for as long as its host likes never has to be finished: a daemon that goes tells it so.
    pub fn begin_request(&self, is_awaited: bool) {
        if is_awaited {
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
        self.total_requests.fetch_add(1, Ordering::Relaxed);
        self.services.status_changed.notify();
    }

    /// A request that was under way is over.
    pub fn end_request(&self) {
        if self.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.idle.notify_waiters();
        }
        self.services.status_changed.notify();
    }

    /// How many requests there have been.
    pub fn total_requests(&self) -> u64 {
        self.total_requests.load(Ordering::Relaxed)
    }

    /// Resolves when no request is under way.
    pub async fn wait_idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.requests.load(Ordering::Relaxed) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Ends everything that is still under way, with a fault.
    pub fn abort_all(&self) {
        let abort = |session: &Arc<Session>| session.abort_all(AbortReason::ShuttingDown);
        self.all_anonymous_sessions().iter().for_each(abort);
        self.sessions.all().iter().for_each(abort);
    }

    /// A connection of this session closed; with the last one the session ends, a little later.
    pub fn disconnected(self: &Arc<Self>, session: &Arc<Session>) {
        if !session.disconnected() {
            return;
        }
        let left = Instant::now();
        self.disconnects().disconnected_at.insert(session.id.clone(), left);
        self.session_left.notify_waiters();
        let (daemon, session) = (self.clone(), session.clone());
        tokio::spawn(async move {
            tokio::time::sleep_until(left + SESSION_LINGER).await;
            // It may have come back and left again since: then that leaving has a time of its own.
            let is_latest = daemon.disconnects().disconnected_at.get(&session.id) == Some(&left);
            if is_latest && !session.is_connected() {
                daemon.disconnects().disconnected_at.remove(&session.id);
                daemon.end(&session);
            }
        });
    }

    /// A session ends, and what was its own with it.
    pub fn end(&self, session: &Session) {
        tracing::debug!(target: "session", session = &session.id[..8], "ended");
        if self.sessions.remove(&session.id) {
            let via = if session.is_shims { EntryPoint::Shim } else { EntryPoint::Streamable };
            self.services.metrics.session_ended(via, session.opened.elapsed(), session.mail_dropped());
        }
        self.services.status_changed.notify();
        session.caller.close();
        let wanted = session.caller.usage().map_or(0, |usage| usage.processes());
        self.services.savings_recorder.remove_wanted_processes(wanted);
        self.suspended_calls.session_ended(&session.id);
        self.lower_log_level();
        session.workspace().touch();
        self.pools.all().iter().for_each(|pool| pool.session_ended(&session.caller));
    }

    /// Ends a session over HTTP once nothing was heard of its host for a while.
    pub async fn end_when_silent(self: Arc<Self>, session: Arc<Session>) {
        let Some(streams) = &session.streams else { return };
        let mut look = Instant::now() + HTTP_SESSION;
        loop {
            tokio::time::sleep_until(look).await;
            if self.sessions.get(&session.id).is_none() {
                return;
            }
            let now = Instant::now();
            // A call under way is as good as word of its host.
            let heard = streams.silent_since().filter(|_| session.in_flight() == 0).unwrap_or(now);
            look = heard + HTTP_SESSION;
            if look <= now {
                self.end(&session);
                streams.close();
                return;
            }
        }
    }

    fn disconnects(&self) -> std::sync::MutexGuard<'_, Disconnects> {
        self.disconnects.lock().expect("BUG: bookkeeping panicked")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::face::Face;

    /// A daemon without servers.
    fn daemon() -> Arc<Daemon> {
        let folder = Path::new("/nonexistent");
        let locations = Locations::new(folder, folder, &[]);
        Daemon::new(folder.join("x"), Config::defaults(folder), locations, String::new(), RunLog::unwritten())
    }

    #[test]
    fn what_has_begun_is_not_undone() {
        let daemon = daemon();
        let phase = daemon.phase();
        daemon.drain(Draining::Restart);
        daemon.drain(Draining::Stop);
        assert_eq!(*phase.borrow(), Phase::Draining(Draining::Stop));
        daemon.drain(Draining::Restart);
        assert_eq!(*phase.borrow(), Phase::Draining(Draining::Stop));
        daemon.leave();
        daemon.drain(Draining::Restart);
        assert_eq!(*phase.borrow(), Phase::Leaving(Draining::Stop));
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_lingers_from_its_last_connection_on() {
        let daemon = daemon();
        let session = Session::open(&daemon.run_id, &daemon.personal, None, Face::Aggregate);
        daemon.sessions.insert(&session);
        let come_and_go = || {
            session.connected();
            daemon.disconnected(&session);
        };
        let there = || daemon.sessions.get(&session.id).is_some();
        come_and_go();
        tokio::time::sleep(SESSION_LINGER * 3 / 4).await;
        come_and_go();
        tokio::time::sleep(SESSION_LINGER * 3 / 4).await;
        assert!(there());
        tokio::time::sleep(SESSION_LINGER / 2).await;
        assert!(!there());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_over_http_ends_when_its_host_is_silent() {
        let daemon = daemon();
        let session = Session::over_http(&daemon.run_id, &daemon.personal, Face::Aggregate);
        daemon.sessions.insert(&session);
        tokio::spawn(daemon.clone().end_when_silent(session.clone()));
        let there = || daemon.sessions.get(&session.id).is_some();
        let streams = session.streams.as_ref().unwrap();
        tokio::time::sleep(HTTP_SESSION * 3 / 4).await;
        streams.touch();
        let reading = streams.read(streams.own());
        tokio::time::sleep(HTTP_SESSION * 3).await;
        drop(reading);
        tokio::time::sleep(HTTP_SESSION * 3 / 4).await;
        assert!(there());
        tokio::time::sleep(HTTP_SESSION * 2).await;
        assert!(!there() && streams.own().mailbox.is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_going_daemon_waits_for_sessions_to_hear_of_it() {
        let daemon = daemon();
        let (one, other) = (
            Session::open(&daemon.run_id, &daemon.personal, None, Face::Aggregate),
            Session::open(&daemon.run_id, &daemon.personal, None, Face::Aggregate),
        );
        for session in [&one, &other] {
            daemon.sessions.insert(session);
            session.connected();
        }
        let heard = tokio::spawn({
            let daemon = daemon.clone();
            async move { daemon.wait_for_drain_acks().await }
        });
        daemon.ack_drain(&one);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!heard.is_finished());
        daemon.disconnected(&other);
        heard.await.unwrap();
    }
}

//! The switchboard itself: what every route shares. How it is kept current is in `reload.rs`.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use switchboard_wire::hop::Draining;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::budget::Budget;
use crate::caller::{Boot, Caller};
use crate::catalog::Catalog;
use crate::child::{Ledger, Roster, Runners, Tie};
use crate::config::Config;
use crate::document::Problem;
use crate::layer::Ground;
use crate::listens::Listens;
use crate::manifest::Manifests;
use crate::measures::series::Via;
use crate::oauth::Logins;
use crate::pages::Pages;
use crate::parking::Parking;
use crate::pool::{Nursery, Pools};
use crate::reload::{self, Checks};
use crate::savings::Latest;
use crate::session::{Grounded, Session, Sessions};
use crate::sources::Sources;
use crate::thrift::Thrift;
use crate::watch::Watcher;
use crate::whereabouts::Whereabouts;
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
pub struct Board {
    pub boot: Arc<Boot>,
    pub sessions: Sessions,
    /// One for each workspace that is asked about without a session.
    // A leaf lock: held for an insert, a look or a removal.
    strangers: Mutex<Vec<Arc<Session>>>,
    pub nursery: Nursery,
    /// Calls that wait for their hosts to come back with answers.
    pub parking: Arc<Parking>,
    /// Requests that stay open to hear of changes.
    pub listens: Listens,
    pub pools: Pools,
    /// What those see who belong to no workspace.
    pub personal: Arc<Workspace>,
    pub workspaces: Workspaces,
    pub ground: Ground,
    pub token: String,
    /// Browsers that look on.
    pub pages: Arc<Pages>,
    pub started: Instant,
    pub config_file: PathBuf,
    /// What was last found to be saved.
    pub savings: Latest,
    /// Set once it serves.
    pub whereabouts: OnceLock<Whereabouts>,
    /// What the config said of the TCP address when the daemon started.
    pub(crate) listen: String,
    /// Whoever reloads holds it: one at a time.
    pub(crate) reloading: tokio::sync::Mutex<()>,
    // Held while folders are watched, beside the one thread that works; who finds it held does without.
    pub(crate) watcher: Arc<Mutex<Watcher>>,
    /// What the values of `${…}` were last found to be made of.
    pub(crate) checks: Arc<Checks>,
    /// It is time to look again.
    pub(crate) changed: Arc<Notify>,
    /// Why the config that stands there is not the one that is used.
    // A leaf lock: held to compare or copy.
    pub(crate) broken_config: Mutex<Vec<Problem>>,
    // A leaf lock: held to copy or replace it.
    successor: Mutex<Option<Successor>>,
    phase: watch::Sender<Phase>,
    requests: AtomicUsize,
    begun: AtomicU64,
    quiet: Notify,
    // A leaf lock: held for an insert or a look.
    comings: Mutex<Comings>,
    /// A session went, or is known to have heard that the daemon goes.
    parted: Notify,
}

/// What is remembered of sessions' comings and goings.
#[derive(Debug, Default)]
struct Comings {
    /// Sessions that know that the daemon goes.
    heard: HashSet<Box<str>>,
    /// When the last connection of a session closed, the latest time it did.
    left: HashMap<Box<str>, Instant>,
}

impl Board {
    /// `config`: what `config_file` says.
    pub fn new(
        config_file: PathBuf,
        config: Config,
        ground: Ground,
        token: String,
        ledger: Ledger,
    ) -> Arc<Self> {
        let roster = Arc::new(Roster::default());
        let sources = Arc::new(Sources::new(&config.folder, &ground.state));
        let nursery = Nursery {
            logins: Arc::new(Logins::new(&ground.state, &sources)),
            sources,
            budget: Arc::new(Budget::new(roster.clone())),
            roster,
            manifests: Manifests::new(&ground.state),
            ledger: Arc::new(ledger),
            runners: Arc::new(Runners::new(&ground.state, &config.folder)),
            news: Arc::default(),
            pulse: Arc::default(),
            level: Arc::default(),
            dialer: Arc::default(),
            measures: Arc::default(),
            thrift: Thrift::new(&ground.state),
        };
        nursery.budget.set(config.budget);
        nursery.logins.set(config.oauth.clone());
        let listen = config.http.listen.clone();
        let pools = Pools::default();
        let (layer, memory) = reload::first_look(config, &ground, &nursery.manifests);
        let catalog = Catalog::build(&layer, None, &pools, &nursery, 1);
        reload::report(&catalog, None);
        let personal = Workspace::new(None, catalog, memory);
        let changed = Arc::new(Notify::new());
        let boot = Boot::new();
        Arc::new(Self {
            parking: Parking::new(boot.name()),
            listens: Listens::default(),
            boot,
            sessions: Sessions::default(),
            strangers: Mutex::default(),
            nursery,
            pools,
            personal,
            workspaces: Workspaces::default(),
            ground,
            token,
            pages: Arc::default(),
            started: Instant::now(),
            config_file,
            savings: Latest::default(),
            whereabouts: OnceLock::new(),
            listen,
            reloading: tokio::sync::Mutex::default(),
            watcher: Arc::new(Mutex::new(Watcher::new(changed.clone()))),
            checks: Arc::default(),
            changed,
            broken_config: Mutex::default(),
            successor: Mutex::default(),
            phase: watch::Sender::new(Phase::Serving),
            requests: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            quiet: Notify::new(),
            comings: Mutex::default(),
            parted: Notify::new(),
        })
    }

    /// What is set for the daemon as a whole stands here, too.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.personal.catalog()
    }

    /// Whoever asks about this workspace without a session.
    pub fn strangers_of(&self, workspace: &Arc<Workspace>) -> Arc<Session> {
        let mut all = self.strangers();
        if let Some(known) = all.iter().find(|session| session.is_in(workspace)) {
            return known.clone();
        }
        let session = Session::of_strangers(workspace);
        // One that was let go meanwhile is nobody's to remember.
        if workspace.root.is_none() || self.workspaces.has(workspace) {
            all.push(session.clone());
        }
        session
    }

    pub(crate) fn all_strangers(&self) -> Vec<Arc<Session>> {
        self.strangers().clone()
    }

    pub(crate) fn forget_strangers(&self, workspace: &Workspace) {
        self.strangers().retain(|session| !session.is_in(workspace));
    }

    /// How many folders are watched for changes, and whether somebody has to look now and then all the same; `None`
    /// while that changes.
    pub fn watched(&self) -> Option<(usize, bool)> {
        self.watcher.try_lock().ok().map(|watcher| (watcher.folders(), watcher.failed()))
    }

    fn strangers(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Session>>> {
        self.strangers.lock().expect("BUG: bookkeeping panicked")
    }

    /// Why the personal config is not the one that its file says.
    pub fn broken_config(&self) -> Vec<Problem> {
        self.broken_config.lock().expect("BUG: a note panicked").clone()
    }

    /// A host's roots changed: the children that are its own are told.
    pub fn roots_changed(&self, caller: &Arc<Caller>) {
        for child in self.nursery.roster.all() {
            if matches!(child.tie(), Tie::Session(owner) if Arc::ptr_eq(&owner, caller)) {
                child.roots_changed();
            }
        }
    }

    /// What takes over when nothing is under way, if the binary was replaced.
    pub fn successor(&self) -> Option<Successor> {
        self.successor.lock().expect("BUG: a copy panicked").clone()
    }

    pub fn note_successor(&self, successor: Option<Successor>) {
        *self.successor.lock().expect("BUG: a copy panicked") = successor;
    }

    /// Whether another daemon could go on with everything: no call, no child that keeps something for one session, no
    /// session that would not find its way there, no person who is logging in, nobody who was asked something.
    pub fn would_not_be_missed(&self) -> bool {
        let is_free = |child: &Arc<crate::child::Child>| {
            child.is_idle() && !child.is_parked() && !matches!(child.tie(), Tie::Session(_))
        };
        self.requests.load(Ordering::Relaxed) == 0
            && self.nursery.roster.all().iter().all(is_free)
            && self.sessions.all().iter().all(|session| session.is_shims)
            && !self.nursery.logins.any_open()
            && !self.parking.is_awaited()
    }

    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// What shims are to make of the daemon's going, if it goes.
    pub fn draining(&self) -> Option<Draining> {
        self.phase.borrow().draining()
    }

    /// Resolves when the daemon begins to go.
    pub async fn begins_to_drain(&self) -> Draining {
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
    pub fn has_heard(&self, session: &Session) {
        self.comings().heard.insert(session.id.clone());
        self.parted.notify_waiters();
    }

    /// Resolves when every session that is connected knows that the daemon goes.
    pub async fn all_have_heard(&self) {
        loop {
            let parted = self.parted.notified();
            let waits = |session: &Arc<Session>| {
                session.is_connected() && !self.comings().heard.contains(&session.id)
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

    /// Counts a request as under way until what this returns is dropped.
    pub fn begin(self: &Arc<Self>) -> Underway {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.nursery.pulse.beat();
        Underway(self.clone())
    }

    /// Notes a request that stays open for as long as its host likes. It counts as one that came, and never as one that
    /// has to be finished: a daemon that goes tells it so.
    pub fn begin_listening(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.nursery.pulse.beat();
    }

    /// How many requests there have been.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Resolves when no request is under way.
    pub async fn quiet(&self) {
        loop {
            let quiet = self.quiet.notified();
            if self.requests.load(Ordering::Relaxed) == 0 {
                return;
            }
            quiet.await;
        }
    }

    /// Ends everything that is still under way, with a fault.
    pub fn ground_all(&self) {
        let ground = |session: &Arc<Session>| session.ground_all(Grounded::ShuttingDown);
        self.all_strangers().iter().for_each(ground);
        self.sessions.all().iter().for_each(ground);
    }

    /// A connection of this session closed; with the last one the session ends, a little later.
    pub fn disconnected(self: &Arc<Self>, session: &Arc<Session>) {
        if !session.disconnected() {
            return;
        }
        let left = Instant::now();
        self.comings().left.insert(session.id.clone(), left);
        self.parted.notify_waiters();
        let (board, session) = (self.clone(), session.clone());
        tokio::spawn(async move {
            tokio::time::sleep_until(left + SESSION_LINGER).await;
            // It may have come back and left again since: then that leaving has a time of its own.
            let is_latest = board.comings().left.get(&session.id) == Some(&left);
            if is_latest && !session.is_connected() {
                board.comings().left.remove(&session.id);
                board.end(&session);
            }
        });
    }

    /// A session ends, and what was its own with it.
    pub fn end(&self, session: &Session) {
        tracing::debug!(target: "session", session = &session.id[..8], "ended");
        if self.sessions.remove(&session.id) {
            let via = if session.is_shims { Via::Shim } else { Via::Registry };
            self.nursery.measures.stayed(via, session.opened.elapsed(), session.mail_dropped());
        }
        self.nursery.pulse.beat();
        session.caller.close();
        let wanted = session.caller.account().map_or(0, |account| account.processes());
        self.nursery.thrift.wants_no_more(wanted);
        self.parking.session_ended(&session.id);
        self.lower_level();
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

    fn comings(&self) -> std::sync::MutexGuard<'_, Comings> {
        self.comings.lock().expect("BUG: bookkeeping panicked")
    }
}

/// One request under way.
#[derive(Debug)]
pub struct Underway(Arc<Board>);

impl Drop for Underway {
    fn drop(&mut self) {
        if self.0.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.quiet.notify_waiters();
        }
        self.0.nursery.pulse.beat();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::face::Face;

    /// A board with nothing on it.
    fn board() -> Arc<Board> {
        let folder = Path::new("/nonexistent");
        let ground = Ground::new(folder, folder, &[]);
        Board::new(folder.join("x"), Config::defaults(folder), ground, String::new(), Ledger::unwritten())
    }

    #[test]
    fn what_has_begun_is_not_undone() {
        let board = board();
        let phase = board.phase();
        board.drain(Draining::Restart);
        board.drain(Draining::Stop);
        assert_eq!(*phase.borrow(), Phase::Draining(Draining::Stop));
        board.drain(Draining::Restart);
        assert_eq!(*phase.borrow(), Phase::Draining(Draining::Stop));
        board.leave();
        board.drain(Draining::Restart);
        assert_eq!(*phase.borrow(), Phase::Leaving(Draining::Stop));
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_lingers_from_its_last_connection_on() {
        let board = board();
        let session = Session::open(&board.boot, &board.personal, None, Face::Aggregate);
        board.sessions.insert(&session);
        let come_and_go = || {
            session.connected();
            board.disconnected(&session);
        };
        let there = || board.sessions.get(&session.id).is_some();
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
        let board = board();
        let session = Session::over_http(&board.boot, &board.personal, Face::Aggregate);
        board.sessions.insert(&session);
        tokio::spawn(board.clone().end_when_silent(session.clone()));
        let there = || board.sessions.get(&session.id).is_some();
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
        let board = board();
        let (one, other) = (
            Session::open(&board.boot, &board.personal, None, Face::Aggregate),
            Session::open(&board.boot, &board.personal, None, Face::Aggregate),
        );
        for session in [&one, &other] {
            board.sessions.insert(session);
            session.connected();
        }
        let heard = tokio::spawn({
            let board = board.clone();
            async move { board.all_have_heard().await }
        });
        board.has_heard(&one);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!heard.is_finished());
        board.disconnected(&other);
        heard.await.unwrap();
    }
}

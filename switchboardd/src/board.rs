//! The switchboard itself: what every route shares.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use switchboard_wire::hop::Draining;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::budget::Budget;
use crate::caller::{Boot, Caller};
use crate::catalog::Catalog;
use crate::child::{Ledger, Roster, Tie};
use crate::config::Config;
use crate::discover::discover;
use crate::document::Problem;
use crate::environment::LoginShell;
use crate::mailbox::Kind;
use crate::manifest::Manifests;
use crate::methods;
use crate::pool::Nursery;
use crate::session::{Session, Sessions};

/// On the unix socket a session outlives its last connection by this.
const SESSION_LINGER: Duration = Duration::from_secs(2);

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

#[derive(Debug)]
pub struct Board {
    pub boot: Arc<Boot>,
    pub sessions: Sessions,
    pub strangers: Arc<Session>,
    pub nursery: Nursery,
    pub token: String,
    pub started: Instant,
    pub config_file: PathBuf,
    /// What the config said of the TCP address when the daemon started.
    listen: String,
    // Read-mostly: swapped whole by a reload, cloned by everybody else.
    catalog: RwLock<Arc<Catalog>>,
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
    pub fn new(
        config_file: PathBuf,
        config: Config,
        token: String,
        state: &Path,
        ledger: Ledger,
    ) -> Arc<Self> {
        let roster = Arc::new(Roster::default());
        let nursery = Nursery {
            shell: Arc::new(LoginShell::default()),
            budget: Arc::new(Budget::new(roster.clone())),
            roster,
            manifests: Manifests::new(state),
            ledger: Arc::new(ledger),
        };
        nursery.budget.set(config.budget);
        let listen = config.http.listen.clone();
        let found = discover(&config);
        let catalog = Catalog::build(config, found, &nursery, None);
        report(&catalog);
        Arc::new(Self {
            boot: Boot::new(),
            sessions: Sessions::default(),
            strangers: Session::of_strangers(),
            nursery,
            token,
            started: Instant::now(),
            config_file,
            listen,
            catalog: RwLock::new(Arc::new(catalog)),
            phase: watch::Sender::new(Phase::Serving),
            requests: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            quiet: Notify::new(),
            comings: Mutex::default(),
            parted: Notify::new(),
        })
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().expect("BUG: a swap panicked").clone()
    }

    /// Reads everything again; children whose launch did not change go on. A broken config file
    /// leaves everything as it is.
    pub fn reload(&self) -> Result<Arc<Catalog>, Vec<Problem>> {
        let config = Config::load(&self.config_file)?;
        self.nursery.budget.set(config.budget);
        let found = discover(&config);
        let before = self.catalog();
        self.nursery.shell.forget();
        let mut after = Catalog::build(config, found, &self.nursery, Some(&before));
        if after.config.http.listen != self.listen {
            let message =
                "`http.listen` changed: it takes effect after `switchboard stop` and `switchboard start`";
            after.problems.push(Problem {
                file: after.config.file.clone(),
                at: None,
                message: message.to_owned(),
            });
        }
        let after = Arc::new(after);
        report(&after);
        *self.catalog.write().expect("BUG: a swap panicked") = after.clone();
        for pool in before.pools_gone_in(&after) {
            pool.retire();
        }
        after.forgive();
        after.keep_warm();
        if before.tools_list != after.tools_list {
            self.tell_everybody(methods::TOOLS_CHANGED);
        }
        Ok(after)
    }

    fn tell_everybody(&self, changed: &'static str) {
        let body = format!(r#"{{"jsonrpc":"2.0","method":"{changed}"}}"#);
        for session in self.sessions.all() {
            session.caller.push(Kind::Changed(changed), body.clone().into_bytes());
        }
    }

    /// A host's roots changed: the children that are its own are told.
    pub fn roots_changed(&self, caller: &Arc<Caller>) {
        for child in self.nursery.roster.all() {
            if matches!(child.tie(), Tie::Session(owner) if Arc::ptr_eq(&owner, caller)) {
                child.roots_changed();
            }
        }
    }

    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
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
        Underway(self.clone())
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
        self.strangers.ground_all();
        self.sessions.all().iter().for_each(|session| session.ground_all());
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
                tracing::debug!(target: "session", session = &session.id[..8], "ended");
                board.sessions.remove(&session.id);
                session.caller.close();
                board.catalog().suites.iter().filter_map(|suite| suite.pool.as_ref()).for_each(|pool| {
                    pool.session_ended(&session.caller);
                });
            }
        });
    }

    fn comings(&self) -> std::sync::MutexGuard<'_, Comings> {
        self.comings.lock().expect("BUG: bookkeeping panicked")
    }
}

fn report(catalog: &Catalog) {
    for problem in &catalog.problems {
        tracing::warn!(target: "discover", "{problem}");
    }
    tracing::info!(
        target: "catalog",
        generation = catalog.generation,
        suites = catalog.suites.len(),
        "loaded from {}",
        catalog.config.folder.display()
    );
}

/// One request under way.
#[derive(Debug)]
pub struct Underway(Arc<Board>);

impl Drop for Underway {
    fn drop(&mut self) {
        if self.0.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.quiet.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A board with nothing on it.
    fn board() -> Arc<Board> {
        let folder = Path::new("/nonexistent");
        Board::new(folder.join("x"), Config::defaults(folder), String::new(), folder, Ledger::unwritten())
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
        let session = Session::open(&board.boot, None);
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
    async fn a_going_daemon_waits_for_sessions_to_hear_of_it() {
        let board = board();
        let (one, other) = (Session::open(&board.boot, None), Session::open(&board.boot, None));
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

//! All children with one launch key and scope: started once for everybody who waits, shared as the
//! scope says, kept warm, let go when idle, and not started again too often when they keep dying.
//!
//! [`Pool::lease`] is the only way to a child. What to do next is decided in `state.rs` without waiting;
//! waiting happens in `lease.rs`, starting in `start.rs`, and `tend.rs` looks after those that run.

mod breaker;
mod history;
mod lease;
mod pools;
mod settings;
mod spares;
mod start;
mod state;
mod stateful;
mod tend;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub use history::Past;
pub use lease::Lease;
pub use pools::Pools;
pub use settings::{RootsOf, Settings};

use crate::budget::{Budget, NoRoom};
use crate::caller::{Caller, LogLevel};
use crate::child::remote::{Dialer, address};
use crate::child::{Child, ChildError, Ledger, Line, Roster, Runners, StderrRing};
use crate::config::Scope;
use crate::definition::{Reach, Target};
use crate::manifest::{Manifest, Manifests};
use crate::measures::Measures;
use crate::measures::child_tally::ChildTally;
use crate::oauth::{Login, Logins};
use crate::pulse::Pulse;
use crate::sources::{Sources, Unready};
use crate::subscriptions::Subscriptions;
use crate::thrift::{Mark, Thrift, Use};
use state::{Member, State};

/// How long a call waits for room, from when it came in: in the budget, or for one of `max` children to become free for
/// its session.
const ROOM: Duration = Duration::from_secs(5);

/// What children need to be started with, whichever they are.
#[derive(Debug, Clone)]
pub struct Nursery {
    pub sources: Arc<Sources>,
    pub roster: Arc<Roster>,
    pub budget: Arc<Budget>,
    pub manifests: Manifests,
    pub ledger: Arc<Ledger>,
    pub runners: Arc<Runners>,
    /// A child's lists are other than they were.
    pub news: Arc<Notify>,
    /// The level that hosts want logs from, once one has said so.
    // A leaf lock: held to copy or replace it.
    pub level: Arc<Mutex<Option<LogLevel>>>,
    /// A child came, went or was used.
    pub pulse: Arc<Pulse>,
    /// The way to children that run elsewhere.
    pub dialer: Arc<Dialer>,
    pub logins: Arc<Logins>,
    pub measures: Arc<Measures>,
    pub thrift: Arc<Thrift>,
}

/// Why there is no child to use. The texts continue the words "child `name` …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error("{0}")]
    Child(#[from] ChildError),
    #[error("{last}; it has failed repeatedly and is not started again for {ms} ms")]
    Resting { last: ChildError, ms: u64 },
    #[error("{0}")]
    NoRoom(#[from] NoRoom),
    #[error("{0}")]
    Unready(#[from] Unready),
    #[error("serves other sessions with all {max} of its processes (`pool.max`, scope `session`)")]
    Full { max: usize },
}

#[derive(Debug)]
pub struct Pool {
    name: Box<str>,
    reach: Reach,
    nursery: Nursery,
    // A leaf lock: held to look at or change the state, never across a start.
    state: Mutex<State>,
    /// Something changed that those who wait may be waiting for.
    changed: Notify,
    subscriptions: Arc<Subscriptions>,
    tally: Arc<ChildTally>,
    /// What its notes are found by.
    mark: OnceLock<Mark>,
    /// For how many children it was looked at what they offer, and that written down.
    manifests_kept: watch::Sender<u64>,
}

/// How many children a pool has, and who waits for one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    pub alive: usize,
    pub idle: usize,
    pub waiting: usize,
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.alive += other.alive;
        self.idle += other.idle;
        self.waiting += other.waiting;
    }
}

/// How a pool is doing, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Cold,
    Starting,
    Ready,
    /// The last one ended badly, or could not be started.
    Failed,
    /// It failed too often and is left alone for a while.
    Resting,
    /// Something it needs is not set.
    Misconfigured,
    /// Its program is not the one that was allowed.
    Held,
}

impl Pool {
    pub fn new(name: &str, reach: Reach, settings: Settings, nursery: Nursery) -> Arc<Self> {
        let state = State::new(settings, nursery.manifests.known(&reach));
        Arc::new(Self {
            name: name.into(),
            reach,
            tally: nursery.measures.of_child(name),
            nursery,
            state: Mutex::new(state),
            changed: Notify::new(),
            subscriptions: Arc::default(),
            mark: OnceLock::new(),
            manifests_kept: watch::Sender::new(0),
        })
    }

    /// The login to where its children are; `None` if they run here, or have credentials in their file.
    pub async fn login(&self) -> Result<Option<Arc<Login>>, Unready> {
        self.login_to(&self.nursery.sources.fill(&self.reach).await?)
    }

    fn login_to(&self, target: &Target) -> Result<Option<Arc<Login>>, Unready> {
        let Target::Remote(to) = target else { return Ok(None) };
        if to.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            return Ok(None);
        }
        let url = address(to).map_err(Unready::Misconfigured)?;
        Ok(Some(self.nursery.logins.login(&self.name, &url, &to.shown)))
    }

    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    pub fn settings(&self) -> Settings {
        self.lock().settings
    }

    /// A reload changed how many and how long; the children stay. Of the person's own servers more are started at once
    /// (`keep_warm`), of a workspace's when they are next used.
    pub fn reconfigure(&self, settings: Settings) {
        self.lock().settings = settings;
        self.has_changed();
    }

    /// What the notes of its children are found by, as their manifests are.
    pub fn mark(&self) -> Mark {
        *self.mark.get_or_init(|| Mark::from_digest(&self.reach.digest()))
    }

    pub fn thrift(&self) -> &Thrift {
        &self.nursery.thrift
    }

    /// A session came to a child: one that ran already, or one that it has to wait for.
    pub fn note_use(&self, caller: &Arc<Caller>, ran: bool) {
        let here = matches!(self.reach, Reach::Process(_));
        let Some(how) =
            caller.account().map(|mut account| account.uses(self.mark(), ran, self.starts(), here))
        else {
            return;
        };
        if how == Use::Known {
            return;
        }
        if how != Use::StartedAgain && here && caller.has_session() {
            self.thrift().wants(self.nursery.roster.taken());
        }
        self.thrift().used(self.mark(), how, self.start_took());
    }

    /// How long the last start took, from the first look for the program to the end of the handshake.
    pub fn start_took(&self) -> Option<Duration> {
        self.lock().start_took
    }

    /// No longer wanted: calls in flight finish, then its children stop.
    pub fn retire(self: &Arc<Self>) {
        {
            let mut state = self.lock();
            state.retired = true;
            state.follow_on.clear();
        }
        self.renew();
    }

    pub fn is_retired(&self) -> bool {
        self.lock().retired
    }

    /// Has the next callers get fresh children; calls in flight finish on the old ones. False if none ran.
    pub fn renew(self: &Arc<Self>) -> bool {
        let (members, limits) = {
            let mut state = self.lock();
            state.forgive();
            (std::mem::take(&mut state.members), state.limits)
        };
        let any = !members.is_empty();
        for Member { child, .. } in members {
            tokio::spawn(async move {
                child.idle().await;
                child.stop();
            });
        }
        self.has_changed();
        if let Some(limits) = limits.filter(|_| !any) {
            // Spares may have waited for somebody to say so.
            self.fill_up(limits);
        }
        any
    }

    /// Failures of the past no longer hold up a start.
    pub fn forgive(self: &Arc<Self>) {
        let limits = {
            let mut state = self.lock();
            state.forgive();
            state.limits
        };
        if let Some(limits) = limits {
            self.fill_up(limits);
        }
    }

    /// Who follows which resource of its children.
    pub fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// Why a child that runs could not be asked for its lists.
    pub fn lists_failed(&self) -> Option<ChildError> {
        self.lock().lists_failed.clone()
    }

    /// A session has ended: what was its own goes with it.
    pub fn session_ended(&self, caller: &Arc<Caller>) {
        let unfollowed = self.subscriptions.leave(caller);
        if self.settings().scope != Scope::Session {
            self.running().iter().for_each(|child| child.follow(&unfollowed, false));
        }
        let mut state = self.lock();
        state.follow_on.retain(|owner| !Arc::ptr_eq(owner, caller));
        for member in &state.members {
            if member.owner.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, caller)) {
                member.child.stop();
            }
        }
    }

    /// Waits until what its first child offers is written down, or is known not to be had.
    pub async fn manifest_kept(&self) {
        // The sender is ours: it does not go away meanwhile.
        let _ = self.manifests_kept.subscribe().wait_for(|times| *times > 0).await;
    }

    /// What the child last said of itself, in this run or an earlier one.
    pub fn manifest(&self) -> Option<Arc<Manifest>> {
        self.lock().manifest.clone()
    }

    pub fn running(&self) -> Vec<Arc<Child>> {
        self.lock().alive().map(|member| member.child.clone()).collect()
    }

    /// What the children that run, and the last two that were started, wrote to their standard error after line
    /// `after`, in its order.
    pub fn stderr_lines(&self, after: u64) -> Vec<Line> {
        let mut rings: Vec<Arc<StderrRing>> = {
            let state = self.lock();
            let running = state.alive().map(|member| member.child.stderr().clone());
            running.chain(state.earlier_words.clone()).chain([state.last_words.clone()]).collect()
        };
        rings.sort_by_key(Arc::as_ptr);
        rings.dedup_by_key(|ring| Arc::as_ptr(ring));
        let mut lines: Vec<Line> = rings.iter().flat_map(|ring| ring.after(after)).collect();
        lines.sort_by_key(|line| line.number);
        lines
    }

    /// How its last children ended, the latest first.
    pub fn history(&self) -> Vec<Past> {
        self.lock().history.all()
    }

    /// The last one that ended without being told to, or could not be started.
    pub fn last_bad_ending(&self) -> Option<Past> {
        self.lock().history.last_bad()
    }

    pub fn doing(&self) -> Doing {
        let state = self.lock();
        if state.alive().next().is_some() {
            Doing::Ready
        } else if !state.starting.is_empty() {
            Doing::Starting
        } else if state.breaker.is_open(Instant::now()) {
            Doing::Resting
        } else {
            match state.last_failure {
                None => Doing::Cold,
                Some(PoolError::Unready(Unready::Misconfigured(_) | Unready::NoProgram(_))) => {
                    Doing::Misconfigured
                }
                Some(PoolError::Unready(Unready::Held { .. })) => Doing::Held,
                Some(_) => Doing::Failed,
            }
        }
    }

    /// Why the last child ended badly, or could not be started.
    pub fn last_failure(&self) -> Option<PoolError> {
        self.lock().last_failure.clone()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn count(&self) -> Count {
        let state = self.lock();
        let idle = state.alive().filter(|member| member.child.is_idle()).count();
        Count { alive: state.alive().count(), idle, waiting: state.waiting }
    }

    pub fn starts(&self) -> u64 {
        self.lock().starts
    }

    /// Wakes those who wait here, and those who look on.
    fn has_changed(&self) {
        self.changed.notify_waiters();
        self.nursery.pulse.beat();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("BUG: pool bookkeeping panicked")
    }
}

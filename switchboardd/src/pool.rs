//! All children with one launch key and scope: started once for everybody who waits, shared as the
//! scope says, kept warm, let go when idle, and not started again too often when they keep dying.
//!
//! [`Pool::lease`] is the only way to a child. What to do next is decided in [`State::step`] without
//! waiting; waiting, starting and tending happen around it.

mod breaker;
mod settings;
mod stateful;
mod tend;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub use settings::Settings;

use crate::budget::{Budget, NoRoom};
use crate::caller::Caller;
use crate::child::{Child, ChildError, Ledger, Limits, Roster, StderrRing};
use crate::config::Scope;
use crate::definition::Launch;
use crate::environment::LoginShell;
use crate::manifest::{Manifest, Manifests};
use breaker::Breaker;

/// A pause before a start that callers sit out; a longer one is told to them.
const SHORT_PAUSE: Duration = Duration::from_millis(250);
/// How long a call waits for one of `max` children to become free for its session.
const ROOM: Duration = Duration::from_secs(5);

/// What children need to be started with, whichever they are.
#[derive(Debug, Clone)]
pub struct Nursery {
    pub shell: Arc<LoginShell>,
    pub roster: Arc<Roster>,
    pub budget: Arc<Budget>,
    pub manifests: Manifests,
    pub ledger: Arc<Ledger>,
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
    #[error("serves other sessions with all {max} of its processes (`pool.max`, scope `session`)")]
    Full { max: usize },
}

#[derive(Debug)]
pub struct Pool {
    name: Box<str>,
    launch: Launch,
    nursery: Nursery,
    // A leaf lock: held to look at or change the state, never across a start.
    state: Mutex<State>,
    /// Something changed that those who wait may be waiting for.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    settings: Settings,
    members: Vec<Member>,
    /// Starts under way, and for whom.
    starting: Vec<Option<Arc<Caller>>>,
    waiting: usize,
    breaker: Breaker,
    failed_starts: u64,
    last_failure: Option<PoolError>,
    ran_before: bool,
    /// Its definition is gone: children serve those who have them or wait for them, and go.
    retired: bool,
    manifest: Known,
    /// What the child that was started last wrote to its standard error.
    last_words: Arc<StderrRing>,
    /// Somebody comes back for the spares when the pause after a crash is over.
    woken_later: bool,
    starts: u64,
}

#[derive(Debug)]
struct Member {
    child: Arc<Child>,
    /// The session it belongs to, with scope `session`; `None` for a spare.
    owner: Option<Arc<Caller>>,
}

/// What is known of the child without asking it.
#[derive(Debug)]
enum Known {
    NotLooked,
    Looked(Option<Arc<Manifest>>),
}

#[derive(Debug)]
enum Step {
    Use(Arc<Child>),
    /// A start was noted; somebody has to do it.
    Start(Option<Arc<Caller>>),
    Wait,
    /// All of them are taken; some may become free.
    WaitForRoom,
    Rest(Instant),
    Refuse(PoolError),
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
}

/// The right to use a child. Dropping it gives the child back.
#[derive(Debug)]
pub struct Lease {
    child: Arc<Child>,
    pool: Arc<Pool>,
}

impl std::ops::Deref for Lease {
    type Target = Arc<Child>;

    fn deref(&self) -> &Arc<Child> {
        &self.child
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.child.leased(-1);
        self.pool.changed.notify_waiters();
    }
}

impl State {
    /// What a caller is to do next. Notes what it decides, so that no two decide the same.
    fn step(&mut self, caller: &Arc<Caller>, failed_before: u64, now: Instant) -> Step {
        if self.failed_starts > failed_before
            && let Some(failure) = &self.last_failure
        {
            return Step::Refuse(failure.clone());
        }
        match self.settings.scope {
            Scope::Shared => self.step_shared(now),
            Scope::Session => self.step_session(caller, now),
            Scope::Call => self.step_call(now),
        }
    }

    fn alive(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.child.is_alive() && !member.child.is_outgoing())
    }

    /// The least busy one; another is only started when nobody is free.
    fn step_shared(&mut self, now: Instant) -> Step {
        let least = self.alive().map(|member| member.child.clone()).min_by_key(|child| child.leases());
        match least {
            Some(child) if child.leases() == 0 || self.is_full() || !self.starting.is_empty() => {
                Step::Use(child)
            }
            Some(child) => match self.start(None, now) {
                Step::Start(owner) => Step::Start(owner),
                _ => Step::Use(child),
            },
            None if self.starting.is_empty() => self.start(None, now),
            None => Step::Wait,
        }
    }

    fn step_session(&mut self, caller: &Arc<Caller>, now: Instant) -> Step {
        let owned =
            |owner: &Option<Arc<Caller>>| owner.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, caller));
        if let Some(own) = self.alive().find(|member| owned(&member.owner)) {
            return Step::Use(own.child.clone());
        }
        let spare = self
            .members
            .iter_mut()
            .find(|member| member.owner.is_none() && member.child.is_alive() && !member.child.is_outgoing());
        if let Some(spare) = spare {
            spare.owner = Some(caller.clone());
            spare.child.belongs_to(caller);
            return Step::Use(spare.child.clone());
        }
        if self.starting.iter().any(owned) {
            return Step::Wait;
        }
        if self.is_full() {
            return Step::WaitForRoom;
        }
        self.start(Some(caller.clone()), now)
    }

    fn step_call(&mut self, now: Instant) -> Step {
        if let Some(free) = self.alive().find(|member| member.child.leases() == 0) {
            return Step::Use(free.child.clone());
        }
        if self.is_full() || self.starting.len() >= self.waiting {
            return Step::Wait;
        }
        self.start(None, now)
    }

    fn is_full(&self) -> bool {
        self.alive().count() + self.starting.len() >= self.settings.max
    }

    fn start(&mut self, owner: Option<Arc<Caller>>, now: Instant) -> Step {
        if let Some(start) = self.breaker.next_start(now) {
            let pause = start - now;
            if pause <= SHORT_PAUSE {
                return Step::Rest(start);
            }
            let last = match &self.last_failure {
                Some(PoolError::Child(last)) => last.clone(),
                _ => ChildError::Stopped,
            };
            let ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            return Step::Refuse(PoolError::Resting { last, ms });
        }
        self.starting.push(owner.clone());
        self.starts += 1;
        Step::Start(owner)
    }

    /// Spares that are missing, each noted as a start.
    fn missing_spares(&mut self, now: Instant) -> usize {
        if self.retired || !self.ran_before || self.breaker.next_start(now).is_some() {
            return 0;
        }
        let waiting_ones = match self.settings.scope {
            Scope::Session => self.alive().filter(|member| member.owner.is_none()).count(),
            Scope::Shared | Scope::Call => self.alive().count(),
        };
        let starting = self.starting.iter().filter(|owner| owner.is_none()).count();
        let room = self.settings.max.saturating_sub(self.alive().count() + self.starting.len());
        let missing = self.settings.warm.saturating_sub(waiting_ones + starting).min(room);
        for _ in 0..missing {
            self.starting.push(None);
            self.starts += 1;
        }
        missing
    }

    /// Whether a child may go for having been idle.
    fn is_surplus(&self, child: &Arc<Child>) -> bool {
        let spare = |member: &&Member| self.settings.scope != Scope::Session || member.owner.is_none();
        let Some(member) = self.members.iter().find(|member| Arc::ptr_eq(&member.child, child)) else {
            return true;
        };
        self.retired || !spare(&member) || self.alive().filter(spare).count() > self.settings.warm
    }
}

impl Pool {
    pub fn new(name: &str, launch: Launch, settings: Settings, nursery: Nursery) -> Arc<Self> {
        let state = State {
            settings,
            members: Vec::new(),
            starting: Vec::new(),
            waiting: 0,
            breaker: Breaker::default(),
            failed_starts: 0,
            last_failure: None,
            ran_before: nursery.manifests.exists(&launch),
            retired: false,
            manifest: Known::NotLooked,
            last_words: Arc::default(),
            woken_later: false,
            starts: 0,
        };
        Arc::new(Self {
            name: name.into(),
            launch,
            nursery,
            state: Mutex::new(state),
            changed: Notify::new(),
        })
    }

    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    pub fn settings(&self) -> Settings {
        self.lock().settings
    }

    /// A reload changed how many and how long; the children stay.
    pub fn reconfigure(&self, settings: Settings) {
        self.lock().settings = settings;
        self.changed.notify_waiters();
    }

    /// A child to use, started if need be. A start goes on even if this caller gives up.
    pub async fn lease(self: &Arc<Self>, caller: &Arc<Caller>, limits: Limits) -> Result<Lease, PoolError> {
        let failed_before = self.lock().failed_starts;
        let mut room_until = None;
        let mut waiting = None;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let step = {
                let mut state = self.lock();
                let step = state.step(caller, failed_before, Instant::now());
                if let Step::Use(child) = &step {
                    child.leased(1);
                }
                step
            };
            match step {
                Step::Use(child) => {
                    self.keep_warm(limits);
                    return Ok(Lease { child, pool: self.clone() });
                }
                Step::Start(owner) => drop(tokio::spawn(self.clone().start(owner, limits, true))),
                Step::Refuse(refusal) => return Err(refusal),
                Step::Rest(until) => tokio::time::sleep_until(until).await,
                Step::Wait => {
                    // From the second look on this caller counts as one that waits.
                    if waiting.is_none() {
                        waiting = Some(Waiting::new(self));
                        continue;
                    }
                    changed.await;
                }
                Step::WaitForRoom => {
                    let until = *room_until.get_or_insert_with(|| Instant::now() + ROOM);
                    if tokio::time::timeout_at(until, changed).await.is_err() {
                        return Err(PoolError::Full { max: self.settings().max });
                    }
                }
            }
        }
    }

    /// Starts a child in the background, unless one runs or the last ones died.
    pub fn warm_up(self: &Arc<Self>, limits: Limits) {
        let step = {
            let mut state = self.lock();
            let wanted = state.settings.scope == Scope::Shared
                && state.starting.is_empty()
                && state.alive().next().is_none();
            if wanted { state.start(None, Instant::now()) } else { Step::Wait }
        };
        if let Step::Start(owner) = step {
            tokio::spawn(self.clone().start(owner, limits, false));
        }
    }

    /// No longer wanted: calls in flight finish, then its children stop.
    pub fn retire(&self) {
        self.lock().retired = true;
        self.renew();
    }

    /// Has the next callers get fresh children; calls in flight finish on the old ones. False if none ran.
    pub fn renew(&self) -> bool {
        let members = {
            let mut state = self.lock();
            state.breaker.reset();
            std::mem::take(&mut state.members)
        };
        let any = !members.is_empty();
        for Member { child, .. } in members {
            tokio::spawn(async move {
                child.idle().await;
                child.stop();
            });
        }
        self.changed.notify_waiters();
        any
    }

    /// Failures of the past no longer hold up a start.
    pub fn forgive(&self) {
        self.lock().breaker.reset();
    }

    /// A session has ended: what was its own goes with it.
    pub fn session_ended(&self, caller: &Arc<Caller>) {
        for member in &self.lock().members {
            if member.owner.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, caller)) {
                member.child.stop();
            }
        }
    }

    /// What the child last said of itself, in this run or an earlier one.
    pub fn manifest(&self) -> Option<Arc<Manifest>> {
        if let Known::Looked(known) = &self.lock().manifest {
            return known.clone();
        }
        let read = self.nursery.manifests.read(&self.launch).map(Arc::new);
        self.lock().manifest = Known::Looked(read.clone());
        read
    }

    pub fn running(&self) -> Vec<Arc<Child>> {
        self.lock().alive().map(|member| member.child.clone()).collect()
    }

    /// What the child that runs, or ran last, wrote to its standard error.
    pub fn stderr_lines(&self) -> Vec<Box<str>> {
        let state = self.lock();
        let running: Vec<Box<str>> = state.alive().flat_map(|member| member.child.stderr().lines()).collect();
        if running.is_empty() { state.last_words.lines() } else { running }
    }

    pub fn doing(&self) -> Doing {
        let state = self.lock();
        if state.alive().next().is_some() {
            Doing::Ready
        } else if !state.starting.is_empty() {
            Doing::Starting
        } else if state.breaker.is_open(Instant::now()) {
            Doing::Resting
        } else if state.last_failure.is_some() {
            Doing::Failed
        } else {
            Doing::Cold
        }
    }

    /// Why the last child ended badly, or could not be started.
    pub fn last_failure(&self) -> Option<PoolError> {
        self.lock().last_failure.clone()
    }

    pub fn starts(&self) -> u64 {
        self.lock().starts
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("BUG: pool bookkeeping panicked")
    }
}

/// Counts a caller among those who wait.
struct Waiting {
    pool: Arc<Pool>,
}

impl Waiting {
    fn new(pool: &Arc<Pool>) -> Self {
        pool.lock().waiting += 1;
        Self { pool: pool.clone() }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.pool.lock().waiting -= 1;
    }
}

//! All children with one launch key and scope: started once for everybody who waits, shared as the
//! scope says, kept warm, let go when idle, and not started again too often when they keep dying.
//!
//! [`Pool::lease`] is the only way to a child. What to do next is decided in `state.rs` without waiting;
//! waiting happens in `lease.rs`, starting in `start.rs`, and `supervise.rs` looks after those that run.

mod breaker;
mod history;
mod lease;
mod member;
mod pools;
mod settings;
mod spares;
mod start;
mod state;
mod stateful;
mod supervise;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub use history::ChildEnd;
pub use lease::Lease;
pub use member::{Member, MemberRegistry};
pub use pools::Pools;
pub use settings::{RootsOf, Settings};

use crate::budget::{Budget, NoRoom};
use crate::caller::Caller;
use crate::child::remote::{HttpClients, address};
use crate::child::{Child, ChildError, ChildRegistry, Launcher, RunLog, Runners, StderrLine, StderrRing};
use crate::config::Scope;
use crate::definition::{Launch, ResolvedLaunch};
use crate::log_level::LogLevel;
use crate::manifest::{Manifest, Manifests};
use crate::metrics::Metrics;
use crate::metrics::child_metrics::ChildMetrics;
use crate::metrics_export::PoolCounts;
use crate::oauth::{Login, Logins};
use crate::savings_recorder::{ChildUse, Fingerprint, SavingsRecorder};
use crate::status_changed::StatusChanged;
use crate::subscriptions::Subscriptions;
use crate::value_resolver::{NotLaunchable, ValueResolver};
use state::State;

/// How long a call waits for room, from when it came in: in the budget, or for one of `max` children to become free for
/// its session.
const SLOT_WAIT: Duration = Duration::from_secs(5);

/// What children need to be started with, whichever they are.
#[derive(Debug, Clone)]
pub struct ChildServices {
    pub value_resolver: Arc<ValueResolver>,
    pub registry: Arc<ChildRegistry>,
    pub members: Arc<MemberRegistry>,
    pub budget: Arc<Budget>,
    pub manifests: Manifests,
    pub run_log: Arc<RunLog>,
    pub runners: Arc<Runners>,
    /// What starts the programs of children.
    pub launcher: Launcher,
    /// A child's lists are other than they were.
    pub lists_changed: Arc<Notify>,
    /// The level that hosts want logs from, once one has said so.
    // A leaf lock: held to copy or replace it.
    pub level: Arc<Mutex<Option<LogLevel>>>,
    /// A child came, went or was used.
    pub status_changed: Arc<StatusChanged>,
    /// HTTP clients for remote children.
    pub http_clients: Arc<HttpClients>,
    pub logins: Arc<Logins>,
    pub metrics: Arc<Metrics>,
    pub savings_recorder: Arc<SavingsRecorder>,
}

/// Why there is no child to use. The texts continue the words "child `name` …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error("{0}")]
    Child(#[from] ChildError),
    #[error("{last}; it has failed repeatedly and is not started again for {ms} ms")]
    CoolingDown { last: ChildError, ms: u64 },
    #[error("{0}")]
    NoRoom(#[from] NoRoom),
    #[error("{0}")]
    NotLaunchable(#[from] NotLaunchable),
    #[error("serves other sessions with all {max} of its processes (`pool.max`, scope `session`)")]
    Full { max: usize },
}

#[derive(Debug)]
pub struct Pool {
    name: Box<str>,
    launch: Launch,
    services: ChildServices,
    // A leaf lock: held to look at or change the state, never across a start.
    state: Mutex<State>,
    /// Something changed that those who wait may be waiting for.
    changed: Notify,
    subscriptions: Arc<Subscriptions>,
    metrics: Arc<ChildMetrics>,
    /// What its notes are found by.
    fingerprint: OnceLock<Fingerprint>,
    /// For how many children it was looked at what they offer, and that written down.
    manifests_kept: watch::Sender<u64>,
}

/// How a pool is doing, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolStatus {
    Cold,
    Starting,
    Ready,
    /// The last one ended badly, or could not be started.
    Failed,
    /// It failed too often and is left alone for a while.
    CoolingDown,
    /// Something it needs is not set.
    Misconfigured,
    /// Its program is not the one that was allowed.
    Held,
}

impl Pool {
    pub fn new(name: &str, launch: Launch, settings: Settings, services: ChildServices) -> Arc<Self> {
        let state = State::new(settings, services.manifests.known(&launch));
        Arc::new(Self {
            name: name.into(),
            launch,
            metrics: services.metrics.of_child(name),
            services,
            state: Mutex::new(state),
            changed: Notify::new(),
            subscriptions: Arc::default(),
            fingerprint: OnceLock::new(),
            manifests_kept: watch::Sender::new(0),
        })
    }

    /// The login to where its children are; `None` if they run here, or have credentials in their file.
    pub async fn login(&self) -> Result<Option<Arc<Login>>, NotLaunchable> {
        self.login_to(&self.services.value_resolver.fill(&self.launch).await?)
    }

    fn login_to(&self, target: &ResolvedLaunch) -> Result<Option<Arc<Login>>, NotLaunchable> {
        let ResolvedLaunch::Remote(to) = target else { return Ok(None) };
        if to.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            return Ok(None);
        }
        let url = address(to).map_err(NotLaunchable::Misconfigured)?;
        Ok(Some(self.services.logins.login(&self.name, &url, &to.shown)))
    }

    pub fn launch(&self) -> &Launch {
        &self.launch
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
    pub fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.get_or_init(|| Fingerprint::from_digest(&self.launch.digest()))
    }

    pub fn savings_recorder(&self) -> &SavingsRecorder {
        &self.services.savings_recorder
    }

    /// A session came to a child: one that ran already, or one that it has to wait for.
    pub fn note_use(&self, caller: &Arc<Caller>, ran: bool) {
        let here = matches!(self.launch, Launch::Process(_));
        let Some(how) =
            caller.usage().map(|mut usage| usage.record_use(self.fingerprint(), ran, self.starts(), here))
        else {
            return;
        };
        if how == ChildUse::Known {
            return;
        }
        if how != ChildUse::StartedAgain && here && caller.has_session() {
            self.savings_recorder().add_wanted_process(self.services.registry.slots_in_use());
        }
        self.savings_recorder().record_use(self.fingerprint(), how, self.start_took());
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
            state.reset_breaker();
            (std::mem::take(&mut state.members), state.limits)
        };
        let any = !members.is_empty();
        for member in members {
            tokio::spawn(async move {
                member.idle().await;
                member.stop();
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
    pub fn reset_breaker(self: &Arc<Self>) {
        let limits = {
            let mut state = self.lock();
            state.reset_breaker();
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
        let unfollowed = self.subscriptions.remove_caller(caller);
        if self.settings().scope != Scope::Session {
            self.running().iter().for_each(|child| child.follow(&unfollowed, false));
        }
        let mut state = self.lock();
        state.follow_on.retain(|owner| !Arc::ptr_eq(owner, caller));
        for member in &state.members {
            if member.is_owned_by(caller) {
                member.stop();
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
        self.lock().alive().map(|member| member.child().clone()).collect()
    }

    /// The same with what is known of their use.
    pub fn members(&self) -> Vec<Arc<Member>> {
        self.lock().alive().cloned().collect()
    }

    /// What the children that run, and the last two that were started, wrote to their standard error after line
    /// `after`, in its order.
    pub fn stderr_lines(&self, after: u64) -> Vec<StderrLine> {
        let mut rings: Vec<Arc<StderrRing>> = {
            let state = self.lock();
            let running = state.alive().map(|member| member.stderr().clone());
            running.chain(state.previous_stderr.clone()).chain([state.last_stderr.clone()]).collect()
        };
        rings.sort_by_key(Arc::as_ptr);
        rings.dedup_by_key(|ring| Arc::as_ptr(ring));
        let mut lines: Vec<StderrLine> = rings.iter().flat_map(|ring| ring.after(after)).collect();
        lines.sort_by_key(|line| line.number);
        lines
    }

    /// How its last children ended, the latest first.
    pub fn history(&self) -> Vec<ChildEnd> {
        self.lock().history.all()
    }

    /// The last one that ended without being told to, or could not be started.
    pub fn last_bad_ending(&self) -> Option<ChildEnd> {
        self.lock().history.last_bad()
    }

    pub fn status(&self) -> PoolStatus {
        let state = self.lock();
        if state.alive().next().is_some() {
            PoolStatus::Ready
        } else if !state.starting.is_empty() {
            PoolStatus::Starting
        } else if state.breaker.is_open(Instant::now()) {
            PoolStatus::CoolingDown
        } else {
            match state.last_failure {
                None => PoolStatus::Cold,
                Some(PoolError::NotLaunchable(
                    NotLaunchable::Misconfigured(_) | NotLaunchable::NoProgram(_),
                )) => PoolStatus::Misconfigured,
                Some(PoolError::NotLaunchable(NotLaunchable::Held { .. })) => PoolStatus::Held,
                Some(_) => PoolStatus::Failed,
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

    pub fn counts(&self) -> PoolCounts {
        let state = self.lock();
        let idle = state.alive().filter(|member| member.is_idle()).count();
        PoolCounts { alive: state.alive().count(), idle, waiting: state.waiting }
    }

    pub fn starts(&self) -> u64 {
        self.lock().starts
    }

    /// Wakes those who wait here, and those who look on.
    fn has_changed(&self) {
        self.changed.notify_waiters();
        self.services.status_changed.notify();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("BUG: pool bookkeeping panicked")
    }
}

//! A pool: all children with one launch key and scope. It starts a child once for all callers that wait,
//! shares children as the scope says, keeps spares ready, stops idle children, and delays restarts of
//! children that keep crashing.
//!
//! [`Pool::lease`] is the only way to a child. `state.rs` decides what to do next without waiting; `lease.rs`
//! waits, `start.rs` starts children, and `supervise.rs` supervises those that run.

pub mod baseline;
mod breaker;
pub mod budget;
mod history;
mod lease;
pub mod manifest;
mod member;
mod pools;
mod seen_writing;
mod settings;
mod spares;
mod start;
mod state;
mod stateful;
mod supervise;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub use history::ChildEnd;
pub use lease::Lease;
pub use member::{Member, MemberRegistry};
pub use pools::Pools;
pub use settings::{PoolSettings, RootsOf};

use switchboard_definitions::config::Scope;
use switchboard_definitions::definition::{Launch, ResolvedLaunch, SharedLaunch};
use switchboard_mcp::log_level::LogLevel;

use crate::caller::Caller;
use crate::caller::subscriptions::Subscriptions;
use crate::child::remote::{HttpClients, address};
use crate::child::value_resolver::{NotLaunchable, ValueResolver};
use crate::child::{Child, ChildError, ChildRegistry, Launcher, RunLog, Runners, StderrLine, StderrRing};
use crate::oauth::{Login, Logins};
use crate::observe::metrics::Metrics;
use crate::observe::metrics::child_metrics::ChildMetrics;
use crate::observe::metrics_export::PoolCounts;
use crate::observe::status_changed::StatusChanged;
use crate::pool::baseline::ToolBaseline;
use crate::pool::budget::{Budget, NoRoom};
use crate::pool::manifest::{Manifest, Manifests};
use crate::savings::recorder::{ChildUse, Fingerprint, SavingsRecorder};
use seen_writing::SeenWriting;
use state::PoolState;

/// How long a call waits for room, from when it came in: in the budget, or until one of `max` children
/// becomes free for its session.
const SLOT_WAIT: Duration = Duration::from_secs(5);

/// Services that every start of a child needs.
#[derive(Debug, Clone)]
pub struct ChildServices {
    pub value_resolver: Arc<ValueResolver>,
    pub registry: Arc<ChildRegistry>,
    pub members: Arc<MemberRegistry>,
    pub budget: Arc<Budget>,
    pub manifests: Manifests,
    pub run_log: Arc<RunLog>,
    pub runners: Arc<Runners>,
    /// Starts the programs of children.
    pub launcher: Launcher,
    /// Notified when the lists of a child may have changed.
    pub lists_changed: Arc<Notify>,
    /// The log level that hosts want, once one has set it.
    // A leaf lock: held to copy or replace it.
    pub level: Arc<Mutex<Option<LogLevel>>>,
    /// Notified when a child started, ended or was used.
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
    #[error(
        "serves other sessions with all {max} of its processes (`pool.max`, scope `session`); call again when one of them has ended, or raise `pool.max`"
    )]
    Full { max: usize },
    #[error(
        "runs once for each project (scope `workspace`), and this session belongs to none: open a project's folder in the editor, start `switchboard` there or with `--workspace DIR`, or add `?workspace=DIR` over HTTP"
    )]
    NoWorkspace,
}

/// With scope `workspace`: which workspace a pool is for.
#[derive(Debug, Default)]
pub struct WorkspaceOf {
    root: Option<PathBuf>,
    /// The pool of the same server without a workspace, which keeps what the server said in any of them.
    template: Option<Arc<Pool>>,
}

#[derive(Debug)]
pub struct Pool {
    name: Box<str>,
    launch: SharedLaunch,
    workspace: WorkspaceOf,
    services: ChildServices,
    // A leaf lock: held to look at or change the state, never across a start.
    state: Mutex<PoolState>,
    /// Notified when something changed that callers may be waiting for.
    changed: Notify,
    subscriptions: Arc<Subscriptions>,
    metrics: Arc<ChildMetrics>,
    /// Identifies this launch in the savings records.
    fingerprint: OnceLock<Fingerprint>,
    /// Number of children whose lists were fetched and stored, successfully or not.
    manifests_kept: watch::Sender<u64>,
    seen_writing: SeenWriting,
    /// Whether its program has been looked for and found.
    has_program: AtomicBool,
    /// The definitions that it serves: what their users accepted of its tools.
    // A leaf lock: held to copy or replace handles.
    baselines: Mutex<Vec<Weak<ToolBaseline>>>,
}

/// The state of a pool, for users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolStatus {
    Cold,
    Starting,
    Ready,
    /// The last child crashed, or could not be started.
    Failed,
    /// It failed too often and is not started for a while.
    CoolingDown,
    /// Something that it needs is not set or not found.
    Misconfigured,
    /// Its program is not the one that the user allowed.
    Held,
}

impl Pool {
    pub fn new(
        name: &str,
        launch: SharedLaunch,
        settings: PoolSettings,
        workspace: WorkspaceOf,
        services: ChildServices,
    ) -> Arc<Self> {
        let state = PoolState::new(settings, services.manifests.cached(&launch));
        let seen_writing = SeenWriting::default();
        state.manifest.iter().for_each(|manifest| seen_writing.note(&manifest.tools));
        Arc::new(Self {
            name: name.into(),
            launch,
            workspace,
            metrics: services.metrics.of_child(name),
            services,
            state: Mutex::new(state),
            changed: Notify::new(),
            subscriptions: Arc::default(),
            fingerprint: OnceLock::new(),
            manifests_kept: watch::Sender::new(0),
            seen_writing,
            has_program: AtomicBool::new(false),
            baselines: Mutex::default(),
        })
    }

    /// The login for remote children; `None` if they are local, or have credentials in their file.
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

    pub fn settings(&self) -> PoolSettings {
        self.lock().settings
    }

    /// Has the tools of its children compared with this baseline.
    pub fn compare_with(self: &Arc<Self>, baseline: &Arc<ToolBaseline>) {
        baseline.add_pool(self);
        let mut baselines = self.baselines.lock().expect("BUG: a note panicked");
        baselines.retain(|known| known.strong_count() > 0);
        if !baselines.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(baseline))) {
            baselines.push(Arc::downgrade(baseline));
        }
    }

    fn baselines(&self) -> Vec<Arc<ToolBaseline>> {
        self.baselines.lock().expect("BUG: a note panicked").iter().filter_map(Weak::upgrade).collect()
    }

    /// Applies settings after a reload; children keep running. Additional spares are started at once for the
    /// user's own servers (`keep_warm`), and at the next use for a workspace's.
    pub fn reconfigure(&self, settings: PoolSettings) {
        self.lock().settings = settings;
        self.has_changed();
    }

    /// Identifies this launch in the savings records, by the same digest as its manifest.
    pub fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.get_or_init(|| Fingerprint::from_digest(&self.launch.digest()))
    }

    pub fn savings_recorder(&self) -> &SavingsRecorder {
        &self.services.savings_recorder
    }

    /// Records that a session uses a child: one that ran already, or one that it had to wait for.
    pub fn note_use(&self, caller: &Arc<Caller>, ran: bool) {
        let here = matches!(*self.launch, Launch::Process(_));
        let Some(how) = caller
            .usage()
            .map(|mut usage| usage.record_use(self.fingerprint(), ran, self.start_count(), here))
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

    /// How long the last start took, from the search for the program to the end of the handshake.
    pub fn start_took(&self) -> Option<Duration> {
        self.lock().start_took
    }

    /// The pool is no longer needed: calls in flight finish, then its children stop.
    pub fn retire(self: &Arc<Self>) {
        {
            let mut state = self.lock();
            state.retired = true;
            state.resubscribing.clear();
        }
        self.renew();
    }

    pub fn is_retired(&self) -> bool {
        self.lock().retired
    }

    /// Makes new callers get new children; calls in flight finish on the old ones. False if none ran.
    pub fn renew(self: &Arc<Self>) -> bool {
        let (members, limits) = {
            let mut state = self.lock();
            state.reset_breaker();
            (std::mem::take(&mut state.members), state.limits)
        };
        self.services.lists_changed.notify_one();
        let any = !members.is_empty();
        for member in members {
            tokio::spawn(async move {
                member.wait_idle().await;
                member.stop();
            });
        }
        self.has_changed();
        if let Some(limits) = limits.filter(|_| !any) {
            // Spares may have been waiting for this.
            self.fill_up(limits);
        }
        any
    }

    /// Past failures no longer delay a start.
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

    /// Which callers subscribe to which resources of its children.
    pub fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// Why the lists of a running child could not be fetched.
    pub fn list_failure(&self) -> Option<ChildError> {
        self.lock().lists_failed.clone()
    }

    /// A session has ended: removes its subscriptions and stops its own children.
    pub fn session_ended(&self, caller: &Arc<Caller>) {
        let unfollowed = self.subscriptions.remove_caller(caller);
        if self.settings().scope != Scope::Session {
            self.running().iter().for_each(|child| child.set_subscribed(&unfollowed, false));
        }
        let mut state = self.lock();
        state.resubscribing.retain(|owner| !Arc::ptr_eq(owner, caller));
        for member in &state.members {
            if member.is_owned_by(caller) {
                member.stop();
            }
        }
    }

    /// Waits until the lists of its first child are stored, or could not be fetched.
    pub async fn manifest_kept(&self) {
        // The sender is ours, so the channel stays open.
        let _ = self.manifests_kept.subscribe().wait_for(|times| *times > 0).await;
    }

    /// Whether that is so, or is known from an earlier run.
    pub fn is_manifest_kept(&self) -> bool {
        *self.manifests_kept.borrow() > 0 || self.manifest().is_some()
    }

    /// What the child last reported about itself, in this run or an earlier one.
    pub fn manifest(&self) -> Option<Arc<Manifest>> {
        let own = self.lock().manifest.clone();
        own.or_else(|| self.workspace.template.as_ref()?.manifest())
    }

    /// With scope `workspace`: the workspace that its children are for.
    pub fn workspace(&self) -> Option<&Path> {
        self.workspace.root.as_deref()
    }

    /// Whether it is the pool of one workspace, and `template` the same server's without a workspace.
    pub fn is_workspace_pool_of(&self, template: &Arc<Self>) -> bool {
        self.workspace.template.as_ref().is_some_and(|own| Arc::ptr_eq(own, template))
    }

    /// Whether nothing can be started here, because its children need a workspace.
    fn lacks_workspace(&self) -> bool {
        self.workspace.root.is_none() && self.settings().scope == Scope::Workspace
    }

    /// What a suite's description is made of: the manifest, and why no child can be used, as far as known.
    pub fn outlook(&self) -> (Option<Arc<Manifest>>, Option<PoolError>) {
        let manifest = self.manifest();
        if self.lacks_workspace() {
            return (manifest, Some(PoolError::NoWorkspace));
        }
        let state = self.lock();
        let obstacle = state.obstacle.clone().filter(|_| state.alive().next().is_none());
        (manifest, obstacle)
    }

    pub fn running(&self) -> Vec<Arc<Child>> {
        self.lock().alive().map(|member| member.child().clone()).collect()
    }

    /// The running children as members, which know their leases.
    pub fn members(&self) -> Vec<Arc<Member>> {
        self.lock().alive().cloned().collect()
    }

    /// Stderr lines after number `after`, of the running children and of the last two that
    /// were started, in order.
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

    /// The latest crash or failed start.
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

    /// Why the last child crashed or could not be started.
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

    pub fn start_count(&self) -> u64 {
        self.lock().starts
    }

    /// Wakes waiting callers and viewers of the status.
    fn has_changed(&self) {
        self.changed.notify_waiters();
        self.services.status_changed.notify();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, PoolState> {
        self.state.lock().expect("BUG: pool bookkeeping panicked")
    }
}

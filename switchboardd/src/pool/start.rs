//! Starts children, for calls and as spares.
//!
//! A failed start refuses the callers that wait for it. A start that no call asked for is retried after a
//! pause, or when its retry condition is met (`spares.rs`).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use switchboard_definitions::config::Scope;
use switchboard_definitions::definition::{Launch, ResolvedLaunch};
use tokio::time::Instant;

use super::member::Member;
use super::spares::{RetryCondition, SLOT_HANDOVER_PAUSE};
use super::state::Start;
use super::stateful::names_folders;
use super::{Pool, PoolError};
use crate::child::{
    Child, ChildError, ChildStart, Limits, Ownership, Protocol, StartDeps, StartError, StderrRing,
};
use crate::oauth::login::TokenChanges;
use crate::observe::metrics::child_metrics::StartReason;
use crate::savings::recorder::Fingerprint;

/// The first start through one of these may download the server.
const PACKAGE_RUNNERS: [&str; 9] =
    ["npx", "uvx", "pipx", "bunx", "pnpm", "yarn", "docker", "podman", "cargo"];
const PACKAGE_RUNNER_SPAWN: Duration = Duration::from_secs(120);

impl Pool {
    /// Runs a registered start. Only a start that a call needs waits for room in the budget.
    pub(super) async fn start(self: Arc<Self>, start: Arc<Start>, limits: Limits, reason: StartReason) {
        self.metrics.record_start(reason);
        if self.lock().replaces_one() {
            self.metrics.record_restart();
        }
        let registry = self.services.registry.clone();
        // Enabled before the start, so that no freed slot is missed.
        let mut left = pin!(registry.slot_freed());
        left.as_mut().enable();
        let mut noted = StartGuard { pool: &self, start: &start, open: true };
        let mut login = None;
        let started = self.start_child(&start, limits, &mut login).await;
        noted.open = false;
        drop(noted);
        let mut cure = None;
        match started {
            Ok(child) => {
                let member = Member::new(child);
                self.services.members.add(&member);
                {
                    let mut state = self.lock();
                    state.end_start(&start, None, Instant::now());
                    state.spares.on_started();
                    state.ran_before = true;
                    state.obstacle = None;
                    state.protocol = Some(member.protocol());
                    state.members.push(member.clone());
                }
                self.note_connection(member.stderr(), || {
                    format!(
                        "connected to {}, revision {}",
                        self.shown_address(),
                        member.server_info().revision
                    )
                });
                let level = *self.services.level.lock().expect("BUG: a copy panicked");
                level.into_iter().for_each(|level| member.set_level(level));
                member.set_subscribed(&member.subscribed(), true);
                if start.owner.as_ref().is_some_and(|owner| owner.is_closed()) {
                    // Its session has ended during the start.
                    member.stop();
                }
                tokio::spawn(self.clone().supervise(member, limits));
            }
            Err(failure) => cure = self.note_failure(&start, failure, reason),
        }
        self.has_changed();
        self.fill_up(limits);
        drop(start);
        // `check_values` reports when the values are set.
        let Some(cure) = cure.filter(|cure| *cure != RetryCondition::Values) else { return };
        let replaced = {
            let mut state = self.lock();
            if cure == RetryCondition::Login && login.as_ref().is_some_and(TokenChanges::has_changed) {
                // The tokens changed during the start: it is retried, but after a pause, in case the server
                // accepts none of them.
                state.spares.pause(Instant::now());
            }
            state.await_condition()
        };
        let pool = Arc::downgrade(&self);
        drop(self);
        let happened = async {
            match (cure, login) {
                (RetryCondition::Login, Some(mut login)) => {
                    login.wait_changed().await;
                    true
                }
                (RetryCondition::Login, None) => false,
                _ => {
                    left.await;
                    tokio::time::sleep(SLOT_HANDOVER_PAUSE).await;
                    true
                }
            }
        };
        let happened = tokio::select! {
            happened = happened => happened,
            // Another start waits instead, or the pool is gone.
            _ = replaced => false,
        };
        if let Some(pool) = pool.upgrade().filter(|_| happened) {
            pool.condition_met(cure);
        }
    }

    /// `login` reports tokens that are newer than those of this start.
    async fn start_child(
        &self,
        start: &Start,
        limits: Limits,
        login: &mut Option<TokenChanges>,
    ) -> Result<Arc<Child>, PoolError> {
        let (owner, room_until) = (start.owner.as_ref(), start.room_until);
        let here = matches!(*self.launch, Launch::Process(_));
        let slot = self.services.budget.admit(room_until, here).await?;
        if self.services.registry.is_closed() {
            return Err(PoolError::Child(ChildError::Stopped));
        }
        let mut target = self.services.value_resolver.fill(&self.launch).await?;
        let values = target.digest();
        let launch = Fingerprint::from_digest(&values);
        self.lock().values = Some(values);
        if let ResolvedLaunch::Process(filled) = &mut target
            && self.launch.runs_in_workspace()
        {
            let own = self.workspace().map(ToOwned::to_owned);
            filled.workspace = own.or_else(|| owner.and_then(|owner| owner.folder()));
        }
        let shell_environment = self.services.value_resolver.shell_environment().await;
        let (scope, ran_before) = {
            let state = self.lock();
            (state.settings.scope, state.ran_before)
        };
        let limits = self.start_limits(limits, ran_before);
        let ownership = match (scope, owner) {
            (Scope::Workspace, _) => {
                self.workspace().map_or(Ownership::Shared, |root| Ownership::Workspace(root.into()))
            }
            (Scope::Session, Some(owner)) => Ownership::Host(owner.clone()),
            (Scope::Session, None) => Ownership::Spare,
            (Scope::Shared | Scope::Call, _) => Ownership::Shared,
        };
        let deps = StartDeps {
            subscriptions: &self.subscriptions,
            variables: &shell_environment.variables,
            registry: &self.services.registry,
            lends_workspace: !names_folders(&self.launch),
            run_log: &self.services.run_log,
            runners: &self.services.runners,
            launcher: &self.services.launcher,
            http_clients: &self.services.http_clients,
            logins: &*self.services.logins,
            metrics: &self.metrics,
        };
        let ring = Arc::new(StderrRing::new(target.redactor().clone()));
        {
            let mut state = self.lock();
            let earlier = std::mem::replace(&mut state.last_stderr, ring.clone());
            state.previous_stderr = Some(earlier);
        }
        let start = ChildStart {
            name: &self.name,
            launch,
            limits,
            ownership,
            stderr: ring,
            remembered: self.protocol(),
        };
        // Before the first request, so that a login while the server refuses it is not missed.
        *login = self.login_to(&target).ok().flatten().map(|login| login.entries());
        let begin = Instant::now();
        let started = match Child::start(&start, &target, &deps, slot).await {
            Err(StartError { of_probe: true, error }) => {
                // Some servers exit if they are sent anything before `initialize`.
                tracing::debug!(target: "pool", server = &*self.name, "{error}; it is started again and not asked");
                let slot = self.services.budget.admit(room_until, here).await?;
                // The stderr of its first start is dropped: the second one writes the same again.
                let ring = Arc::new(StderrRing::new(target.redactor().clone()));
                {
                    let mut state = self.lock();
                    state.protocol = Some(Protocol::Legacy);
                    state.last_stderr = ring.clone();
                }
                let rest = Limits { spawn: limits.spawn.saturating_sub(begin.elapsed()), ..limits };
                let again =
                    ChildStart { limits: rest, stderr: ring, remembered: Some(Protocol::Legacy), ..start };
                let again = Child::start(&again, &target, &deps, slot).await;
                again.map_err(|failed| failed.within(limits.spawn))
            }
            started => started,
        };
        let child = started.map_err(|failed| failed.error)?;
        self.lock().start_took = Some(begin.elapsed());
        Ok(child)
    }

    /// A remote server has no stderr here: events of its connection are stored instead.
    pub(super) fn note_connection(&self, ring: &StderrRing, what: impl FnOnce() -> String) {
        if matches!(*self.launch, Launch::Remote(_)) {
            ring.note(&what(), &self.name);
        }
    }

    fn shown_address(&self) -> String {
        match &*self.launch {
            Launch::Remote(remote) => switchboard_definitions::trust::view::shown_url(&remote.url),
            Launch::Process(_) => String::new(),
        }
    }

    /// The protocol of its children at the last start, in this run or an earlier one.
    fn protocol(&self) -> Option<Protocol> {
        let seen = self.lock().protocol;
        seen.or_else(|| self.manifest().map(|manifest| manifest.protocol))
    }

    /// Records a failed start. Returns the retry condition for starts that no call asks for, if
    /// none waits for it yet.
    fn note_failure(
        &self,
        start: &Arc<Start>,
        failure: PoolError,
        reason: StartReason,
    ) -> Option<RetryCondition> {
        let is_call = reason == StartReason::Call && start.is_needed();
        // A spare without room is not a failure.
        let counts = is_call || !matches!(failure, PoolError::NoRoom(_));
        if counts {
            tracing::warn!(target: "pool", server = &*self.name, "{failure}");
        } else {
            tracing::debug!(target: "pool", server = &*self.name, "{failure}");
        }
        let now = Instant::now();
        let mut state = self.lock();
        state.end_start(start, Some(&failure), now);
        if let PoolError::Child(error) = &failure
            && !error.needs_user()
        {
            state.breaker.crashed(false, now);
            state.last_crash = Some(error.clone());
        }
        let cure = if is_call {
            state.spares.call_failed(&failure, now)
        } else {
            state.spares.on_start_failed(&failure, now)
        };
        state.note_obstacle(&failure);
        // A start that succeeds notifies hosts once its lists are known.
        self.services.lists_changed.notify_one();
        if counts {
            self.note_connection(&state.last_stderr, || failure.to_string());
            state.history.note(failure.to_string(), true);
            state.last_failure = Some(failure);
        }
        cure
    }

    /// How long the next start may take.
    pub fn start_limit(&self, limits: Limits) -> Duration {
        let ran_before = self.lock().ran_before;
        self.start_limits(limits, ran_before).spawn
    }

    fn start_limits(&self, limits: Limits, ran_before: bool) -> Limits {
        match &*self.launch {
            Launch::Process(launch)
                if !ran_before && PACKAGE_RUNNERS.contains(&launch.program_name().as_str()) =>
            {
                Limits { spawn: limits.spawn.max(PACKAGE_RUNNER_SPAWN), ..limits }
            }
            _ => limits,
        }
    }

    /// Starts a shared child in the background, unless one runs or the last starts failed.
    pub fn warm_up(self: &Arc<Self>, limits: Limits) {
        let start = {
            let mut state = self.lock();
            let now = Instant::now();
            let wanted = match state.settings.scope {
                Scope::Shared => true,
                Scope::Workspace => self.workspace().is_some(),
                Scope::Session | Scope::Call => false,
            };
            let wanted = wanted
                && state.starting.is_empty()
                && state.alive().next().is_none()
                && state.spares.may_start(now);
            if wanted {
                state.want_spares();
                state.start(None, None, now).ok()
            } else {
                None
            }
        };
        if let Some(start) = start {
            tokio::spawn(self.clone().start(start, limits, StartReason::Introspect));
        }
    }

    /// Starts the missing spares. The config may have changed, and with it the room in the budget.
    pub fn keep_warm(self: &Arc<Self>, limits: Limits) {
        {
            let mut state = self.lock();
            state.spares.on_condition_met(RetryCondition::Room);
            state.want_spares();
        }
        self.fill_up(limits);
    }

    /// The retry condition of starts that no call asked for is met.
    pub(super) fn condition_met(self: &Arc<Self>, by: RetryCondition) {
        let limits = {
            let mut state = self.lock();
            state.spares.on_condition_met(by);
            state.limits
        };
        if let Some(limits) = limits {
            self.fill_up(limits);
        }
    }

    /// Starts missing children that no call asks for, or schedules a later check.
    pub(super) fn fill_up(self: &Arc<Self>, limits: Limits) {
        if self.services.registry.is_closed() {
            return;
        }
        let (missing, later) = {
            let mut state = self.lock();
            state.limits = Some(limits);
            let (missing, later) =
                state.missing_spares(Instant::now(), || !self.subscriptions.subscribed_uris(None).is_empty());
            (missing, state.wake_at(later))
        };
        for start in missing {
            tokio::spawn(self.clone().start(start, limits, StartReason::Warm));
        }
        if let Some(later) = later {
            let pool = Arc::downgrade(self);
            tokio::spawn(async move {
                tokio::time::sleep_until(later).await;
                let Some(pool) = pool.upgrade() else { return };
                let is_woken = pool.lock().is_woken(later);
                if is_woken {
                    pool.fill_up(limits);
                }
            });
        }
    }
}

/// A registered start; ends it if the task is dropped.
struct StartGuard<'a> {
    pool: &'a Pool,
    start: &'a Arc<Start>,
    open: bool,
}

impl Drop for StartGuard<'_> {
    fn drop(&mut self) {
        if self.open {
            // The start was dropped before it finished.
            let failure = PoolError::Child(ChildError::Stopped);
            self.pool.lock().end_start(self.start, Some(&failure), Instant::now());
            self.pool.has_changed();
        }
    }
}

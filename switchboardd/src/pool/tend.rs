//! Bringing children up and looking after them until they end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::state::Member;
use super::stateful::names_folders;
use super::{Pool, PoolError};
use crate::caller::Caller;
use crate::child::{Child, ChildError, Ground, Limits, Manner, StartError, StderrRing, Tie};
use crate::config::Scope;
use crate::definition::{Reach, Target};
use crate::manifest::Manifest;
use crate::measures::child_tally::Reason;

/// The first start through one of these may download the server.
const PACKAGE_RUNNERS: [&str; 9] =
    ["npx", "uvx", "pipx", "bunx", "pnpm", "yarn", "docker", "podman", "cargo"];
const PACKAGE_RUNNER_SPAWN: Duration = Duration::from_secs(120);

/// A child that says its lists changed says so several times; one look is enough.
const SETTLE: Duration = Duration::from_millis(200);

/// How long those who waited for a start may take to lease the child.
const LATE_LEASES: Duration = Duration::from_secs(1);

impl Pool {
    /// Carries out a start that was noted. Only one for a caller waits for room in the budget.
    pub(super) async fn start(self: Arc<Self>, owner: Option<Arc<Caller>>, limits: Limits, reason: Reason) {
        let patient = reason == Reason::Call;
        self.tally.started(reason);
        if self.lock().replaces_one() {
            self.tally.restarted();
        }
        let mut noted = Noted { pool: &self, owner: &owner, open: true };
        let started = self.bring_up(owner.as_ref(), limits, patient).await;
        noted.close();
        match started {
            Ok(child) => {
                let mut state = self.lock();
                state.members.push(Member { child: child.clone(), owner: owner.clone(), replaced: false });
                state.ran_before = true;
                state.manner = Some(child.manner());
                drop(state);
                self.note_connection(child.stderr(), || {
                    format!("connected to {}, revision {}", self.shown_address(), child.hello().revision)
                });
                let level = *self.nursery.level.lock().expect("BUG: a copy panicked");
                level.into_iter().for_each(|level| child.set_level(level));
                child.follow(&child.followed(), true);
                if owner.as_ref().is_some_and(|owner| owner.is_closed()) {
                    // Its session has ended while it started.
                    child.stop();
                }
                tokio::spawn(self.clone().tend(child, limits));
            }
            Err(failure) => self.note_failure(failure, patient),
        }
        self.has_changed();
        self.keep_warm(limits);
    }

    async fn bring_up(
        &self,
        owner: Option<&Arc<Caller>>,
        limits: Limits,
        patient: bool,
    ) -> Result<Arc<Child>, PoolError> {
        let here = matches!(self.reach, Reach::Process(_));
        let place = self.nursery.budget.admit(patient, here).await?;
        let mut target = self.nursery.sources.fill(&self.reach).await?;
        self.lock().values = Some(target.digest());
        if let Target::Process(filled) = &mut target
            && self.reach.runs_in_workspace()
        {
            filled.workspace = owner.and_then(|owner| owner.folder());
        }
        let captured = self.nursery.sources.captured().await;
        let (scope, ran_before) = {
            let state = self.lock();
            (state.settings.scope, state.ran_before)
        };
        let limits = self.patience(limits, ran_before);
        let tie = match (scope, owner) {
            (Scope::Session, Some(owner)) => Tie::Session(owner.clone()),
            (Scope::Session, None) => Tie::Spare,
            (Scope::Shared | Scope::Call, _) => Tie::Nobody,
        };
        let ground = Ground {
            subscriptions: &self.subscriptions,
            variables: &captured.variables,
            roster: &self.nursery.roster,
            lends_workspace: !names_folders(&self.reach),
            ledger: &self.nursery.ledger,
            dialer: &self.nursery.dialer,
            logins: &*self.nursery.logins,
            tally: &self.tally,
        };
        let ring = Arc::new(StderrRing::default());
        {
            let mut state = self.lock();
            let earlier = std::mem::replace(&mut state.last_words, ring.clone());
            state.earlier_words = Some(earlier);
        }
        let remembered = self.manner();
        let start = |limits, tie, place, ring, manner| {
            Child::start(&self.name, &target, &ground, limits, tie, place, ring, manner)
        };
        let begin = Instant::now();
        let started = match start(limits, tie.clone(), place, &ring, remembered).await {
            Err(StartError { of_probe: true, error }) => {
                // Some servers end when they hear something before `initialize`.
                tracing::debug!(target: "pool", child = &*self.name, "{error}; it is started again and not asked");
                let place = self.nursery.budget.admit(patient, here).await?;
                // What it wrote at its first start says nothing that it does not say again.
                let ring = Arc::new(StderrRing::default());
                {
                    let mut state = self.lock();
                    state.manner = Some(Manner::Legacy);
                    state.last_words = ring.clone();
                }
                let rest = Limits { spawn: limits.spawn.saturating_sub(begin.elapsed()), ..limits };
                let again = start(rest, tie, place, &ring, Some(Manner::Legacy)).await;
                again.map_err(|failed| failed.within(limits.spawn))
            }
            started => started,
        };
        let child = started.map_err(|failed| failed.error)?;
        self.lock().start_took = Some(begin.elapsed());
        Ok(child)
    }

    /// A server elsewhere has no standard error here: what happens to its connection takes that place.
    fn note_connection(&self, ring: &StderrRing, what: impl FnOnce() -> String) {
        if matches!(self.reach, Reach::Remote(_)) {
            ring.note(&what(), &self.name);
        }
    }

    fn shown_address(&self) -> String {
        match &self.reach {
            Reach::Remote(remote) => crate::trust::view::shown_url(&remote.url),
            Reach::Process(_) => String::new(),
        }
    }

    /// How its children were last spoken with, in this run or an earlier one.
    fn manner(&self) -> Option<Manner> {
        let seen = self.lock().manner;
        seen.or_else(|| self.manifest().map(|manifest| manifest.manner))
    }

    fn note_failure(&self, failure: PoolError, patient: bool) {
        tracing::warn!(target: "pool", child = &*self.name, "{failure}");
        let mut state = self.lock();
        if matches!(&failure, PoolError::Child(error) if !error.wants_a_person()) {
            state.breaker.crashed(false, Instant::now());
        }
        // A spare that found no room is nobody's failure.
        if patient || !matches!(failure, PoolError::NoRoom(_)) {
            self.note_connection(&state.last_words, || failure.to_string());
            state.history.note(failure.to_string(), true);
            state.failed_starts += 1;
            state.last_failure = Some(failure);
        }
    }

    fn patience(&self, limits: Limits, ran_before: bool) -> Limits {
        match &self.reach {
            Reach::Process(launch)
                if !ran_before && PACKAGE_RUNNERS.contains(&launch.program_name().as_str()) =>
            {
                Limits { spawn: limits.spawn.max(PACKAGE_RUNNER_SPAWN), ..limits }
            }
            _ => limits,
        }
    }

    /// Looks whether what this launch needs is set, and has children go that were started with other values.
    pub async fn check_values(&self) {
        // A child that does not run gets its values when it starts: until then it is enough that they are set.
        let sources = &self.nursery.sources;
        let filled = if self.running().is_empty() {
            sources.is_set(&self.reach).await.map(|()| None)
        } else {
            sources.fill(&self.reach).await.map(Some)
        };
        let is_stale = {
            let mut state = self.lock();
            match &filled {
                Ok(filled) => {
                    state.last_failure.take_if(|failure| matches!(failure, PoolError::Unready(_)));
                    filled.as_ref().map(|filled| filled.digest()).is_some_and(|now| {
                        state.values.replace(now.clone()).is_some_and(|before| before != now)
                    })
                }
                Err(failure) => {
                    state.last_failure = Some(failure.clone().into());
                    false
                }
            }
        };
        if is_stale {
            self.renew();
        }
    }

    /// Starts the spares that are missing.
    pub fn keep_warm(self: &Arc<Self>, limits: Limits) {
        let (missing, later) = {
            let mut state = self.lock();
            let now = Instant::now();
            let wanted = state.settings.warm > 0 && state.ran_before && !state.retired && !state.woken_later;
            let later = state.breaker.next_start(now).filter(|_| wanted);
            state.woken_later |= later.is_some();
            (state.missing_spares(now), later)
        };
        for _ in 0..missing {
            tokio::spawn(self.clone().start(None, limits, Reason::Warm));
        }
        if let Some(later) = later {
            let pool = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep_until(later).await;
                pool.lock().woken_later = false;
                pool.keep_warm(limits);
            });
        }
    }

    /// Looks after a child until it ends: keeps its manifest, lets it go when nobody needs it.
    async fn tend(self: Arc<Self>, child: Arc<Child>, limits: Limits) {
        if self.lock().retired {
            tokio::time::sleep(LATE_LEASES).await;
            self.renew();
        }
        self.keep_manifest(&child, limits).await;
        self.manifests_kept.send_modify(|times| *times += 1);
        let mut look = child.last_used() + self.settings().idle;
        loop {
            tokio::select! {
                () = child.ended() => break,
                () = child.outgoing() => {
                    child.idle().await;
                    child.stop();
                    child.ended().await;
                    break;
                }
                () = child.lists_changed() => {
                    self.subscriptions.settle(SETTLE).await;
                    self.keep_manifest(&child, limits).await;
                }
                () = tokio::time::sleep_until(look) => look = self.let_go_if_idle(&child),
            }
        }
        self.bury(&child);
        self.nursery.news.notify_one();
        self.keep_warm(limits);
        self.keep_followed(&child, limits);
    }

    /// Stops a child that nobody needs; gives the moment to look again.
    fn let_go_if_idle(&self, child: &Arc<Child>) -> Instant {
        let state = self.lock();
        let (now, idle) = (Instant::now(), state.settings.idle);
        let due = child.last_used() + idle;
        if due > now {
            return due;
        }
        if child.is_idle() && state.is_surplus(child) && self.subscriptions.followed(None).is_empty() {
            tracing::info!(target: "pool", child = &*self.name, pid = child.pid(), "idle for {} s", idle.as_secs());
            child.stop();
        }
        // In use, or a spare: looked at again after as long.
        now + idle.max(SETTLE)
    }

    async fn keep_manifest(&self, child: &Arc<Child>, limits: Limits) {
        let _renewal = self.subscriptions.renewal();
        let tools = match child.tools(limits, Instant::now()).await {
            Ok(tools) => tools,
            Err(error) => return self.note_lists(child, Some(error)),
        };
        // What cannot be asked for now is as it was.
        let (offers, failed) = match child.offers(limits).await {
            Ok(offers) => (offers, None),
            Err(error) => {
                (self.manifest().map(|before| before.offers.clone()).unwrap_or_default(), Some(error))
            }
        };
        if !child.is_alive() {
            // The next one knows better.
            return;
        }
        let hello = child.hello().clone();
        let (manifests, reach) = (self.nursery.manifests.clone(), self.reach.clone());
        let manifest = Arc::new(Manifest { manner: child.manner(), hello, tools, offers });
        self.lock().manifest = Some(manifest.clone());
        self.note_lists(child, failed);
        let written = tokio::task::spawn_blocking(move || manifests.write(&reach, &manifest));
        let _ = written.await;
    }

    /// Its lists were asked for: those who see them may have news to hear.
    fn note_lists(&self, child: &Child, failed: Option<ChildError>) {
        // A child that ended says so itself.
        self.lock().lists_failed = failed.filter(|_| child.is_alive());
        self.nursery.news.notify_one();
    }

    /// The child has ended; if nobody told it to, that counts against it.
    fn bury(&self, child: &Arc<Child>) {
        let ending = child.why_ended();
        let error = Some(&ending).filter(|ending| **ending != ChildError::Stopped).map(ChildError::kind);
        self.tally.lived(child.is_remote(), error, child.born().elapsed());
        {
            let mut state = self.lock();
            let replaced = state.members.iter().any(|it| it.replaced && Arc::ptr_eq(&it.child, child));
            state.members.retain(|member| !Arc::ptr_eq(&member.child, child));
            self.note_connection(child.stderr(), || match &ending {
                ChildError::Stopped => "the connection was let go".to_owned(),
                ending => ending.to_string(),
            });
            if ending == ChildError::Stopped {
                state.history.note("was stopped".to_owned(), false);
            } else {
                state.history.note(ending.to_string(), true);
            }
            if ending != ChildError::Stopped {
                state.lost += u64::from(!replaced);
                state.breaker.crashed(child.has_served() && ending.is_a_kill(), Instant::now());
                state.last_failure = Some(PoolError::Child(ending));
                // One that served nobody is as good as one that did not start, also to those who wait.
                state.failed_starts += u64::from(!child.has_served());
            } else if child.has_served() {
                // What keeps the next one from starting has nothing to do with how this one ended.
                state.last_failure.take_if(|failure| !matches!(failure, PoolError::Unready(_)));
            }
        }
        self.has_changed();
    }
}

/// A start that was noted in the pool; taken off however it ends.
struct Noted<'a> {
    pool: &'a Pool,
    owner: &'a Option<Arc<Caller>>,
    open: bool,
}

impl Noted<'_> {
    fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            let mut state = self.pool.lock();
            let same = |noted: &Option<Arc<Caller>>| match (noted, self.owner) {
                (Some(noted), Some(owner)) => Arc::ptr_eq(noted, owner),
                (None, None) => true,
                _ => false,
            };
            if let Some(at) = state.starting.iter().position(same) {
                state.starting.swap_remove(at);
            }
        }
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.close();
        self.pool.has_changed();
    }
}

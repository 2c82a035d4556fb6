//! Supervises children until they end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use switchboard_definitions::config::Scope;
use switchboard_definitions::definition::Launch;
use switchboard_definitions::expand::Template;
use switchboard_wire::event_loop::try_run_blocking;
use tokio::time::Instant;

use super::member::Member;
use super::spares::RetryCondition;
use super::{Pool, PoolError};
use crate::child::{Child, ChildError, Limits, Ownership};
use crate::pool::manifest::Manifest;

/// A child may report several list changes in a row; one fetch is enough.
const LIST_CHANGE_DEBOUNCE: Duration = Duration::from_millis(200);

/// How long callers that waited for a start may take to lease the child.
const LATE_LEASE_GRACE: Duration = Duration::from_secs(1);

impl Pool {
    /// Checks whether the values that this launch needs are set, and replaces children that were
    /// started with other values.
    pub async fn check_values(self: &Arc<Self>) {
        // A child that does not run gets its values when it starts: until then it is
        // enough that they are set.
        let resolver = &self.services.value_resolver;
        let filled = if self.running().is_empty() {
            resolver.is_set(&self.launch).await.map(|()| None)
        } else {
            resolver.fill(&self.launch).await.map(Some)
        };
        let is_stale = {
            let mut state = self.lock();
            match &filled {
                Ok(filled) => {
                    let of_values = |failure: &mut PoolError| matches!(failure, PoolError::NotLaunchable(_));
                    state.last_failure.take_if(of_values);
                    state.obstacle.take_if(of_values);
                    filled.as_ref().map(|filled| filled.digest()).is_some_and(|now| {
                        state.values.replace(now.clone()).is_some_and(|before| before != now)
                    })
                }
                Err(failure) => {
                    state.last_failure = Some(failure.clone().into());
                    state.obstacle = Some(failure.clone().into());
                    false
                }
            }
        };
        self.services.lists_changed.notify_one();
        if is_stale {
            self.renew();
        }
        if filled.is_ok() {
            self.condition_met(RetryCondition::Values);
        }
    }

    /// Has hosts notified of what is now known.
    pub fn notify_lists_changed(&self) {
        self.services.lists_changed.notify_one();
    }

    /// Whether nobody knows yet if its program can be found, and no other value decides which one that is.
    pub fn may_lack_program(&self) -> bool {
        let Launch::Process(launch) = self.launch() else { return false };
        let is_fixed = |template: &Template| template.placeholders().next().is_none();
        let path = launch.env.iter().find(|(name, _)| *name == "PATH");
        !self.has_program.load(Ordering::Relaxed)
            && launch.program.is_none()
            && is_fixed(&launch.cmd)
            && is_fixed(&launch.cwd)
            && path.is_none()
            && self.running().is_empty()
    }

    /// Looks for its program, so that hosts need no failed call to know that it is missing. True if something changed.
    pub async fn look_for_program(&self) -> bool {
        let Launch::Process(launch) = self.launch() else { return false };
        let found = self.services.value_resolver.find_program(launch).await;
        let mut state = self.lock();
        match found {
            Ok(_) => {
                self.has_program.store(true, Ordering::Relaxed);
                let is_of_program =
                    |obstacle: &mut PoolError| matches!(obstacle, PoolError::Child(ChildError::Spawn { .. }));
                state.obstacle.take_if(is_of_program).is_some()
            }
            Err(why) => {
                let lacks = PoolError::Child(ChildError::Spawn { why });
                let is_new = state.obstacle.is_none();
                if is_new {
                    state.obstacle = Some(lacks);
                }
                is_new
            }
        }
    }

    /// Supervises a child until it ends: keeps its manifest up to date, and stops it when it
    /// is idle or retiring.
    pub(super) async fn supervise(self: Arc<Self>, member: Arc<Member>, limits: Limits) {
        if self.lock().retired {
            tokio::select! {
                () = tokio::time::sleep(LATE_LEASE_GRACE) => {}
                () = member.wait_ended() => {}
            }
            self.renew();
        }
        self.keep_manifest(&member, limits).await;
        self.manifests_kept.send_modify(|times| *times += 1);
        let mut look = member.last_used() + self.settings().idle;
        loop {
            tokio::select! {
                () = member.wait_ended() => break,
                () = member.wait_retiring() => {
                    member.wait_idle().await;
                    member.stop();
                    member.wait_ended().await;
                    break;
                }
                () = member.lists_changed() => {
                    self.subscriptions.wait_for_more_changes(LIST_CHANGE_DEBOUNCE).await;
                    self.keep_manifest(&member, limits).await;
                }
                () = tokio::time::sleep_until(look) => look = self.stop_if_idle(&member),
            }
        }
        self.services.members.remove(&member);
        self.on_child_ended(&member);
        self.services.lists_changed.notify_one();
        self.note_subscribed(&member);
        self.fill_up(limits);
    }

    /// Remembers the session of a child that ended, if it subscribed to resources: the next child has to
    /// report their changes. For shared children, subscriptions are checked whenever none is left.
    fn note_subscribed(&self, ended: &Child) {
        let Ownership::Host(owner) = ended.ownership() else { return };
        if owner.is_closed() || owner.is_anonymous() || ended.subscribed().is_empty() {
            return;
        }
        let mut state = self.lock();
        if state.settings.scope == Scope::Session
            && !state.resubscribing.iter().any(|known| Arc::ptr_eq(known, &owner))
        {
            state.resubscribing.push(owner);
        }
    }

    /// Stops a child that is idle and not needed; returns when to check again.
    fn stop_if_idle(&self, member: &Arc<Member>) -> Instant {
        let state = self.lock();
        let (now, idle) = (Instant::now(), state.settings.idle);
        let due = member.last_used() + idle;
        if due > now {
            return due;
        }
        let stops = member.is_idle()
            && state.is_surplus(member)
            && self.subscriptions.subscribed_uris(None).is_empty();
        if stops {
            member.stop();
        }
        drop(state);
        if stops {
            tracing::info!(target: "pool", server = &*self.name, pid = member.pid(), "idle for {} s", idle.as_secs());
        }
        // In use, or a spare: check again after the same time.
        now + idle.max(LIST_CHANGE_DEBOUNCE)
    }

    async fn keep_manifest(&self, child: &Arc<Child>, limits: Limits) {
        let _renewal = self.subscriptions.renewal();
        let tools = match child.tools(limits, Instant::now()).await {
            Ok(tools) => tools,
            Err(error) => return self.note_lists(child, Some(error)),
        };
        // If these lists cannot be fetched now, the last known ones stay.
        let (offers, failed) = match child.offers(limits).await {
            Ok(offers) => (offers, None),
            Err(error) => {
                (self.manifest().map(|before| before.offers.clone()).unwrap_or_default(), Some(error))
            }
        };
        if !child.is_alive() {
            // The next child writes a newer manifest.
            return;
        }
        let server_info = child.server_info().clone();
        for baseline in self.baselines() {
            baseline.compare(&tools, Some(&server_info)).await;
        }
        let (manifests, mut launches) = (self.services.manifests.clone(), vec![self.launch.clone()]);
        let manifest = Arc::new(Manifest { protocol: child.protocol(), server_info, tools, offers });
        self.seen_writing.note(&manifest.tools);
        self.lock().manifest = Some(manifest.clone());
        if let Some(template) = &self.workspace.template {
            // Serves the other workspaces until their own children run.
            template.lock().manifest = Some(manifest.clone());
            launches.push(template.launch.clone());
            launches.dedup();
        }
        self.note_lists(child, failed);
        let write = move || launches.iter().for_each(|launch| manifests.write(launch, &manifest));
        let _ = try_run_blocking(write).await;
    }

    /// The lists were fetched, or that failed: sessions may have to be notified.
    fn note_lists(&self, child: &Child, failed: Option<ChildError>) {
        // If the child has ended, its end is the reason.
        self.lock().lists_failed = failed.filter(|_| child.is_alive());
        self.services.lists_changed.notify_one();
    }

    /// The child has ended; unless it was stopped, that counts as a crash.
    fn on_child_ended(&self, ended: &Arc<Member>) {
        let ending = ended.why_ended();
        let error = Some(&ending)
            .filter(|ending| **ending != ChildError::Stopped)
            .map(|ending| ending.kind().as_str());
        self.metrics.record_lifetime(ended.is_remote(), error, ended.started_at().elapsed());
        {
            let mut state = self.lock();
            let at = state.members.iter().position(|member| Arc::ptr_eq(member, ended));
            let was_member = at.map(|at| state.members.remove(at)).is_some();
            let replaced = was_member && ended.is_replaced();
            let was_spare = was_member && !ended.is_owned();
            self.note_connection(ended.stderr(), || match &ending {
                ChildError::Stopped => "the connection was closed".to_owned(),
                ending => ending.to_string(),
            });
            if ending == ChildError::Stopped {
                state.history.note("was stopped".to_owned(), false);
            } else {
                state.history.note(ending.to_string(), true);
            }
            if ending != ChildError::Stopped {
                state.unreplaced += u64::from(!replaced);
                state.breaker.crashed(ended.has_served() && ending.is_a_kill(), Instant::now());
                state.last_crash = Some(ending.clone());
                if state.breaker.has_tripped() {
                    state.obstacle = Some(PoolError::CoolingDown { last: ending.clone(), ms: 0 });
                }
                state.last_failure = Some(PoolError::Child(ending));
            } else {
                state.on_stopped(ended, was_spare, Instant::now());
            }
        }
        self.has_changed();
    }
}

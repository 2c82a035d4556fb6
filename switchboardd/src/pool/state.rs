//! The state of a pool, and the decision what a caller does next. Decides without waiting; the caller passes
//! `now`.
//!
//! `steps.rs` decides what a caller does next, `starts.rs` tracks starts, and `missing.rs` finds the children
//! that are missing although no call needs them.

mod missing;
mod starts;
mod steps;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use switchboard_definitions::config::Scope;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::breaker::Breaker;
use super::history::History;
use super::member::Member;
use super::spares::Spares;
use super::{PoolError, PoolSettings};
use crate::caller::Caller;
use crate::child::{ChildError, Limits, Protocol, StderrRing};
use crate::pool::manifest::Manifest;

pub(super) use starts::Start;
pub(super) use steps::{LeaseStep, Waiter};

#[derive(Debug)]
pub(super) struct PoolState {
    pub(super) settings: PoolSettings,
    pub(super) members: Vec<Arc<Member>>,
    /// Starts in progress.
    pub(super) starting: Vec<Arc<Start>>,
    pub(super) waiting: usize,
    pub(super) breaker: Breaker,
    pub(super) spares: Spares,
    /// How many spares the settings asked for when a child was last used or, for the user's own servers, when
    /// the settings were last read. So a change of a workspace's files starts none.
    wanted_spares: usize,
    /// Dropped when another start waits for a retry condition: only one start per pool waits.
    condition_waiter: Option<oneshot::Sender<()>>,
    /// Starts for calls that failed recently, the latest last.
    pub(super) failed: VecDeque<Arc<Start>>,
    pub(super) last_failure: Option<PoolError>,
    /// Why the next start is expected to fail, until one succeeds. The suite's description says so.
    pub(super) obstacle: Option<PoolError>,
    /// The error to report while the breaker pauses.
    pub(super) last_crash: Option<ChildError>,
    pub(super) ran_before: bool,
    /// Its definition is gone: children serve current and waiting callers, then stop.
    pub(super) retired: bool,
    /// What is known of the child without asking it.
    pub(super) manifest: Option<Arc<Manifest>>,
    /// The protocol of its children at the last start.
    pub(super) protocol: Option<Protocol>,
    /// Why the lists of a running child could not be fetched.
    pub(super) lists_failed: Option<ChildError>,
    /// Stderr of the child that was started last.
    pub(super) last_stderr: Arc<StderrRing>,
    /// Stderr of the child before that.
    pub(super) previous_stderr: Option<Arc<StderrRing>>,
    pub(super) history: History,
    /// When a task checks for missing spares, after a pause.
    woken_at: Option<Instant>,
    /// The limits that spares were last started with.
    pub(super) limits: Option<Limits>,
    /// Sessions whose own child ended while they subscribed to its resources.
    pub(super) resubscribing: Vec<Arc<Caller>>,
    pub(super) starts: u64,
    /// Children that crashed and have not been replaced.
    pub(super) unreplaced: u64,
    pub(super) start_took: Option<Duration>,
    /// Digest of the values that the running children were started with.
    pub(super) values: Option<String>,
}

impl PoolState {
    pub(super) fn new(settings: PoolSettings, manifest: Option<Arc<Manifest>>) -> Self {
        Self {
            settings,
            members: Vec::new(),
            starting: Vec::new(),
            waiting: 0,
            breaker: Breaker::default(),
            spares: Spares::default(),
            wanted_spares: settings.warm,
            condition_waiter: None,
            failed: VecDeque::new(),
            last_failure: None,
            obstacle: None,
            last_crash: None,
            ran_before: manifest.is_some(),
            retired: false,
            manifest,
            protocol: None,
            lists_failed: None,
            last_stderr: Arc::default(),
            previous_stderr: None,
            history: History::default(),
            woken_at: None,
            limits: None,
            resubscribing: Vec::new(),
            starts: 0,
            unreplaced: 0,
            start_took: None,
            values: None,
        }
    }

    /// Whether a start replaces a child that crashed, even if its end was not processed yet.
    pub(super) fn replaces_one(&mut self) -> bool {
        let dead = self.members.iter().find(|member| !member.is_replaced() && member.ended_by_itself());
        if let Some(dead) = dead {
            dead.set_replaced();
            return true;
        }
        let lost = self.unreplaced;
        self.unreplaced = lost.saturating_sub(1);
        lost > 0
    }

    pub(super) fn alive(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.iter().filter(|member| member.is_serving())
    }

    /// A child is used, or the user's own settings were read: adopts their number of spares.
    pub(super) fn want_spares(&mut self) {
        self.wanted_spares = self.settings.warm;
    }

    /// Forgets past failures.
    pub(super) fn reset_breaker(&mut self) {
        self.breaker.reset();
        self.spares.reset();
        self.failed.clear();
        self.obstacle.take_if(|obstacle| !matches!(obstacle, PoolError::NotLaunchable(_)));
    }

    /// A start failed: callers can expect the same until one succeeds. Lack of room says nothing about the
    /// server, and neither does a start that was given up.
    pub(super) fn note_obstacle(&mut self, failure: &PoolError) {
        match failure {
            PoolError::Child(ChildError::Stopped | ChildError::Unsent | ChildError::Busy) => {}
            PoolError::Child(last) if self.breaker.has_tripped() && !last.needs_user() => {
                self.obstacle = Some(PoolError::CoolingDown { last: last.clone(), ms: 0 });
            }
            PoolError::Child(_) | PoolError::NotLaunchable(_) => self.obstacle = Some(failure.clone()),
            PoolError::CoolingDown { .. }
            | PoolError::NoRoom(_)
            | PoolError::Full { .. }
            | PoolError::NoWorkspace => {}
        }
    }

    pub(super) fn is_full(&self) -> bool {
        let serving = self.alive().filter(|member| !member.has_suspended_calls()).count();
        serving + self.starting.len() >= self.settings.max
    }

    /// A child was stopped and has ended. An evicted spare is not replaced at once.
    pub(super) fn on_stopped(&mut self, member: &Member, was_spare: bool, now: Instant) {
        if was_spare && member.is_evicted() {
            self.spares.on_evicted(now);
        }
        if member.has_served() {
            // What prevents the next start has nothing to do with how this child ended.
            self.last_failure.take_if(|failure| !matches!(failure, PoolError::NotLaunchable(_)));
        }
    }

    /// Whether an idle child may be stopped.
    pub(super) fn is_surplus(&self, member: &Arc<Member>) -> bool {
        let spare = |member: &&Arc<Member>| self.settings.scope != Scope::Session || !member.is_owned();
        if !self.members.iter().any(|known| Arc::ptr_eq(known, member)) {
            return true;
        }
        self.retired || !spare(&member) || self.alive().filter(spare).count() > self.settings.warm
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

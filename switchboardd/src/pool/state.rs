//! What a pool knows, and what a caller is to do next: decided at once, without waiting. `now` comes from
//! outside.
//!
//! What a caller does next is decided in `steps.rs`, which starts there are in `starts.rs`, and which are missing
//! that no call asks for in `missing.rs`.

mod missing;
mod starts;
mod steps;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::breaker::Breaker;
use super::history::History;
use super::member::Member;
use super::spares::Spares;
use super::{PoolError, Settings};
use crate::caller::Caller;
use crate::child::{ChildError, Limits, Protocol, StderrRing};
use crate::config::Scope;
use crate::manifest::Manifest;

pub(super) use starts::Start;
pub(super) use steps::{Step, Waiter};

#[derive(Debug)]
pub(super) struct State {
    pub(super) settings: Settings,
    pub(super) members: Vec<Arc<Member>>,
    /// Starts under way.
    pub(super) starting: Vec<Arc<Start>>,
    pub(super) waiting: usize,
    pub(super) breaker: Breaker,
    pub(super) spares: Spares,
    /// How many spares the settings asked for when a child was last used, or, of the person's own servers, when the settings
    /// were last read: a change of a workspace's files starts none.
    wanted_spares: usize,
    /// Goes when another start waits for what makes starts possible that no call asks for: one waits for each pool.
    awaits_cure: Option<oneshot::Sender<()>>,
    /// Starts for calls that failed lately, the latest last.
    pub(super) failed: VecDeque<Arc<Start>>,
    pub(super) last_failure: Option<PoolError>,
    /// What the breaker rests for.
    pub(super) last_crash: Option<ChildError>,
    pub(super) ran_before: bool,
    /// Its definition is gone: children serve those who have them or wait for them, and go.
    pub(super) retired: bool,
    /// What is known of the child without asking it.
    pub(super) manifest: Option<Arc<Manifest>>,
    /// How its children were spoken with when they were last started.
    pub(super) protocol: Option<Protocol>,
    /// Why a child that runs could not be asked for its lists.
    pub(super) lists_failed: Option<ChildError>,
    /// What the child that was started last wrote to its standard error.
    pub(super) last_stderr: Arc<StderrRing>,
    /// And the one before it.
    pub(super) previous_stderr: Option<Arc<StderrRing>>,
    pub(super) history: History,
    /// When somebody comes back for the spares, because a pause is over.
    woken_at: Option<Instant>,
    /// The limits that its spares were last wanted with.
    pub(super) limits: Option<Limits>,
    /// Sessions whose own child ended while they followed a resource of it.
    pub(super) follow_on: Vec<Arc<Caller>>,
    pub(super) starts: u64,
    /// Children that ended by themselves and have not been replaced.
    pub(super) lost: u64,
    pub(super) start_took: Option<Duration>,
    /// A fingerprint of the values that the children which run were started with.
    pub(super) values: Option<String>,
}

impl State {
    pub(super) fn new(settings: Settings, manifest: Option<Arc<Manifest>>) -> Self {
        Self {
            settings,
            members: Vec::new(),
            starting: Vec::new(),
            waiting: 0,
            breaker: Breaker::default(),
            spares: Spares::default(),
            wanted_spares: settings.warm,
            awaits_cure: None,
            failed: VecDeque::new(),
            last_failure: None,
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
            follow_on: Vec::new(),
            starts: 0,
            lost: 0,
            start_took: None,
            values: None,
        }
    }

    /// Whether a start is in the place of one that ended by itself, buried or not.
    pub(super) fn replaces_one(&mut self) -> bool {
        let dead = self.members.iter().find(|member| !member.is_replaced() && member.ended_by_itself());
        if let Some(dead) = dead {
            dead.set_replaced();
            return true;
        }
        let lost = self.lost;
        self.lost = lost.saturating_sub(1);
        lost > 0
    }

    pub(super) fn alive(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.iter().filter(|member| member.is_serving())
    }

    /// A child is used, or the person's own settings are read: from now on as many spares are kept as they say.
    pub(super) fn want_spares(&mut self) {
        self.wanted_spares = self.settings.warm;
    }

    /// What failed before counts no more.
    pub(super) fn reset_breaker(&mut self) {
        self.breaker.reset();
        self.spares.reset();
        self.failed.clear();
    }

    pub(super) fn is_full(&self) -> bool {
        let serving = self.alive().filter(|member| !member.has_suspended_calls()).count();
        serving + self.starting.len() >= self.settings.max
    }

    /// A child has ended that was told to. One that was nobody's and took too much memory is not replaced at once.
    pub(super) fn stopped(&mut self, member: &Member, was_spare: bool, now: Instant) {
        if was_spare && member.is_evicted() {
            self.spares.evicted(now);
        }
        if member.has_served() {
            // What keeps the next one from starting has nothing to do with how this one ended.
            self.last_failure.take_if(|failure| !matches!(failure, PoolError::NotLaunchable(_)));
        }
    }

    /// Whether a child may go for having been idle.
    pub(super) fn is_surplus(&self, member: &Arc<Member>) -> bool {
        let spare = |member: &&Arc<Member>| self.settings.scope != Scope::Session || !member.is_owned();
        if !self.members.iter().any(|known| Arc::ptr_eq(known, member)) {
            return true;
        }
        self.retired || !spare(&member) || self.alive().filter(spare).count() > self.settings.warm
    }
}

#[cfg(test)]
mod tests;

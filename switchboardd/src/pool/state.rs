//! What a pool knows, and what a caller is to do next: decided at once, without waiting. `now` comes from
//! outside.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::breaker::Breaker;
use super::history::History;
use super::{PoolError, Settings};
use crate::caller::Caller;
use crate::child::{Child, ChildError, Manner, StderrRing};
use crate::config::Scope;
use crate::manifest::Manifest;

/// A pause before a start that callers sit out; a longer one is told to them.
const SHORT_PAUSE: Duration = Duration::from_millis(250);
#[derive(Debug)]
pub(super) struct State {
    pub(super) settings: Settings,
    pub(super) members: Vec<Member>,
    /// Starts under way, and for whom.
    pub(super) starting: Vec<Option<Arc<Caller>>>,
    pub(super) waiting: usize,
    pub(super) breaker: Breaker,
    pub(super) failed_starts: u64,
    pub(super) last_failure: Option<PoolError>,
    pub(super) ran_before: bool,
    /// Its definition is gone: children serve those who have them or wait for them, and go.
    pub(super) retired: bool,
    /// What is known of the child without asking it.
    pub(super) manifest: Option<Arc<Manifest>>,
    /// How its children were spoken with when they were last started.
    pub(super) manner: Option<Manner>,
    /// Why a child that runs could not be asked for its lists.
    pub(super) lists_failed: Option<ChildError>,
    /// What the child that was started last wrote to its standard error.
    pub(super) last_words: Arc<StderrRing>,
    /// And the one before it.
    pub(super) earlier_words: Option<Arc<StderrRing>>,
    pub(super) history: History,
    /// Somebody comes back for the spares when the pause after a crash is over.
    pub(super) woken_later: bool,
    pub(super) starts: u64,
    /// Children that ended by themselves and have not been replaced.
    pub(super) lost: u64,
    pub(super) start_took: Option<Duration>,
    /// A fingerprint of the values that the children which run were started with.
    pub(super) values: Option<String>,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) child: Arc<Child>,
    /// The session it belongs to, with scope `session`; `None` for a spare.
    pub(super) owner: Option<Arc<Caller>>,
    /// It ended by itself, and another was started in its place.
    pub(super) replaced: bool,
}

#[derive(Debug)]
pub(super) enum Step {
    Use(Arc<Child>),
    /// A start was noted; somebody has to do it.
    Start(Option<Arc<Caller>>),
    Wait,
    /// All of them are taken; some may become free.
    WaitForRoom,
    Rest(Instant),
    Refuse(PoolError),
}

impl State {
    /// Whether a start is in the place of one that ended by itself, buried or not.
    pub(super) fn replaces_one(&mut self) -> bool {
        let dead = self.members.iter_mut().find(|member| !member.replaced && member.child.ended_by_itself());
        if let Some(dead) = dead {
            dead.replaced = true;
            return true;
        }
        let lost = self.lost;
        self.lost = lost.saturating_sub(1);
        lost > 0
    }

    /// What a caller is to do next. Notes what it decides, so that no two decide the same.
    pub(super) fn step(&mut self, caller: &Arc<Caller>, failed_before: u64, now: Instant) -> Step {
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

    pub(super) fn alive(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.child.is_alive() && !member.child.is_outgoing())
    }

    /// The least busy one; another is only started when nobody is free.
    pub(super) fn step_shared(&mut self, now: Instant) -> Step {
        let least = |parked: bool| {
            let children = self.alive().map(|member| &member.child);
            children.filter(|child| child.is_parked() == parked).min_by_key(|child| child.leases()).cloned()
        };
        let (free, parked) = (least(false), least(true));
        match free {
            Some(child) if child.leases() == 0 || self.is_full() || !self.starting.is_empty() => {
                Step::Use(child)
            }
            Some(child) => match self.start(None, now) {
                Step::Start(owner) => Step::Start(owner),
                _ => Step::Use(child),
            },
            None if !self.starting.is_empty() => Step::Wait,
            // One that waits for a host's word is not asked for others, if it can be helped.
            None => match (self.start(None, now), parked) {
                (Step::Start(owner), _) => Step::Start(owner),
                (_, Some(parked)) => Step::Use(parked),
                (refused, None) => refused,
            },
        }
    }

    pub(super) fn step_session(&mut self, caller: &Arc<Caller>, now: Instant) -> Step {
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

    pub(super) fn step_call(&mut self, now: Instant) -> Step {
        if let Some(free) = self.alive().find(|member| member.child.leases() == 0) {
            return Step::Use(free.child.clone());
        }
        if self.is_full() || self.starting.len() >= self.waiting {
            return Step::Wait;
        }
        self.start(None, now)
    }

    pub(super) fn is_full(&self) -> bool {
        let serving = self.alive().filter(|member| !member.child.is_parked()).count();
        serving + self.starting.len() >= self.settings.max
    }

    pub(super) fn start(&mut self, owner: Option<Arc<Caller>>, now: Instant) -> Step {
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
    pub(super) fn missing_spares(&mut self, now: Instant) -> usize {
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
    pub(super) fn is_surplus(&self, child: &Arc<Child>) -> bool {
        let spare = |member: &&Member| self.settings.scope != Scope::Session || member.owner.is_none();
        let Some(member) = self.members.iter().find(|member| Arc::ptr_eq(&member.child, child)) else {
            return true;
        };
        self.retired || !spare(&member) || self.alive().filter(spare).count() > self.settings.warm
    }
}

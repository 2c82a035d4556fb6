//! What a pool knows, and what a caller is to do next: decided at once, without waiting. `now` comes from
//! outside.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::breaker::Breaker;
use super::history::History;
use super::spares::Spares;
use super::{PoolError, SLOT_WAIT, Settings};
use crate::caller::Caller;
use crate::child::{Child, ChildError, Debt, Limits, Protocol, StderrRing};
use crate::config::Scope;
use crate::manifest::Manifest;

/// A pause before a start that callers sit out; a longer one is told to them.
const SHORT_PAUSE: Duration = Duration::from_millis(250);
/// How long a start may keep callers waiting for whom a child lives that another host uses.
const APART: Duration = Duration::from_secs(2);
/// Failed starts that calls which came in before are told of. More sessions than this hardly start at once.
const FAILED_KEPT: usize = 16;

#[derive(Debug)]
pub(super) struct State {
    pub(super) settings: Settings,
    pub(super) members: Vec<Member>,
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

#[derive(Debug)]
pub(super) struct Member {
    pub(super) child: Arc<Child>,
    /// The session it belongs to, with scope `session`; `None` for a spare.
    pub(super) owner: Option<Arc<Caller>>,
    /// It ended by itself, and another was started in its place.
    pub(super) replaced: bool,
}

/// One start, from when it was noted on. Those who wait for it hold it: its failure is theirs and nobody else's.
#[derive(Debug)]
pub(super) struct Start {
    /// The session it is for, with scope `session`; `None` if anybody may have the child.
    pub(super) owner: Option<Arc<Caller>>,
    /// Until when it waits for room. `None`: not at all, and it pushes nobody out.
    pub(super) room_until: Option<Instant>,
    begun: Instant,
    failure: OnceLock<(Instant, PoolError)>,
}

impl Start {
    /// Whether a call has no other child to use. Others fail like those of spares.
    pub(super) fn is_needed(&self) -> bool {
        self.room_until.is_some()
    }

    fn is_for(&self, owner: Option<&Arc<Caller>>) -> bool {
        match (&self.owner, owner) {
            (Some(own), Some(owner)) => Arc::ptr_eq(own, owner),
            (None, None) => true,
            _ => false,
        }
    }
}

/// A caller on its way to a child.
#[derive(Debug)]
pub(super) struct Waiter<'a> {
    caller: &'a Arc<Caller>,
    /// When its call came in.
    asked: Instant,
    /// It counts as one that waits.
    pub(super) counted: bool,
    start: Option<Arc<Start>>,
    /// The start that it waits for is one that it began.
    began: bool,
    /// When it may begin another start although children live, after one failed.
    again: Option<Instant>,
}

impl<'a> Waiter<'a> {
    pub(super) fn new(caller: &'a Arc<Caller>, asked: Instant) -> Self {
        Self { caller, asked, counted: false, start: None, began: false, again: None }
    }

    fn waits_for(&mut self, start: &Arc<Start>, began: bool) {
        self.start = Some(start.clone());
        self.began = began;
    }
}

#[derive(Debug)]
pub(super) enum Step {
    Use(Arc<Child>),
    /// A start was noted; somebody has to do it.
    Start(Arc<Start>),
    Wait,
    /// The same, but another look is worth it by then.
    WaitUntil(Instant),
    /// All of them are taken; some may become free.
    WaitForRoom,
    Rest(Instant),
    Refuse(PoolError),
}

/// How the start stands that a caller waits for.
enum Awaited {
    Nothing,
    UnderWay,
    Failed(PoolError),
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
    pub(super) fn step(&mut self, waiter: &mut Waiter<'_>, now: Instant) -> Step {
        match self.settings.scope {
            Scope::Shared => self.step_shared(waiter, now),
            Scope::Session => self.step_session(waiter, now),
            Scope::Call => self.step_call(waiter, now),
        }
    }

    pub(super) fn alive(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.child.is_alive() && !member.child.is_retiring())
    }

    /// The least busy one; another is only started when nobody is free.
    fn step_shared(&mut self, waiter: &mut Waiter<'_>, now: Instant) -> Step {
        let apart = self.settings.max > 1;
        for member in self.alive().filter(|member| member.child.is_unsure_of(waiter.caller)) {
            // It still works, as far as it knows, for a host that gave up: it could not ask this one anything. While
            // others use it, a second one would exceed a `max` of one.
            if apart || member.child.leases() == 0 {
                member.child.retire();
            }
        }
        let room_until = Some(waiter.asked + SLOT_WAIT);
        let is_crowded = |child: &Arc<Child>| apart && child.is_crowded_for(waiter.caller);
        let least = |suspended: bool| {
            let children = self.alive().map(|member| &member.child);
            let fit = children.filter(|child| child.has_suspended_calls() == suspended);
            fit.map(|child| (is_crowded(child), child.leases(), child))
                .min_by_key(|(crowded, leases, _)| (*crowded, *leases))
        };
        let (free, suspended) = (least(false), least(true).map(|(_, _, child)| child.clone()));
        let free = free.map(|(crowded, leases, child)| (crowded, leases, child.clone()));
        match free {
            Some((false, 0, child)) => Step::Use(child),
            Some((true, _, child)) => {
                // What it asks could be for either host: this one gets another, as far as `max` goes. No call needs
                // it: it is started as a spare is.
                if self.starting.is_empty() && (self.is_full() || !self.spares.may_start(now)) {
                    return Step::Use(child);
                }
                match self.wait_for_start(waiter, None, None, now) {
                    step @ Step::Start(_) => step,
                    Step::Wait => match waiter.start.as_ref().map(|start| start.begun + APART) {
                        Some(until) if until > now => Step::WaitUntil(until),
                        _ => Step::Use(child),
                    },
                    _ => Step::Use(child),
                }
            }
            Some((false, _, child)) if self.is_full() || !self.starting.is_empty() => Step::Use(child),
            Some((false, _, child)) => match self.begin(waiter, None, room_until, now) {
                Step::Start(start) => Step::Start(start),
                _ => Step::Use(child),
            },
            // One that waits for a host's word is not asked for others, if it can be helped.
            None => match (self.wait_for_start(waiter, None, room_until, now), suspended) {
                (step @ (Step::Start(_) | Step::Wait), _) => step,
                (_, Some(suspended)) => Step::Use(suspended),
                (refused, None) => refused,
            },
        }
    }

    fn step_session(&mut self, waiter: &mut Waiter<'_>, now: Instant) -> Step {
        let caller = waiter.caller;
        let owned =
            |owner: &Option<Arc<Caller>>| owner.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, caller));
        if let Some(own) = self.alive().find(|member| owned(&member.owner)) {
            return Step::Use(own.child.clone());
        }
        let spare = self
            .members
            .iter_mut()
            .find(|member| member.owner.is_none() && member.child.is_alive() && !member.child.is_retiring());
        if let Some(spare) = spare {
            spare.owner = Some(caller.clone());
            spare.child.assign_to(caller);
            return Step::Use(spare.child.clone());
        }
        let room_until = Some(waiter.asked + SLOT_WAIT);
        self.wait_for_start(waiter, Some(caller), room_until, now)
    }

    /// One that has nothing to do; or another, as long as there may be one. While children live, each of which
    /// may become free, no failed start refuses anybody.
    fn step_call(&mut self, waiter: &mut Waiter<'_>, now: Instant) -> Step {
        let with_debt = |debt: Debt| {
            self.alive().map(|member| &member.child).find(|child| child.leases() == 0 && child.debt() == debt)
        };
        if let Some(free) = with_debt(Debt::None) {
            return Step::Use(free.clone());
        }
        if !waiter.counted {
            return Step::Wait;
        }
        let idle = with_debt(Debt::Dropped).cloned();
        let lives = self.alive().next().is_some();
        match self.awaited(waiter) {
            Awaited::UnderWay => return Step::Wait,
            Awaited::Failed(_) if lives => waiter.again = Some(now + SLOT_WAIT),
            Awaited::Failed(error) if self.starting.is_empty() && waiter.is_refused_by(&error) => {
                return Step::Refuse(error);
            }
            Awaited::Failed(_) | Awaited::Nothing => {}
        }
        waiter.start = None;
        let again = waiter.again.filter(|again| *again > now).max(self.breaker.next_start(now));
        let (is_full, room_until) = (self.is_full(), Some(waiter.asked + SLOT_WAIT));
        if !is_full && self.starting.len() < self.waiting && (!lives || again.is_none()) {
            return self.begin(waiter, None, room_until, now);
        }
        match (self.starting.first(), idle) {
            (None, Some(idle)) => Step::Use(idle),
            (Some(start), _) if !lives => {
                waiter.waits_for(start, false);
                Step::Wait
            }
            _ => again.filter(|_| !is_full).map_or(Step::Wait, Step::WaitUntil),
        }
    }

    /// Waits for a start that is for this owner, or begins one; refuses a caller whose own start failed.
    fn wait_for_start(
        &mut self,
        waiter: &mut Waiter<'_>,
        owner: Option<&Arc<Caller>>,
        room_until: Option<Instant>,
        now: Instant,
    ) -> Step {
        let awaited = self.awaited(waiter);
        if matches!(awaited, Awaited::UnderWay) {
            return Step::Wait;
        }
        if let Some(under_way) = self.starting.iter().find(|start| start.is_for(owner)) {
            waiter.waits_for(under_way, false);
            return Step::Wait;
        }
        if let Awaited::Failed(error) = awaited
            && waiter.is_refused_by(&error)
        {
            return Step::Refuse(error);
        }
        waiter.start = None;
        if let Some(error) = self.failed_since(waiter.asked, owner) {
            return Step::Refuse(error);
        }
        if self.is_full() {
            return Step::WaitForRoom;
        }
        self.begin(waiter, owner.cloned(), room_until, now)
    }

    fn awaited(&self, waiter: &Waiter<'_>) -> Awaited {
        let Some(start) = &waiter.start else { return Awaited::Nothing };
        match start.failure.get() {
            Some((_, error)) => Awaited::Failed(error.clone()),
            None if self.starting.iter().any(|under_way| Arc::ptr_eq(under_way, start)) => Awaited::UnderWay,
            // It succeeded; somebody else has the child, or it is gone.
            None => Awaited::Nothing,
        }
    }

    /// Why a start failed that a caller would have waited for, had it not stood behind another call of its host.
    fn failed_since(&self, asked: Instant, owner: Option<&Arc<Caller>>) -> Option<PoolError> {
        let failed = self.failed.iter().rev().filter(|start| start.is_for(owner));
        let told = failed.filter_map(|start| start.failure.get()).filter(|(at, _)| *at > asked);
        // Whether there is room by now is looked at again.
        told.map(|(_, error)| error).find(|error| !matches!(error, PoolError::NoRoom(_))).cloned()
    }

    pub(super) fn is_full(&self) -> bool {
        let serving = self.alive().filter(|member| !member.child.has_suspended_calls()).count();
        serving + self.starting.len() >= self.settings.max
    }

    fn begin(
        &mut self,
        waiter: &mut Waiter<'_>,
        owner: Option<Arc<Caller>>,
        room_until: Option<Instant>,
        now: Instant,
    ) -> Step {
        match self.start(owner, room_until, now) {
            Ok(start) => {
                waiter.waits_for(&start, true);
                Step::Start(start)
            }
            Err(refusal) => refusal,
        }
    }

    /// Notes a start, unless the breaker rests.
    pub(super) fn start(
        &mut self,
        owner: Option<Arc<Caller>>,
        room_until: Option<Instant>,
        now: Instant,
    ) -> Result<Arc<Start>, Step> {
        if let Some(start) = self.breaker.next_start(now) {
            let pause = start - now;
            if pause <= SHORT_PAUSE {
                return Err(Step::Rest(start));
            }
            let last = self.last_crash.clone().unwrap_or(ChildError::Stopped);
            let ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            return Err(Step::Refuse(PoolError::CoolingDown { last, ms }));
        }
        Ok(self.note_start(owner, room_until, now))
    }

    fn note_start(
        &mut self,
        owner: Option<Arc<Caller>>,
        room_until: Option<Instant>,
        begun: Instant,
    ) -> Arc<Start> {
        let start = Arc::new(Start { owner, room_until, begun, failure: OnceLock::new() });
        self.starting.push(start.clone());
        self.starts += 1;
        start
    }

    /// A start is over; `failure`: why there is no child. Those who wait for it find that out.
    pub(super) fn end_start(&mut self, start: &Arc<Start>, failure: Option<&PoolError>, now: Instant) {
        self.starting.retain(|under_way| !Arc::ptr_eq(under_way, start));
        let Some(failure) = failure else {
            self.failed.retain(|failed| !failed.is_for(start.owner.as_ref()));
            return;
        };
        let _ = start.failure.set((now, failure.clone()));
        if !start.is_needed() {
            return;
        }
        if self.failed.len() == FAILED_KEPT {
            self.failed.pop_front();
        }
        self.failed.push_back(start.clone());
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

    /// The starts that no call asks for, each noted; and when to look again, if they have to wait. `follows`: whether
    /// anybody follows a resource of its children.
    pub(super) fn missing_spares(
        &mut self,
        now: Instant,
        follows: impl FnOnce() -> bool,
    ) -> (Vec<Arc<Start>>, Option<Instant>) {
        if self.retired || !self.ran_before {
            return (Vec::new(), None);
        }
        let missing = self.missing(follows);
        if missing.is_empty() || !self.spares.may_start(now) || self.breaker.next_start(now).is_some() {
            let later = self.spares.later(now).max(self.breaker.next_start(now));
            return (Vec::new(), later.filter(|_| !missing.is_empty()));
        }
        (missing.into_iter().map(|owner| self.note_start(owner, None, now)).collect(), None)
    }

    /// When somebody has to come back for the spares that may be started at `later`; `None` if somebody does by then. A
    /// pause that was noted before may be much longer than this one.
    pub(super) fn wake_at(&mut self, later: Option<Instant>) -> Option<Instant> {
        let sooner = later.filter(|later| self.woken_at.is_none_or(|at| *later < at))?;
        self.woken_at = Some(sooner);
        Some(sooner)
    }

    /// Somebody came back as [`State::wake_at`] said; false if another was to come sooner, and has looked.
    pub(super) fn is_woken(&mut self, at: Instant) -> bool {
        self.woken_at.take_if(|woken| *woken == at).is_some()
    }

    /// A start waits for what makes starts possible that no call asks for. What it gets resolves when another start
    /// waits in its place, or the pool is gone.
    pub(super) fn await_cure(&mut self) -> oneshot::Receiver<()> {
        let (waits, replaced) = oneshot::channel();
        self.awaits_cure = Some(waits);
        replaced
    }

    /// A child has ended that was told to. One that was nobody's and took too much memory is not replaced at once.
    pub(super) fn stopped(&mut self, child: &Child, was_spare: bool, now: Instant) {
        if was_spare && child.is_evicted() {
            self.spares.evicted(now);
        }
        if child.has_served() {
            // What keeps the next one from starting has nothing to do with how this one ended.
            self.last_failure.take_if(|failure| !matches!(failure, PoolError::NotLaunchable(_)));
        }
    }

    /// Whose children are missing: spares, and those that somebody follows.
    fn missing(&mut self, follows: impl FnOnce() -> bool) -> Vec<Option<Arc<Caller>>> {
        let is_session = self.settings.scope == Scope::Session;
        let there = self.alive().filter(|member| !is_session || member.owner.is_none()).count();
        let starting = self.starting.iter().filter(|start| start.owner.is_none()).count();
        let followed = self.settings.scope == Scope::Shared && there + starting == 0 && follows();
        let wanted = self.settings.warm.min(self.wanted_spares).max(usize::from(followed));
        let mut room = self.settings.max.saturating_sub(self.alive().count() + self.starting.len());
        let mut missing = Vec::new();
        if is_session && !self.follow_on.is_empty() {
            let mut owners = std::mem::take(&mut self.follow_on);
            owners.retain(|owner| {
                let is_own = |other: &Option<Arc<Caller>>| {
                    other.as_ref().is_some_and(|other| Arc::ptr_eq(other, owner))
                };
                !owner.is_closed() && !self.alive().any(|member| is_own(&member.owner))
            });
            let idle =
                owners.iter().filter(|owner| !self.starting.iter().any(|start| start.is_for(Some(owner))));
            missing.extend(idle.take(room).map(|owner| Some(owner.clone())));
            room -= missing.len();
            self.follow_on = owners;
        }
        missing.extend(std::iter::repeat_n(None, wanted.saturating_sub(there + starting).min(room)));
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

impl Waiter<'_> {
    /// Whether the failure of the start that it waits for is its own. One who began a start earlier had less time
    /// left to wait for room, and a start that no call needed has not waited for room at all.
    fn is_refused_by(&self, failure: &PoolError) -> bool {
        let waited_for_room = self.began && self.start.as_ref().is_some_and(|start| start.is_needed());
        waited_for_room || !matches!(failure, PoolError::NoRoom(_))
    }
}

#[cfg(test)]
mod tests;

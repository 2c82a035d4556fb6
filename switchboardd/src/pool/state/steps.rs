//! What a caller that needs a child does next: use one, begin or await a start, wait, or be refused.

use std::sync::Arc;
use std::time::Duration;

use switchboard_definitions::config::Scope;
use tokio::time::Instant;

use super::{PoolState, Start};
use crate::caller::Caller;
use crate::pool::member::{Member, UnansweredCalls};
use crate::pool::{PoolError, SLOT_WAIT};

/// How long callers wait for a start before they share a child that another host uses.
pub(super) const OWN_CHILD_WAIT: Duration = Duration::from_secs(2);

/// A caller that waits for a child.
#[derive(Debug)]
pub(in crate::pool) struct Waiter<'a> {
    caller: &'a Arc<Caller>,
    /// When its call came in.
    asked: Instant,
    /// It is counted in [`PoolState::waiting`].
    pub(in crate::pool) counted: bool,
    start: Option<Arc<Start>>,
    /// This caller began the start that it waits for.
    began: bool,
    /// After a failed start: when it may begin another one although children are alive.
    again: Option<Instant>,
}

impl<'a> Waiter<'a> {
    pub(in crate::pool) fn new(caller: &'a Arc<Caller>, asked: Instant) -> Self {
        Self { caller, asked, counted: false, start: None, began: false, again: None }
    }

    fn waits_for(&mut self, start: &Arc<Start>, began: bool) {
        self.start = Some(start.clone());
        self.began = began;
    }
}

#[derive(Debug)]
pub(in crate::pool) enum LeaseStep {
    Use(Arc<Member>),
    /// A start was registered; the caller has to run it.
    Start(Arc<Start>),
    Wait,
    /// Like `Wait`, but take the next step at this time.
    WaitUntil(Instant),
    /// All children are taken; one may become free.
    WaitForRoom,
    Rest(Instant),
    Refuse(PoolError),
}

/// The state of the start that a caller waits for.
enum StartStatus {
    Nothing,
    UnderWay,
    Failed(PoolError),
}

impl PoolState {
    /// What a caller does next. Registers the decision, so that no two callers make the same one.
    pub(in crate::pool) fn step(&mut self, waiter: &mut Waiter<'_>, now: Instant) -> LeaseStep {
        match self.settings.scope {
            Scope::Shared | Scope::Workspace => self.step_shared(waiter, now),
            Scope::Session => self.step_session(waiter, now),
            Scope::Call => self.step_call(waiter, now),
        }
    }

    /// Uses the least busy child; starts another one only if none is free.
    fn step_shared(&mut self, waiter: &mut Waiter<'_>, now: Instant) -> LeaseStep {
        let apart = self.settings.max > 1;
        for member in self.alive().filter(|member| member.could_not_ask(waiter.caller)) {
            // It may still work for a host that gave up, so it could not ask this one anything. With a `max`
            // of one it stays while others use it, because a second child would exceed `max`.
            if apart || member.leases() == 0 {
                member.retire();
            }
        }
        let room_until = Some(waiter.asked + SLOT_WAIT);
        let is_crowded = |member: &Arc<Member>| apart && member.is_crowded_for(waiter.caller);
        let least = |suspended: bool| {
            let fit = self.alive().filter(|member| member.has_suspended_calls() == suspended);
            fit.map(|member| (is_crowded(member), member.leases(), member))
                .min_by_key(|(crowded, leases, _)| (*crowded, *leases))
        };
        let (free, suspended) = (least(false), least(true).map(|(_, _, member)| member.clone()));
        let free = free.map(|(crowded, leases, member)| (crowded, leases, member.clone()));
        match free {
            Some((false, 0, member)) => LeaseStep::Use(member),
            Some((true, _, member)) => {
                // Its questions could be for either host: this caller gets another child, within `max`. No
                // call needs that child, so it is started like a spare.
                if self.starting.is_empty() && (self.is_full() || !self.spares.may_start(now)) {
                    return LeaseStep::Use(member);
                }
                match self.wait_for_start(waiter, None, None, now) {
                    step @ LeaseStep::Start(_) => step,
                    LeaseStep::Wait => {
                        match waiter.start.as_ref().map(|start| start.started_at + OWN_CHILD_WAIT) {
                            Some(until) if until > now => LeaseStep::WaitUntil(until),
                            _ => LeaseStep::Use(member),
                        }
                    }
                    _ => LeaseStep::Use(member),
                }
            }
            Some((false, _, member)) if self.is_full() || !self.starting.is_empty() => LeaseStep::Use(member),
            Some((false, _, member)) => match self.begin(waiter, None, room_until, now) {
                LeaseStep::Start(start) => LeaseStep::Start(start),
                _ => LeaseStep::Use(member),
            },
            // A child with suspended calls serves others only if there is no alternative.
            None => match (self.wait_for_start(waiter, None, room_until, now), suspended) {
                (step @ (LeaseStep::Start(_) | LeaseStep::Wait), _) => step,
                (_, Some(suspended)) => LeaseStep::Use(suspended),
                (refused, None) => refused,
            },
        }
    }

    fn step_session(&mut self, waiter: &mut Waiter<'_>, now: Instant) -> LeaseStep {
        let caller = waiter.caller;
        if let Some(own) = self.alive().find(|member| member.is_owned_by(caller)) {
            return LeaseStep::Use(own.clone());
        }
        if let Some(spare) = self.alive().find(|member| !member.is_owned()) {
            spare.assign_to(caller);
            return LeaseStep::Use(spare.clone());
        }
        let room_until = Some(waiter.asked + SLOT_WAIT);
        self.wait_for_start(waiter, Some(caller), room_until, now)
    }

    /// Uses a free child, or starts one within `max`. While children are alive, which may become free, a
    /// failed start refuses nobody.
    fn step_call(&mut self, waiter: &mut Waiter<'_>, now: Instant) -> LeaseStep {
        let with_debt = |debt: UnansweredCalls| {
            self.alive().find(|member| member.leases() == 0 && member.unanswered_calls() == debt)
        };
        if let Some(free) = with_debt(UnansweredCalls::None) {
            return LeaseStep::Use(free.clone());
        }
        if !waiter.counted {
            return LeaseStep::Wait;
        }
        let idle = with_debt(UnansweredCalls::Dropped).cloned();
        let lives = self.alive().next().is_some();
        match self.start_status(waiter) {
            StartStatus::UnderWay => return LeaseStep::Wait,
            StartStatus::Failed(_) if lives => waiter.again = Some(now + SLOT_WAIT),
            StartStatus::Failed(error) if self.starting.is_empty() && waiter.is_refused_by(&error) => {
                return LeaseStep::Refuse(error);
            }
            StartStatus::Failed(_) | StartStatus::Nothing => {}
        }
        waiter.start = None;
        let again = waiter.again.filter(|again| *again > now).max(self.breaker.next_start(now));
        let (is_full, room_until) = (self.is_full(), Some(waiter.asked + SLOT_WAIT));
        if !is_full && self.starting.len() < self.waiting && (!lives || again.is_none()) {
            return self.begin(waiter, None, room_until, now);
        }
        match (self.starting.first(), idle) {
            (None, Some(idle)) => LeaseStep::Use(idle),
            (Some(start), _) if !lives => {
                waiter.waits_for(start, false);
                LeaseStep::Wait
            }
            _ => again.filter(|_| !is_full).map_or(LeaseStep::Wait, LeaseStep::WaitUntil),
        }
    }

    /// Waits for a start for this owner, or begins one; refuses a caller whose start failed.
    pub(super) fn wait_for_start(
        &mut self,
        waiter: &mut Waiter<'_>,
        owner: Option<&Arc<Caller>>,
        room_until: Option<Instant>,
        now: Instant,
    ) -> LeaseStep {
        let awaited = self.start_status(waiter);
        if matches!(awaited, StartStatus::UnderWay) {
            return LeaseStep::Wait;
        }
        if let Some(under_way) = self.starting.iter().find(|start| start.belongs_to(owner)) {
            waiter.waits_for(under_way, false);
            return LeaseStep::Wait;
        }
        if let StartStatus::Failed(error) = awaited
            && waiter.is_refused_by(&error)
        {
            return LeaseStep::Refuse(error);
        }
        waiter.start = None;
        if let Some(error) = self.failed_since(waiter.asked, owner) {
            return LeaseStep::Refuse(error);
        }
        if self.is_full() {
            return LeaseStep::WaitForRoom;
        }
        self.begin(waiter, owner.cloned(), room_until, now)
    }

    fn start_status(&self, waiter: &Waiter<'_>) -> StartStatus {
        let Some(start) = &waiter.start else { return StartStatus::Nothing };
        match start.failure.get() {
            Some((_, error)) => StartStatus::Failed(error.clone()),
            None if self.starting.iter().any(|under_way| Arc::ptr_eq(under_way, start)) => {
                StartStatus::UnderWay
            }
            // It succeeded; another caller has the child, or it is gone.
            None => StartStatus::Nothing,
        }
    }

    /// Why a start failed that this caller would have waited for if its call had not been queued behind
    /// another one of its host.
    fn failed_since(&self, asked: Instant, owner: Option<&Arc<Caller>>) -> Option<PoolError> {
        let failed = self.failed.iter().rev().filter(|start| start.belongs_to(owner));
        let told = failed.filter_map(|start| start.failure.get()).filter(|(at, _)| *at > asked);
        // There may be room by now: that is checked again.
        told.map(|(_, error)| error).find(|error| !matches!(error, PoolError::NoRoom(_))).cloned()
    }

    fn begin(
        &mut self,
        waiter: &mut Waiter<'_>,
        owner: Option<Arc<Caller>>,
        room_until: Option<Instant>,
        now: Instant,
    ) -> LeaseStep {
        match self.start(owner, room_until, now) {
            Ok(start) => {
                waiter.waits_for(&start, true);
                LeaseStep::Start(start)
            }
            Err(refusal) => refusal,
        }
    }
}

impl Waiter<'_> {
    /// Whether the failure of the start that it waits for refuses this caller. A lack of room refuses only
    /// the caller that began the start: others may have more time left to wait, and a start that no call
    /// needed did not wait at all.
    fn is_refused_by(&self, failure: &PoolError) -> bool {
        let waited_for_room = self.began && self.start.as_ref().is_some_and(|start| start.is_needed());
        waited_for_room || !matches!(failure, PoolError::NoRoom(_))
    }
}

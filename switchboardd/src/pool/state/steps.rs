//! What a caller does next on its way to a child: use one, begin or await a start, wait, or be refused.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Start, State};
use crate::caller::Caller;
use crate::config::Scope;
use crate::pool::member::{Debt, Member};
use crate::pool::{PoolError, SLOT_WAIT};

/// How long callers wait for a start before they share a child that another host uses.
pub(super) const APART: Duration = Duration::from_secs(2);

/// A caller that waits for a child.
#[derive(Debug)]
pub(in crate::pool) struct Waiter<'a> {
    caller: &'a Arc<Caller>,
    /// When its call came in.
    asked: Instant,
    /// It is counted in [`State::waiting`].
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
pub(in crate::pool) enum Step {
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
enum Awaited {
    Nothing,
    UnderWay,
    Failed(PoolError),
}

impl State {
    /// What a caller does next. Registers the decision, so that no two callers make the same one.
    pub(in crate::pool) fn step(&mut self, waiter: &mut Waiter<'_>, now: Instant) -> Step {
        match self.settings.scope {
            Scope::Shared => self.step_shared(waiter, now),
            Scope::Session => self.step_session(waiter, now),
            Scope::Call => self.step_call(waiter, now),
        }
    }

    /// Uses the least busy child; starts another one only if none is free.
    fn step_shared(&mut self, waiter: &mut Waiter<'_>, now: Instant) -> Step {
        let apart = self.settings.max > 1;
        for member in self.alive().filter(|member| member.is_unsure_of(waiter.caller)) {
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
            Some((false, 0, member)) => Step::Use(member),
            Some((true, _, member)) => {
                // Its questions could be for either host: this caller gets another child, within `max`. No
                // call needs that child, so it is started like a spare.
                if self.starting.is_empty() && (self.is_full() || !self.spares.may_start(now)) {
                    return Step::Use(member);
                }
                match self.wait_for_start(waiter, None, None, now) {
                    step @ Step::Start(_) => step,
                    Step::Wait => match waiter.start.as_ref().map(|start| start.begun + APART) {
                        Some(until) if until > now => Step::WaitUntil(until),
                        _ => Step::Use(member),
                    },
                    _ => Step::Use(member),
                }
            }
            Some((false, _, member)) if self.is_full() || !self.starting.is_empty() => Step::Use(member),
            Some((false, _, member)) => match self.begin(waiter, None, room_until, now) {
                Step::Start(start) => Step::Start(start),
                _ => Step::Use(member),
            },
            // A child with suspended calls serves others only if there is no alternative.
            None => match (self.wait_for_start(waiter, None, room_until, now), suspended) {
                (step @ (Step::Start(_) | Step::Wait), _) => step,
                (_, Some(suspended)) => Step::Use(suspended),
                (refused, None) => refused,
            },
        }
    }

    fn step_session(&mut self, waiter: &mut Waiter<'_>, now: Instant) -> Step {
        let caller = waiter.caller;
        if let Some(own) = self.alive().find(|member| member.is_owned_by(caller)) {
            return Step::Use(own.clone());
        }
        if let Some(spare) = self.alive().find(|member| !member.is_owned()) {
            spare.assign_to(caller);
            return Step::Use(spare.clone());
        }
        let room_until = Some(waiter.asked + SLOT_WAIT);
        self.wait_for_start(waiter, Some(caller), room_until, now)
    }

    /// Uses a free child, or starts one within `max`. While children are alive, which may become free, a
    /// failed start refuses nobody.
    fn step_call(&mut self, waiter: &mut Waiter<'_>, now: Instant) -> Step {
        let with_debt =
            |debt: Debt| self.alive().find(|member| member.leases() == 0 && member.debt() == debt);
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

    /// Waits for a start for this owner, or begins one; refuses a caller whose start failed.
    pub(super) fn wait_for_start(
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
            // It succeeded; another caller has the child, or it is gone.
            None => Awaited::Nothing,
        }
    }

    /// Why a start failed that this caller would have waited for if its call had not been queued behind
    /// another one of its host.
    fn failed_since(&self, asked: Instant, owner: Option<&Arc<Caller>>) -> Option<PoolError> {
        let failed = self.failed.iter().rev().filter(|start| start.is_for(owner));
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
    ) -> Step {
        match self.start(owner, room_until, now) {
            Ok(start) => {
                waiter.waits_for(&start, true);
                Step::Start(start)
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

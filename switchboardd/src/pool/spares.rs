//! When starts that no call asked for may be retried: those of spares, of children with subscribed resources,
//! and after `introspect`. Pure: `now` is passed in.
//!
//! A failure that only an event can fix waits for that event. Every other failure doubles the pause.

use std::time::Duration;

use switchboard_wire::backoff;
use tokio::time::Instant;

use super::PoolError;
use crate::child::ChildError;
use crate::child::remote::RemoteError;
use crate::child::remote::auth::AuthError;
use crate::child::value_resolver::NotLaunchable;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// After a child has gone, callers that wait for its slot get it first.
pub(super) const SLOT_HANDOVER_PAUSE: Duration = Duration::from_secs(1);
/// A spare that was evicted to save memory would be evicted again.
const FIRST_EVICTION: Duration = Duration::from_secs(30);
const LONGEST_EVICTION: Duration = Duration::from_secs(60 * 60);

/// No event reports that an allowed program is back, so it is polled.
const PROGRAM_PAUSE: Duration = Duration::from_secs(5 * 60);

/// The event that has to happen before the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryCondition {
    /// A variable is set, or the allowed program is back.
    Values,
    Login,
    /// A child is gone.
    Room,
}

#[derive(Debug, Default)]
pub(super) struct Spares {
    failures: u32,
    evictions: u32,
    after: Option<Instant>,
    waits_for: Option<RetryCondition>,
    /// When a start is attempted without the event.
    look_again: Option<Instant>,
}

impl Spares {
    /// A start failed that no call asked for. Returns the condition that it waits for now, if that is new.
    pub(super) fn on_start_failed(&mut self, error: &PoolError, now: Instant) -> Option<RetryCondition> {
        let cure = retry_condition(error);
        match cure {
            None => self.pause(now),
            Some(RetryCondition::Room) => self.pause_until(now + SLOT_HANDOVER_PAUSE),
            Some(RetryCondition::Values | RetryCondition::Login) => {}
        }
        // This start got past the check of its program.
        if self.look_again.take().is_some() && cure.is_none() {
            self.waits_for = None;
        }
        self.look_again = lacks_program(error).then(|| now + PROGRAM_PAUSE);
        let is_new = cure.is_some() && self.waits_for != cure;
        self.waits_for = cure.or(self.waits_for);
        cure.filter(|_| is_new)
    }

    /// Delays the next attempt, longer than the last one.
    pub(super) fn pause(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.pause_until(now + backoff::pause_after(self.failures, FIRST_PAUSE, LONGEST_PAUSE));
    }

    /// A start for a call failed: if only an event can fix that, spares wait for the event too.
    pub(super) fn call_failed(&mut self, error: &PoolError, now: Instant) -> Option<RetryCondition> {
        match retry_condition(error) {
            Some(RetryCondition::Values | RetryCondition::Login) => self.on_start_failed(error, now),
            Some(RetryCondition::Room) | None => None,
        }
    }

    /// A child that nobody used was evicted to save memory.
    pub(super) fn on_evicted(&mut self, now: Instant) {
        self.evictions = self.evictions.saturating_add(1);
        self.pause_until(now + backoff::pause_after(self.evictions, FIRST_EVICTION, LONGEST_EVICTION));
    }

    /// The event has happened.
    pub(super) fn on_condition_met(&mut self, by: RetryCondition) {
        self.waits_for.take_if(|cure| *cure == by);
    }

    /// A child has started, so others can start too.
    pub(super) fn on_started(&mut self) {
        self.failures = 0;
        self.waits_for = None;
    }

    /// A call used a child: it is worth its memory.
    pub(super) fn on_used(&mut self) {
        self.evictions = 0;
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Whether a start may be tried now.
    pub(super) fn may_start(&self, now: Instant) -> bool {
        let is_due = self.look_again.is_some_and(|at| at <= now);
        (self.waits_for.is_none() || is_due) && self.retry_at(now).is_none()
    }

    /// When a start may be attempted, if it only has to wait for a pause.
    pub(super) fn retry_at(&self, now: Instant) -> Option<Instant> {
        let after = if self.waits_for.is_none() { self.after } else { self.look_again };
        after.filter(|after| *after > now)
    }

    fn pause_until(&mut self, until: Instant) {
        self.after = self.after.max(Some(until));
    }
}

fn retry_condition(error: &PoolError) -> Option<RetryCondition> {
    match error {
        PoolError::NotLaunchable(_) => Some(RetryCondition::Values),
        PoolError::NoRoom(_) => Some(RetryCondition::Room),
        PoolError::Child(ChildError::Remote(RemoteError::Auth(AuthError::Login { .. }))) => {
            Some(RetryCondition::Login)
        }
        PoolError::Child(_)
        | PoolError::CoolingDown { .. }
        | PoolError::Full { .. }
        | PoolError::NoWorkspace => None,
    }
}

/// Whether only the program is missing: no watched file changes when it is back.
fn lacks_program(error: &PoolError) -> bool {
    matches!(error, PoolError::NotLaunchable(NotLaunchable::Held { .. } | NotLaunchable::NoProgram(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::budget::NoRoom;

    fn spawn_failed() -> PoolError {
        ChildError::Spawn { why: "no such file".to_owned() }.into()
    }

    #[test]
    fn each_failure_doubles_the_pause_up_to_a_minute() {
        let mut spares = Spares::default();
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            assert!(spares.may_start(now));
            assert_eq!(spares.on_start_failed(&spawn_failed(), now), None);
            let later = spares.retry_at(now).unwrap();
            pauses.push((later - now).as_millis());
            now = later;
        }
        assert_eq!(pauses[..4], [200, 400, 800, 1600]);
        assert_eq!(pauses[11], 60_000);
        spares.on_started();
        spares.on_start_failed(&spawn_failed(), now);
        assert_eq!(spares.retry_at(now), Some(now + FIRST_PAUSE));
    }

    #[test]
    fn a_failure_that_an_event_fixes_waits_for_that_event_and_no_timer() {
        let login = AuthError::Login { child: "k".into(), open: None };
        let cases = [
            (
                PoolError::NotLaunchable(NotLaunchable::Misconfigured("missing `X`".to_owned())),
                RetryCondition::Values,
            ),
            (PoolError::Child(ChildError::Remote(RemoteError::Auth(login))), RetryCondition::Login),
            (PoolError::NoRoom(NoRoom::Children { running: 1, most: 1 }), RetryCondition::Room),
        ];
        for (error, cure) in cases {
            let mut spares = Spares::default();
            let now = Instant::now();
            assert_eq!(spares.on_start_failed(&error, now), Some(cure));
            assert_eq!(spares.on_start_failed(&error, now), None, "one waits for it already");
            let day = now + Duration::from_secs(24 * 60 * 60);
            assert!(!spares.may_start(day) && spares.retry_at(day).is_none(), "{cure:?}");
            [RetryCondition::Values, RetryCondition::Login, RetryCondition::Room]
                .into_iter()
                .filter(|other| *other != cure)
                .for_each(|other| spares.on_condition_met(other));
            assert!(!spares.may_start(day), "{cure:?}");
            spares.on_condition_met(cure);
            assert!(spares.may_start(day), "{cure:?}");
        }
    }

    #[test]
    fn a_missing_program_is_looked_for_again() {
        let held = NotLaunchable::Held { found: "/b".to_owned(), allowed: "/a".to_owned() };
        for error in
            [held, NotLaunchable::NoProgram("command `a` not found".to_owned())].map(PoolError::NotLaunchable)
        {
            let mut spares = Spares::default();
            let now = Instant::now();
            assert_eq!(spares.on_start_failed(&error, now), Some(RetryCondition::Values));
            assert!(!spares.may_start(now));
            let later = spares.retry_at(now).unwrap();
            assert_eq!(later, now + PROGRAM_PAUSE);
            assert!(spares.may_start(later));
            spares.on_start_failed(&error, later);
            assert_eq!(spares.retry_at(later), Some(later + PROGRAM_PAUSE));
            spares.on_condition_met(RetryCondition::Values);
            assert!(spares.may_start(later));
            spares.on_start_failed(&error, later);
            spares.on_start_failed(&spawn_failed(), later);
            assert_eq!(spares.retry_at(later), Some(later + FIRST_PAUSE));
        }
    }

    #[test]
    fn a_call_without_room_delays_no_spare() {
        let mut spares = Spares::default();
        let now = Instant::now();
        let full = PoolError::NoRoom(NoRoom::Children { running: 1, most: 1 });
        assert_eq!(spares.call_failed(&full, now), None);
        assert!(spares.may_start(now));
    }

    #[test]
    fn each_eviction_doubles_the_pause_of_spares() {
        let mut spares = Spares::default();
        let now = Instant::now();
        spares.on_evicted(now);
        assert_eq!(spares.retry_at(now), Some(now + FIRST_EVICTION));
        spares.on_evicted(now);
        assert_eq!(spares.retry_at(now), Some(now + FIRST_EVICTION * 2));
        spares.on_used();
        let later = now + FIRST_EVICTION * 2;
        spares.on_evicted(later);
        assert_eq!(spares.retry_at(later), Some(later + FIRST_EVICTION));
    }
}

//! Which callers a failed start refuses, and which child a caller gets. No child here has a process.

use super::steps::OWN_CHILD_WAIT;
use super::*;
use crate::child::value_resolver::NotLaunchable;
use crate::child::without_process;
use crate::pool::SLOT_WAIT;
use crate::pool::budget::NoRoom;
use crate::pool::spares::RetryCondition;

fn state(scope: Scope, max: usize) -> PoolState {
    let settings = PoolSettings { scope, warm: 0, max, idle: Duration::from_secs(600) };
    PoolState::new(settings, None)
}

fn crashed() -> PoolError {
    ChildError::Spawn { why: "no such file".to_owned() }.into()
}

fn no_room() -> PoolError {
    NoRoom::Children { running: 1, most: 1 }.into()
}

#[track_caller]
fn expect_start(step: LeaseStep) -> Arc<Start> {
    match step {
        LeaseStep::Start(start) => start,
        other => panic!("{other:?}"),
    }
}

fn is_refused(step: &LeaseStep) -> bool {
    matches!(step, LeaseStep::Refuse(_))
}

#[test]
fn one_sessions_failed_start_refuses_no_other_session() {
    let mut state = state(Scope::Session, 8);
    let (one, two) = (Caller::anonymous(), Caller::anonymous());
    let now = Instant::now();
    let (mut first, mut second) = (Waiter::new(&one, now), Waiter::new(&two, now));
    let starts = [expect_start(state.step(&mut first, now)), expect_start(state.step(&mut second, now))];
    let later = now + Duration::from_millis(1);
    state.end_start(&starts[1], Some(&crashed()), later);
    assert!(matches!(state.step(&mut first, later), LeaseStep::Wait));
    assert!(is_refused(&state.step(&mut second, later)));
    // A call that came in before and was queued behind that call is refused too; a later one is not.
    assert!(is_refused(&state.step(&mut Waiter::new(&two, now), later)));
    assert!(matches!(state.step(&mut Waiter::new(&one, now), later), LeaseStep::Wait));
    expect_start(state.step(&mut Waiter::new(&two, later), later));
}

#[test]
fn all_callers_of_a_shared_start_are_refused_by_it_once() {
    let mut state = state(Scope::Shared, 1);
    let (one, two) = (Caller::anonymous(), Caller::anonymous());
    let now = Instant::now();
    let (mut first, mut second) = (Waiter::new(&one, now), Waiter::new(&two, now));
    let start = expect_start(state.step(&mut first, now));
    assert!(matches!(state.step(&mut second, now), LeaseStep::Wait));
    state.end_start(&start, Some(&crashed()), now + Duration::from_millis(1));
    assert!(is_refused(&state.step(&mut first, now)) && is_refused(&state.step(&mut second, now)));
    assert_eq!(state.starts, 1);
}

#[test]
fn a_caller_that_joined_a_start_without_room_has_its_own_time_to_wait() {
    let mut state = state(Scope::Shared, 1);
    let (one, two) = (Caller::anonymous(), Caller::anonymous());
    let now = Instant::now();
    let came = now + Duration::from_secs(4);
    let (mut first, mut second) = (Waiter::new(&one, now), Waiter::new(&two, came));
    let start = expect_start(state.step(&mut first, now));
    assert_eq!(start.room_until, Some(now + SLOT_WAIT));
    assert!(matches!(state.step(&mut second, came), LeaseStep::Wait));
    let later = now + SLOT_WAIT;
    state.end_start(&start, Some(&no_room()), later);
    assert!(is_refused(&state.step(&mut first, later)));
    let again = expect_start(state.step(&mut second, later));
    assert_eq!(again.room_until, Some(came + SLOT_WAIT));
    state.end_start(&again, Some(&no_room()), later);
    assert!(is_refused(&state.step(&mut second, later)));
}

#[test]
fn with_scope_call_a_failed_start_refuses_nobody_while_another_is_in_progress() {
    let mut state = state(Scope::Call, 2);
    let callers = [Caller::anonymous(), Caller::anonymous(), Caller::anonymous()];
    let now = Instant::now();
    state.waiting = 3;
    let mut waiters: Vec<_> = callers.iter().map(|caller| Waiter::new(caller, now)).collect();
    waiters.iter_mut().for_each(|waiter| waiter.counted = true);
    let starts =
        [expect_start(state.step(&mut waiters[0], now)), expect_start(state.step(&mut waiters[1], now))];
    assert!(matches!(state.step(&mut waiters[2], now), LeaseStep::Wait), "`max` is reached");
    let later = now + Duration::from_millis(1);
    state.end_start(&starts[0], Some(&no_room()), later);
    // The other start may still bring a child for each of them.
    state.waiting = 1;
    assert!(matches!(state.step(&mut waiters[0], later), LeaseStep::Wait));
    assert!(matches!(state.step(&mut waiters[2], later), LeaseStep::Wait));
    state.end_start(&starts[1], Some(&crashed()), later);
    assert!(waiters.iter_mut().all(|waiter| is_refused(&state.step(waiter, later))));
}

#[test]
fn spares_wait_for_their_retry_condition() {
    let mut state = state(Scope::Shared, 2);
    (state.settings.warm, state.wanted_spares, state.ran_before) = (2, 2, true);
    let now = Instant::now();
    let (spares, _) = state.missing_spares(now, || false);
    assert_eq!(spares.len(), 2);
    for spare in &spares {
        assert_eq!(spare.room_until, None);
        state.end_start(spare, Some(&no_room()), now);
        state.spares.on_start_failed(&no_room(), now);
    }
    let later = now + Duration::from_secs(3600);
    assert!(state.missing_spares(later, || false).0.is_empty());
    // A call still starts one.
    let caller = Caller::anonymous();
    expect_start(state.step(&mut Waiter::new(&caller, later), later));
    state.spares.on_condition_met(RetryCondition::Room);
    assert_eq!(state.missing_spares(later, || false).0.len(), 1);
}

#[test]
fn a_failed_spare_refuses_no_earlier_call() {
    let mut state = state(Scope::Shared, 2);
    (state.wanted_spares, state.settings.warm, state.ran_before) = (1, 1, true);
    let now = Instant::now();
    let later = now + Duration::from_millis(1);
    let spares = state.missing_spares(now, || false).0;
    state.end_start(&spares[0], Some(&crashed()), later);
    let caller = Caller::anonymous();
    let start = expect_start(state.step(&mut Waiter::new(&caller, now), later));
    // Neither does a failure that a later start has made up for.
    state.end_start(&start, Some(&crashed()), later);
    assert!(is_refused(&state.step(&mut Waiter::new(&caller, now), later)));
    let good = expect_start(state.step(&mut Waiter::new(&caller, later), later));
    state.end_start(&good, None, later);
    expect_start(state.step(&mut Waiter::new(&caller, now), later));
}

#[test]
fn changed_settings_start_no_spare_before_the_next_use() {
    let mut state = state(Scope::Shared, 8);
    state.ran_before = true;
    let now = Instant::now();
    state.settings.warm = 8;
    assert!(state.missing_spares(now, || false).0.is_empty());
    state.want_spares();
    let spares = state.missing_spares(now, || false).0;
    assert_eq!(spares.len(), 8);
    spares.iter().for_each(|spare| state.end_start(spare, None, now));
    state.settings.warm = 2;
    assert_eq!(state.missing_spares(now, || false).0.len(), 2);
}

#[test]
fn a_caller_that_began_an_unneeded_start_can_still_wait_for_room() {
    let mut state = state(Scope::Shared, 2);
    let caller = Caller::anonymous();
    let now = Instant::now();
    let mut waiter = Waiter::new(&caller, now);
    // As for a caller whose child another host uses; that child is gone when the start fails.
    let start = expect_start(state.wait_for_start(&mut waiter, None, None, now));
    state.end_start(&start, Some(&no_room()), now);
    let again = expect_start(state.step(&mut waiter, now));
    assert_eq!(again.room_until, Some(now + SLOT_WAIT));
    state.end_start(&again, Some(&no_room()), now + SLOT_WAIT);
    assert!(is_refused(&state.step(&mut waiter, now + SLOT_WAIT)));
}

#[tokio::test]
async fn a_caller_waits_at_most_two_seconds_for_a_child_of_its_own() {
    let mut state = state(Scope::Shared, 2);
    let (child, _pipe) = without_process();
    let _call = child.open_call_of(&Caller::named());
    let member = Member::new(child);
    member.change_leases(1);
    state.members.push(member.clone());
    let caller = Caller::named();
    let now = Instant::now();
    let mut waiter = Waiter::new(&caller, now);
    let start = expect_start(state.step(&mut waiter, now));
    assert!(!start.is_needed());
    let until = |step| match step {
        LeaseStep::WaitUntil(until) => until,
        other => panic!("{other:?}"),
    };
    assert_eq!(until(state.step(&mut waiter, now)), now + OWN_CHILD_WAIT);
    // A later caller waits for the same start, but no longer.
    let other = Caller::named();
    let later = now + OWN_CHILD_WAIT / 2;
    assert_eq!(until(state.step(&mut Waiter::new(&other, later), later)), now + OWN_CHILD_WAIT);
    let is_shared = |step| matches!(step, LeaseStep::Use(used) if Arc::ptr_eq(&used, &member));
    assert!(is_shared(state.step(&mut waiter, now + OWN_CHILD_WAIT)));
    // If it fails, callers share the existing child, and it is not retried at once.
    state.end_start(&start, Some(&no_room()), later);
    state.spares.on_start_failed(&no_room(), later);
    assert!(is_shared(state.step(&mut waiter, later)));
}

#[test]
fn spares_are_checked_again_when_the_shortest_pause_is_over() {
    let mut state = state(Scope::Shared, 2);
    (state.settings.warm, state.wanted_spares, state.ran_before) = (1, 1, true);
    let now = Instant::now();
    let gone = PoolError::NotLaunchable(NotLaunchable::NoProgram("command `a` not found".to_owned()));
    let fails = |state: &mut PoolState, failure: &PoolError, now: Instant| {
        let spares = state.missing_spares(now, || false).0;
        assert_eq!(spares.len(), 1);
        state.end_start(&spares[0], Some(failure), now);
        state.spares.on_start_failed(failure, now);
        let later = state.missing_spares(now, || false).1;
        state.wake_at(later)
    };
    let in_minutes = fails(&mut state, &gone, now).unwrap();
    let later = state.missing_spares(now, || false).1;
    assert_eq!(state.wake_at(later), None, "somebody comes then already");
    // The program is back, and crashes once.
    state.reset_breaker();
    let soon = fails(&mut state, &crashed(), now).unwrap();
    assert!(soon < in_minutes);
    assert!(state.is_woken(soon));
    let spares = state.missing_spares(soon, || false).0;
    state.end_start(&spares[0], None, soon);
    // The task that was replaced has nothing to do, and does not disturb others.
    assert!(!state.is_woken(in_minutes));
    assert_eq!(state.wake_at(Some(in_minutes)), Some(in_minutes));
    assert!(state.is_woken(in_minutes));
}

#[test]
fn one_start_at_a_time_waits_for_a_retry_condition() {
    let mut state = state(Scope::Shared, 2);
    let mut first = state.await_condition();
    assert!(matches!(first.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
    let mut second = state.await_condition();
    assert!(matches!(first.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
    assert!(matches!(second.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
    drop(state);
    assert!(matches!(second.try_recv(), Err(oneshot::error::TryRecvError::Closed)), "the pool is gone");
}

#[tokio::test]
async fn a_spare_that_took_too_much_memory_is_not_replaced_at_once() {
    let now = Instant::now();
    for (is_evicted, was_spare, missing) in [(true, true, 0), (true, false, 1), (false, true, 1)] {
        let mut state = state(Scope::Shared, 2);
        (state.settings.warm, state.wanted_spares, state.ran_before) = (1, 1, true);
        let (child, _pipe) = without_process();
        let member = Member::new(child);
        if is_evicted {
            member.evict();
        } else {
            member.stop();
        }
        assert_eq!(member.is_evicted(), is_evicted);
        state.on_stopped(&member, was_spare, now);
        let (spares, later) = state.missing_spares(now, || false);
        assert_eq!(spares.len(), missing, "evicted: {is_evicted}, spare: {was_spare}");
        assert_eq!(later.is_some(), missing == 0);
    }
}

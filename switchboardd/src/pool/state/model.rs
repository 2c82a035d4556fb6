//! A pool under random callers, starts, failures and ends: who gets a child, who waits for what, and that everybody
//! gets one or an error in the end.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use switchboard_definitions::config::Scope;
use tokio::net::unix::pipe;
use tokio::time::Instant;

use super::{LeaseStep, PoolState, Start, Waiter};
use crate::caller::Caller;
use crate::child::{ChildError, without_process};
use crate::pool::budget::NoRoom;
use crate::pool::member::Member;
use crate::pool::{PoolError, PoolSettings, SLOT_WAIT};
use crate::system::model;

const HOSTS: usize = 3;

static CALLERS: LazyLock<Vec<Arc<Caller>>> = LazyLock::new(|| (0..HOSTS).map(|_| Caller::named()).collect());
static RUNTIME: LazyLock<tokio::runtime::Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());

/// What the pool is set to. Everything else is counted beside the pool, in `Test`.
#[derive(Debug, Clone)]
struct Settings {
    scope: Scope,
    max: usize,
}

/// The numbers choose among what there is.
#[derive(Debug, Clone)]
enum Event {
    Comes(usize),
    /// A caller that waits looks again.
    Looks(usize),
    Leaves(usize),
    StartSucceeds(usize),
    StartCrashes(usize),
    StartHasNoRoom(usize),
    IsReleased(usize),
    ChildCrashes {
        which: usize,
        is_kill: bool,
    },
    ChildRetires(usize),
    Waits(u64),
}

impl ReferenceStateMachine for Settings {
    type State = Self;
    type Transition = Event;

    fn init_state() -> BoxedStrategy<Self> {
        let scope = prop_oneof![Just(Scope::Shared), Just(Scope::Session), Just(Scope::Call)];
        (scope, 1..4_usize).prop_map(|(scope, max)| Self { scope, max }).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Event> {
        let which = || 0..8_usize;
        prop_oneof![
            8 => which().prop_map(Event::Comes),
            12 => which().prop_map(Event::Looks),
            1 => which().prop_map(Event::Leaves),
            5 => which().prop_map(Event::StartSucceeds),
            3 => which().prop_map(Event::StartCrashes),
            1 => which().prop_map(Event::StartHasNoRoom),
            5 => which().prop_map(Event::IsReleased),
            2 => (which(), any::<bool>()).prop_map(|(which, is_kill)| Event::ChildCrashes { which, is_kill }),
            1 => which().prop_map(Event::ChildRetires),
            4 => prop_oneof![0..300_u64, 300..3_000_u64, 20_000..40_000_u64].prop_map(Event::Waits),
        ]
        .boxed()
    }

    fn apply(state: Self, _: &Event) -> Self {
        state
    }
}

struct Waiting {
    waiter: Waiter<'static>,
    host: usize,
    asked: Instant,
}

struct Test {
    scope: Scope,
    max: usize,
    state: PoolState,
    now: Instant,
    waiting: Vec<Waiting>,
    starts: Vec<Arc<Start>>,
    leases: Vec<(usize, Arc<Member>)>,
    pipes: Vec<pipe::Receiver>,
    /// No start before this, whatever the breaker says: the shortest pause after the last crash.
    rests_until: Instant,
}

/// What a caller was told.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Waits,
    IsDone,
}

impl Test {
    fn look(&mut self, at: usize) -> Outcome {
        let now = self.now;
        loop {
            let Waiting { waiter, host, asked } = &mut self.waiting[at];
            let (host, asked) = (*host, *asked);
            let under_way = self.state.starting.len();
            let serving = self.state.alive().filter(|member| !member.has_suspended_calls()).count();
            let step = self.state.step(waiter, now);
            let is_counted = waiter.counted;
            match step {
                LeaseStep::Use(member) => {
                    assert!(member.is_serving(), "a child that serves nobody");
                    match self.scope {
                        Scope::Session => assert!(member.is_owned_by(&CALLERS[host]), "another host's child"),
                        Scope::Call => assert_eq!(member.leases(), 0, "two calls at one child"),
                        Scope::Shared | Scope::Workspace => {}
                    }
                    member.change_leases(1);
                    self.leases.push((host, member));
                    self.finish(at);
                    return Outcome::IsDone;
                }
                LeaseStep::Start(start) => {
                    assert!(now >= self.rests_until, "a start without its pause");
                    assert_eq!(self.state.breaker.next_start(now), None);
                    assert!(serving + under_way < self.max, "more children than `max`");
                    if self.scope == Scope::Shared {
                        assert_eq!(under_way, 0, "one start at a time brings a child for all");
                    }
                    let own = |other: &Arc<Start>| other.belongs_to(Some(&CALLERS[host]));
                    assert!(
                        self.scope != Scope::Session || !self.starts.iter().any(own),
                        "two starts for one host"
                    );
                    self.starts.push(start);
                }
                LeaseStep::Wait if !is_counted => {
                    self.state.waiting += 1;
                    self.waiting[at].waiter.counted = true;
                }
                LeaseStep::Wait => {
                    let comes_free = self.scope == Scope::Call && self.state.alive().next().is_some();
                    assert!(!self.starts.is_empty() || comes_free, "nothing will wake this caller");
                    return Outcome::Waits;
                }
                LeaseStep::WaitUntil(until) => {
                    assert!(until > now);
                    return Outcome::Waits;
                }
                LeaseStep::WaitForRoom => {
                    assert!(self.state.is_full());
                    if asked + SLOT_WAIT <= now {
                        self.finish(at);
                        return Outcome::IsDone;
                    }
                    return Outcome::Waits;
                }
                LeaseStep::Rest(until) => {
                    assert!(until > now && until <= now + Duration::from_millis(250));
                    return Outcome::Waits;
                }
                LeaseStep::Refuse(error) => {
                    if let PoolError::CoolingDown { .. } = error {
                        let next = self.state.breaker.next_start(now).expect("it rests");
                        assert!(next > now + Duration::from_millis(250), "this caller could have waited");
                    }
                    self.finish(at);
                    return Outcome::IsDone;
                }
            }
        }
    }

    fn finish(&mut self, at: usize) {
        let gone = self.waiting.remove(at);
        self.state.waiting -= usize::from(gone.waiter.counted);
    }

    fn end_start(&mut self, at: usize, failure: Option<PoolError>) {
        let start = self.starts.remove(at);
        self.state.end_start(&start, failure.as_ref(), self.now);
        match failure {
            None => {
                let _guard = RUNTIME.enter();
                let (child, pipe) = without_process();
                self.pipes.push(pipe);
                if let Some(owner) = &start.owner {
                    child.assign_to(owner);
                }
                let member = Member::new(child);
                self.state.spares.on_started();
                self.state.ran_before = true;
                self.state.members.push(member);
            }
            Some(failure) => {
                if let PoolError::Child(error) = &failure {
                    self.state.breaker.crashed(false, self.now);
                    self.state.last_crash = Some(error.clone());
                    self.rests_until = self.now + Duration::from_millis(200);
                }
                if start.is_needed() {
                    self.state.spares.call_failed(&failure, self.now);
                } else {
                    self.state.spares.on_start_failed(&failure, self.now);
                }
                self.state.note_obstacle(&failure);
            }
        }
    }

    fn end_child(&mut self, at: usize, crash: Option<bool>) {
        let member = self.state.members[at].clone();
        member.retire();
        if let Some(is_kill) = crash {
            self.state.members.remove(at);
            self.leases.retain(|(_, leased)| !Arc::ptr_eq(leased, &member));
            self.state.breaker.crashed(is_kill, self.now);
            self.state.last_crash = Some(ChildError::Stopped);
            self.rests_until = self.now + Duration::from_millis(200);
        }
        self.drop_retired();
    }

    /// Children that retire end with their last lease.
    fn drop_retired(&mut self) {
        self.state.members.retain(|member| member.is_serving() || member.leases() > 0);
    }

    fn release(&mut self, at: usize) {
        let (_, member) = self.leases.remove(at);
        member.change_leases(-1);
        self.drop_retired();
    }
}

fn chosen(which: usize, among: usize) -> Option<usize> {
    (among > 0).then(|| which % among)
}

impl StateMachineTest for Test {
    type SystemUnderTest = Self;
    type Reference = Settings;

    fn init_test(settings: &Settings) -> Self {
        let Settings { scope, max } = *settings;
        let now = Instant::now();
        let settings = PoolSettings { scope, warm: 0, max, idle: Duration::from_secs(600) };
        Self {
            scope,
            max,
            state: PoolState::new(settings, None),
            now,
            waiting: Vec::new(),
            starts: Vec::new(),
            leases: Vec::new(),
            pipes: Vec::new(),
            rests_until: now,
        }
    }

    fn apply(mut test: Self, _: &Settings, event: Event) -> Self {
        let _guard = RUNTIME.enter();
        match event {
            Event::Comes(which) => {
                let host = which % HOSTS;
                let waiter = Waiter::new(&CALLERS[host], test.now);
                test.waiting.push(Waiting { waiter, host, asked: test.now });
                test.look(test.waiting.len() - 1);
            }
            Event::Looks(which) => {
                if let Some(at) = chosen(which, test.waiting.len()) {
                    test.look(at);
                }
            }
            Event::Leaves(which) => {
                if let Some(at) = chosen(which, test.waiting.len()) {
                    test.finish(at);
                }
            }
            Event::StartSucceeds(which) | Event::StartCrashes(which) | Event::StartHasNoRoom(which) => {
                if let Some(at) = chosen(which, test.starts.len()) {
                    let failure = match event {
                        Event::StartSucceeds(_) => None,
                        Event::StartCrashes(_) => {
                            Some(ChildError::Spawn { why: "no such file".to_owned() }.into())
                        }
                        _ => Some(NoRoom::Children { running: 1, most: 1 }.into()),
                    };
                    test.end_start(at, failure);
                }
            }
            Event::IsReleased(which) => {
                if let Some(at) = chosen(which, test.leases.len()) {
                    test.release(at);
                }
            }
            Event::ChildCrashes { which, is_kill } => {
                if let Some(at) = chosen(which, test.state.members.len()) {
                    test.end_child(at, Some(is_kill));
                }
            }
            Event::ChildRetires(which) => {
                if let Some(at) = chosen(which, test.state.members.len()) {
                    test.end_child(at, None);
                }
            }
            Event::Waits(ms) => test.now += Duration::from_millis(ms),
        }
        assert_eq!(test.state.starting.len(), test.starts.len());
        let counted = test.waiting.iter().filter(|waiting| waiting.waiter.counted).count();
        assert_eq!(test.state.waiting, counted);
        test
    }

    /// From here on all goes well: everybody who waits gets a child or an error.
    fn teardown(mut test: Self, _: Settings) {
        let _guard = RUNTIME.enter();
        for _ in 0..100 {
            if test.waiting.is_empty() {
                break;
            }
            test.now += Duration::from_secs(1);
            while !test.starts.is_empty() {
                test.end_start(0, None);
            }
            let mut at = 0;
            while at < test.waiting.len() {
                at += usize::from(test.look(at) == Outcome::Waits);
            }
            while !test.leases.is_empty() {
                test.release(0);
            }
        }
        assert!(test.waiting.is_empty(), "{} callers were never answered", test.waiting.len());
    }
}

#[test]
fn everybody_gets_a_child_or_an_error() {
    model::check::<Test>(1..60);
}

//! The breaker, beside a reference that keeps every crash.

use std::time::Duration;

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use tokio::time::Instant;

use super::Breaker;
use crate::system::model;

/// Times in milliseconds.
#[derive(Debug, Clone, Default)]
struct Crashes {
    now: u64,
    /// Since the last one that was forgotten on purpose.
    counted: Vec<u64>,
    /// The pause after the last crash, and when it began.
    last: Option<(u64, u64)>,
    /// When a child that nobody killed was started, as the breaker allowed it.
    starts: Vec<u64>,
}

#[derive(Debug, Clone)]
enum Event {
    Waits(u64),
    /// If a start is allowed now: it fails after this time.
    StartsAndCrashes(u64),
    IsKilled,
    Reset,
}

impl Crashes {
    fn crash(&mut self, is_kill: bool) {
        let now = self.now;
        if is_kill {
            self.counted.clear();
            self.starts.clear();
        }
        self.counted.push(now);
        let recent = self.counted.iter().filter(|at| now - **at <= 60_000).count();
        let pause = match recent {
            1 => 200,
            2 => 400,
            3 => 800,
            4 => 1_600,
            _ => 30_000,
        };
        self.last = Some((now, pause));
    }

    fn next_start(&self) -> Option<u64> {
        self.last.map(|(at, pause)| at + pause).filter(|next| *next > self.now)
    }
}

impl ReferenceStateMachine for Crashes {
    type State = Self;
    type Transition = Event;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::default()).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Event> {
        let time =
            || prop_oneof![4 => 0..500_u64, 3 => 500..5_000_u64, 2 => 5_000..35_000_u64, 1 => Just(60_001)];
        prop_oneof![
            10 => time().prop_map(Event::Waits),
            10 => time().prop_map(Event::StartsAndCrashes),
            1 => Just(Event::IsKilled),
            1 => Just(Event::Reset),
        ]
        .boxed()
    }

    fn apply(mut state: Self, event: &Event) -> Self {
        match event {
            Event::Waits(ms) => state.now += ms,
            Event::StartsAndCrashes(ms) => {
                if state.next_start().is_none() {
                    state.starts.push(state.now);
                    state.now += ms;
                    state.crash(false);
                }
            }
            Event::IsKilled => state.crash(true),
            Event::Reset => state = Self { now: state.now, ..Self::default() },
        }
        state
    }
}

struct Test {
    breaker: Breaker,
    began: Instant,
    now: u64,
}

impl StateMachineTest for Test {
    type SystemUnderTest = Self;
    type Reference = Crashes;

    fn init_test(_: &Crashes) -> Self {
        Self { breaker: Breaker::default(), began: Instant::now(), now: 0 }
    }

    fn apply(mut test: Self, reference: &Crashes, event: Event) -> Self {
        let before = test.began + Duration::from_millis(test.now);
        test.now = reference.now;
        let now = test.began + Duration::from_millis(test.now);
        match event {
            Event::Waits(_) => {}
            Event::StartsAndCrashes(_) => {
                if test.breaker.next_start(before).is_none() {
                    test.breaker.crashed(false, now);
                }
            }
            Event::IsKilled => test.breaker.crashed(true, now),
            Event::Reset => test.breaker.reset(),
        }
        let next = reference.next_start().map(|at| test.began + Duration::from_millis(at));
        assert_eq!(test.breaker.next_start(now), next);
        for start in &reference.starts {
            let minute = reference.starts.iter().filter(|at| (*start..*start + 60_000).contains(*at)).count();
            assert!(minute <= 10, "{minute} starts in a minute");
        }
        test
    }
}

#[test]
fn pauses_are_those_of_the_reference() {
    model::check::<Test>(1..120);
}

//! Suspended calls and states of modern children: each is good for one retry, of its own session, in time.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use switchboard_mcp::era::request_state::StateBinding;

use super::{SuspendedCalls, UsedState};
use crate::caller::{Caller, SentAs};
use crate::suite::SuspendableCall;
use crate::system::model;

const SESSIONS: [&str; 2] = ["one", "two"];

/// In seconds. Steps of time never end at it.
const IN_TIME: u64 = 600;

#[derive(Debug, Clone)]
struct IssuedState {
    session: usize,
    is_call: bool,
    since: u64,
    is_used: bool,
}

#[derive(Debug, Clone, Default)]
struct States {
    now: u64,
    issued: Vec<IssuedState>,
}

#[derive(Debug, Clone)]
enum Event {
    Suspends(usize),
    IsSealed(usize),
    /// The host of this session comes back with this state.
    Retries(usize, usize),
    Waits(u64),
    SessionEnds(usize),
}

impl States {
    fn is_good(&self, state: &IssuedState) -> bool {
        !state.is_used && self.now - state.since < IN_TIME
    }

    fn may_retry(&self, session: usize, at: usize) -> bool {
        self.issued.get(at).is_some_and(|state| state.session == session && self.is_good(state))
    }

    fn open_calls(&self) -> usize {
        self.issued.iter().filter(|state| state.is_call && self.is_good(state)).count()
    }
}

impl ReferenceStateMachine for States {
    type State = Self;
    type Transition = Event;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::default()).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Event> {
        let session = || 0..SESSIONS.len();
        prop_oneof![
            4 => session().prop_map(Event::Suspends),
            4 => session().prop_map(Event::IsSealed),
            6 => (session(), 0..16_usize).prop_map(|(session, at)| Event::Retries(session, at)),
            3 => (1..5_u64).prop_map(|times| Event::Waits(70 * times)),
            1 => session().prop_map(Event::SessionEnds),
        ]
        .boxed()
    }

    fn apply(mut state: Self, event: &Event) -> Self {
        let issued = |session, is_call, since| IssuedState { session, is_call, since, is_used: false };
        match event {
            Event::Suspends(session) => state.issued.push(issued(*session, true, state.now)),
            Event::IsSealed(session) => state.issued.push(issued(*session, false, state.now)),
            Event::Retries(session, at) => {
                if state.may_retry(*session, *at) {
                    state.issued[*at].is_used = true;
                }
            }
            Event::Waits(seconds) => state.now += seconds,
            Event::SessionEnds(session) => {
                state
                    .issued
                    .iter_mut()
                    .filter(|state| state.session == *session)
                    .for_each(|state| state.is_used = true);
            }
        }
        state
    }
}

struct Test {
    runtime: tokio::runtime::Runtime,
    calls: Arc<SuspendedCalls>,
    /// The text of each state, and whether it may still be used.
    states: Vec<String>,
    /// Lives in each call.
    alive: Arc<()>,
    reference: States,
}

fn binding(session: usize) -> StateBinding<'static> {
    StateBinding { session: SESSIONS[session], face: "", method: "tools/call", fingerprint: "f" }
}

impl StateMachineTest for Test {
    type SystemUnderTest = Self;
    type Reference = States;

    fn init_test(reference: &States) -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let calls = runtime.block_on(async { SuspendedCalls::new("0123456789abcdef") });
        Self { runtime, calls, states: Vec::new(), alive: Arc::new(()), reference: reference.clone() }
    }

    fn apply(mut test: Self, after: &States, event: Event) -> Self {
        let before = std::mem::replace(&mut test.reference, after.clone());
        let Self { runtime, calls, states, alive, .. } = &mut test;
        runtime.block_on(async {
            match event {
                Event::Suspends(session) => {
                    let alive = alive.clone();
                    let call = SuspendableCall::hanging(&Caller::anonymous(), async move {
                        let _alive = alive;
                        std::future::pending().await
                    });
                    states.push(calls.suspend(call, binding(session)).expect("there is room"));
                }
                Event::IsSealed(session) => {
                    // Each state gives back how its own request was sent.
                    let pid = u32::try_from(states.len()).expect("few events");
                    let sent_as = SentAs { pid, ..SentAs::default() };
                    states.push(calls.seal_child_state(sent_as, None, binding(session)));
                }
                Event::Retries(session, at) => {
                    let Some(state) = states.get(at) else { return };
                    let may = before.may_retry(session, at);
                    match calls.use_state(state, binding(session)) {
                        // Used, or its time is over: the name leads nowhere.
                        Ok(UsedState::SuspendedCall(name)) => assert_eq!(calls.take(&name).is_some(), may),
                        Ok(UsedState::Child { sent_as, .. }) => assert!(may && sent_as.pid as usize == at),
                        Err(error) => assert!(!may, "{error}"),
                    }
                }
                Event::Waits(seconds) => {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    tokio::task::yield_now().await;
                }
                Event::SessionEnds(session) => calls.session_ended(SESSIONS[session]),
            }
        });
        let open = Arc::strong_count(&test.alive) - 1;
        assert_eq!(open, after.open_calls(), "a call without its state, or the other way round");
        assert_eq!(test.calls.lock().len(), open);
        test
    }
}

#[test]
fn each_state_is_good_for_one_retry() {
    model::check::<Test>(1..40);
}

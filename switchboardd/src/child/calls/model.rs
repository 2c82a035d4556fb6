//! The calls of a child and its questions, beside a reference that searches plain lists.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use switchboard_mcp::era::ProtocolEra;
use switchboard_mcp::methods;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use super::{CallOutcome, Calls, Candidates, ChildId, ChildResponse, Delivery, MessageTopic};
use crate::caller::Caller;
use crate::child::{ChildError, Limits};
use crate::system::model;

const HOSTS: usize = 3;
/// In seconds.
const RPC: u64 = 10;
const MAX: u64 = 45;
const SESSION_QUESTION: u64 = 30;

static CALLERS: LazyLock<Vec<Arc<Caller>>> = LazyLock::new(|| (0..HOSTS).map(|_| Caller::named()).collect());

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallEnd {
    Open,
    /// The caller was told, and the child has not answered.
    Overdue,
    Abandoned,
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Response,
    Overdue,
}

#[derive(Debug, Clone)]
struct ModelCall {
    host: Option<usize>,
    is_limited: bool,
    end: CallEnd,
    told: Option<Told>,
    started: u64,
    heard: u64,
}

#[derive(Debug, Clone)]
struct ModelQuestion {
    host: usize,
    within: Vec<usize>,
    is_bound: bool,
    since: u64,
    is_open: bool,
}

/// Call number `n` is at `n - 1`.
#[derive(Debug, Clone, Default)]
struct Reference {
    now: u64,
    calls: Vec<ModelCall>,
    questions: Vec<ModelQuestion>,
    is_closed: bool,
}

#[derive(Debug, Clone)]
enum Event {
    Opens { host: Option<usize>, is_limited: bool },
    ChildAnswers(usize),
    CallerLeaves(usize),
    IsRetracted(usize),
    Progresses(usize),
    ChildAsks { host: usize, about: Option<usize>, roots: bool },
    HostAnswers(usize),
    Waits(u64),
    ChildEnds,
}

impl ModelCall {
    fn is_waiting(&self) -> bool {
        matches!(self.end, CallEnd::Open | CallEnd::Overdue)
    }

    fn is_unanswered(&self) -> bool {
        self.end != CallEnd::Over
    }
}

impl Reference {
    fn call_ended(&mut self, at: usize) {
        let now = self.now;
        let mut ended = Vec::new();
        for (number, question) in
            self.questions.iter_mut().enumerate().filter(|(_, question)| question.is_open)
        {
            question.within.retain(|call| *call != at);
            if question.is_bound && question.within.is_empty() {
                question.is_open = false;
                ended.push(number);
            }
        }
        ended.into_iter().for_each(|number| self.restart_timeouts(number, now));
    }

    fn restart_timeouts(&mut self, question: usize, now: u64) {
        let ModelQuestion { host, is_bound, .. } = self.questions[question];
        for call in
            self.calls.iter_mut().filter(|call| is_bound && call.is_waiting() && call.host == Some(host))
        {
            call.heard = now;
        }
    }

    fn is_asking(&self, call: &ModelCall) -> bool {
        self.questions.iter().any(|asked| asked.is_open && asked.is_bound && call.host == Some(asked.host))
    }

    fn due(&self, call: &ModelCall) -> u64 {
        let (end, silent) = (call.started + MAX, call.heard + RPC);
        if self.is_asking(call) { end } else { end.min(silent) }
    }

    /// When something is due next, after `Waits`.
    fn next_check(&self) -> Option<u64> {
        let calls = self.calls.iter().filter(|call| call.end == CallEnd::Open && call.is_limited);
        let questions = self.questions.iter().filter(|asked| asked.is_open && !asked.is_bound);
        calls.map(|call| self.due(call)).chain(questions.map(|asked| asked.since + SESSION_QUESTION)).min()
    }

    fn within(&self, host: usize, about: Option<usize>) -> Vec<usize> {
        let known = about.filter(|at| self.calls[*at].is_unanswered() && self.calls[*at].host.is_some());
        if let Some(at) = known {
            return if self.calls[at].is_waiting() { vec![at] } else { Vec::new() };
        }
        let is_theirs = |call: &ModelCall| call.end == CallEnd::Open && call.host == Some(host);
        (0..self.calls.len()).filter(|at| is_theirs(&self.calls[*at])).collect()
    }
}

impl ReferenceStateMachine for Reference {
    type State = Self;
    type Transition = Event;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::default()).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Event> {
        let (host, call) = (|| 0..HOSTS, || 0..12_usize);
        let anyone = prop_oneof![5 => host().prop_map(Some), 1 => Just(None)];
        prop_oneof![
            12 => (anyone, any::<bool>()).prop_map(|(host, is_limited)| Event::Opens { host, is_limited }),
            8 => call().prop_map(Event::ChildAnswers),
            6 => call().prop_map(Event::CallerLeaves),
            1 => call().prop_map(Event::IsRetracted),
            2 => call().prop_map(Event::Progresses),
            8 => (host(), proptest::option::of(call()), proptest::bool::weighted(0.2))
                .prop_map(|(host, about, roots)| Event::ChildAsks { host, about, roots }),
            5 => call().prop_map(Event::HostAnswers),
            6 => (1..20_u64).prop_map(Event::Waits),
            1 => Just(Event::ChildEnds),
        ]
        .boxed()
    }

    fn preconditions(state: &Self, event: &Event) -> bool {
        let exists = |at: &usize| *at < state.calls.len();
        match event {
            Event::ChildAnswers(at) | Event::CallerLeaves(at) | Event::Progresses(at) => exists(at),
            // Before it was written.
            Event::IsRetracted(at) => exists(at) && matches!(state.calls[*at].end, CallEnd::Open),
            // A question is put to the caller of its call.
            Event::ChildAsks { host, about: Some(at), .. } => {
                !state.is_closed && exists(at) && state.calls[*at].host.is_none_or(|of| of == *host)
            }
            Event::ChildAsks { about: None, .. } => !state.is_closed,
            Event::HostAnswers(at) => *at < state.questions.len(),
            Event::Opens { .. } | Event::Waits(_) | Event::ChildEnds => true,
        }
    }

    fn apply(mut state: Self, event: &Event) -> Self {
        match event {
            Event::Opens { host, is_limited } if !state.is_closed => state.calls.push(ModelCall {
                host: *host,
                is_limited: *is_limited,
                end: CallEnd::Open,
                told: None,
                started: state.now,
                heard: state.now,
            }),
            Event::ChildAnswers(at) => {
                state.call_ended(*at);
                let call = &mut state.calls[*at];
                if call.end == CallEnd::Open {
                    call.told = Some(Told::Response);
                }
                call.end = CallEnd::Over;
            }
            Event::CallerLeaves(at) => {
                state.call_ended(*at);
                if state.calls[*at].is_waiting() {
                    state.calls[*at].end = CallEnd::Abandoned;
                }
            }
            Event::IsRetracted(at) => {
                state.call_ended(*at);
                state.calls[*at].end = CallEnd::Over;
            }
            Event::Progresses(at) => {
                if state.calls[*at].is_waiting() {
                    state.calls[*at].heard = state.now;
                }
            }
            Event::ChildAsks { host, about, roots } => {
                let within = state.within(*host, *about);
                let is_bound = !within.is_empty() && !*roots;
                let since = state.now;
                state.questions.push(ModelQuestion { host: *host, within, is_bound, since, is_open: true });
            }
            Event::HostAnswers(number) => {
                if std::mem::take(&mut state.questions[*number].is_open) {
                    let now = state.now;
                    state.restart_timeouts(*number, now);
                }
            }
            Event::Waits(seconds) => {
                state.now += seconds;
                let now = state.now;
                let is_due =
                    |call: &ModelCall| call.end == CallEnd::Open && call.is_limited && state.due(call) <= now;
                let due: Vec<usize> = (0..state.calls.len()).filter(|at| is_due(&state.calls[*at])).collect();
                for at in due {
                    (state.calls[at].end, state.calls[at].told) = (CallEnd::Overdue, Some(Told::Overdue));
                }
                let questions = state.questions.iter_mut().filter(|asked| asked.is_open && !asked.is_bound);
                questions
                    .filter(|asked| asked.since + SESSION_QUESTION <= now)
                    .for_each(|asked| asked.is_open = false);
            }
            Event::ChildEnds => {
                state.is_closed = true;
                state.calls.iter_mut().for_each(|call| call.end = CallEnd::Over);
                state.questions.iter_mut().for_each(|asked| asked.is_open = false);
            }
            Event::Opens { .. } => {}
        }
        state
    }
}

struct Test {
    calls: Calls,
    began: Instant,
    receivers: Vec<oneshot::Receiver<CallOutcome>>,
    told: Vec<Option<Told>>,
    asked: usize,
    /// By number: how often each question ended.
    ended: Vec<usize>,
    before: Reference,
}

fn id(at: usize) -> ChildId {
    ChildId(at as u64 + 1)
}

fn name(question: usize) -> Box<str> {
    format!("q{question}").into()
}

impl Test {
    fn note_ended(&mut self, ours: &str) {
        let number: usize = ours.strip_prefix('q').unwrap().parse().unwrap();
        self.ended[number] += 1;
        assert_eq!(self.ended[number], 1, "question {number} ended twice");
    }

    #[expect(clippy::needless_pass_by_value, reason = "each event is applied once")]
    fn apply_event(&mut self, event: Event, now: Instant, after: &Reference) {
        let Self { calls, before, .. } = self;
        match event {
            Event::Opens { host, is_limited } => {
                let opened = calls.open(host.map(|host| CALLERS[host].clone()), None, now);
                assert_eq!(opened.is_none(), before.is_closed);
                let Some((opened, receiver)) = opened else { return };
                assert_eq!(opened, id(self.receivers.len()));
                if is_limited {
                    let [rpc, max] = [RPC, MAX].map(Duration::from_secs);
                    calls.limit(opened, Limits { spawn: rpc, rpc, max });
                }
                self.receivers.push(receiver);
                self.told.push(None);
            }
            Event::ChildAnswers(at) => {
                let body = Bytes::from(format!("{{\"id\":{at}}}"));
                let era = ProtocolEra::Legacy;
                let response = ChildResponse { body, id: 6..7, era, error: None, asked: Duration::ZERO };
                let expected = match before.calls[at].end {
                    CallEnd::Open => Delivery::ToCaller,
                    CallEnd::Overdue | CallEnd::Abandoned => Delivery::Late,
                    CallEnd::Over => Delivery::Unknown,
                };
                assert_eq!(calls.deliver(id(at), CallOutcome::Response(response)), expected);
            }
            Event::CallerLeaves(at) => {
                assert_eq!(calls.abandon(id(at), now), before.calls[at].is_waiting());
            }
            Event::IsRetracted(at) => calls.retract(id(at)),
            Event::Progresses(at) => drop(calls.progress(id(at), now)),
            Event::ChildAsks { host, about, roots } => {
                let theirs = name(self.asked);
                let method = if roots { methods::ROOTS_LIST } else { "elicitation/create" };
                let opened =
                    calls.question_opened(theirs.clone(), &CALLERS[host], theirs, method, about.map(id), now);
                assert!(opened.is_none());
                self.asked += 1;
                self.ended.push(0);
            }
            Event::HostAnswers(number) => {
                let closed = calls.question_closed(&name(number), now);
                assert_eq!(closed.is_some(), before.questions[number].is_open);
                if let Some(closed) = closed {
                    self.note_ended(&closed.ours);
                }
            }
            Event::Waits(_) => {
                let next = calls.give_up_overdue(now);
                assert_eq!(next, after.next_check().map(|at| self.began + Duration::from_secs(at)));
            }
            Event::ChildEnds => {
                for question in calls.close() {
                    self.note_ended(&question.ours);
                }
            }
        }
        for (theirs, question) in self.calls.take_ended_questions(now) {
            assert_eq!(theirs, question.ours);
            self.note_ended(&theirs);
        }
    }
}

impl StateMachineTest for Test {
    type SystemUnderTest = Self;
    type Reference = Reference;

    fn init_test(reference: &Reference) -> Self {
        Self {
            calls: Calls::default(),
            began: Instant::now(),
            receivers: Vec::new(),
            told: Vec::new(),
            asked: 0,
            ended: Vec::new(),
            before: reference.clone(),
        }
    }

    fn apply(mut test: Self, after: &Reference, event: Event) -> Self {
        let now = test.began + Duration::from_secs(after.now);
        test.apply_event(event, now, after);
        test.before = after.clone();
        for (at, receiver) in test.receivers.iter_mut().enumerate() {
            let told = match receiver.try_recv() {
                Ok(CallOutcome::Response(response)) => {
                    assert_eq!(
                        &*response.body,
                        format!("{{\"id\":{at}}}").as_bytes(),
                        "another call's answer"
                    );
                    Some(Told::Response)
                }
                Ok(CallOutcome::Overdue(ChildError::Silent { .. } | ChildError::Endless { .. })) => {
                    Some(Told::Overdue)
                }
                Ok(_) => panic!("an outcome that nobody gave"),
                Err(TryRecvError::Empty) => {
                    assert_eq!(after.calls[at].end, CallEnd::Open, "its caller waits for ever");
                    None
                }
                Err(TryRecvError::Closed) => None,
            };
            assert!(told.is_none() || test.told[at].is_none(), "call {at} was answered twice");
            test.told[at] = test.told[at].or(told);
            assert_eq!(test.told[at], after.calls[at].told, "call {at}");
            let is_unanswered = after.calls[at].is_unanswered();
            assert_eq!(test.calls.is_unanswered(id(at)), is_unanswered, "call {at}");
        }
        let in_flight = after.calls.iter().filter(|call| call.is_waiting()).count();
        assert_eq!(test.calls.in_flight(), in_flight);
        let open = after.questions.iter().filter(|asked| asked.is_open).count();
        assert_eq!(test.calls.open_questions(), open);
        for (number, asked) in after.questions.iter().enumerate() {
            assert_eq!(test.calls.is_open_question(&name(number)), asked.is_open, "question {number}");
            assert_eq!(test.ended[number] == 0, asked.is_open, "question {number} ended in silence");
            let outlives = asked.is_open
                && asked.is_bound
                && !asked.within.iter().any(|at| after.calls[*at].is_waiting());
            assert!(!outlives, "question {number} outlives its call");
        }
        let mut hosts: Vec<usize> =
            after.calls.iter().filter(|call| call.is_unanswered()).filter_map(|call| call.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        match (test.calls.candidates(MessageTopic::Question, now), hosts.as_slice()) {
            (Candidates::Nobody, []) | (Candidates::Several { .. }, [_, _, ..]) => {}
            (Candidates::One(caller), [host]) => assert!(caller.is_same_host(&CALLERS[*host])),
            (other, hosts) => {
                // Whose cancel the child has had for a while asks nothing any more.
                let is_late = after.calls.iter().any(|call| call.end == CallEnd::Abandoned);
                assert!(is_late, "{other:?} of {hosts:?}");
            }
        }
        test
    }
}

#[test]
fn calls_and_questions_end_as_in_the_reference() {
    model::check::<Test>(1..80);
}

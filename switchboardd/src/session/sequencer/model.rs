//! The order of messages, beside a reference that looks at one number after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};

use super::{Admission, SequenceTicket};
use crate::session::Session;
use crate::system::model;

const NUMBERS: u64 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Waiting,
    Turn,
    Over,
}

#[derive(Debug, Clone)]
struct Order {
    arrived: BTreeMap<u64, Place>,
    next: u64,
    given_up: u64,
}

#[derive(Debug, Clone)]
enum Event {
    Arrives(u64),
    GivesUp(u64),
    Ends(u64),
}

impl Order {
    fn settle(&mut self) {
        loop {
            match self.arrived.get(&self.next) {
                Some(Place::Waiting) => {
                    self.arrived.insert(self.next, Place::Turn);
                    return;
                }
                Some(Place::Over) => self.next += 1,
                None if self.next < self.given_up => self.next += 1,
                Some(Place::Turn) | None => return,
            }
        }
    }
}

impl ReferenceStateMachine for Order {
    type State = Self;
    type Transition = Event;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self { arrived: BTreeMap::new(), next: 1, given_up: 0 }).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Event> {
        let number = || 1..=NUMBERS;
        prop_oneof![
            3 => number().prop_map(Event::Arrives),
            1 => number().prop_map(Event::GivesUp),
            2 => number().prop_map(Event::Ends),
        ]
        .boxed()
    }

    fn apply(mut state: Self, event: &Event) -> Self {
        match event {
            Event::Arrives(seq) => {
                let place = if *seq < state.next { Place::Turn } else { Place::Waiting };
                state.arrived.entry(*seq).or_insert(place);
            }
            Event::GivesUp(seq) => {
                if state.arrived.get(seq) == Some(&Place::Waiting) {
                    state.given_up = state.given_up.max(*seq);
                }
            }
            Event::Ends(seq) => {
                if let Some(place) = state.arrived.get_mut(seq) {
                    *place = Place::Over;
                }
            }
        }
        state.settle();
        state
    }
}

struct Tickets {
    session: Arc<Session>,
    open: BTreeMap<u64, SequenceTicket>,
    admitted: BTreeSet<u64>,
    seen: BTreeSet<u64>,
}

impl StateMachineTest for Tickets {
    type SystemUnderTest = Self;
    type Reference = Order;

    fn init_test(_: &Order) -> Self {
        let session = Session::anonymous(&crate::catalog::workspace::Workspace::empty());
        Self { session, open: BTreeMap::new(), admitted: BTreeSet::new(), seen: BTreeSet::new() }
    }

    fn apply(mut tickets: Self, order: &Order, event: Event) -> Self {
        match event {
            Event::Arrives(seq) => match tickets.session.admit(seq) {
                Admission::Ticket(ticket) => {
                    assert!(tickets.seen.insert(seq), "{seq} was admitted twice");
                    tickets.open.insert(seq, ticket);
                }
                Admission::Duplicate => assert!(tickets.seen.contains(&seq), "{seq} was lost"),
            },
            Event::GivesUp(seq) => {
                if let Some(ticket) = tickets.open.get_mut(&seq).filter(|_| !tickets.admitted.contains(&seq))
                {
                    ticket.give_up_waiting();
                }
            }
            Event::Ends(seq) => drop(tickets.open.remove(&seq)),
        }
        for (seq, ticket) in &mut tickets.open {
            if ticket.called.as_mut().is_none_or(|called| called.try_recv().is_ok()) {
                tickets.admitted.insert(*seq);
            }
            let place = order.arrived[seq];
            assert_eq!(tickets.admitted.contains(seq), place == Place::Turn, "{seq}: {order:?}");
        }
        tickets
    }

    fn teardown(tickets: Self, _: Order) {
        let Self { session, open, .. } = tickets;
        drop(open);
        let state = session.sequencer.lock();
        assert!(state.waiting.is_empty() && !state.is_taken);
        assert!(state.missed.0.iter().all(|(first, end)| first < end && *end <= state.next), "{state:?}");
    }
}

#[test]
fn messages_have_their_turn_as_in_the_reference() {
    model::check::<Tickets>(1..60);
}

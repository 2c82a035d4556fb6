//! Dispatches a session's messages in the order of their numbers, whatever order they arrive in.
//!
//! A message takes its ticket when its head has been read, and releases it when it is dispatched or dropped.
//! So a connection that closes half-way never blocks the messages after it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::Session;

#[derive(Debug)]
pub(super) struct Sequencer {
    // A leaf lock: held to change the maps, never across an await.
    state: Mutex<SequencerState>,
}

#[derive(Debug)]
struct SequencerState {
    next: u64,
    /// Whether the message with the number `next` has its turn.
    is_taken: bool,
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
    /// Numbers released before it was their turn.
    passed: BTreeSet<u64>,
    /// Numbers below this one are not waited for if they have not arrived.
    given_up: u64,
    missed: MissedNumbers,
}

/// Numbers below the next one that never arrived, as ranges: the first number, and the one after the last.
#[derive(Debug, Default)]
struct MissedNumbers(BTreeMap<u64, u64>);

/// A shim has at most some hundred messages under way, so it has no more gaps than that. The lowest are
/// forgotten: their messages are refused.
const MAX_MISSED_RANGES: usize = 1024;

impl MissedNumbers {
    fn insert(&mut self, first: u64, end: u64) {
        if first < end {
            self.0.insert(first, end);
        }
        while self.0.len() > MAX_MISSED_RANGES {
            self.0.pop_first();
        }
    }

    /// Whether this number was missing until now.
    fn take(&mut self, seq: u64) -> bool {
        let found = self.0.range(..=seq).next_back().map(|(first, end)| (*first, *end));
        let Some((first, end)) = found.filter(|(_, end)| seq < *end) else { return false };
        self.0.remove(&first);
        self.insert(first, seq);
        self.insert(seq + 1, end);
        true
    }
}

impl SequencerState {
    /// Moves to the next number that is still expected, and admits it if it is waiting. A message that has
    /// its turn is not overtaken, however long its body takes.
    fn advance(&mut self) {
        if self.is_taken {
            return;
        }
        if self.next < self.given_up {
            let first = self.waiting.keys().next().map_or(self.given_up, |first| self.given_up.min(*first));
            self.skip_to(first);
        }
        while self.passed.remove(&self.next) {
            self.next += 1;
        }
        if let Some(call) = self.waiting.remove(&self.next) {
            self.is_taken = true;
            let _ = call.send(());
        }
    }

    /// Passes over the numbers before this one. Those that have not arrived are missed.
    fn skip_to(&mut self, next: u64) {
        let passed = std::mem::take(&mut self.passed);
        for seq in passed {
            if seq < next {
                self.missed.insert(self.next, seq);
                self.next = seq + 1;
            } else {
                self.passed.insert(seq);
            }
        }
        self.missed.insert(self.next, next);
        self.next = self.next.max(next);
    }
}

impl Default for Sequencer {
    fn default() -> Self {
        let state = SequencerState {
            next: 1,
            is_taken: false,
            waiting: BTreeMap::new(),
            passed: BTreeSet::new(),
            given_up: 0,
            missed: MissedNumbers::default(),
        };
        Self { state: Mutex::new(state) }
    }
}

#[derive(Debug)]
pub enum Admission {
    /// Also for a late message that was passed over: it has its turn at once.
    Ticket(SequenceTicket),
    /// A message with this number has arrived before.
    Duplicate,
}

/// A place in the order. Dropping it admits the next message.
#[derive(Debug)]
pub struct SequenceTicket {
    session: Arc<Session>,
    seq: u64,
    called: Option<oneshot::Receiver<()>>,
}

impl Sequencer {
    pub(super) fn admit(session: Arc<Session>, seq: u64) -> Admission {
        let called = {
            let mut state = session.sequencer.lock();
            let is_late = seq < state.next && state.missed.take(seq);
            let is_next = seq == state.next && !state.is_taken;
            let is_ahead =
                seq > state.next && !state.passed.contains(&seq) && !state.waiting.contains_key(&seq);
            if is_next {
                state.is_taken = true;
            }
            if !(is_late || is_next || is_ahead) {
                return Admission::Duplicate;
            }
            is_ahead.then(|| {
                let (call, called) = oneshot::channel();
                state.waiting.insert(seq, call);
                called
            })
        };
        Admission::Ticket(SequenceTicket { session, seq, called })
    }

    fn release(&self, seq: u64) {
        let mut state = self.lock();
        if seq < state.next {
            return;
        }
        if seq != state.next {
            state.waiting.remove(&seq);
            state.passed.insert(seq);
            return;
        }
        state.is_taken = false;
        state.next += 1;
        state.advance();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SequencerState> {
        self.state.lock().expect("BUG: bookkeeping panicked")
    }
}

impl SequenceTicket {
    /// Runs `work` and releases the ticket after the first poll. By then the message is in its child's queue,
    /// and the next message may run.
    pub async fn hold<T>(ticket: Option<Self>, work: impl Future<Output = T>) -> T {
        let (mut work, mut ticket) = (pin!(work), ticket);
        poll_fn(|cx| {
            let polled = work.as_mut().poll(cx);
            drop(ticket.take());
            polled
        })
        .await
    }

    /// Stops waiting for earlier messages that have not arrived. Those that have arrived still go first.
    pub fn give_up_waiting(&mut self) {
        let mut state = self.session.sequencer.lock();
        if state.next < self.seq {
            state.given_up = state.given_up.max(self.seq);
            state.advance();
        }
    }

    /// Whether earlier messages may still be pending.
    pub fn is_waiting(&self) -> bool {
        self.called.is_some()
    }

    /// Resolves when all earlier messages were dispatched or given up.
    pub async fn wait(&mut self) {
        if let Some(called) = &mut self.called {
            // The sender is dropped only with the session.
            let _ = called.await;
            self.called = None;
        }
    }
}

impl Drop for SequenceTicket {
    fn drop(&mut self) {
        self.session.sequencer.release(self.seq);
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    fn anonymous_session() -> Arc<Session> {
        Session::anonymous(&crate::catalog::workspace::Workspace::empty())
    }

    fn ticket(session: &Arc<Session>, seq: u64) -> SequenceTicket {
        match session.admit(seq) {
            Admission::Ticket(ticket) => ticket,
            Admission::Duplicate => panic!("{seq} is stale"),
        }
    }

    fn is_admitted(ticket: &mut SequenceTicket) -> bool {
        ticket.called.as_mut().is_none_or(|called| called.try_recv().is_ok())
    }

    #[test]
    fn messages_are_admitted_in_order_of_their_numbers() {
        let session = anonymous_session();
        let mut third = ticket(&session, 3);
        let mut second = ticket(&session, 2);
        let first = ticket(&session, 1);
        assert!(!is_admitted(&mut second));
        drop(first);
        assert!(is_admitted(&mut second));
        assert!(!is_admitted(&mut third));
        drop(second);
        assert!(is_admitted(&mut third));
    }

    #[test]
    fn a_ticket_dropped_early_blocks_no_later_message() {
        let session = anonymous_session();
        drop(ticket(&session, 2));
        let mut third = ticket(&session, 3);
        drop(ticket(&session, 1));
        assert!(is_admitted(&mut third));
    }

    #[test]
    fn a_missing_number_is_given_up_for_all_messages() {
        let session = anonymous_session();
        let mut second = ticket(&session, 2);
        let mut third = ticket(&session, 3);
        second.give_up_waiting();
        assert!(is_admitted(&mut second) && !is_admitted(&mut third));
        drop(second);
        assert!(is_admitted(&mut third));
        drop(third);
        assert!(is_admitted(&mut ticket(&session, 4)));
    }

    #[test]
    fn who_gives_up_first_does_not_overtake_those_that_wait_before_it() {
        let session = anonymous_session();
        let mut sixth = ticket(&session, 6);
        let (mut second, mut third) = (ticket(&session, 2), ticket(&session, 3));
        // Numbers 1 and 5 never arrive; 4 has arrived and was dropped.
        drop(ticket(&session, 4));
        sixth.give_up_waiting();
        assert!(is_admitted(&mut second) && !is_admitted(&mut third) && !is_admitted(&mut sixth));
        // A late message whose turn has not passed still takes its place.
        let mut fifth = ticket(&session, 5);
        drop(second);
        assert!(is_admitted(&mut third) && !is_admitted(&mut fifth));
        drop(third);
        assert!(is_admitted(&mut fifth) && !is_admitted(&mut sixth));
        drop(fifth);
        assert!(is_admitted(&mut sixth));
        drop(sixth);
        let state = session.sequencer.lock();
        assert!(state.next == 7 && state.waiting.is_empty() && state.passed.is_empty());
    }

    #[test]
    fn a_number_far_ahead_costs_nothing_to_wait_for() {
        let session = anonymous_session();
        let mut far = ticket(&session, u64::MAX / 2);
        far.give_up_waiting();
        assert!(is_admitted(&mut far));
    }

    #[test]
    fn a_late_message_that_was_passed_over_is_admitted_once() {
        let session = anonymous_session();
        let mut ninth = ticket(&session, 9);
        drop(ticket(&session, 4));
        ninth.give_up_waiting();
        assert!(is_admitted(&mut ninth));
        for seq in [6, 1, 8, 5, 3, 2, 7] {
            let mut late = ticket(&session, seq);
            assert!(is_admitted(&mut late), "{seq}");
            assert!(matches!(session.admit(seq), Admission::Duplicate), "{seq}");
            drop(late);
            assert!(matches!(session.admit(seq), Admission::Duplicate), "{seq}");
        }
        // This one has arrived, and was dropped.
        assert!(matches!(session.admit(4), Admission::Duplicate));
        assert!(session.sequencer.lock().missed.0.is_empty());
        drop(ninth);
        assert!(is_admitted(&mut ticket(&session, 10)));
    }

    #[test]
    fn a_message_that_has_its_turn_is_not_overtaken() {
        let session = anonymous_session();
        let first = ticket(&session, 1);
        let mut third = ticket(&session, 3);
        third.give_up_waiting();
        assert!(!is_admitted(&mut third), "the body of the first is still arriving");
        drop(first);
        assert!(is_admitted(&mut third), "the second is given up");
    }

    #[test]
    fn missed_numbers_are_remembered_up_to_a_limit() {
        let session = anonymous_session();
        let gaps = MAX_MISSED_RANGES as u64 + 10;
        for gap in 1..=gaps {
            let mut after = ticket(&session, 2 * gap);
            after.give_up_waiting();
            assert!(is_admitted(&mut after));
        }
        assert!(matches!(session.admit(1), Admission::Duplicate));
        assert!(is_admitted(&mut ticket(&session, 2 * gaps - 1)));
        assert!(session.sequencer.lock().missed.0.len() < MAX_MISSED_RANGES);
    }

    #[test]
    fn a_number_is_admitted_once() {
        let session = anonymous_session();
        let zeroth = session.admit(0);
        assert!(matches!(zeroth, Admission::Duplicate));
        let held = ticket(&session, 1);
        assert!(matches!(session.admit(1), Admission::Duplicate), "it has its turn");
        drop(held);
        let session = anonymous_session();
        drop(ticket(&session, 1));
        drop(ticket(&session, 3));
        assert!(matches!(session.admit(1), Admission::Duplicate));
        assert!(matches!(session.admit(3), Admission::Duplicate));
    }
}

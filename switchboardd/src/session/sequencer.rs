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
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
    /// Numbers released before it was their turn.
    passed: BTreeSet<u64>,
    /// Numbers below this one are not waited for if they have not arrived.
    given_up: u64,
}

impl SequencerState {
    /// Moves to the next number that is still expected, and admits it if it is waiting.
    fn advance(&mut self) {
        if self.next < self.given_up {
            let first = self.waiting.keys().next().map_or(self.given_up, |first| self.given_up.min(*first));
            self.next = self.next.max(first);
            self.passed = self.passed.split_off(&self.next);
        }
        while self.passed.remove(&self.next) {
            self.next += 1;
        }
        if let Some(call) = self.waiting.remove(&self.next) {
            let _ = call.send(());
        }
    }
}

impl Default for Sequencer {
    fn default() -> Self {
        let state =
            SequencerState { next: 1, waiting: BTreeMap::new(), passed: BTreeSet::new(), given_up: 0 };
        Self { state: Mutex::new(state) }
    }
}

#[derive(Debug)]
pub enum Admission {
    Ticket(SequenceTicket),
    /// This number has been seen before; its message was cancelled.
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
            if seq < state.next || state.passed.contains(&seq) || state.waiting.contains_key(&seq) {
                return Admission::Duplicate;
            }
            (seq > state.next).then(|| {
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
        assert!(matches!(session.admit(1), Admission::Duplicate));
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
    fn a_number_is_admitted_once() {
        let session = anonymous_session();
        drop(ticket(&session, 1));
        drop(ticket(&session, 3));
        assert!(matches!(session.admit(1), Admission::Duplicate));
        assert!(matches!(session.admit(3), Admission::Duplicate));
    }
}

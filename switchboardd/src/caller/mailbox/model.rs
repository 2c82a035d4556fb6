//! The mailbox under random pushes, polls that get lost, and event streams: what it took reaches the host once and in
//! order, and a change or progress reaches it in its last form.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};

use super::{Mailbox, MailboxLimits, MailboxState, MessageKind};
use crate::system::model;

/// The proportions are those of the real limits.
static SMALL: MailboxLimits = MailboxLimits {
    soft: 8,
    soft_bytes: 80,
    hard: 16,
    hard_bytes: 640,
    replay: 2,
    replay_bytes: 20,
    batch_bytes: 30,
};

/// Whether the host reads an event stream; otherwise it polls.
#[derive(Debug, Clone)]
struct Host {
    streams: bool,
}

#[derive(Debug, Clone)]
enum Event {
    Push { kind: u8, bytes: usize },
    Read { is_lost: bool, keep: bool },
}

impl ReferenceStateMachine for Host {
    type State = Self;
    type Transition = Event;

    fn init_state() -> BoxedStrategy<Self> {
        any::<bool>().prop_map(|streams| Self { streams }).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Event> {
        let push = (0..9_u8, prop_oneof![6 => 2..12_usize, 1 => 12..100_usize, 1 => 600..700_usize]);
        prop_oneof![
            8 => push.prop_map(|(kind, bytes)| Event::Push { kind, bytes }),
            1 => any::<(bool, bool)>().prop_map(|(is_lost, keep)| Event::Read { is_lost, keep }),
        ]
        .boxed()
    }

    fn apply(state: Self, _: &Event) -> Self {
        state
    }
}

fn kind(of: u8) -> MessageKind {
    match of {
        0 | 1 => MessageKind::Progress(of.to_string().into()),
        2 => MessageKind::Changed("tools"),
        3 => MessageKind::Changed("prompts"),
        4 => MessageKind::Updated("file:///a".into()),
        5 => MessageKind::Log,
        6 | 7 => MessageKind::Question,
        _ => MessageKind::Answer,
    }
}

/// The mailbox, and what its host has.
struct Delivery {
    mailbox: Mailbox,
    pushes: u64,
    dropped: u64,
    /// The kind of each message that was taken.
    taken: BTreeMap<u64, u8>,
    /// Taken messages that nothing may replace, and that the host does not have.
    owed: VecDeque<u64>,
    /// The last message of each kind that may be replaced, if the host has not read it.
    last: BTreeMap<u8, u64>,
    read: BTreeSet<u64>,
    /// The number up to which the host has everything.
    has: u64,
}

impl Delivery {
    fn push(&mut self, of: u8, bytes: usize) {
        self.pushes += 1;
        let serial = self.pushes;
        let mut body = format!("{serial} ");
        body.push_str(&".".repeat(bytes.saturating_sub(body.len())));
        let (before, was_empty) = (self.mailbox.dropped_count(), self.mailbox.lock().messages.is_empty());
        let is_taken = self.mailbox.push(kind(of), Bytes::from(body));
        let dropped = self.mailbox.dropped_count() - before;
        if is_taken {
            assert!(dropped <= u64::from(of < 2), "only progress is replaced by newer progress");
            self.taken.insert(serial, of);
            if of < 5 {
                self.last.insert(of, serial);
            } else {
                self.owed.push_back(serial);
            }
        } else {
            assert_eq!(dropped, 1);
            assert_ne!(kind(of), MessageKind::Answer, "an answer is always taken");
        }
        assert!(is_taken || !was_empty, "an empty mailbox takes everything");
        if kind(of) != MessageKind::Answer && !was_empty && is_taken {
            let state = self.mailbox.lock();
            assert!(state.bytes <= SMALL.hard_bytes || state.messages.len() == 1, "{}", state.bytes);
            assert!(
                state.messages.len() <= SMALL.hard
                    || state.messages.iter().any(|m| m.kind == MessageKind::Answer)
            );
        }
        let state = self.mailbox.lock();
        assert_eq!(state.bytes, state.messages.iter().map(|message| message.body.len()).sum::<usize>());
    }

    fn receive(&mut self, body: &[u8]) {
        let text = std::str::from_utf8(body).unwrap();
        let serial: u64 = text.split_once(' ').unwrap().0.parse().unwrap();
        assert!(self.read.last().is_none_or(|last| *last < serial), "{serial} came twice or out of order");
        self.read.insert(serial);
        let of = self.taken[&serial];
        if of < 5 {
            // What is newer is still owed.
            if self.last.get(&of) == Some(&serial) {
                self.last.remove(&of);
            }
        } else {
            assert_eq!(self.owed.pop_front(), Some(serial));
        }
    }

    /// False if there was nothing to read.
    fn poll(&mut self, is_lost: bool) -> bool {
        let Some(batch) = self.mailbox.take(self.has) else {
            assert_eq!(self.has, self.mailbox.watermark());
            return false;
        };
        assert!(batch.next > self.has && batch.next <= self.mailbox.watermark());
        let bytes: usize = batch.messages.iter().map(Bytes::len).sum();
        assert!(bytes <= SMALL.batch_bytes || batch.messages.len() == 1);
        if !is_lost {
            batch.messages.iter().for_each(|body| self.receive(body));
            self.has = batch.next;
        }
        true
    }

    fn stream(&mut self, keep: bool) -> bool {
        let next = self.mailbox.peek_after(self.has);
        for (number, body) in &next {
            assert!(*number > self.has);
            self.has = *number;
            self.receive(body);
        }
        self.mailbox.mark_sent(self.has, keep);
        let state = self.mailbox.lock();
        let retained = state.messages.iter().filter(|message| message.number <= self.has).count();
        assert!(retained <= if keep { SMALL.replay } else { 0 });
        !next.is_empty()
    }
}

impl StateMachineTest for Delivery {
    type SystemUnderTest = Self;
    type Reference = Host;

    fn init_test(_: &Host) -> Self {
        let mailbox = Mailbox {
            state: std::sync::Mutex::new(MailboxState { limits: &SMALL, ..MailboxState::default() }),
            ..Mailbox::default()
        };
        Self {
            mailbox,
            pushes: 0,
            dropped: 0,
            taken: BTreeMap::new(),
            owed: VecDeque::new(),
            last: BTreeMap::new(),
            read: BTreeSet::new(),
            has: 0,
        }
    }

    fn apply(mut delivery: Self, host: &Host, event: Event) -> Self {
        match event {
            Event::Push { kind, bytes } => delivery.push(kind, bytes),
            Event::Read { is_lost, keep } => {
                let _ = if host.streams { delivery.stream(keep) } else { delivery.poll(is_lost) };
            }
        }
        assert!(delivery.mailbox.dropped_count() >= delivery.dropped);
        delivery.dropped = delivery.mailbox.dropped_count();
        delivery
    }

    fn teardown(mut delivery: Self, host: Host) {
        while if host.streams { delivery.stream(false) } else { delivery.poll(false) } {}
        assert!(delivery.owed.is_empty(), "lost: {:?}", delivery.owed);
        assert!(delivery.last.is_empty(), "the last of these kinds was lost: {:?}", delivery.last);
        assert_eq!(delivery.mailbox.bytes(), 0);
    }
}

#[test]
fn what_the_mailbox_took_reaches_the_host_once() {
    model::check::<Delivery>(1..80);
}

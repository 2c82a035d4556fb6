//! The ordered, numbered messages on their way to one host.
//!
//! Everything that goes to a host without being the answer to its POST waits here until the shim
//! fetches it. A message is kept until the shim says that it has it, so a dropped poll loses nothing.
//! The mailbox is bounded: a chatty child never costs a host its answers, and a slow host never
//! stalls a child.

use std::collections::VecDeque;
use std::sync::Mutex;

use bytes::Bytes;
use tokio::sync::Notify;

/// Messages and bytes from which on progress and logs are thinned out.
const SOFT_LIMIT: usize = 1000;
const SOFT_LIMIT_BYTES: usize = 4 * 1024 * 1024;
/// Messages beyond which nothing but what a host must not miss is taken.
const HARD_LIMIT: usize = 2 * SOFT_LIMIT;
/// Bytes beyond which nothing at all is taken; one message, however long, fits into an empty mailbox.
const HARD_LIMIT_BYTES: usize = 32 * 1024 * 1024;

/// What is kept of that which went out on an event stream, for a host that lost its connection.
const REPLAY_LIMIT: usize = 128;
const REPLAY_LIMIT_BYTES: usize = 256 * 1024;

/// The most one poll carries, unless a single message is longer.
const BATCH_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageKind {
    /// Progress for this token: only the last one matters.
    Progress(Box<str>),
    /// A list changed: one word of it is enough.
    Changed(&'static str),
    /// The resource of this URI changed: likewise.
    Updated(Box<str>),
    Log,
    /// A question, or the withdrawal of one.
    Question,
    /// The answer to the call whose own stream this is; there is always room for it.
    Answer,
}

#[derive(Debug, Default)]
pub struct Mailbox {
    // A leaf lock: held to push or to copy a batch, never across an await.
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<QueuedMessage>,
    bytes: usize,
    /// Messages that came and were no answers.
    others: u64,
    last: u64,
    dropped: u64,
    /// The number of the newest message that went out on an event stream.
    seen: u64,
    closed: bool,
}

#[derive(Debug)]
struct QueuedMessage {
    number: u64,
    kind: MessageKind,
    body: Bytes,
}

/// What a poll brings.
#[derive(Debug, PartialEq, Eq)]
pub struct MessageBatch {
    pub messages: Vec<Bytes>,
    pub next: u64,
}

impl Mailbox {
    /// False if there was no room for it; only questions care.
    pub fn push(&self, kind: MessageKind, body: Bytes) -> bool {
        let taken = self.lock().push(kind, body);
        if taken {
            self.arrived.notify_waiters();
        }
        taken
    }

    /// The number of the newest message.
    pub fn watermark(&self) -> u64 {
        self.lock().last
    }

    /// Log messages and progress that a host which did not keep up never saw.
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Some were dropped before they came here.
    pub fn note_dropped(&self, many: u64) {
        self.lock().dropped += many;
    }

    /// Forgets what the host has, and gives what comes next, if anything.
    pub fn take(&self, after: u64) -> Option<MessageBatch> {
        self.lock().take(after)
    }

    /// What comes next, with its numbers; forgets nothing.
    pub fn after(&self, number: u64) -> Vec<(u64, Bytes)> {
        self.lock().after(number)
    }

    /// All up to `number` went out on an event stream. Where a lost connection may be taken up again, the
    /// latest of it is kept.
    pub fn sent(&self, number: u64, keep: bool) {
        self.lock().sent(number, keep);
    }

    /// The newest message that went out on an event stream.
    pub fn seen(&self) -> u64 {
        self.lock().seen
    }

    /// Whether nothing but answers ever came.
    pub fn has_only_answers(&self) -> bool {
        self.lock().others == 0
    }

    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// All there is, if all of it is answers.
    pub fn only_answers(&self) -> Option<Vec<Bytes>> {
        let state = self.lock();
        let bodies = state
            .messages
            .iter()
            .map(|message| (message.kind == MessageKind::Answer).then(|| message.body.clone()));
        bodies.collect()
    }

    /// Nothing more comes: its call was answered, or its host has gone.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_waiters();
    }

    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Resolves at the next push after it was first polled.
    pub fn wait_for_message(&self) -> tokio::sync::futures::Notified<'_> {
        self.arrived.notified()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("BUG: a push panicked")
    }
}

impl State {
    fn push(&mut self, kind: MessageKind, body: Bytes) -> bool {
        if self.messages.len() >= SOFT_LIMIT || self.bytes + body.len() > SOFT_LIMIT_BYTES {
            match &kind {
                MessageKind::Progress(_) => self.remove(&kind),
                MessageKind::Changed(_) | MessageKind::Updated(_)
                    if self.messages.iter().any(|message| message.kind == kind) =>
                {
                    return true;
                }
                MessageKind::Log if !self.messages.is_empty() => {
                    self.dropped += 1;
                    return false;
                }
                _ => {}
            }
        }
        let too_many_bytes = self.bytes + body.len() > HARD_LIMIT_BYTES && !self.messages.is_empty();
        if kind != MessageKind::Answer && (self.messages.len() >= HARD_LIMIT || too_many_bytes) {
            self.dropped += 1;
            return false;
        }
        self.others += u64::from(kind != MessageKind::Answer);
        self.last += 1;
        self.bytes += body.len();
        self.messages.push_back(QueuedMessage { number: self.last, kind, body });
        true
    }

    fn remove(&mut self, kind: &MessageKind) {
        if let Some(at) = self.messages.iter().position(|message| message.kind == *kind)
            && let Some(old) = self.messages.remove(at)
        {
            self.bytes -= old.body.len();
            self.dropped += 1;
        }
    }

    fn after(&self, number: u64) -> Vec<(u64, Bytes)> {
        let mut bytes = 0;
        let fits = |message: &&QueuedMessage| {
            let first = bytes == 0;
            bytes += message.body.len();
            first || bytes <= BATCH_BYTES
        };
        let next = self.messages.iter().filter(|message| message.number > number).take_while(fits);
        next.map(|message| (message.number, message.body.clone())).collect()
    }

    fn sent(&mut self, number: u64, keep: bool) {
        self.seen = self.seen.max(number);
        let mut count = self.messages.iter().take_while(|message| message.number <= number).count();
        let known = |message: &QueuedMessage| message.number <= number;
        let mut bytes: usize =
            self.messages.iter().take_while(|message| known(message)).map(|message| message.body.len()).sum();
        while count > 0 && (!keep || count > REPLAY_LIMIT || bytes > REPLAY_LIMIT_BYTES) {
            count -= 1;
            bytes -= self.pop();
        }
    }

    /// Forgets the oldest message; gives its length.
    fn pop(&mut self) -> usize {
        let length = self.messages.pop_front().map_or(0, |message| message.body.len());
        self.bytes -= length;
        length
    }

    fn take(&mut self, after: u64) -> Option<MessageBatch> {
        while self.messages.front().is_some_and(|message| message.number <= after) {
            self.pop();
        }
        let mut messages = Vec::new();
        let mut bytes = 0;
        let mut next = after;
        for message in &self.messages {
            bytes += message.body.len();
            if bytes > BATCH_BYTES && !messages.is_empty() {
                return Some(MessageBatch { messages, next });
            }
            messages.push(message.body.clone());
            next = message.number;
        }
        // Numbers of messages that were thinned out since must not leave a watermark unreached.
        (!messages.is_empty() || self.last > after).then_some(MessageBatch { messages, next: self.last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(token: &str) -> MessageKind {
        MessageKind::Progress(token.into())
    }

    #[test]
    fn messages_stay_until_they_are_acknowledged() {
        let mailbox = Mailbox::default();
        mailbox.push(MessageKind::Log, "a".into());
        mailbox.push(MessageKind::Log, "b".into());
        let expect = MessageBatch { messages: vec!["a".into(), "b".into()], next: 2 };
        assert_eq!(mailbox.take(0), Some(expect));
        assert_eq!(mailbox.take(1), Some(MessageBatch { messages: vec!["b".into()], next: 2 }));
        assert_eq!(mailbox.take(2), None);
    }

    #[test]
    fn a_full_mailbox_keeps_the_last_progress_and_every_question() {
        let mailbox = Mailbox::default();
        for number in 0..5000 {
            mailbox.push(progress("t"), number.to_string().into());
        }
        assert!(mailbox.push(MessageKind::Question, "q".into()));
        assert!(!mailbox.push(MessageKind::Log, "l".into()));
        let batch = mailbox.take(0).unwrap();
        assert_eq!(batch.messages.len(), SOFT_LIMIT + 1);
        assert_eq!(batch.messages[SOFT_LIMIT - 1], "4999");
        assert_eq!(batch.messages[SOFT_LIMIT], "q");
        assert_eq!(batch.next, mailbox.watermark());
        assert_eq!(mailbox.dropped(), 4001);
    }

    #[test]
    fn list_changes_are_said_once_when_it_is_tight() {
        let mailbox = Mailbox::default();
        for _ in 0..SOFT_LIMIT {
            mailbox.push(MessageKind::Changed("tools"), "t".into());
        }
        let before = mailbox.watermark();
        mailbox.push(MessageKind::Changed("tools"), "t".into());
        assert_eq!(mailbox.watermark(), before);
    }

    #[test]
    fn no_kind_of_message_fills_the_memory() {
        let large = Bytes::from(vec![b'x'; HARD_LIMIT_BYTES / 2 - 1]);
        let kinds = [MessageKind::Question, progress("t"), MessageKind::Changed("tools"), MessageKind::Log];
        for kind in kinds {
            let mailbox = Mailbox::default();
            let taken = (0..5).filter(|_| mailbox.push(kind.clone(), large.clone())).count();
            assert!(mailbox.lock().bytes <= HARD_LIMIT_BYTES, "{kind:?}");
            assert!(taken >= 1, "{kind:?}");
        }
        let mailbox = Mailbox::default();
        assert!(mailbox.push(MessageKind::Question, vec![b'x'; HARD_LIMIT_BYTES + 1].into()));
        assert!(!mailbox.push(MessageKind::Question, "q".into()));
        // Room again, once the host has it.
        mailbox.take(1);
        assert!(mailbox.push(MessageKind::Question, "q".into()));
    }

    #[test]
    fn what_went_out_is_kept_where_it_may_be_asked_for_again() {
        let mailbox = Mailbox::default();
        for number in 1..=300_u64 {
            mailbox.push(MessageKind::Question, number.to_string().into());
        }
        let last = vec![(299, Bytes::from("299")), (300, Bytes::from("300"))];
        assert_eq!(mailbox.after(298), last);
        mailbox.sent(200, true);
        assert_eq!(mailbox.after(0)[0].0, 200 - REPLAY_LIMIT as u64 + 1);
        mailbox.sent(200, false);
        assert_eq!(mailbox.after(0)[0].0, 201);
        mailbox.sent(300, false);
        assert!(mailbox.after(0).is_empty() && mailbox.lock().bytes == 0);
    }

    #[test]
    fn there_is_always_room_for_the_answer() {
        let mailbox = Mailbox::default();
        mailbox.push(MessageKind::Question, vec![b'x'; HARD_LIMIT_BYTES + 1].into());
        assert!(mailbox.push(MessageKind::Answer, "a".into()));
        mailbox.close();
        assert!(mailbox.is_closed());
    }

    #[test]
    fn large_messages_come_in_batches_of_their_own() {
        let mailbox = Mailbox::default();
        let large = Bytes::from(vec![b'x'; BATCH_BYTES]);
        mailbox.push(MessageKind::Question, large.clone());
        mailbox.push(MessageKind::Question, large.clone());
        let first = mailbox.take(0).unwrap();
        assert_eq!((first.messages.len(), first.next), (1, 1));
        let second = mailbox.take(1).unwrap();
        assert_eq!((second.messages.len(), second.next), (1, 2));
    }
}

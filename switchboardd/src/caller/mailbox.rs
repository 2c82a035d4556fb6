//! The ordered, numbered messages for one host.
//!
//! Everything for a host that is not the answer to its POST is queued here until the shim fetches it or an
//! event stream sends it. A message stays until the shim acknowledges it, so a lost poll loses nothing. The
//! mailbox is bounded: a chatty child never costs a host its answers, and a slow host never stalls a child.

use std::collections::VecDeque;
use std::sync::Mutex;

use bytes::Bytes;
use tokio::sync::Notify;

/// Above these limits, progress is replaced, repeated changes are merged and logs are dropped.
const SOFT_LIMIT: usize = 1000;
const SOFT_LIMIT_BYTES: usize = 4 * 1024 * 1024;
/// Above this many messages, only answers are accepted.
const HARD_LIMIT: usize = 2 * SOFT_LIMIT;
/// Above this many bytes, only answers are accepted; but an empty mailbox accepts one message of any size.
const HARD_LIMIT_BYTES: usize = 32 * 1024 * 1024;

/// How much is retained after it was sent on an event stream, for a host that lost its connection.
const REPLAY_LIMIT: usize = 128;
const REPLAY_LIMIT_BYTES: usize = 256 * 1024;

/// Size limit of one poll's batch, unless a single message is larger.
const BATCH_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageKind {
    /// Progress for this token; only the latest matters.
    Progress(Box<str>),
    /// A list changed; one notification is enough.
    Changed(&'static str),
    /// The resource of this URI changed; one notification is enough.
    Updated(Box<str>),
    Log,
    /// A question, or the withdrawal of one.
    Question,
    /// The answer to the call that owns this stream; it is always accepted.
    Answer,
}

/// How much a mailbox takes.
#[derive(Debug)]
struct MailboxLimits {
    soft: usize,
    soft_bytes: usize,
    hard: usize,
    hard_bytes: usize,
    replay: usize,
    replay_bytes: usize,
    batch_bytes: usize,
}

static LIMITS: MailboxLimits = MailboxLimits {
    soft: SOFT_LIMIT,
    soft_bytes: SOFT_LIMIT_BYTES,
    hard: HARD_LIMIT,
    hard_bytes: HARD_LIMIT_BYTES,
    replay: REPLAY_LIMIT,
    replay_bytes: REPLAY_LIMIT_BYTES,
    batch_bytes: BATCH_BYTES,
};

#[derive(Debug, Default)]
pub struct Mailbox {
    // A leaf lock: held to push or to copy a batch, never across an await.
    state: Mutex<MailboxState>,
    arrived: Notify,
}

#[derive(Debug)]
struct MailboxState {
    limits: &'static MailboxLimits,
    messages: VecDeque<QueuedMessage>,
    bytes: usize,
    /// Counts messages other than answers.
    others: u64,
    last: u64,
    dropped: u64,
    /// The number of the newest message that was sent on an event stream.
    seen: u64,
    closed: bool,
}

impl Default for MailboxState {
    fn default() -> Self {
        Self {
            limits: &LIMITS,
            messages: VecDeque::new(),
            bytes: 0,
            others: 0,
            last: 0,
            dropped: 0,
            seen: 0,
            closed: false,
        }
    }
}

#[derive(Debug)]
struct QueuedMessage {
    number: u64,
    kind: MessageKind,
    body: Bytes,
}

/// The result of a poll.
#[derive(Debug, PartialEq, Eq)]
pub struct MessageBatch {
    pub messages: Vec<Bytes>,
    pub next: u64,
}

impl Mailbox {
    /// False if the message was dropped.
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

    /// Messages that the host never got: dropped for lack of room, or replaced by newer progress.
    pub fn dropped_count(&self) -> u64 {
        self.lock().dropped
    }

    /// Counts messages that were dropped before they reached the mailbox.
    pub fn note_dropped(&self, many: u64) {
        self.lock().dropped += many;
    }

    /// Removes messages up to `after`, which the host has; returns the next batch, if any.
    pub fn take(&self, after: u64) -> Option<MessageBatch> {
        self.lock().take(after)
    }

    /// The next messages with their numbers; removes nothing.
    pub fn peek_after(&self, number: u64) -> Vec<(u64, Bytes)> {
        self.lock().after(number)
    }

    /// Notes that all messages up to `number` were sent on an event stream, and removes them. If `keep`, the
    /// latest stay, so that the host can resume.
    pub fn mark_sent(&self, number: u64, keep: bool) {
        self.lock().mark_sent(number, keep);
    }

    /// The number of the newest message that was sent on an event stream.
    pub fn seen(&self) -> u64 {
        self.lock().seen
    }

    /// Whether every message so far was an answer.
    pub fn has_only_answers(&self) -> bool {
        self.lock().others == 0
    }

    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// All queued messages, if all are answers.
    pub fn only_answers(&self) -> Option<Vec<Bytes>> {
        let state = self.lock();
        let bodies = state
            .messages
            .iter()
            .map(|message| (message.kind == MessageKind::Answer).then(|| message.body.clone()));
        bodies.collect()
    }

    /// Closes the mailbox: the call was answered, or the host has left.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_waiters();
    }

    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Resolves at the next push, or when the mailbox is closed.
    pub fn wait_for_message(&self) -> tokio::sync::futures::Notified<'_> {
        self.arrived.notified()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, MailboxState> {
        self.state.lock().expect("BUG: a push panicked")
    }
}

impl MailboxState {
    fn push(&mut self, kind: MessageKind, body: Bytes) -> bool {
        let limits = self.limits;
        let is_crowded = self.messages.len() >= limits.soft || self.bytes + body.len() > limits.soft_bytes;
        if is_crowded && kind == MessageKind::Log && !self.messages.is_empty() {
            self.dropped += 1;
            return false;
        }
        // The older one goes and not this one: the host may have read it already.
        let replaced = if is_crowded { self.position_to_replace(&kind) } else { None };
        let others = self.messages.len() - usize::from(replaced.is_some());
        let freed = replaced.map_or(0, |at| self.messages[at].body.len());
        let too_many_bytes = self.bytes - freed + body.len() > limits.hard_bytes && others > 0;
        if kind != MessageKind::Answer && (others >= limits.hard || too_many_bytes) {
            self.dropped += 1;
            return false;
        }
        if let Some(at) = replaced {
            self.messages.remove(at);
            self.bytes -= freed;
            self.dropped += u64::from(matches!(kind, MessageKind::Progress(_)));
        }
        self.others += u64::from(kind != MessageKind::Answer);
        self.last += 1;
        self.bytes += body.len();
        self.messages.push_back(QueuedMessage { number: self.last, kind, body });
        true
    }

    /// The message that one of this kind makes unnecessary.
    fn position_to_replace(&self, kind: &MessageKind) -> Option<usize> {
        match kind {
            MessageKind::Progress(_) | MessageKind::Changed(_) | MessageKind::Updated(_) => {
                self.messages.iter().position(|message| message.kind == *kind)
            }
            MessageKind::Log | MessageKind::Question | MessageKind::Answer => None,
        }
    }

    fn after(&self, number: u64) -> Vec<(u64, Bytes)> {
        let mut bytes = 0;
        let fits = |message: &&QueuedMessage| {
            let first = bytes == 0;
            bytes += message.body.len();
            first || bytes <= self.limits.batch_bytes
        };
        let next = self.messages.iter().filter(|message| message.number > number).take_while(fits);
        next.map(|message| (message.number, message.body.clone())).collect()
    }

    fn mark_sent(&mut self, number: u64, keep: bool) {
        self.seen = self.seen.max(number);
        let mut count = self.messages.iter().take_while(|message| message.number <= number).count();
        let known = |message: &QueuedMessage| message.number <= number;
        let mut bytes: usize =
            self.messages.iter().take_while(|message| known(message)).map(|message| message.body.len()).sum();
        while count > 0 && (!keep || count > self.limits.replay || bytes > self.limits.replay_bytes) {
            count -= 1;
            bytes -= self.pop();
        }
    }

    /// Removes the oldest message and returns its length.
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
            if bytes > self.limits.batch_bytes && !messages.is_empty() {
                return Some(MessageBatch { messages, next });
            }
            messages.push(message.body.clone());
            next = message.number;
        }
        // If the newest messages were replaced, `next` must still reach the watermark.
        (!messages.is_empty() || self.last > after).then_some(MessageBatch { messages, next: self.last })
    }
}

#[cfg(test)]
mod model;

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
        assert_eq!(mailbox.dropped_count(), 4001);
    }

    #[test]
    fn a_list_change_replaces_an_older_one_above_the_soft_limit() {
        let mailbox = Mailbox::default();
        for _ in 0..SOFT_LIMIT {
            mailbox.push(MessageKind::Changed("tools"), "t".into());
        }
        // The host may have read the one that is there, but not what changed since.
        mailbox.take(0);
        let has = mailbox.watermark();
        assert!(mailbox.push(MessageKind::Changed("tools"), "new".into()));
        assert_eq!(mailbox.lock().messages.len(), SOFT_LIMIT);
        assert_eq!(mailbox.take(has).unwrap().messages, ["new"]);
    }

    #[test]
    fn every_kind_of_message_is_bounded() {
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
        // There is room again once the host has acknowledged.
        mailbox.take(1);
        assert!(mailbox.push(MessageKind::Question, "q".into()));
    }

    #[test]
    fn sent_messages_are_retained_for_hosts_that_can_resume() {
        let mailbox = Mailbox::default();
        for number in 1..=300_u64 {
            mailbox.push(MessageKind::Question, number.to_string().into());
        }
        let last = vec![(299, Bytes::from("299")), (300, Bytes::from("300"))];
        assert_eq!(mailbox.peek_after(298), last);
        mailbox.mark_sent(200, true);
        assert_eq!(mailbox.peek_after(0)[0].0, 200 - REPLAY_LIMIT as u64 + 1);
        mailbox.mark_sent(200, false);
        assert_eq!(mailbox.peek_after(0)[0].0, 201);
        mailbox.mark_sent(300, false);
        assert!(mailbox.peek_after(0).is_empty() && mailbox.lock().bytes == 0);
    }

    #[test]
    fn the_answer_is_always_accepted() {
        let mailbox = Mailbox::default();
        mailbox.push(MessageKind::Question, vec![b'x'; HARD_LIMIT_BYTES + 1].into());
        assert!(mailbox.push(MessageKind::Answer, "a".into()));
        mailbox.close();
        assert!(mailbox.is_closed());
    }

    #[test]
    fn large_messages_get_their_own_batch() {
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

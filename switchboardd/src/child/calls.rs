//! The calls a child has not answered: who waits for which id.
//!
//! Pure bookkeeping; `now` comes from outside. A call whose caller gave up stays as a tombstone until
//! the child answers it, so that the late answer is thrown away quietly and the child's questions
//! still count that caller as a candidate.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use switchboard_wire::envelope::splice;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::caller::Caller;

/// Tombstones kept per child. A child that leaves more calls than this unanswered is not worth more memory.
const MAX_TOMBSTONES: usize = 4096;

/// How long a child that was told of a cancellation may still ask for that call. Many servers never
/// answer a cancelled call at all; their questions must not be refused for ever because of it.
const HAUNT: Duration = Duration::from_secs(30);

/// A request id as we issued it to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChildId(pub u64);

/// A child's answer: the whole message, and where its id stands in it.
#[derive(Debug)]
pub struct Answer {
    pub body: Bytes,
    pub id: Range<usize>,
}

impl Answer {
    /// The same bytes under the id of the host.
    pub fn for_host(&self, host_id: &str) -> Vec<u8> {
        splice(&self.body, self.id.clone(), host_id.as_bytes())
    }
}

/// What a waiting caller is handed.
#[derive(Debug)]
pub(super) enum Reply {
    Answer(Answer),
    /// The child answered with more than anybody takes.
    TooLong(u64),
}

struct Waiting {
    reply: oneshot::Sender<Reply>,
    caller: Arc<Caller>,
    /// The host's own progress token, as it wrote it.
    token: Option<Box<str>>,
    heard: Instant,
    open_questions: u32,
}

#[derive(Default)]
pub(super) struct Calls {
    issued: u64,
    waiting: HashMap<u64, Waiting>,
    tombstones: HashMap<u64, Arc<Caller>>,
    /// Tombstones by age, with the moment they were set.
    graves: VecDeque<(u64, Instant)>,
    closed: bool,
}

/// What became of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    ToCaller,
    /// Its caller had gone.
    Late,
    /// No such call: never asked, or answered before.
    Unknown,
}

impl Calls {
    /// Registers a call before it is written, so that even the fastest answer finds it. `None` once
    /// the child has ended.
    pub(super) fn open(
        &mut self,
        caller: Arc<Caller>,
        token: Option<Box<str>>,
        now: Instant,
    ) -> Option<(ChildId, oneshot::Receiver<Reply>)> {
        if self.closed {
            return None;
        }
        self.issued += 1;
        let (reply, receiver) = oneshot::channel();
        self.waiting.insert(self.issued, Waiting { reply, caller, token, heard: now, open_questions: 0 });
        Some((ChildId(self.issued), receiver))
    }

    pub(super) fn deliver(&mut self, id: ChildId, reply: Reply) -> Delivered {
        if let Some(waiting) = self.waiting.remove(&id.0) {
            // A receiver that is just being dropped loses its answer, which is what it wants.
            let _ = waiting.reply.send(reply);
            return Delivered::ToCaller;
        }
        match self.tombstones.remove(&id.0) {
            Some(_) => Delivered::Late,
            None => Delivered::Unknown,
        }
    }

    /// The caller gave up. True if the child had not answered.
    pub(super) fn abandon(&mut self, id: ChildId, now: Instant) -> bool {
        let Some(waiting) = self.waiting.remove(&id.0) else { return false };
        self.tombstones.insert(id.0, waiting.caller);
        self.graves.push_back((id.0, now));
        if self.graves.len() > MAX_TOMBSTONES {
            self.bury_oldest();
        }
        true
    }

    fn bury_oldest(&mut self) {
        if let Some((oldest, _)) = self.graves.pop_front() {
            self.tombstones.remove(&oldest);
        }
    }

    /// The call was never written: forget it altogether.
    pub(super) fn retract(&mut self, id: ChildId) {
        self.waiting.remove(&id.0);
    }

    /// Progress on a call: the silence is over. Who wants to hear it, under which token?
    pub(super) fn progress(&mut self, id: ChildId, now: Instant) -> Option<(Arc<Caller>, Box<str>)> {
        let waiting = self.waiting.get_mut(&id.0)?;
        waiting.heard = now;
        Some((waiting.caller.clone(), waiting.token.clone()?))
    }

    /// Since when the child has been silent on a call; `None` while it waits for its host.
    pub(super) fn silent_since(&self, id: ChildId) -> Option<Instant> {
        let waiting = self.waiting.get(&id.0)?;
        (waiting.open_questions == 0).then_some(waiting.heard)
    }

    /// The callers a message of the child that names no call may be for, each once.
    pub(super) fn candidates(&mut self, now: Instant) -> Vec<Arc<Caller>> {
        while self.graves.front().is_some_and(|(_, since)| now.duration_since(*since) > HAUNT) {
            self.bury_oldest();
        }
        let mut found: Vec<Arc<Caller>> = Vec::new();
        let all = self.waiting.values().map(|waiting| &waiting.caller).chain(self.tombstones.values());
        for caller in all {
            if !found.iter().any(|known| Arc::ptr_eq(known, caller)) {
                found.push(caller.clone());
            }
        }
        found
    }

    /// A question to this caller opened (+1) or closed (-1): the clocks of its calls stand meanwhile.
    pub(super) fn question(&mut self, caller: &Arc<Caller>, change: i32, now: Instant) {
        for waiting in self.waiting.values_mut().filter(|waiting| Arc::ptr_eq(&waiting.caller, caller)) {
            waiting.open_questions = waiting.open_questions.saturating_add_signed(change);
            waiting.heard = now;
        }
    }

    /// There are calls, and each of them waits for its host.
    pub(super) fn all_asking(&self) -> bool {
        !self.waiting.is_empty() && self.waiting.values().all(|waiting| waiting.open_questions > 0)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    /// The child has ended: dropping the table tells every caller.
    pub(super) fn close(&mut self) {
        *self = Self { closed: true, issued: self.issued, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Reply {
        Reply::Answer(Answer { body: Bytes::from_static(b"{\"id\":1}"), id: 6..7 })
    }

    #[test]
    fn each_call_is_answered_once() {
        let mut calls = Calls::default();
        let (id, mut receiver) = calls.open(Caller::deaf(), None, Instant::now()).unwrap();
        assert_eq!(calls.deliver(id, answer()), Delivered::ToCaller);
        assert_eq!(calls.deliver(id, answer()), Delivered::Unknown);
        assert!(receiver.try_recv().is_ok());
    }

    #[test]
    fn late_answers_are_thrown_away_quietly_and_the_caller_stays_a_candidate() {
        let mut calls = Calls::default();
        let caller = Caller::deaf();
        let (id, _receiver) = calls.open(caller.clone(), None, Instant::now()).unwrap();
        let now = Instant::now();
        assert!(calls.abandon(id, now));
        assert_eq!(calls.candidates(now).len(), 1);
        assert_eq!(calls.deliver(id, answer()), Delivered::Late);
        assert!(calls.candidates(now).is_empty());
        assert!(!calls.abandon(id, now));
    }

    #[test]
    fn a_cancelled_call_that_is_never_answered_stops_counting() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let (id, _receiver) = calls.open(Caller::deaf(), None, now).unwrap();
        calls.abandon(id, now);
        assert_eq!(calls.candidates(now + HAUNT).len(), 1);
        assert!(calls.candidates(now + HAUNT + Duration::from_millis(1)).is_empty());
    }

    #[test]
    fn tombstones_are_bounded() {
        let mut calls = Calls::default();
        for _ in 0..3 * MAX_TOMBSTONES {
            let (id, _receiver) = calls.open(Caller::deaf(), None, Instant::now()).unwrap();
            calls.abandon(id, Instant::now());
        }
        assert_eq!(calls.tombstones.len(), MAX_TOMBSTONES);
        assert_eq!(calls.graves.len(), MAX_TOMBSTONES);
    }

    #[test]
    fn an_open_question_stops_the_clock_of_its_caller_only() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let (asked, other) = (Caller::deaf(), Caller::deaf());
        let (first, _a) = calls.open(asked.clone(), None, now).unwrap();
        let (second, _b) = calls.open(other, None, now).unwrap();
        calls.question(&asked, 1, now);
        assert_eq!(calls.silent_since(first), None);
        assert_eq!(calls.silent_since(second), Some(now));
        calls.question(&asked, -1, now);
        assert_eq!(calls.silent_since(first), Some(now));
    }

    #[test]
    fn closing_the_table_tells_everybody_and_takes_no_more() {
        let mut calls = Calls::default();
        let (_, mut receiver) = calls.open(Caller::deaf(), None, Instant::now()).unwrap();
        calls.close();
        assert!(matches!(receiver.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
        assert!(calls.open(Caller::deaf(), None, Instant::now()).is_none());
    }

    #[test]
    fn an_answer_keeps_its_bytes_but_for_the_id() {
        let answer = Answer { body: Bytes::from_static(b"{\"x\": 1.0, \"id\":1}"), id: 16..17 };
        assert_eq!(answer.for_host("\"a\""), b"{\"x\": 1.0, \"id\":\"a\"}");
    }
}

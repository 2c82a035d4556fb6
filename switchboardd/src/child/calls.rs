//! The calls a child has not answered: who waits for which id.
//!
//! Pure bookkeeping; `now` comes from outside. A call whose caller gave up stays as a tombstone until
//! the child answers it, so that the late answer is thrown away quietly and the child's questions
//! still count that caller as a candidate.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use switchboard_wire::envelope::splice;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{ChildError, Limits, millis};
use crate::caller::{Caller, Once};
use crate::era::Era;

/// Tombstones kept per child. A child that leaves more calls than this unanswered is not worth more memory.
const MAX_TOMBSTONES: usize = 4096;

/// A request id as we issued it to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChildId(pub u64);

/// A child's answer: the whole message, and where its id stands in it.
#[derive(Debug)]
pub struct Answer {
    pub body: Bytes,
    pub id: Range<usize>,
    /// Of the child whose answer it is.
    pub era: Era,
    /// What it says of how the call went, for those who count; `None` if all is well.
    pub error: Option<&'static str>,
}

impl Answer {
    /// The same bytes under the id of the host.
    pub fn for_host(&self, host_id: &str) -> Vec<u8> {
        splice(&self.body, self.id.clone(), host_id.as_bytes())
    }

    /// The same child's answer with another result.
    pub fn with_result(&self, result: &str) -> Self {
        let (before, id) = (r#"{"jsonrpc":"2.0","id":"#, "0");
        let body = format!(r#"{before}{id},"result":{result}}}"#);
        Self {
            body: body.into(),
            id: before.len()..before.len() + id.len(),
            era: self.era,
            error: self.error,
        }
    }
}

/// What a waiting caller is handed.
#[derive(Debug)]
pub(super) enum Reply {
    Answer(Answer),
    /// The child answered with more than anybody takes.
    TooLong(u64),
    /// No answer will come; those to other calls may.
    Failed(ChildError),
    /// It took too long. The call stays open until its caller gives up on it.
    Overdue(ChildError),
}

struct Waiting {
    /// `None` once it was told that the call is overdue.
    reply: Option<oneshot::Sender<Reply>>,
    /// `None` for what we ask ourselves.
    caller: Option<Arc<Caller>>,
    /// The host's own progress token, as it wrote it.
    token: Option<Box<str>>,
    started: Instant,
    heard: Instant,
    limits: Option<Limits>,
}

impl Waiting {
    /// When it has taken too long, and why; `asking`: it waits for its host.
    fn due(&self, asking: bool) -> Option<(Instant, ChildError)> {
        let Limits { rpc, max, .. } = self.limits?;
        let end = (self.started + max, ChildError::Endless { ms: millis(max) });
        let silent = (self.heard + rpc, ChildError::Silent { ms: millis(rpc) });
        Some(if asking || end.0 <= silent.0 { end } else { silent })
    }
}

#[derive(Default)]
pub(super) struct Calls {
    issued: u64,
    waiting: HashMap<u64, Waiting>,
    tombstones: HashMap<u64, Tombstone>,
    /// More calls were given up on than we keep track of.
    lost_track: bool,
    /// Whom the child has asked something, once for each open question.
    asked: Vec<Arc<Caller>>,
    /// The call that stays open for as long as the child lives: nobody's use of it.
    standing: Option<u64>,
    /// When [`Calls::give_up_overdue`] will be asked next.
    alarm: Option<Instant>,
    closed: bool,
}

/// A call that was given up on.
struct Tombstone {
    caller: Option<Arc<Caller>>,
    /// The last call that was opened before the child was told.
    after: u64,
}

/// Whom a message of the child that names no call may be for.
#[derive(Debug)]
pub(super) enum Candidates {
    Nobody,
    One(Arc<Caller>),
    /// Several. `ghosts`: all but one at most have given up, and only the child does not know it yet.
    Several {
        ghosts: bool,
    },
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
        caller: Option<Arc<Caller>>,
        token: Option<Box<str>>,
        now: Instant,
    ) -> Option<(ChildId, oneshot::Receiver<Reply>)> {
        if self.closed {
            return None;
        }
        self.issued += 1;
        let (reply, receiver) = oneshot::channel();
        let waiting = Waiting { reply: Some(reply), caller, token, started: now, heard: now, limits: None };
        self.waiting.insert(self.issued, waiting);
        Some((ChildId(self.issued), receiver))
    }

    /// Binds a call to `limits`. True if it may be due before the alarm.
    pub(super) fn limit(&mut self, id: ChildId, limits: Limits) -> bool {
        let Some(waiting) = self.waiting.get_mut(&id.0) else { return false };
        waiting.limits = Some(limits);
        let due = waiting.started + limits.rpc.min(limits.max);
        self.alarm.is_none_or(|alarm| due < alarm)
    }

    /// Tells the callers whose calls have taken too long, and says when the next one may be due.
    pub(super) fn give_up_overdue(&mut self, now: Instant) -> Option<Instant> {
        self.alarm = None;
        let mut waiting = std::mem::take(&mut self.waiting);
        for call in waiting.values_mut().filter(|call| call.reply.is_some()) {
            let Some((due, error)) = call.due(self.is_asking(call)) else { continue };
            if due > now {
                self.alarm = Some(self.alarm.map_or(due, |alarm| alarm.min(due)));
            } else if let Some(reply) = call.reply.take() {
                let _ = reply.send(Reply::Overdue(error));
            }
        }
        self.waiting = waiting;
        self.alarm
    }

    pub(super) fn deliver(&mut self, id: ChildId, reply: Reply) -> Delivered {
        if let Some(waiting) = self.waiting.remove(&id.0) {
            // A receiver that is just being dropped loses its answer, which is what it wants.
            let Some(caller) = waiting.reply else { return Delivered::Late };
            let _ = caller.send(reply);
            return Delivered::ToCaller;
        }
        match self.tombstones.remove(&id.0) {
            Some(_) => Delivered::Late,
            None => Delivered::Unknown,
        }
    }

    /// The caller gave up. True if the child had not answered.
    pub(super) fn abandon(&mut self, id: ChildId) -> bool {
        let Some(waiting) = self.waiting.remove(&id.0) else { return false };
        if self.tombstones.len() < MAX_TOMBSTONES {
            self.tombstones.insert(id.0, Tombstone { caller: waiting.caller, after: self.issued });
        } else {
            self.lost_track = true;
        }
        true
    }

    /// A modern child that answered this call has read every cancel that went before it, and says nothing more of
    /// what was cancelled: it may not.
    pub(super) fn has_read_up_to(&mut self, id: ChildId) {
        if !self.tombstones.is_empty() {
            self.tombstones.retain(|_, tombstone| tombstone.after >= id.0);
        }
    }

    /// A call that is never answered in good times.
    pub(super) fn stand(&mut self, id: ChildId) {
        self.standing = Some(id.0);
    }

    /// Whether the child has not answered it; also if nobody waits any more.
    pub(super) fn owes(&self, id: ChildId) -> bool {
        self.waiting.contains_key(&id.0) || self.tombstones.contains_key(&id.0)
    }

    /// Whose call it is, if the child has not answered it.
    pub(super) fn caller_of(&self, id: ChildId) -> Option<Arc<Caller>> {
        let gone = || self.tombstones.get(&id.0).and_then(|tombstone| tombstone.caller.clone());
        self.waiting.get(&id.0).and_then(|waiting| waiting.caller.clone()).or_else(gone)
    }

    pub(super) fn is_standing(&self, id: ChildId) -> bool {
        self.standing == Some(id.0)
    }

    /// The call was never written: forget it altogether.
    pub(super) fn retract(&mut self, id: ChildId) {
        self.waiting.remove(&id.0);
    }

    /// Progress on a call: the silence is over. Who wants to hear it, under which token?
    pub(super) fn progress(&mut self, id: ChildId, now: Instant) -> Option<(Arc<Caller>, Box<str>)> {
        let waiting = self.waiting.get_mut(&id.0)?;
        waiting.heard = now;
        Some((waiting.caller.clone()?, waiting.token.clone()?))
    }

    fn is_asking(&self, waiting: &Waiting) -> bool {
        let caller = waiting.caller.as_ref();
        caller.is_some_and(|caller| self.asked.iter().any(|asked| asked.is_same_host(caller)))
    }

    /// The callers a message of the child that names no call may be for. One that gave up counts as
    /// long as the child has not answered its call: it may still be working on it. So does one whose host has
    /// questions and has not come back with the answers. Of several calls of one host it is the one that goes on,
    /// if only one does.
    pub(super) fn candidates(&self) -> Candidates {
        if self.lost_track {
            return Candidates::Several { ghosts: true };
        }
        let mut waiting: Vec<_> =
            self.waiting.iter().filter_map(|(id, waiting)| Some((*id, waiting.caller.as_ref()?))).collect();
        // Of a host's legacy calls the latest: what names no call is most likely about that one.
        waiting.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
        let given_up = self.tombstones.values().filter_map(|tombstone| tombstone.caller.as_ref());
        let mut all = waiting.iter().map(|(_, caller)| *caller).chain(given_up);
        let Some(first) = all.next() else { return Candidates::Nobody };
        let is_one_host = all.all(|other| other.is_same_host(first));
        let is_parked = |caller: &Arc<Caller>| caller.as_once().is_some_and(Once::is_parked);
        let mut live: Vec<&Arc<Caller>> = Vec::new();
        for (_, caller) in waiting.iter().filter(|(_, caller)| !is_one_host || !is_parked(caller)) {
            if !live.iter().any(|known| known.hears_for(caller)) {
                live.push(caller);
            }
        }
        match live.as_slice() {
            [] if is_one_host => Candidates::One(first.clone()),
            [caller] if is_one_host => Candidates::One((*caller).clone()),
            live => Candidates::Several { ghosts: live.len() <= 1 },
        }
    }

    /// A question to this caller opened: the clocks of its calls stand.
    pub(super) fn question_opened(&mut self, caller: &Arc<Caller>) {
        self.asked.push(caller.clone());
    }

    /// It was answered or withdrawn: the clocks go on from here.
    pub(super) fn question_closed(&mut self, caller: &Arc<Caller>, now: Instant) {
        if let Some(at) = self.asked.iter().position(|asked| asked.is_same_host(caller)) {
            self.asked.swap_remove(at);
        }
        for waiting in self.waiting.values_mut() {
            if waiting.caller.as_ref().is_some_and(|waiting| waiting.is_same_host(caller)) {
                waiting.heard = now;
            }
        }
    }

    /// The host goes on with this call by another request: its progress goes by another token.
    pub(super) fn retoken(&mut self, id: ChildId, token: Option<Box<str>>) {
        if let Some(waiting) = self.waiting.get_mut(&id.0) {
            waiting.token = token;
        }
    }

    /// There are calls, and each of them waits for its host.
    pub(super) fn all_asking(&self) -> bool {
        let mut calls = self.waiting.iter().filter(|(id, _)| Some(**id) != self.standing);
        self.in_flight() > 0 && calls.all(|(_, waiting)| self.is_asking(waiting))
    }

    pub(super) fn in_flight(&self) -> usize {
        let stands = self.standing.is_some_and(|id| self.waiting.contains_key(&id));
        self.waiting.len() - usize::from(stands)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The child has ended: dropping the table tells every caller.
    pub(super) fn close(&mut self) {
        *self = Self { closed: true, issued: self.issued, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn answer() -> Reply {
        Reply::Answer(Answer {
            body: Bytes::from_static(b"{\"id\":1}"),
            id: 6..7,
            era: Era::Legacy,
            error: None,
        })
    }

    #[test]
    fn each_call_is_answered_once() {
        let mut calls = Calls::default();
        let (id, mut receiver) = calls.open(Some(Caller::deaf()), None, Instant::now()).unwrap();
        assert_eq!(calls.deliver(id, answer()), Delivered::ToCaller);
        assert_eq!(calls.deliver(id, answer()), Delivered::Unknown);
        assert!(receiver.try_recv().is_ok());
    }

    #[test]
    fn late_answers_are_thrown_away_quietly_and_the_caller_stays_a_candidate() {
        let mut calls = Calls::default();
        let caller = Caller::deaf();
        let (id, _receiver) = calls.open(Some(caller), None, Instant::now()).unwrap();
        assert!(calls.abandon(id));
        assert!(matches!(calls.candidates(), Candidates::One(_)));
        assert_eq!(calls.deliver(id, answer()), Delivered::Late);
        assert!(matches!(calls.candidates(), Candidates::Nobody));
        assert!(!calls.abandon(id));
    }

    #[test]
    fn a_question_is_never_guessed_to_be_for_the_one_who_stayed() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let (gone, _a) = calls.open(Some(Caller::deaf()), None, now).unwrap();
        let (_stays, _b) = calls.open(Some(Caller::deaf()), None, now).unwrap();
        assert!(matches!(calls.candidates(), Candidates::Several { ghosts: false }));
        calls.abandon(gone);
        assert!(matches!(calls.candidates(), Candidates::Several { ghosts: true }));
    }

    #[test]
    fn one_who_gave_up_counts_until_a_modern_child_has_read_so() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let (gone, _a) = calls.open(Some(Caller::deaf()), None, now).unwrap();
        let (before, _b) = calls.open(Some(Caller::deaf()), None, now).unwrap();
        calls.abandon(gone);
        let (_stays, _c) = calls.open(Some(Caller::deaf()), None, now).unwrap();
        let (after, _d) = calls.open(None, None, now).unwrap();
        calls.deliver(before, answer());
        calls.has_read_up_to(before);
        assert!(matches!(calls.candidates(), Candidates::Several { ghosts: true }));
        calls.deliver(after, answer());
        calls.has_read_up_to(after);
        assert!(matches!(calls.candidates(), Candidates::One(_)));
    }

    #[test]
    fn what_we_ask_ourselves_is_nobodys() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let (_ours, _a) = calls.open(None, None, now).unwrap();
        assert!(matches!(calls.candidates(), Candidates::Nobody));
        let (_theirs, _b) = calls.open(Some(Caller::deaf()), None, now).unwrap();
        assert!(matches!(calls.candidates(), Candidates::One(_)));
    }

    #[test]
    fn tombstones_are_bounded_and_nobody_is_guessed_beyond_them() {
        let mut calls = Calls::default();
        for _ in 0..=MAX_TOMBSTONES {
            let (id, _receiver) = calls.open(Some(Caller::deaf()), None, Instant::now()).unwrap();
            calls.abandon(id);
        }
        assert_eq!(calls.tombstones.len(), MAX_TOMBSTONES);
        assert!(matches!(calls.candidates(), Candidates::Several { ghosts: true }));
    }

    fn limits(rpc: u64, max: u64) -> Limits {
        let [rpc, max] = [rpc, max].map(Duration::from_secs);
        Limits { spawn: rpc, rpc, max }
    }

    fn told(receiver: &mut oneshot::Receiver<Reply>) -> Option<ChildError> {
        match receiver.try_recv() {
            Ok(Reply::Overdue(error)) => Some(error),
            _ => None,
        }
    }

    #[test]
    fn an_open_question_stops_the_clock_of_its_caller_only() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let (asked, other) = (Caller::deaf(), Caller::deaf());
        let (first, mut a) = calls.open(Some(asked.clone()), None, now).unwrap();
        let (second, mut b) = calls.open(Some(other), None, now).unwrap();
        assert!(calls.limit(first, limits(60, 600)) && calls.limit(second, limits(60, 600)));
        calls.question_opened(&asked);
        calls.question_opened(&asked);
        assert_eq!(calls.give_up_overdue(after(59)), Some(after(60)));
        assert_eq!(calls.give_up_overdue(after(60)), Some(after(600)));
        assert_eq!((told(&mut a), told(&mut b)), (None, Some(ChildError::Silent { ms: 60_000 })));
        calls.question_closed(&asked, after(70));
        assert_eq!(calls.give_up_overdue(after(80)), Some(after(600)));
        calls.question_closed(&asked, after(90));
        assert_eq!(calls.give_up_overdue(after(100)), Some(after(150)));
        assert_eq!(calls.give_up_overdue(after(150)), None);
        assert_eq!(told(&mut a), Some(ChildError::Silent { ms: 60_000 }));
    }

    #[test]
    fn progress_starts_the_silence_anew_and_the_end_is_the_end() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let (id, mut receiver) = calls.open(None, None, now).unwrap();
        assert_eq!(calls.give_up_overdue(now), None);
        assert!(calls.limit(id, limits(60, 100)));
        assert_eq!(calls.give_up_overdue(now), Some(after(60)));
        calls.progress(id, after(50));
        assert_eq!(calls.give_up_overdue(after(60)), Some(after(100)));
        assert_eq!(calls.give_up_overdue(after(100)), None);
        assert_eq!(told(&mut receiver), Some(ChildError::Endless { ms: 100_000 }));
        // It has not been answered: its caller stays a candidate until the child has.
        assert_eq!(calls.in_flight(), 1);
        assert!(calls.abandon(id));
        assert_eq!(calls.deliver(id, answer()), Delivered::Late);
    }

    #[test]
    fn a_call_that_may_be_due_first_moves_the_alarm() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let (slow, _a) = calls.open(None, None, now).unwrap();
        calls.limit(slow, limits(60, 600));
        calls.give_up_overdue(now);
        let (same, _b) = calls.open(None, None, now + Duration::from_secs(1)).unwrap();
        assert!(!calls.limit(same, limits(60, 600)));
        let (quick, _c) = calls.open(None, None, now).unwrap();
        assert!(calls.limit(quick, limits(5, 600)));
    }

    #[test]
    fn closing_the_table_tells_everybody_and_takes_no_more() {
        let mut calls = Calls::default();
        let (_, mut receiver) = calls.open(Some(Caller::deaf()), None, Instant::now()).unwrap();
        calls.close();
        assert!(matches!(receiver.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
        assert!(calls.open(Some(Caller::deaf()), None, Instant::now()).is_none());
    }

    #[test]
    fn an_answer_keeps_its_bytes_but_for_the_id() {
        let body = Bytes::from_static(b"{\"x\": 1.0, \"id\":1}");
        let answer = Answer { body, id: 16..17, era: Era::Legacy, error: None };
        assert_eq!(answer.for_host("\"a\""), b"{\"x\": 1.0, \"id\":\"a\"}");
    }
}

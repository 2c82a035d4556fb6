//! The calls a child has not answered: who waits for which id.
//!
//! Pure bookkeeping; `now` comes from outside. A call whose caller gave up stays as an `AbandonedCall` until
//! the child answers it, so that the late answer is thrown away quietly and the child's questions
//! still count that caller as a candidate.

mod hosts;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use switchboard_wire::envelope::splice;
use switchboard_wire::rpc;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{ChildError, Limits, millis};
use crate::caller::{Caller, StatelessRequest};
use crate::era::ProtocolEra;
use crate::methods;

/// Abandoned calls kept per child. A child that leaves more calls than this unanswered is not worth more memory.
const MAX_ABANDONED: usize = 4096;

/// How long after a cancel a question of a legacy child may still come from the cancelled call.
const MAY_ASK: Duration = Duration::from_secs(60);

/// How long a host may take to answer a question that belongs to its session and not to a call.
const ANSWERED: Duration = Duration::from_secs(30);

/// A request id as we issued it to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChildId(pub u64);

/// A child's answer: the whole message, and where its id stands in it.
#[derive(Debug)]
pub struct ChildResponse {
    pub body: Bytes,
    pub id: Range<usize>,
    /// Of the child whose answer it is.
    pub era: ProtocolEra,
    /// What it says of how the call went, for those who count; `None` if all is well.
    pub error: Option<&'static str>,
}

impl ChildResponse {
    /// The same bytes under the id of the host.
    pub fn for_host(&self, host_id: &str) -> Vec<u8> {
        splice(&self.body, self.id.clone(), host_id.as_bytes())
    }

    /// The same child's answer with another result.
    pub fn with_result(&self, result: &str) -> Self {
        Self {
            body: rpc::result("0", result).into(),
            id: rpc::ID_START..rpc::ID_START + 1,
            era: self.era,
            error: self.error,
        }
    }
}

/// What a waiting caller is handed.
#[derive(Debug)]
pub(super) enum CallOutcome {
    Response(ChildResponse),
    /// The child answered with more than anybody takes.
    TooLong(u64),
    /// No answer will come; those to other calls may.
    Failed(ChildError),
    /// It took too long. The call stays open until its caller gives up on it.
    Overdue(ChildError),
}

struct PendingCall {
    /// `None` once it was told that the call is overdue.
    reply: Option<oneshot::Sender<CallOutcome>>,
    /// `None` for what we ask ourselves.
    caller: Option<Arc<Caller>>,
    /// The host's own progress token, as it wrote it.
    token: Option<Box<str>>,
    started: Instant,
    heard: Instant,
    limits: Option<Limits>,
}

impl PendingCall {
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
    waiting: HashMap<u64, PendingCall>,
    abandoned: HashMap<u64, AbandonedCall>,
    /// More calls were given up on than we keep track of; the last of them.
    lost_track: Option<AbandonedCall>,
    /// What the child has asked a host and has no answer to, by the child's own id.
    questions: HashMap<Box<str>, ChildQuestion>,
    /// Questions whose calls have all ended, until [`Calls::take_ended_questions`].
    ended: Vec<(Box<str>, ChildQuestion)>,
    /// The call that stays open for as long as the child lives: nobody's use of it.
    listen_call: Option<u64>,
    /// The `ping` by which we find out whether the child has read its cancels: nobody's use of it either.
    check: Option<u64>,
    /// When [`Calls::give_up_overdue`] will be asked next.
    next_check: Option<Instant>,
    closed: bool,
}

/// A call that was given up on.
struct AbandonedCall {
    caller: Option<Arc<Caller>>,
    /// The last call that was opened before the child was told.
    after: u64,
    since: Instant,
    /// The child has read the cancel: it answered something that was sent later.
    read: bool,
}

/// A question of the child that is open at a host.
#[derive(Debug)]
pub(super) struct ChildQuestion {
    pub(super) caller: Arc<Caller>,
    /// The id under which the host knows it.
    pub(super) ours: Box<str>,
    pub(super) method: Box<str>,
    /// The calls of that host that were open when it was asked and still are. It lives as long as one of them.
    within: Vec<u64>,
    /// False for a question that belongs to the session and not to a call: it stops no call's timeout.
    bound: bool,
    since: Instant,
}

impl ChildQuestion {
    /// Whether its host may answer it later, too: roots are of use for as long as the session lasts.
    pub(super) fn may_be_late(&self) -> bool {
        !self.bound && &*self.method == methods::ROOTS_LIST && self.caller.as_stateless().is_none()
    }
}

/// What a message of the child is, for [`Calls::candidates`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    Question,
    /// It does no harm if the call that it is about was cancelled a while ago.
    Log,
}

/// Whom a message of the child that names no call may be for.
#[derive(Debug)]
pub(super) enum Candidates {
    Nobody,
    One(Arc<Caller>),
    /// Several. `only_abandoned_left`: all but one at most have given up, and only the child does not know it yet.
    Several {
        only_abandoned_left: bool,
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
    ) -> Option<(ChildId, oneshot::Receiver<CallOutcome>)> {
        if self.closed {
            return None;
        }
        self.issued += 1;
        let (reply, receiver) = oneshot::channel();
        let waiting =
            PendingCall { reply: Some(reply), caller, token, started: now, heard: now, limits: None };
        self.waiting.insert(self.issued, waiting);
        Some((ChildId(self.issued), receiver))
    }

    /// Binds a call to `limits`. True if it may be due before the alarm.
    pub(super) fn limit(&mut self, id: ChildId, limits: Limits) -> bool {
        let Some(waiting) = self.waiting.get_mut(&id.0) else { return false };
        waiting.limits = Some(limits);
        let due = waiting.started + limits.rpc.min(limits.max);
        self.next_check.is_none_or(|alarm| due < alarm)
    }

    /// Tells the callers whose calls have taken too long, ends the session's questions that have, and says when the
    /// next one may be due.
    pub(super) fn give_up_overdue(&mut self, now: Instant) -> Option<Instant> {
        self.next_check = None;
        let mut waiting = std::mem::take(&mut self.waiting);
        for call in waiting.values_mut().filter(|call| call.reply.is_some()) {
            let Some((due, error)) = call.due(self.is_asking(call)) else { continue };
            if due > now {
                self.next_check = Some(self.next_check.map_or(due, |alarm| alarm.min(due)));
            } else if let Some(reply) = call.reply.take() {
                let _ = reply.send(CallOutcome::Overdue(error));
            }
        }
        self.waiting = waiting;
        let is_due = |question: &ChildQuestion| !question.bound && question.since + ANSWERED <= now;
        self.ended.extend(self.questions.extract_if(|_, question| is_due(question)));
        let open = self.questions.values().filter(|question| !question.bound);
        self.next_check = open.map(|question| question.since + ANSWERED).chain(self.next_check).min();
        self.next_check
    }

    pub(super) fn deliver(&mut self, id: ChildId, reply: CallOutcome) -> Delivered {
        self.call_ended(id);
        if let Some(waiting) = self.waiting.remove(&id.0) {
            // A receiver that is just being dropped loses its answer, which is what it wants.
            let Some(caller) = waiting.reply else { return Delivered::Late };
            let _ = caller.send(reply);
            return Delivered::ToCaller;
        }
        match self.abandoned.remove(&id.0) {
            Some(_) => Delivered::Late,
            None => Delivered::Unknown,
        }
    }

    /// The caller gave up. True if the child had not answered.
    pub(super) fn abandon(&mut self, id: ChildId, now: Instant) -> bool {
        self.call_ended(id);
        let Some(waiting) = self.waiting.remove(&id.0) else { return false };
        let call = AbandonedCall { caller: waiting.caller, after: self.issued, since: now, read: false };
        if self.abandoned.len() < MAX_ABANDONED {
            self.abandoned.insert(id.0, call);
        } else if call.caller.is_some() {
            self.lost_track = Some(call);
        }
        true
    }

    /// A modern child that answered this call has read every cancel that went before it, and says nothing more of
    /// what was cancelled: it may not.
    pub(super) fn has_read_up_to(&mut self, id: ChildId) {
        if !self.abandoned.is_empty() {
            self.abandoned.retain(|_, call| call.after >= id.0);
        }
    }

    /// A legacy child that answered this call has read every cancel that went before it. It may go on with what
    /// was cancelled all the same, so that is remembered for a while.
    pub(super) fn has_seen_up_to(&mut self, id: ChildId) {
        for call in self.abandoned.values_mut().chain(&mut self.lost_track) {
            call.read |= call.after < id.0;
        }
    }

    /// Whether a cancelled call of a host was not answered, and the child may not have read the cancel.
    pub(super) fn has_unread_cancel(&self) -> bool {
        let unread = |call: &AbandonedCall| !call.read && call.caller.is_some();
        self.abandoned.values().chain(&self.lost_track).any(unread)
    }

    /// A call was answered or given up on. Questions that belong to no other call end with it.
    fn call_ended(&mut self, id: ChildId) {
        if self.questions.is_empty() {
            return;
        }
        let ends = |question: &mut ChildQuestion| {
            question.within.retain(|call| *call != id.0);
            question.bound && question.within.is_empty()
        };
        self.ended.extend(self.questions.extract_if(|_, question| ends(question)));
    }

    /// Questions that ended with their calls: whoever changes a call tells both sides of them.
    pub(super) fn take_ended_questions(&mut self, now: Instant) -> Vec<(Box<str>, ChildQuestion)> {
        let ended = std::mem::take(&mut self.ended);
        ended.iter().for_each(|(_, question)| self.restart_timeouts(question, now));
        ended
    }

    /// A call that is never answered in good times.
    pub(super) fn set_listen_call(&mut self, id: ChildId) {
        self.listen_call = Some(id.0);
    }

    /// This call only checks whether the child has read its cancels. A child may answer none of these, so that only the
    /// last one is remembered when it was given up on.
    pub(super) fn check(&mut self, id: ChildId) {
        if let Some(before) = self.check.replace(id.0) {
            self.abandoned.remove(&before);
        }
    }

    /// Whether it is a call by which nobody uses the child.
    fn is_nobodys(&self, id: u64) -> bool {
        Some(id) == self.listen_call || Some(id) == self.check
    }

    /// Whether the child has not answered it; also if nobody waits any more.
    pub(super) fn owes(&self, id: ChildId) -> bool {
        self.waiting.contains_key(&id.0) || self.abandoned.contains_key(&id.0)
    }

    /// Whose call it is, if the child has not answered it.
    pub(super) fn caller_of(&self, id: ChildId) -> Option<Arc<Caller>> {
        let gone = || self.abandoned.get(&id.0).and_then(|call| call.caller.clone());
        self.waiting.get(&id.0).and_then(|waiting| waiting.caller.clone()).or_else(gone)
    }

    pub(super) fn is_listen_call(&self, id: ChildId) -> bool {
        self.listen_call == Some(id.0)
    }

    /// The call was never written: forget it altogether.
    pub(super) fn retract(&mut self, id: ChildId) {
        self.call_ended(id);
        self.waiting.remove(&id.0);
    }

    /// Progress on a call: the silence is over. Who wants to hear it, under which token?
    pub(super) fn progress(&mut self, id: ChildId, now: Instant) -> Option<(Arc<Caller>, Box<str>)> {
        let waiting = self.waiting.get_mut(&id.0)?;
        waiting.heard = now;
        Some((waiting.caller.clone()?, waiting.token.clone()?))
    }

    fn is_asking(&self, waiting: &PendingCall) -> bool {
        let caller = waiting.caller.as_ref();
        let mut questions = self.questions.values();
        caller.is_some_and(|caller| {
            questions.any(|question| question.bound && question.caller.is_same_host(caller))
        })
    }

    /// The callers a message of the child that names no call may be for. One that gave up counts as
    /// long as the child has not answered its call: it may still be working on it. So does one whose host has
    /// questions and has not come back with the answers. Of several calls of one host it is the one that goes on,
    /// if only one does.
    pub(super) fn candidates(&self, about: About, now: Instant) -> Candidates {
        let may_speak = |call: &AbandonedCall| match about {
            About::Log => !call.read,
            About::Question => !call.read || now < call.since + MAY_ASK,
        };
        if self.lost_track.as_ref().is_some_and(may_speak) {
            return Candidates::Several { only_abandoned_left: true };
        }
        let mut waiting: Vec<_> =
            self.waiting.iter().filter_map(|(id, waiting)| Some((*id, waiting.caller.as_ref()?))).collect();
        // Of a host's legacy calls the latest: what names no call is most likely about that one.
        waiting.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
        let given_up = self.abandoned.values().filter(|call| may_speak(call));
        let given_up = given_up.filter_map(|call| call.caller.as_ref());
        let mut all = waiting.iter().map(|(_, caller)| *caller).chain(given_up);
        let Some(first) = all.next() else { return Candidates::Nobody };
        let is_one_host = all.all(|other| other.is_same_host(first));
        let is_parked =
            |caller: &Arc<Caller>| caller.as_stateless().is_some_and(StatelessRequest::is_suspended);
        let mut live: Vec<&Arc<Caller>> = Vec::new();
        for (_, caller) in waiting.iter().filter(|(_, caller)| !is_one_host || !is_parked(caller)) {
            if !live.iter().any(|known| known.shares_mailbox_with(caller)) {
                live.push(caller);
            }
        }
        match live.as_slice() {
            [] if is_one_host => Candidates::One(first.clone()),
            [caller] if is_one_host => Candidates::One((*caller).clone()),
            live => Candidates::Several { only_abandoned_left: live.len() <= 1 },
        }
    }

    /// Whether a question to this caller belongs to a call that is open: to `about`, if that is known.
    pub(super) fn may_ask(&self, caller: &Arc<Caller>, about: Option<ChildId>) -> bool {
        !self.calls_of(caller, about).is_empty()
    }

    fn calls_of(&self, caller: &Arc<Caller>, about: Option<ChildId>) -> Vec<u64> {
        if let Some(id) = about.filter(|id| self.caller_of(*id).is_some()) {
            return if self.waiting.contains_key(&id.0) { vec![id.0] } else { Vec::new() };
        }
        let is_theirs = |waiting: &PendingCall| {
            waiting.reply.is_some()
                && waiting.caller.as_ref().is_some_and(|waiting| waiting.shares_mailbox_with(caller))
        };
        self.waiting.iter().filter(|(_, waiting)| is_theirs(waiting)).map(|(id, _)| *id).collect()
    }

    /// A question to this caller opened: if it belongs to a call, the timeouts of its calls stop. Gives one of the same id that was open.
    pub(super) fn question_opened(
        &mut self,
        theirs: Box<str>,
        caller: &Arc<Caller>,
        ours: Box<str>,
        method: &str,
        about: Option<ChildId>,
        now: Instant,
    ) -> Option<ChildQuestion> {
        let within = self.calls_of(caller, about);
        // Roots are the session's, whatever call is open; a modern host is asked for them by one request.
        let is_sessions = method == methods::ROOTS_LIST && caller.as_stateless().is_none();
        let bound = !within.is_empty() && !is_sessions;
        let question =
            ChildQuestion { caller: caller.clone(), ours, method: method.into(), within, bound, since: now };
        self.questions.insert(theirs, question)
    }

    /// It was answered or withdrawn: the timeouts start again.
    pub(super) fn question_closed(&mut self, theirs: &str, now: Instant) -> Option<ChildQuestion> {
        let question = self.questions.remove(theirs)?;
        self.restart_timeouts(&question, now);
        Some(question)
    }

    pub(super) fn open_questions(&self) -> usize {
        self.questions.len()
    }

    pub(super) fn is_open_question(&self, theirs: &str) -> bool {
        self.questions.contains_key(theirs)
    }

    /// A question has ended. One of the session has stopped no clock: a child that asks for roots again and again is
    /// silent on its calls all the same.
    fn restart_timeouts(&mut self, ended: &ChildQuestion, now: Instant) {
        for waiting in self.waiting.values_mut().filter(|_| ended.bound) {
            if waiting.caller.as_ref().is_some_and(|waiting| waiting.is_same_host(&ended.caller)) {
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
        let mut calls = self.waiting.iter().filter(|(id, _)| !self.is_nobodys(**id));
        self.in_flight() > 0 && calls.all(|(_, waiting)| self.is_asking(waiting))
    }

    pub(super) fn in_flight(&self) -> usize {
        let is_open = |id: &Option<u64>| id.is_some_and(|id| self.waiting.contains_key(&id));
        let nobodys = [self.listen_call, self.check].iter().filter(|id| is_open(id)).count();
        self.waiting.len() - nobodys
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The child has ended: dropping the table tells every caller. Gives the questions that were open.
    pub(super) fn close(&mut self) -> Vec<ChildQuestion> {
        let questions = std::mem::take(&mut self.questions).into_values();
        let ended = std::mem::take(&mut self.ended).into_iter().map(|(_, question)| question);
        let open = questions.chain(ended).collect();
        *self = Self { closed: true, issued: self.issued, ..Self::default() };
        open
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn answer() -> CallOutcome {
        CallOutcome::Response(ChildResponse {
            body: Bytes::from_static(b"{\"id\":1}"),
            id: 6..7,
            era: ProtocolEra::Legacy,
            error: None,
        })
    }

    fn asked(calls: &Calls) -> Candidates {
        calls.candidates(About::Question, Instant::now())
    }

    #[test]
    fn each_call_is_answered_once() {
        let mut calls = Calls::default();
        let (id, mut receiver) = calls.open(Some(Caller::anonymous()), None, Instant::now()).unwrap();
        assert_eq!(calls.deliver(id, answer()), Delivered::ToCaller);
        assert_eq!(calls.deliver(id, answer()), Delivered::Unknown);
        assert!(receiver.try_recv().is_ok());
    }

    #[test]
    fn late_answers_are_thrown_away_quietly_and_the_caller_stays_a_candidate() {
        let mut calls = Calls::default();
        let caller = Caller::anonymous();
        let (id, _receiver) = calls.open(Some(caller), None, Instant::now()).unwrap();
        assert!(calls.abandon(id, Instant::now()));
        assert!(matches!(asked(&calls), Candidates::One(_)));
        assert_eq!(calls.deliver(id, answer()), Delivered::Late);
        assert!(matches!(asked(&calls), Candidates::Nobody));
        assert!(!calls.abandon(id, Instant::now()));
    }

    #[test]
    fn a_question_is_never_guessed_to_be_for_the_one_who_stayed() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let (gone, _a) = calls.open(Some(Caller::anonymous()), None, now).unwrap();
        let (_stays, _b) = calls.open(Some(Caller::anonymous()), None, now).unwrap();
        assert!(matches!(asked(&calls), Candidates::Several { only_abandoned_left: false }));
        calls.abandon(gone, Instant::now());
        assert!(matches!(asked(&calls), Candidates::Several { only_abandoned_left: true }));
    }

    #[test]
    fn one_who_gave_up_counts_until_a_modern_child_has_read_so() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let (gone, _a) = calls.open(Some(Caller::anonymous()), None, now).unwrap();
        let (before, _b) = calls.open(Some(Caller::anonymous()), None, now).unwrap();
        calls.abandon(gone, Instant::now());
        let (_stays, _c) = calls.open(Some(Caller::anonymous()), None, now).unwrap();
        let (after, _d) = calls.open(None, None, now).unwrap();
        calls.deliver(before, answer());
        calls.has_read_up_to(before);
        assert!(matches!(asked(&calls), Candidates::Several { only_abandoned_left: true }));
        calls.deliver(after, answer());
        calls.has_read_up_to(after);
        assert!(matches!(asked(&calls), Candidates::One(_)));
    }

    #[test]
    fn what_we_ask_ourselves_is_nobodys() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let (_ours, _a) = calls.open(None, None, now).unwrap();
        assert!(matches!(asked(&calls), Candidates::Nobody));
        let (_theirs, _b) = calls.open(Some(Caller::anonymous()), None, now).unwrap();
        assert!(matches!(asked(&calls), Candidates::One(_)));
    }

    #[test]
    fn tombstones_are_bounded_and_nobody_is_guessed_beyond_them() {
        let mut calls = Calls::default();
        for _ in 0..=MAX_ABANDONED {
            let (id, _receiver) = calls.open(Some(Caller::anonymous()), None, Instant::now()).unwrap();
            calls.abandon(id, Instant::now());
        }
        assert_eq!(calls.abandoned.len(), MAX_ABANDONED);
        assert!(matches!(asked(&calls), Candidates::Several { only_abandoned_left: true }));
    }

    fn limits(rpc: u64, max: u64) -> Limits {
        let [rpc, max] = [rpc, max].map(Duration::from_secs);
        Limits { spawn: rpc, rpc, max }
    }

    fn told(receiver: &mut oneshot::Receiver<CallOutcome>) -> Option<ChildError> {
        match receiver.try_recv() {
            Ok(CallOutcome::Overdue(error)) => Some(error),
            _ => None,
        }
    }

    #[test]
    fn an_open_question_stops_the_clock_of_its_caller_only() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let (asked, other) = (Caller::anonymous(), Caller::anonymous());
        let (first, mut a) = calls.open(Some(asked.clone()), None, now).unwrap();
        let (second, mut b) = calls.open(Some(other), None, now).unwrap();
        assert!(calls.limit(first, limits(60, 600)) && calls.limit(second, limits(60, 600)));
        for theirs in ["1", "2"] {
            assert!(calls.question_opened(theirs.into(), &asked, theirs.into(), "m", None, now).is_none());
        }
        assert_eq!(calls.give_up_overdue(after(59)), Some(after(60)));
        assert_eq!(calls.give_up_overdue(after(60)), Some(after(600)));
        assert_eq!((told(&mut a), told(&mut b)), (None, Some(ChildError::Silent { ms: 60_000 })));
        assert!(calls.question_closed("1", after(70)).is_some());
        assert_eq!(calls.give_up_overdue(after(80)), Some(after(600)));
        assert!(calls.question_closed("2", after(90)).is_some());
        assert_eq!(calls.give_up_overdue(after(100)), Some(after(150)));
        assert_eq!(calls.give_up_overdue(after(150)), None);
        assert_eq!(told(&mut a), Some(ChildError::Silent { ms: 60_000 }));
    }

    #[test]
    fn a_question_ends_with_the_last_call_that_it_may_belong_to() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let host = Caller::named();
        let open = |calls: &mut Calls| calls.open(Some(host.clone()), None, now).unwrap();
        let ((first, _a), (second, _b)) = (open(&mut calls), open(&mut calls));
        assert!(calls.may_ask(&host, None));
        calls.question_opened("q".into(), &host, "ours".into(), "m", None, now);
        let (third, mut c) = open(&mut calls);
        calls.limit(third, limits(60, 600));
        calls.abandon(first, now);
        assert!(calls.take_ended_questions(now).is_empty());
        assert_eq!(calls.give_up_overdue(after(60)), Some(after(600)));
        calls.deliver(second, answer());
        let ended = calls.take_ended_questions(after(70));
        assert_eq!(ended.len(), 1);
        assert_eq!((&*ended[0].0, &*ended[0].1.ours), ("q", "ours"));
        // The call that came later has its silence limit again.
        assert_eq!(calls.give_up_overdue(after(130)), None);
        assert_eq!(told(&mut c), Some(ChildError::Silent { ms: 60_000 }));
        calls.abandon(third, now);
        assert!(!calls.may_ask(&host, None));
    }

    #[test]
    fn a_question_that_is_about_a_call_ends_with_that_one() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let host = Caller::named();
        let (first, _a) = calls.open(Some(host.clone()), None, now).unwrap();
        let (_second, _b) = calls.open(Some(host.clone()), None, now).unwrap();
        calls.question_opened("q".into(), &host, "1".into(), "m", Some(first), now);
        let replaced = calls.question_opened("q".into(), &host, "2".into(), "m", Some(first), now);
        assert_eq!(replaced.map(|question| question.ours), Some("1".into()));
        calls.deliver(first, answer());
        assert_eq!(calls.take_ended_questions(now).len(), 1);
        // One of the session itself ends with none of them.
        calls.question_opened("roots".into(), &Caller::named(), "3".into(), "m", None, now);
        calls.deliver(ChildId(2), answer());
        assert!(calls.take_ended_questions(now).is_empty());
        assert_eq!(calls.close().len(), 1);
    }

    #[test]
    fn roots_that_a_host_never_tells_stop_no_clock_and_end() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let host = Caller::named();
        let (id, mut receiver) = calls.open(Some(host.clone()), None, now).unwrap();
        calls.limit(id, limits(20, 600));
        calls.question_opened("r".into(), &host, "1".into(), methods::ROOTS_LIST, None, now);
        assert!(!calls.all_asking());
        assert_eq!(calls.give_up_overdue(after(10)), Some(after(20)));
        assert_eq!(calls.give_up_overdue(after(20)), Some(now + ANSWERED));
        assert_eq!(told(&mut receiver), Some(ChildError::Silent { ms: 20_000 }));
        assert!(calls.take_ended_questions(after(20)).is_empty());
        assert_eq!(calls.give_up_overdue(now + ANSWERED), None);
        assert_eq!(calls.take_ended_questions(now + ANSWERED).len(), 1);
        assert_eq!(calls.open_questions(), 0);
    }

    #[test]
    fn roots_that_a_child_asks_for_again_and_again_end_no_silence() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let host = Caller::named();
        let (id, mut receiver) = calls.open(Some(host.clone()), None, now).unwrap();
        calls.limit(id, limits(60, 600));
        calls.question_opened("1".into(), &host, "1".into(), methods::ROOTS_LIST, None, now);
        assert!(calls.question_closed("1", after(1)).is_some(), "the host answers one");
        calls.question_opened("2".into(), &host, "2".into(), methods::ROOTS_LIST, None, after(20));
        calls.give_up_overdue(after(50));
        assert_eq!(calls.take_ended_questions(after(50)).len(), 1, "and another one not in time");
        assert_eq!(calls.give_up_overdue(after(60)), None);
        assert_eq!(told(&mut receiver), Some(ChildError::Silent { ms: 60_000 }));
    }

    #[test]
    fn checks_that_a_child_never_answers_are_no_use_and_leave_one_tombstone() {
        let mut calls = Calls::default();
        let now = Instant::now();
        for _ in 0..=MAX_ABANDONED {
            let (check, _receiver) = calls.open(None, None, now).unwrap();
            calls.check(check);
            assert_eq!(calls.in_flight(), 0);
            assert!(calls.abandon(check, now), "the child is told");
        }
        assert_eq!(calls.abandoned.len(), 1);
        let (last, _receiver) = calls.open(None, None, now).unwrap();
        calls.check(last);
        calls.abandon(last, now);
        assert_eq!(calls.deliver(last, answer()), Delivered::Late);
        // What we ask ourselves is never for a host, however much of it was given up on.
        for _ in 0..=MAX_ABANDONED {
            let (ours, _receiver) = calls.open(None, None, now).unwrap();
            calls.abandon(ours, now);
        }
        let (_call, _receiver) = calls.open(Some(Caller::named()), None, now).unwrap();
        assert!(matches!(asked(&calls), Candidates::One(_)));
    }

    #[test]
    fn a_cancelled_call_makes_logs_nobodys_only_until_the_child_has_read_so() {
        let mut calls = Calls::default();
        let now = Instant::now();
        let later = now + MAY_ASK;
        let (gone, _a) = calls.open(Some(Caller::named()), None, now).unwrap();
        let (_stays, _b) = calls.open(Some(Caller::named()), None, now).unwrap();
        calls.abandon(gone, now);
        let (ping, _c) = calls.open(None, None, now).unwrap();
        assert!(calls.has_unread_cancel());
        assert!(matches!(calls.candidates(About::Log, later), Candidates::Several { .. }));
        calls.has_seen_up_to(ping);
        assert!(!calls.has_unread_cancel());
        assert!(matches!(calls.candidates(About::Log, now), Candidates::One(_)));
        assert!(matches!(
            calls.candidates(About::Question, now),
            Candidates::Several { only_abandoned_left: true }
        ));
        assert!(matches!(calls.candidates(About::Question, later), Candidates::One(_)));
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
        assert!(calls.abandon(id, Instant::now()));
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
        let (_, mut receiver) = calls.open(Some(Caller::anonymous()), None, Instant::now()).unwrap();
        calls.close();
        assert!(matches!(receiver.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
        assert!(calls.open(Some(Caller::anonymous()), None, Instant::now()).is_none());
    }

    #[test]
    fn an_answer_keeps_its_bytes_but_for_the_id() {
        let body = Bytes::from_static(b"{\"x\": 1.0, \"id\":1}");
        let answer = ChildResponse { body, id: 16..17, era: ProtocolEra::Legacy, error: None };
        assert_eq!(answer.for_host("\"a\""), b"{\"x\": 1.0, \"id\":\"a\"}");
    }
}

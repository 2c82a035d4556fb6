use bytes::Bytes;
use switchboard_mcp::era::ProtocolEra;
use switchboard_mcp::methods;

use super::*;

fn answer() -> CallOutcome {
    CallOutcome::Response(ChildResponse {
        body: Bytes::from_static(b"{\"id\":1}"),
        id: 6..7,
        era: ProtocolEra::Legacy,
        error: None,
        asked: Duration::ZERO,
    })
}

fn asked(calls: &Calls) -> Candidates {
    calls.candidates(MessageTopic::Question, Instant::now())
}

#[test]
fn each_call_is_answered_once() {
    let mut calls = Calls::default();
    let (id, mut receiver) = calls.open(Some(Caller::anonymous()), None, Instant::now()).unwrap();
    assert_eq!(calls.deliver(id, answer()), Delivery::ToCaller);
    assert_eq!(calls.deliver(id, answer()), Delivery::Unknown);
    assert!(receiver.try_recv().is_ok());
}

#[test]
fn late_answers_are_thrown_away_quietly_and_the_caller_stays_a_candidate() {
    let mut calls = Calls::default();
    let caller = Caller::anonymous();
    let (id, _receiver) = calls.open(Some(caller), None, Instant::now()).unwrap();
    assert!(calls.abandon(id, Instant::now()));
    assert!(matches!(asked(&calls), Candidates::One(_)));
    assert_eq!(calls.deliver(id, answer()), Delivery::Late);
    assert!(matches!(asked(&calls), Candidates::Nobody));
    assert!(!calls.abandon(id, Instant::now()));
}

#[test]
fn a_question_is_not_routed_to_the_one_caller_that_remains() {
    let mut calls = Calls::default();
    let now = Instant::now();
    let (gone, _a) = calls.open(Some(Caller::anonymous()), None, now).unwrap();
    let (_stays, _b) = calls.open(Some(Caller::anonymous()), None, now).unwrap();
    assert!(matches!(asked(&calls), Candidates::Several { only_abandoned_left: false }));
    calls.abandon(gone, Instant::now());
    assert!(matches!(asked(&calls), Candidates::Several { only_abandoned_left: true }));
}

#[test]
fn an_abandoned_call_counts_until_a_modern_child_has_read_the_cancel() {
    let mut calls = Calls::default();
    let now = Instant::now();
    let (gone, _a) = calls.open(Some(Caller::anonymous()), None, now).unwrap();
    let (before, _b) = calls.open(Some(Caller::anonymous()), None, now).unwrap();
    calls.abandon(gone, Instant::now());
    let (_stays, _c) = calls.open(Some(Caller::anonymous()), None, now).unwrap();
    let (after, _d) = calls.open(None, None, now).unwrap();
    calls.deliver(before, answer());
    calls.drop_cancelled_before(before);
    assert!(matches!(asked(&calls), Candidates::Several { only_abandoned_left: true }));
    calls.deliver(after, answer());
    calls.drop_cancelled_before(after);
    assert!(matches!(asked(&calls), Candidates::One(_)));
}

#[test]
fn requests_of_the_daemon_are_no_candidates() {
    let mut calls = Calls::default();
    let now = Instant::now();
    let (_ours, _a) = calls.open(None, None, now).unwrap();
    assert!(matches!(asked(&calls), Candidates::Nobody));
    let (_theirs, _b) = calls.open(Some(Caller::anonymous()), None, now).unwrap();
    assert!(matches!(asked(&calls), Candidates::One(_)));
}

#[test]
fn abandoned_calls_are_bounded_and_overflow_leaves_no_single_candidate() {
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
fn an_open_question_suspends_only_the_timeouts_of_its_caller() {
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
    // The later call has its silence timeout again.
    assert_eq!(calls.give_up_overdue(after(130)), None);
    assert_eq!(told(&mut c), Some(ChildError::Silent { ms: 60_000 }));
    calls.abandon(third, now);
    assert!(!calls.may_ask(&host, None));
}

#[test]
fn a_question_about_a_call_ends_with_that_call() {
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
    // A question of the session ends with none of its calls.
    calls.question_opened("roots".into(), &Caller::named(), "3".into(), "m", None, now);
    calls.deliver(ChildId(2), answer());
    assert!(calls.take_ended_questions(now).is_empty());
    assert_eq!(calls.close().len(), 1);
}

#[test]
fn unanswered_roots_requests_expire_and_suspend_no_timeout() {
    let mut calls = Calls::default();
    let now = Instant::now();
    let after = |seconds| now + Duration::from_secs(seconds);
    let host = Caller::named();
    let (id, mut receiver) = calls.open(Some(host.clone()), None, now).unwrap();
    calls.limit(id, limits(20, 600));
    calls.question_opened("r".into(), &host, "1".into(), methods::ROOTS_LIST, None, now);
    assert!(!calls.all_asking());
    assert_eq!(calls.give_up_overdue(after(10)), Some(after(20)));
    assert_eq!(calls.give_up_overdue(after(20)), Some(now + SESSION_QUESTION_TIMEOUT));
    assert_eq!(told(&mut receiver), Some(ChildError::Silent { ms: 20_000 }));
    assert!(calls.take_ended_questions(after(20)).is_empty());
    assert_eq!(calls.give_up_overdue(now + SESSION_QUESTION_TIMEOUT), None);
    assert_eq!(calls.take_ended_questions(now + SESSION_QUESTION_TIMEOUT).len(), 1);
    assert_eq!(calls.open_questions(), 0);
}

#[test]
fn repeated_roots_requests_do_not_restart_the_silence_timeout() {
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
fn unanswered_cancel_checks_do_not_count_as_use_and_leave_one_abandoned_call() {
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
    assert_eq!(calls.deliver(last, answer()), Delivery::Late);
    // Abandoned requests of the daemon are never candidates, however many there are.
    for _ in 0..=MAX_ABANDONED {
        let (ours, _receiver) = calls.open(None, None, now).unwrap();
        calls.abandon(ours, now);
    }
    let (_call, _receiver) = calls.open(Some(Caller::named()), None, now).unwrap();
    assert!(matches!(asked(&calls), Candidates::One(_)));
}

#[test]
fn logs_are_ambiguous_only_until_the_child_has_read_the_cancel() {
    let mut calls = Calls::default();
    let now = Instant::now();
    let later = now + LATE_QUESTION_WINDOW;
    let (gone, _a) = calls.open(Some(Caller::named()), None, now).unwrap();
    let (_stays, _b) = calls.open(Some(Caller::named()), None, now).unwrap();
    calls.abandon(gone, now);
    let (ping, _c) = calls.open(None, None, now).unwrap();
    assert!(calls.has_unread_cancel());
    assert!(matches!(calls.candidates(MessageTopic::Log, later), Candidates::Several { .. }));
    calls.mark_cancels_read(ping);
    assert!(!calls.has_unread_cancel());
    assert!(matches!(calls.candidates(MessageTopic::Log, now), Candidates::One(_)));
    assert!(matches!(
        calls.candidates(MessageTopic::Question, now),
        Candidates::Several { only_abandoned_left: true }
    ));
    assert!(matches!(calls.candidates(MessageTopic::Question, later), Candidates::One(_)));
}

#[test]
fn progress_restarts_the_silence_timeout_but_not_the_total_one() {
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
    // The child has not answered: its caller stays a candidate until it does.
    assert_eq!(calls.in_flight(), 1);
    assert!(calls.abandon(id, Instant::now()));
    assert_eq!(calls.deliver(id, answer()), Delivery::Late);
}

#[test]
fn a_call_that_may_be_due_first_needs_an_earlier_check() {
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
fn closing_the_table_fails_all_calls_and_refuses_new_ones() {
    let mut calls = Calls::default();
    let (_, mut receiver) = calls.open(Some(Caller::anonymous()), None, Instant::now()).unwrap();
    calls.close();
    assert!(matches!(receiver.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
    assert!(calls.open(Some(Caller::anonymous()), None, Instant::now()).is_none());
}

#[test]
fn an_answer_keeps_its_bytes_but_for_the_id() {
    let body = Bytes::from_static(b"{\"x\": 1.0, \"id\":1}");
    let answer =
        ChildResponse { body, id: 16..17, era: ProtocolEra::Legacy, error: None, asked: Duration::ZERO };
    assert_eq!(answer.for_host("\"a\""), b"{\"x\": 1.0, \"id\":\"a\"}");
}

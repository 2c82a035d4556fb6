//! Calls in flight: many at once, cancelled, timed out, with progress and questions on the way.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::time::{Duration, Instant};

use proto_tests::shim::{answer_id, kind_of, structured, text_of};
use proto_tests::wait::{until, until_true};
use proto_tests::{Home, Shim, TEST_TIMEOUT};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

#[test]
fn answers_out_of_order_reach_their_callers() {
    let home = Home::new();
    home.child("r", &["reorders", "8"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let ids: Vec<_> = (0..8).map(|n| (n, shim.start_call("r", "echo", &format!(r#"{{"n":{n}}}"#)))).collect();
    for (n, id) in ids {
        assert_eq!(structured(&shim.answer_to(&id.to_string()))["args"]["n"], n);
    }
}

#[test]
fn a_slow_call_delays_no_other_call() {
    let home = Home::new();
    home.child("s", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let hanging = shim.start_call("s", "hang", "{}");
    for _ in 0..100 {
        assert!(shim.call("s", "echo", "{}").contains("\"ok\":true"));
    }
    shim.send(&cancel(hanging));
}

fn cancel(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"enough"}}}}"#
    )
}

/// The lines that the child received, from its journal.
fn journal(home: &Home) -> Vec<Value> {
    let text = fs::read_to_string(home.path().join("journal")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line.split_once(' ')?.1).ok()).collect()
}

fn journalled(home: &Home, name: &str, behaviour: &[&str]) {
    home.child_with(name, behaviour, &[("EVIL_JOURNAL", home.path().join("journal").to_str().unwrap())]);
}

fn wait_for_journal(home: &Home, what: &str, found: impl Fn(&Value) -> bool) -> Value {
    until(what, TEST_TIMEOUT, || journal(home).into_iter().find(|line| found(line)))
}

#[test]
fn a_cancelled_call_is_cancelled_in_the_child_and_never_answered() {
    let home = Home::new();
    journalled(&home, "c", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("c", "hang", "{}");
    let sent = wait_for_journal(&home, "the call", |line| line["params"]["name"] == "hang");
    shim.send(&cancel(id));
    let cancelled = wait_for_journal(&home, "the cancel", |line| line["method"] == "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], sent["id"]);
    let next = shim.start_request("ping", "{}");
    assert_eq!(answer_id(&shim.receive()), Some(next.to_string()));
}

#[test]
fn a_late_answer_to_a_cancelled_call_reaches_nobody() {
    let home = Home::new();
    journalled(&home, "late", &["late-answers"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("late", "hang", "{}");
    wait_for_journal(&home, "the call", |line| line["params"]["name"] == "hang");
    shim.send(&cancel(id));
    wait_for_journal(&home, "the cancel", |line| line["method"] == "notifications/cancelled");
    // The child answers the cancelled call before it answers this one.
    let next = shim.start_call("late", "echo", r#"{"n":7}"#);
    let line = shim.receive();
    assert_eq!(answer_id(&line), Some(next.to_string()), "{line}");
    assert_eq!(structured(&line)["args"]["n"], 7);
}

#[test]
fn a_cancel_of_an_unknown_request_is_ignored() {
    let home = Home::new();
    journalled(&home, "c", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("c", "echo", "{}");
    shim.send(&cancel(999));
    shim.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}"#);
    shim.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#);
    shim.call("c", "echo", "{}");
    assert!(journal(&home).iter().all(|line| line["method"] != "notifications/cancelled"));
}

#[test]
fn a_timed_out_call_is_answered_and_cancelled_in_the_child() {
    let home = Home::new();
    home.config(&json!({"timeouts": {"rpcMs": 800}}));
    journalled(&home, "d", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("d", "echo", "{}");
    let start = Instant::now();
    let answer = shim.call("d", "hang", "{}");
    assert!(start.elapsed() >= Duration::from_millis(800), "{:?}", start.elapsed());
    assert_eq!(kind_of(&answer).as_deref(), Some("rpc_timeout"), "{answer}");
    assert!(answer.contains("800") && answer.contains("hang"), "{answer}");
    wait_for_journal(&home, "the cancel", |line| line["method"] == "notifications/cancelled");
    let first = structured(&shim.call("d", "count", "{}"));
    assert_eq!(first["count"], 3, "the child was replaced, or saw a call twice: {first}");
}

#[test]
fn progress_resets_the_timeout() {
    let home = Home::new();
    home.config(&json!({"timeouts": {"rpcMs": 2000}}));
    home.child("p", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let params = r#"{"name":"p_suite","arguments":{"action":"call","subtool":"progress","args":{"steps":12,"ms":250}},"_meta":{"progressToken":"t"}}"#;
    let answer = shim.request("tools/call", params);
    assert!(answer.contains("\"ok\":true"), "{answer}");
}

#[test]
fn progress_comes_before_its_result_and_in_order() {
    let home = Home::new();
    home.child("p", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    // The server runs for the first time, which changes its suite's description.
    shim.call("p", "echo", "{}");
    shim.notification("notifications/tools/list_changed");
    for round in 0..20 {
        let params = format!(
            r#"{{"name":"p_suite","arguments":{{"action":"call","subtool":"progress","args":{{"steps":50}}}},"_meta":{{"progressToken":{round}}}}}"#
        );
        let id = shim.start_request("tools/call", &params);
        for step in 1..=50 {
            let line: Value = serde_json::from_str(&shim.receive()).unwrap();
            assert_eq!(line["method"], "notifications/progress", "round {round}, step {step}: {line}");
            assert_eq!(line["params"], json!({"progressToken": round, "progress": step, "total": 50}));
        }
        assert_eq!(answer_id(&shim.receive()), Some(id.to_string()));
    }
}

#[test]
fn progress_and_logs_go_only_to_the_caller() {
    let home = Home::new();
    home.child("p", &["echo"]);
    let _daemon = home.daemon();
    let (mut mine, mut other) = (home.shim(), home.shim());
    let params = r#"{"name":"p_suite","arguments":{"action":"call","subtool":"progress","args":{"steps":5}},"_meta":{"progressToken":1}}"#;
    // The other host uses the same token on a call that reports no progress.
    let waiting = other.start_request(
        "tools/call",
        r#"{"name":"p_suite","arguments":{"action":"call","subtool":"slow","args":{"ms":400}},"_meta":{"progressToken":1}}"#,
    );
    mine.request("tools/call", params);
    other.answer_to(&waiting.to_string());
    mine.call("p", "log", "{}");
    other.request("ping", "{}");
    assert_eq!(other.take_notifications_of_calls(), Vec::<String>::new());
    let heard = mine.take_notifications();
    assert_eq!(heard.iter().filter(|line| line.contains("notifications/progress")).count(), 5, "{heard:?}");
    assert_eq!(heard.iter().filter(|line| line.contains("something happened")).count(), 1, "{heard:?}");
}

#[test]
fn questions_reach_a_host_that_supports_them() {
    let home = Home::new();
    home.child("a", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    for (kind, method, result) in [
        ("elicitation", "elicitation/create", r#"{"action":"accept","content":{"age":7.0}}"#),
        (
            "sampling",
            "sampling/createMessage",
            r#"{"role":"assistant","content":{"type":"text","text":"hm"},"model":"m"}"#,
        ),
    ] {
        let id = shim.start_call("a", "ask", &format!(r#"{{"kind":"{kind}"}}"#));
        let question = shim.notification(method);
        shim.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, question["id"]));
        let said = text_of(&shim.answer_to(&id.to_string()));
        assert!(said.ends_with(&format!(r#""result":{result}}}"#)), "{said}");
    }
}

#[test]
fn a_host_may_refuse_a_question() {
    let home = Home::new();
    home.child("a", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("a", "ask", r#"{"kind":"sampling"}"#);
    let question = shim.notification("sampling/createMessage");
    let error = r#"{"code":-1,"message":"User rejected sampling request"}"#;
    shim.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, question["id"]));
    assert!(text_of(&shim.answer_to(&id.to_string())).contains(error));
}

#[test]
fn the_daemon_declines_questions_that_the_host_does_not_support() {
    let home = Home::new();
    home.child("a", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    shim.initialize_as(
        r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#,
    );
    let declined: Value =
        serde_json::from_str(&text_of(&shim.call("a", "ask", r#"{"kind":"elicitation"}"#))).unwrap();
    assert_eq!(declined["result"]["action"], "decline");
    for kind in ["sampling", "roots", "made/up"] {
        let answer = text_of(&shim.call("a", "ask", &format!(r#"{{"kind":"{kind}"}}"#)));
        let refused: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(refused["error"]["code"], -32601, "{kind}: {refused}");
    }
    let pong: Value = serde_json::from_str(&text_of(&shim.call("a", "ask", r#"{"kind":"ping"}"#))).unwrap();
    assert_eq!(pong["result"], json!({}));
}

#[test]
fn a_question_with_two_candidate_hosts_is_refused_with_advice() {
    let home = Home::new();
    home.child("a", &["echo"]);
    let _daemon = home.daemon();
    let (mut mine, mut other) = (home.shim(), home.shim());
    mine.call("a", "echo", "{}");
    let hanging = other.start_call("a", "slow", r#"{"ms":20000}"#);
    // The child reads in order: once it lists the call above, it has received it.
    let seen = |shim: &mut Shim| shim.call("a", "received", "{}").contains("20000");
    until_true("the other call", TEST_TIMEOUT, || seen(&mut mine));
    let answer = text_of(&mine.call("a", "ask", r#"{"kind":"elicitation"}"#));
    assert!(answer.contains("error") && answer.contains("scope"), "{answer}");
    assert!(mine.take_notifications().iter().all(|line| !line.contains("elicitation/create")));
    assert!(other.take_notifications_of_calls().is_empty());
    other.send(&cancel(hanging));
}

#[test]
fn all_calls_of_a_killed_child_are_answered_at_once() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    for round in 0..5 {
        let pid = structured(&shim.call("k", "where", "{}"))["pid"].as_i64().unwrap();
        let ids: Vec<_> = (0..60).map(|_| shim.start_call("k", "hang", "{}")).collect();
        until_true("the calls to arrive", TEST_TIMEOUT, || {
            shim.call("k", "received", "{}").matches("hang").count() >= 60
        });
        let killed = Instant::now();
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
        for id in ids {
            let answer = shim.answer_to(&id.to_string());
            assert_eq!(kind_of(&answer).as_deref(), Some("child_exited"), "{answer}");
            assert!(answer.contains("signal 9"), "{answer}");
        }
        // The target is 100 ms at p99.
        assert!(killed.elapsed() < Duration::from_secs(2), "round {round}: {:?}", killed.elapsed());
    }
    assert!(shim.call("k", "echo", "{}").contains("\"ok\":true"));
}

#[test]
fn the_error_holds_the_last_stderr_output_of_the_child() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("k", "stderr", r#"{"text":"remember the milk"}"#);
    let answer = shim.call("k", "crash", "{}");
    assert!(answer.contains("crash was asked for") && answer.contains("status 3"), "{answer}");
    let fault: Value = serde_json::from_str(&answer).unwrap();
    let about = &fault["result"]["_meta"]["switchboard"];
    assert_eq!((about["child"].as_str(), about["subtool"].as_str()), (Some("k"), Some("crash")));
    assert_eq!(about["retryable"], false);
}

#[test]
fn a_child_that_stops_reading_fails_only_its_own_calls() {
    let home = Home::new();
    home.config(&json!({"suites": {"deaf": {"timeouts": {"rpcMs": 3000}}}}));
    home.child("deaf", &["echo"]);
    home.child("fine", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("deaf", "stop-reading", "{}");
    // 40 MiB of calls: more than the pipe and the send queue hold.
    let long = "x".repeat(1 << 20);
    let ids: Vec<_> =
        (0..40).map(|_| shim.start_call("deaf", "echo", &format!(r#"{{"text":"{long}"}}"#))).collect();
    for _ in 0..50 {
        assert!(shim.call("fine", "echo", "{}").contains("\"ok\":true"));
    }
    let kinds: Vec<_> =
        ids.into_iter().map(|id| kind_of(&shim.answer_to(&id.to_string())).unwrap()).collect();
    assert!(kinds.iter().all(|kind| ["child_busy", "rpc_timeout"].contains(&kind.as_str())), "{kinds:?}");
    assert!(kinds.iter().any(|kind| kind == "child_busy"), "{kinds:?}");
}

#[test]
fn a_child_that_reads_is_never_too_busy() {
    let home = Home::new();
    // It is slow with each call, and only then reads the next one.
    home.child("k", &["slow-answers", "100"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("k", "echo", "{}");
    let long = "x".repeat(3 << 20);
    let ids: Vec<_> =
        (0..6).map(|_| shim.start_call("k", "echo", &format!(r#"{{"text":"{long}"}}"#))).collect();
    for id in ids {
        let answer = shim.answer_to(&id.to_string());
        assert!(answer.contains("\"ok\":true"), "{}", &answer[..answer.len().min(300)]);
    }
}

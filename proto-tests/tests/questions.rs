//! A child's question ends with the call it belongs to, and with the session it was sent to.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::time::{Duration, Instant};

use proto_tests::shim::kind_of;
use proto_tests::wait::until_true;
use proto_tests::{Home, Shim, TEST_TIMEOUT};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn home(config: &Value) -> Home {
    let home = Home::new();
    let journal = home.path().join("journal");
    home.child_with("k", &["echo"], &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
    home.config(config);
    home
}

fn cancel(shim: &mut Shim, id: u64) {
    shim.send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    ));
}

/// The child's journal of everything it read.
fn read(home: &Home) -> String {
    std::fs::read_to_string(home.path().join("journal")).unwrap_or_default()
}

/// Waits for the answer that the child gets to its first question.
#[track_caller]
fn told(home: &Home) -> Value {
    let mut told = Value::Null;
    until_true("the child's answer", TEST_TIMEOUT, || {
        let text = read(home);
        let mut messages =
            text.lines().filter_map(|line| serde_json::from_str::<Value>(line.split_once(' ')?.1).ok());
        told = messages.find(|message| message["id"] == "evil-1").unwrap_or_default();
        !told.is_null()
    });
    told
}

fn log_arrives(shim: &mut Shim) -> bool {
    shim.call("k", "log", "{}");
    shim.take_notifications().iter().any(|line| line.contains("something happened"))
}

#[test]
fn a_cancelled_call_cancels_its_question_at_host_and_child() {
    let home = home(&json!({"timeouts": {"rpcMs": 2000, "maxMs": 60_000}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("k", "ask", r#"{"kind":"elicitation"}"#);
    let question = shim.notification("elicitation/create");
    cancel(&mut shim, id);
    let withdrawn = shim.notification("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"], "{withdrawn}");
    assert_eq!(told(&home)["result"], json!({"action": "cancel"}));
    // The next call's silence timeout applies again.
    let begin = Instant::now();
    let answer = shim.call("k", "hang", "{}");
    assert!(answer.contains("silent for 2000 ms"), "{answer}");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    // A late answer is ignored.
    shim.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept"}}}}"#, question["id"]));
    assert!(shim.call("k", "echo", "{}").contains("\"ok\":true"));
}

#[test]
fn a_timed_out_call_cancels_its_question() {
    let home = home(&json!({"timeouts": {"maxMs": 1500}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("k", "ask", r#"{"kind":"sampling"}"#);
    let question = shim.notification("sampling/createMessage");
    assert_eq!(kind_of(&shim.answer_to(&id.to_string())).as_deref(), Some("rpc_timeout"));
    let withdrawn = shim.notification("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"], "{withdrawn}");
    assert!(told(&home)["error"]["message"].is_string());
}

#[test]
fn an_answered_call_cancels_its_question() {
    let home = home(&json!({}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let asks = r#"{"jsonrpc":"2.0","id":"evil-1","method":"elicitation/create","params":{"message":"m"}}"#;
    let args = json!({"text": format!("{asks}\n"), "answers": true});
    shim.call("k", "say", &args.to_string());
    let question = shim.notification("elicitation/create");
    let withdrawn = shim.notification("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"], "{withdrawn}");
    assert_eq!(told(&home)["result"], json!({"action": "cancel"}));
}

#[test]
fn a_child_that_exits_cancels_its_question() {
    let home = home(&json!({}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("k", "ask", r#"{"kind":"elicitation"}"#);
    let question = shim.notification("elicitation/create");
    let died = shim.start_call("k", "die", r#"{"code":3}"#);
    for id in [id, died] {
        assert_eq!(kind_of(&shim.answer_to(&id.to_string())).as_deref(), Some("child_exited"));
    }
    let withdrawn = shim.notification("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"], "{withdrawn}");
}

#[test]
fn a_question_of_a_cancelled_call_is_answered_at_once() {
    let home = home(&json!({}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("k", "ask", r#"{"kind":"elicitation","ms":1500}"#);
    until_true("the call to arrive", TEST_TIMEOUT, || read(&home).contains("1500"));
    cancel(&mut shim, id);
    assert_eq!(told(&home)["result"], json!({"action": "cancel"}));
    shim.request("ping", "{}");
    assert!(shim.take_notifications().iter().all(|line| !line.contains("elicitation/create")));
}

#[test]
fn a_question_to_a_session_that_has_ended_is_answered_at_once() {
    let home = home(&json!({}));
    let daemon = home.daemon();
    let (mut leaves, _stays) = (home.shim(), home.shim());
    leaves.start_call("k", "ask", r#"{"kind":"elicitation","ms":5000}"#);
    until_true("the call to arrive", TEST_TIMEOUT, || read(&home).contains("5000"));
    drop(leaves);
    until_true("the session to end", TEST_TIMEOUT, || {
        daemon.status()["sessions"].as_array().is_some_and(|sessions| sessions.len() == 1)
    });
    let answer = told(&home);
    assert!(answer["result"]["action"].is_string() || answer["error"].is_object(), "{answer}");
}

#[test]
fn two_questions_under_one_id_leave_one_open() {
    let home = home(&json!({"timeouts": {"rpcMs": 2000, "maxMs": 60_000}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let asks = |what: &str| {
        format!(
            "{}\n",
            json!({"jsonrpc": "2.0", "id": "evil-1", "method": "elicitation/create", "params": {"message": what}})
        )
    };
    let args = json!({"text": asks("first") + &asks("second")});
    let id = shim.start_call("k", "say", &args.to_string());
    let (first, second) = (shim.notification("elicitation/create"), shim.notification("elicitation/create"));
    let withdrawn = shim.notification("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], first["id"], "{withdrawn}");
    shim.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept"}}}}"#, second["id"]));
    assert_eq!(told(&home)["result"], json!({"action": "accept"}));
    // No question is open any more, so the silence timeout applies.
    assert!(shim.answer_to(&id.to_string()).contains("silent for 2000 ms"));
}

#[test]
fn a_cancelled_call_does_not_block_logs_to_other_hosts() {
    for leaves in [false, true] {
        let home = home(&json!({}));
        let daemon = home.daemon();
        let (mut cancels, mut hears) = (home.shim(), home.shim());
        assert!(log_arrives(&mut hears));
        let id = cancels.start_call("k", "hang", "{}");
        until_true("the call to arrive", TEST_TIMEOUT, || read(&home).contains("\"hang"));
        let pid = hears.pid_of("k");
        cancel(&mut cancels, id);
        if leaves {
            drop(cancels);
        }
        until_true("logs to arrive again", TEST_TIMEOUT, || log_arrives(&mut hears));
        assert_eq!(hears.pid_of("k"), pid, "the child was replaced");
        drop(daemon);
    }
}

/// A server whose loop is blocked by the cancelled call reads the cancel late, and answers no `ping` before.
#[test]
fn logs_of_a_child_arrive_again_once_it_has_read_a_late_cancel() {
    let home = home(&json!({}));
    let _daemon = home.daemon();
    let (mut cancels, mut hears) = (home.shim(), home.shim());
    assert!(log_arrives(&mut hears));
    let id = cancels.start_call("k", "hang", "{}");
    until_true("the call to arrive", TEST_TIMEOUT, || read(&home).contains("\"hang"));
    let pid = hears.pid_of("k");
    let signal = |signal| kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    signal(Signal::STOP);
    cancel(&mut cancels, id);
    // Longer than the `ping` timeout; a `ping` shows that the child has read the cancel.
    std::thread::sleep(Duration::from_secs(14));
    signal(Signal::CONT);
    until_true("logs to arrive again", 2 * TEST_TIMEOUT, || log_arrives(&mut hears));
    assert_eq!(hears.pid_of("k"), pid, "the child was replaced");
    // The first ping timed out while the child was stopped, so the daemon sent another.
    let pings = read(&home).lines().filter(|line| line.contains("\"method\":\"ping\"")).count();
    assert!(pings >= 2, "{pings} pings");
}

#[test]
fn a_modern_hosts_question_ends_with_its_call() {
    // Over stdio as over HTTP, the question is the result of the request.
    let home = home(&json!({}));
    let _daemon = home.daemon();
    let mut modern = home.raw_shim();
    let params: Value =
        serde_json::from_str(&proto_tests::shim::call_params("k", "ask", r#"{"kind":"elicitation"}"#))
            .unwrap();
    let asked = modern.request("tools/call", &proto_tests::streamable::with_meta(&params).to_string());
    assert!(asked.contains("input_required"), "{asked}");
    drop(modern);
    assert_eq!(told(&home)["result"], json!({"action": "cancel"}));
}

#[test]
fn a_question_that_is_too_long_is_refused_and_costs_no_call() {
    let home = home(&json!({}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    // Children number from one as well: this is also the id of the call in flight.
    let asks = r#"{"jsonrpc":"2.0","id":$ID,"method":"sampling/createMessage","params":{"x":"$FILL"}}"#;
    let args = json!({"text": format!("{asks}\n"), "answers": true});
    let answer = shim.call("k", "say", &args.to_string());
    assert!(answer.contains("\"ok\":true"), "{answer}");
    until_true("the refusal", TEST_TIMEOUT, || {
        shim.call("k", "received", "{}").contains("over the limit of 16 MiB")
    });
}

#[test]
fn a_question_that_is_no_json_is_refused() {
    let home = home(&json!({}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let asks = r#"{"jsonrpc":"2.0","id":"evil-1","method":"sampling/createMessage","params":{"x":NaN}}"#;
    shim.call("k", "say", &json!({"text": format!("{asks}\n"), "answers": true}).to_string());
    assert_eq!(told(&home)["error"]["code"], -32700);
}

#[test]
fn only_http_urls_reach_a_host() {
    let home = home(&json!({}));
    let _daemon = home.daemon();
    let mut shim = home.raw_shim();
    shim.initialize_as(
        r#"{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}}},"clientInfo":{"name":"t","version":"1"}}"#,
    );
    for (at, url) in ["javascript:alert(1)", "file:///etc/passwd", "https://a\r\nb"].iter().enumerate() {
        let asks = json!({
            "jsonrpc": "2.0", "id": format!("bad-{at}"), "method": "elicitation/create",
            "params": {"mode": "url", "url": url, "message": "m", "elicitationId": "e"},
        });
        shim.call("k", "say", &json!({"text": format!("{asks}\n"), "answers": true}).to_string());
        let refusal = format!(r#""bad-{at}","error":{{"code":-32602"#);
        until_true("the refusal", TEST_TIMEOUT, || read(&home).contains(&refusal));
        let error =
            json!({"code": -32042, "message": "m", "data": {"elicitations": [{"mode": "url", "url": url}]}});
        let answer = shim.call("k", "raise", &json!({"json": error.to_string()}).to_string());
        assert_eq!(kind_of(&answer).as_deref(), Some("child_unusable"), "{answer}");
    }
    assert!(shim.take_notifications_of_calls().is_empty());
}

#[test]
fn a_flood_of_logs_is_cut_and_counted() {
    let home = home(&json!({}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let log =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"flood"}}"#;
    let args = json!({"text": format!("{log}\n").repeat(20_000), "answers": true});
    shim.call("k", "say", &args.to_string());
    let begin = Instant::now();
    let notice = loop {
        let line = shim.notification("notifications/message");
        if line["params"]["logger"] == "switchboard" {
            break line;
        }
        assert!(begin.elapsed() < TEST_TIMEOUT, "nobody was told what was dropped");
    };
    let said = notice["params"]["data"].as_str().unwrap();
    let dropped: u64 = said.split(' ').next().unwrap().parse().unwrap();
    // The limit is 200 a second, however long the machine took.
    assert!(dropped > 10_000 && said.contains("`k`"), "{said}");
    assert!(daemon.status()["sessions"][0]["droppedMessages"].as_u64().unwrap() >= dropped);
}

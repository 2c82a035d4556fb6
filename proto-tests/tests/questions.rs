//! A child's question lives no longer than the call it belongs to, and no longer than the session it is put to.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::time::{Duration, Instant};

use proto_tests::shim::{kind_of, structured, text_of};
use proto_tests::wait::until_true;
use proto_tests::{Home, PATIENCE, Shim};
use serde_json::{Value, json};

fn home(config: &Value) -> Home {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.config(config);
    home
}

fn cancel(shim: &mut Shim, id: u64) {
    shim.send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    ));
}

/// What the child was answered to its first question, as soon as it was.
#[track_caller]
fn told(shim: &mut Shim) -> Value {
    let mut told = Value::Null;
    until_true("the child's answer", PATIENCE, || {
        let lines = structured(&shim.call("k", "received", "{}"))["lines"].clone();
        let lines = lines.as_array().unwrap().iter();
        let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line.as_str()?).ok());
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
fn a_cancelled_call_takes_its_question_back_on_both_sides() {
    let home = home(&json!({"timeouts": {"rpcMs": 2000, "maxMs": 60_000}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("k", "ask", r#"{"kind":"elicitation"}"#);
    let question = shim.notification("elicitation/create");
    cancel(&mut shim, id);
    let withdrawn = shim.notification("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"], "{withdrawn}");
    assert_eq!(told(&mut shim)["result"], json!({"action": "cancel"}));
    // The next call has its silence limit.
    let begin = Instant::now();
    let answer = shim.call("k", "hang", "{}");
    assert!(answer.contains("silent for 2000 ms"), "{answer}");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    // An answer that comes all the same is nobody's.
    shim.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept"}}}}"#, question["id"]));
    assert!(shim.call("k", "echo", "{}").contains("\"ok\":true"));
}

#[test]
fn a_call_that_took_too_long_takes_its_question_back() {
    let home = home(&json!({"timeouts": {"maxMs": 1500}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_call("k", "ask", r#"{"kind":"sampling"}"#);
    let question = shim.notification("sampling/createMessage");
    assert_eq!(kind_of(&shim.answer_to(&id.to_string())).as_deref(), Some("rpc_timeout"));
    let withdrawn = shim.notification("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"], "{withdrawn}");
    assert!(told(&mut shim)["error"]["message"].is_string());
}

#[test]
fn a_call_that_is_answered_takes_its_question_back() {
    let home = home(&json!({}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let asks = r#"{"jsonrpc":"2.0","id":"evil-1","method":"elicitation/create","params":{"message":"m"}}"#;
    let args = json!({"text": format!("{asks}\n"), "answers": true});
    shim.call("k", "say", &args.to_string());
    let question = shim.notification("elicitation/create");
    let withdrawn = shim.notification("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"], "{withdrawn}");
    assert_eq!(told(&mut shim)["result"], json!({"action": "cancel"}));
}

#[test]
fn a_child_that_ends_takes_its_question_back() {
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
fn a_question_of_a_call_that_was_cancelled_before_is_answered_at_once() {
    let home = home(&json!({}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("k", "echo", "{}");
    let id = shim.start_call("k", "ask", r#"{"kind":"elicitation","ms":1500}"#);
    cancel(&mut shim, id);
    assert_eq!(told(&mut shim)["result"], json!({"action": "cancel"}));
    assert!(shim.take_notifications().iter().all(|line| !line.contains("elicitation/create")));
}

#[test]
fn a_question_to_a_session_that_has_ended_is_answered_at_once() {
    let home = home(&json!({}));
    let daemon = home.daemon();
    let (mut leaves, mut stays) = (home.shim(), home.shim());
    stays.call("k", "echo", "{}");
    leaves.start_call("k", "ask", r#"{"kind":"elicitation","ms":5000}"#);
    until_true("the call to arrive", PATIENCE, || stays.call("k", "received", "{}").contains("5000"));
    drop(leaves);
    until_true("the session to end", PATIENCE, || {
        daemon.status()["sessions"].as_array().is_some_and(|sessions| sessions.len() == 1)
    });
    let answer = told(&mut stays);
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
    assert_eq!(told(&mut shim)["result"], json!({"action": "accept"}));
    // No question is open any more: the call is silent.
    assert!(shim.answer_to(&id.to_string()).contains("silent for 2000 ms"));
}

#[test]
fn a_cancelled_call_of_one_host_mutes_no_other() {
    for leaves in [false, true] {
        let home = home(&json!({}));
        let daemon = home.daemon();
        let (mut cancels, mut hears) = (home.shim(), home.shim());
        assert!(log_arrives(&mut hears));
        let id = cancels.start_call("k", "hang", "{}");
        until_true("the call to arrive", PATIENCE, || hears.call("k", "received", "{}").contains("\"hang"));
        let pid = hears.pid_of("k");
        cancel(&mut cancels, id);
        if leaves {
            drop(cancels);
        }
        until_true("logs to arrive again", PATIENCE, || log_arrives(&mut hears));
        assert_eq!(hears.pid_of("k"), pid, "the child was replaced");
        drop(daemon);
    }
}

#[test]
fn a_modern_hosts_question_ends_with_its_call() {
    // The conversation over stdio is the same as over HTTP: the question is the answer to the request.
    let home = home(&json!({}));
    let _daemon = home.daemon();
    let (mut modern, mut other) = (home.raw_shim(), home.shim());
    let params: Value =
        serde_json::from_str(&proto_tests::shim::call_params("k", "ask", r#"{"kind":"elicitation"}"#))
            .unwrap();
    let asked = modern.request("tools/call", &proto_tests::streamable::dressed(&params).to_string());
    assert!(asked.contains("input_required"), "{asked}");
    drop(modern);
    let answer = told(&mut other);
    assert_eq!(answer["result"], json!({"action": "cancel"}), "{}", text_of(&other.call("k", "echo", "{}")));
}

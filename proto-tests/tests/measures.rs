//! The metrics in `/status`: calls on every face, failures, memory.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::time::Duration;

use proto_tests::streamable::{HttpHost, ModernHost};
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, TEST_TIMEOUT};
use serde_json::{Value, json};

/// Longer than any call here takes, on a loaded machine too.
const THINKING: Duration = Duration::from_secs(3);

fn call(suite: &str, subtool: &str) -> Value {
    json!({"name": suite, "arguments": {"action": "call", "subtool": subtool, "args": {}}})
}

fn message(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn series(calls: &Value) -> u64 {
    calls["series"].as_array().unwrap().iter().map(|point| point["count"].as_u64().unwrap()).sum()
}

#[track_caller]
fn counted(daemon: &DaemonProcess, child: &str) -> (Value, Value) {
    let suite = daemon.suite(child);
    (suite["calls"].clone(), suite["introspections"].clone())
}

#[test]
fn every_call_is_counted_once_on_every_face() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.child("idle", &["echo"]);
    let daemon = home.daemon();
    assert_eq!(counted(&daemon, "kid").0["total"], 0);
    assert_eq!(daemon.status()["calls"]["p50Ms"], Value::Null);

    let mut shim = home.shim();
    for _ in 0..3 {
        shim.call("kid", "echo", "{}");
    }
    shim.introspect("kid");
    let endpoint = daemon.endpoint();
    assert_eq!(endpoint.post("/proxy", &message(1, "tools/call", &call("kid_suite", "echo"))).status, 200);
    let own = json!({"name": "echo", "arguments": {}});
    assert_eq!(endpoint.post("/proxy/kid", &message(1, "tools/call", &own)).status, 200);
    let legacy = HttpHost::open(daemon.endpoint(), "/mcp", "2025-11-25", &json!({}));
    legacy.ask("tools/call", &call("kid_suite", "echo"));
    ModernHost::new(daemon.endpoint(), "/mcp/kid").ask("tools/call", &own);
    // Neither lists nor pings are calls.
    shim.request("tools/list", "{}");
    shim.request("ping", "{}");

    let status = daemon.status();
    let (calls, introspections) = counted(&daemon, "kid");
    assert_eq!((&calls["total"], &calls["errors"], &calls["inFlight"]), (&json!(7), &json!(0), &json!(0)));
    assert_eq!(introspections, 1);
    assert_eq!(series(&calls), 7, "{calls}");
    let (p50, p99) = (calls["p50Ms"].as_f64().unwrap(), calls["p99Ms"].as_f64().unwrap());
    assert!(0.0 < p50 && p50 <= p99, "{calls}");
    assert_eq!(status["calls"]["total"], 7);
    assert_eq!(status["introspections"], 1);
    assert_eq!(status["lastErrors"], json!([]));
    let (now, step) = (status["nowMs"].as_u64().unwrap(), status["stepMs"].as_u64().unwrap());
    let at = status["calls"]["series"][0]["at"].as_u64().unwrap();
    assert!(at <= now && now - at < 60 * step, "{status}");
    assert_eq!(
        counted(&daemon, "idle"),
        (
            json!({"total": 0, "errors": 0, "refused": 0, "inFlight": 0, "p50Ms": null, "p99Ms": null, "series": []}),
            json!(0)
        )
    );
}

#[test]
fn failures_are_recorded_without_arguments_and_messages() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("kid", "echo", "{}");
    shim.call(
        "kid",
        "raw",
        r#"{"json":"{\"content\":[{\"type\":\"text\",\"text\":\"hunter2\"}],\"isError\":true}"}"#,
    );
    shim.call("kid", "raise", r#"{"json":"{\"code\":-32602,\"message\":\"hunter2\"}"}"#);
    shim.call("kid", "raise", r#"{"json":"{\"code\":4711,\"message\":\"hunter2\"}"}"#);
    shim.call("kid", "no-such-tool", "{}");
    shim.call("kid", "crash", r#"{"password":"hunter2"}"#);
    shim.request("tools/call", r#"{"name":"nobody_suite","arguments":{}}"#);

    let status = daemon.status();
    let errors: Vec<(&str, &str)> = status["lastErrors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (error["kind"].as_str().unwrap(), error["tool"].as_str().unwrap_or("-")))
        .collect();
    let wanted = [
        ("invalid_params", "-"),
        ("child_exited", "crash"),
        // Tool names that no child has are not recorded.
        ("unknown_tool", "_other"),
        ("_other", "raise"),
        ("-32602", "raise"),
        ("tool_error", "raw"),
    ];
    assert_eq!(errors, wanted, "{status}");
    let told = &status["lastErrors"][1];
    assert_eq!((&told["suite"], &told["method"]), (&json!("kid_suite"), &json!("tools/call")));
    assert!(told["message"].as_str().unwrap().contains("exited with status 3"), "{told}");
    assert!(!status["lastErrors"].to_string().contains("hunter2"), "{status}");
    let (calls, _) = counted(&daemon, "kid");
    // A tool that does not exist, and arguments that the server calls wrong, are no failures.
    let figures = |calls: &Value| ["total", "errors", "refused"].map(|key| calls[key].as_u64().unwrap());
    assert_eq!(figures(&calls), [6, 3, 2], "{calls}");
    // The call to an unknown suite counts in the total only.
    assert_eq!(figures(&status["calls"]), [7, 3, 3]);
    let refused: Vec<bool> =
        status["lastErrors"].as_array().unwrap().iter().map(|error| error["refused"] == true).collect();
    assert_eq!(refused, [true, false, true, false, true, false]);
}

/// What a user takes to think is in no figure, whoever asks: the server, or Switchboard before it sends the call.
#[test]
fn the_time_of_a_user_is_not_latency() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.config(&json!({"suites": {"kid": {"confirm": ["echo"]}}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("kid", "log", "{}");
    for (tool, args, answer) in [
        ("ask", r#"{"kind":"elicitation"}"#, json!({"action": "accept", "content": {}})),
        ("echo", "{}", json!({"action": "accept", "content": {"decision": "once"}})),
    ] {
        let id = shim.start_call("kid", tool, args);
        let question = shim.notification("elicitation/create");
        std::thread::sleep(THINKING);
        shim.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}).to_string());
        shim.answer_to(&id.to_string());
    }
    let slowest = daemon.status()["calls"]["p99Ms"].as_f64().unwrap();
    assert!(slowest < THINKING.as_secs_f64() * 1e3, "{slowest} ms");
}

#[test]
fn only_the_last_failures_are_kept() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let endpoint = daemon.endpoint();
    for id in 0..120 {
        endpoint.post("/proxy", &message(id, "tools/call", &call("kid_suite", &format!("made up {id}"))));
    }
    let status = daemon.status();
    assert_eq!(status["lastErrors"].as_array().unwrap().len(), 50);
    let (calls, _) = counted(&daemon, "kid");
    assert_eq!((&calls["errors"], &calls["refused"]), (&json!(0), &json!(120)));
}

#[test]
fn a_call_in_flight_is_counted_and_a_cancelled_one_is_no_failure() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("kid", "echo", "{}");
    let id = shim.start_call("kid", "hang", "{}");
    until_true("the call", TEST_TIMEOUT, || counted(&daemon, "kid").0["inFlight"] == 1);
    assert_eq!(daemon.status()["calls"]["inFlight"], 1);
    shim.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
            .to_string(),
    );
    until_true("its end", TEST_TIMEOUT, || counted(&daemon, "kid").0["inFlight"] == 0);
    let (calls, _) = counted(&daemon, "kid");
    assert_eq!((&calls["total"], &calls["errors"]), (&json!(2), &json!(0)), "{calls}");
    assert_eq!(daemon.status()["lastErrors"], json!([]));
}

#[test]
fn metrics_survive_a_reload_and_need_a_token() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon_on_tcp();
    let mut shim = home.shim();
    shim.call("kid", "echo", "{}");
    let generation = daemon.status()["generation"].as_u64().unwrap();
    home.config(&json!({"suites": {"kid": {"description": "another"}}}));
    until_true("the reload", TEST_TIMEOUT, || daemon.status()["generation"].as_u64().unwrap() > generation);
    shim.call("kid", "echo", "{}");
    assert_eq!(counted(&daemon, "kid").0["total"], 2);
    let open = daemon.tcp().get("/status").json();
    assert_eq!(open, json!({"status": "ok", "suites": [{"name": "kid_suite", "state": "ready"}]}));
}

#[cfg(target_os = "linux")]
#[test]
fn the_memory_of_a_child_includes_its_descendants() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("kid", "echo", "{}");
    let memory = || {
        let status = daemon.status();
        assert!(status["memoryKb"].as_u64().unwrap() > 1000, "{status}");
        daemon.suite("kid")["children"][0]["memoryKb"].as_u64()
    };
    until_true("a look", TEST_TIMEOUT, || memory().is_some_and(|kib| kib > 0));
    let before = memory().unwrap();
    shim.call("kid", "eat", r#"{"mb":64}"#);
    // A measurement is reused for one second.
    until_true("the next look", TEST_TIMEOUT, || memory().is_some_and(|kib| kib > before + 60 * 1024));
}

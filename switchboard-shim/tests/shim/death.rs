//! Daemons that die, and what the host hears.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::daemon::FakeDaemon;
use crate::host::{Host, socket_dir};

/// Initialises like a host, and subscribes to two resources and unsubscribes from one of them.
fn handshake(host: &mut Host, daemon: &FakeDaemon) {
    host.request(0, "initialize");
    daemon.expect("initialize").result(&json!({}));
    host.expect_result(0);
    host.notify("notifications/initialized");
    daemon.expect("notifications/initialized").accepted();
    for (id, method, uri) in
        [(1, "resources/subscribe", "a"), (2, "resources/subscribe", "b"), (3, "resources/unsubscribe", "a")]
    {
        host.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"uri": uri}}));
        daemon.expect(method).result(&json!({}));
        host.expect_result(id);
    }
    for (id, level) in [(4, "debug"), (5, "error")] {
        host.say(
            &json!({"jsonrpc": "2.0", "id": id, "method": "logging/setLevel", "params": {"level": level}}),
        );
        daemon.expect("logging/setLevel").result(&json!({}));
        host.expect_result(id);
    }
}

#[test]
fn calls_in_flight_fail_and_the_session_continues() {
    let (folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let mut host = Host::start(&socket);
    handshake(&mut host, &daemon);
    daemon.mail(&json!({"jsonrpc": "2.0", "id": "boot1-1", "method": "roots/list"}));
    assert_eq!(host.expect_message()["id"], "boot1-1");
    host.request("call", "tools/call");
    let _call = daemon.expect("tools/call");
    host.request("unknown", "x/y");
    let _unknown = daemon.expect("x/y");
    host.request("list", "tools/list");
    let _list = daemon.expect("tools/list");

    let died = Instant::now();
    daemon.die();
    let withdrawn = host.expect_message();
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], "boot1-1");
    let one = host.expect_message();
    let other = host.expect_message();
    let about = json!({"switchboard": {"kind": "daemon_gone", "retryable": false}});
    let text = "switchboardd restarted; the call may or may not have run";
    for told in [&one, &other] {
        // Hosts retry a call that ends with a protocol error.
        if told["id"] == "call" {
            let content = json!([{"type": "text", "text": text}]);
            assert_eq!(told["result"], json!({"content": content, "isError": true, "_meta": about}));
        } else {
            assert_eq!(told["error"], json!({"code": -32000, "message": text, "data": about}));
        }
    }
    let mut ids = [one["id"].as_str().unwrap(), other["id"].as_str().unwrap()];
    ids.sort_unstable();
    assert_eq!(ids, ["call", "unknown"]);
    assert!(died.elapsed() < Duration::from_secs(1), "{:?}", died.elapsed());

    let next = FakeDaemon::bind(&socket, "boot2");
    let hello = &next.sessions(1)[0];
    let replayed: Vec<_> =
        hello["handshake"].as_array().unwrap().iter().map(|message| &message["method"]).collect();
    assert_eq!(
        replayed,
        ["initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe"]
    );
    assert_eq!(hello["handshake"][2]["params"]["level"], "error");
    assert_eq!(hello["handshake"][3]["params"]["uri"], "b");
    let list = next.expect("tools/list");
    assert_eq!(list.seq, 1);
    list.result(&json!({}));
    host.expect_result("list");

    // An answer to the dead daemon's question is dropped, one to the new daemon's is sent.
    host.say(&json!({"jsonrpc": "2.0", "id": "boot1-1", "result": {}}));
    host.say(&json!({"jsonrpc": "2.0", "id": "boot2-1", "result": {}}));
    let answer = next.call();
    assert_eq!((answer.seq, answer.json()["id"].as_str()), (2, Some("boot2-1")));
    drop(folder);
}

#[test]
fn an_unanswered_initialize_is_sent_again() {
    let (_folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let mut host = Host::start(&socket);
    host.request(0, "initialize");
    let _lost = daemon.expect("initialize");
    host.request(1, "tools/list");
    let _lost = daemon.expect("tools/list");
    daemon.die();
    let next = FakeDaemon::bind(&socket, "boot2");
    assert_eq!(next.sessions(1)[0].get("handshake"), None);
    let mut calls = [next.call(), next.call()];
    calls.sort_by_key(|call| call.seq);
    assert_eq!(calls[0].json()["method"], "initialize");
    assert_eq!(calls[1].json()["method"], "tools/list");
}

#[test]
fn after_an_unknown_session_the_shim_opens_a_new_one_and_resends() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    host.request(1, "tools/call");
    daemon.expect("tools/call").answer(404, "", "{}");
    let again = daemon.expect("tools/call");
    assert_eq!((again.session.as_str(), again.seq), ("boot1-session-2", 1));
    again.result(&json!({}));
    host.expect_result(1);
}

#[test]
fn a_lost_connection_costs_one_call() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    host.request(1, "tools/call");
    let lost = daemon.expect("tools/call");
    host.request(2, "tools/call");
    let kept = daemon.expect("tools/call");
    host.request(3, "tools/list");
    let safe = daemon.expect("tools/list");
    lost.hang_up();
    host.expect_failed_call(1, "connection_lost");
    let filler = daemon.expect("notifications/cancelled");
    assert_eq!(filler.seq, lost.seq);
    filler.accepted();
    safe.hang_up();
    // These are two connections, so their order is not guaranteed.
    let mut both = [daemon.call(), daemon.call()];
    both.sort_by_key(|call| call.seq);
    let [filler, again] = both;
    assert_eq!((filler.seq, filler.json()["method"].as_str()), (3, Some("notifications/cancelled")));
    filler.accepted();
    assert_eq!((again.seq, again.json()["method"].as_str()), (4, Some("tools/list")));
    again.result(&json!({}));
    host.expect_result(3);
    kept.result(&json!({}));
    host.expect_result(2);
    assert_eq!(daemon.sessions(1).len(), 1);
}

#[test]
fn without_a_daemon_requests_wait_and_then_fail_with_the_reason() {
    let (_folder, socket) = socket_dir();
    let mut host = Host::start(&socket);
    let asked = Instant::now();
    host.request(1, "tools/call");
    host.ping();
    let text = host.expect_failed_call(1, "no_daemon");
    assert!(text.contains("s.sock"), "{text}");
    let waited = asked.elapsed();
    assert!(waited > Duration::from_secs(4) && waited < Duration::from_secs(7), "{waited:?}");
    // A request that waits when a daemon comes up is sent.
    host.request(2, "tools/call");
    let daemon = FakeDaemon::bind(&socket, "boot1");
    daemon.expect("tools/call").result(&json!({}));
    host.expect_result(2);
}

#[test]
fn without_a_daemon_the_shim_answers_initialize_and_announces_lists_later() {
    let (_folder, socket) = socket_dir();
    let mut host = Host::start(&socket);
    host.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}));
    let hello = host.expect_result(1);
    assert_eq!(hello["protocolVersion"], "2025-06-18");
    assert_eq!(hello["capabilities"]["tools"]["listChanged"], true);
    host.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    host.request(2, "tools/list");
    assert_eq!(host.expect_result(2), json!({"tools": []}));
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let hello = daemon.sessions(1).remove(0);
    assert_eq!(hello["handshake"][0]["method"], "initialize", "{hello}");
    for kind in ["tools", "prompts", "resources"] {
        assert_eq!(host.expect_message()["method"], format!("notifications/{kind}/list_changed"));
    }
    daemon.expect("notifications/initialized").accepted();
    host.request(3, "tools/list");
    daemon.expect("tools/list").result(&json!({"tools": [1]}));
    assert_eq!(host.expect_result(3), json!({"tools": [1]}));
}

#[test]
fn a_version_mismatch_fails_requests_at_once() {
    let (_folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let body = r#"{"error":"hop 1 is too old, this switchboardd speaks 2 to 3"}"#;
    for _ in 0..3 {
        daemon.refuse(&format!("HTTP/1.1 426 X\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
    }
    let mut host = Host::start(&socket);
    host.request(1, "initialize");
    let fault = host.expect_fault(1, "versions");
    assert!(fault["message"].as_str().unwrap().contains("hop 1 is too old"), "{fault}");
    // The shim keeps trying, and opens a session once the daemon accepts it.
    daemon.sessions(1);
    host.request(2, "initialize");
    daemon.expect("initialize").result(&json!({}));
    host.expect_result(2);
}

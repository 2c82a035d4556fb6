//! Daemons that announce that they drain.

use std::time::Duration;

use serde_json::json;

use crate::daemon::FakeDaemon;
use crate::host::{Host, socket_dir};

fn news() -> serde_json::Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
}

#[test]
fn a_restart_loses_nothing() {
    let (_folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let mut host = Host::start(&socket);
    host.request(1, "tools/call");
    let under_way = daemon.expect("tools/call");
    daemon.mail(&json!({"jsonrpc": "2.0", "id": "boot1-q", "method": "roots/list"}));
    assert_eq!(host.expect_message()["id"], "boot1-q");
    daemon.drain("restart");
    // The notification is in the batch that announces the drain, or in a later one.
    daemon.mail(&news());
    assert_eq!(host.expect_message()["method"], "notifications/message");
    host.request(2, "tools/call");
    host.notify("notifications/x");
    // Answers to its own questions still go to the old daemon.
    host.say(&json!({"jsonrpc": "2.0", "id": "boot1-q", "result": {}}));
    assert_eq!(daemon.call().json()["id"], "boot1-q");
    assert!(daemon.quiet_for(Duration::from_millis(50)));
    under_way.result(&json!({"late": true}));
    assert_eq!(host.expect_result(1)["late"], true);
    daemon.die();
    let next = FakeDaemon::bind(&socket, "boot2");
    let mut calls = [next.call(), next.call()];
    calls.sort_by_key(|call| call.seq);
    assert_eq!(calls[0].json()["id"], 2);
    assert_eq!(calls[1].json()["method"], "notifications/x");
    calls[0].result(&json!({}));
    host.expect_result(2);
}

#[test]
fn a_message_that_a_draining_daemon_refused_goes_to_the_next() {
    let (_folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let mut host = Host::start(&socket);
    host.request(1, "tools/call");
    daemon.expect("tools/call").answer(503, "Switchboard-Draining: restart\r\n", "");
    host.ping();
    daemon.die();
    let next = FakeDaemon::bind(&socket, "boot2");
    next.expect("tools/call").result(&json!({}));
    host.expect_result(1);
}

#[test]
fn a_session_refused_by_a_draining_daemon_is_retried() {
    let (_folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    daemon.refuse("HTTP/1.1 503 X\r\ncontent-length: 0\r\nSwitchboard-Draining: restart\r\n\r\n");
    let mut host = Host::start(&socket);
    host.request(1, "tools/call");
    daemon.expect("tools/call").result(&json!({}));
    host.expect_result(1);
}

#[test]
fn after_a_stop_requests_fail_at_once_until_a_daemon_is_started() {
    let (_folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let mut host = Host::start(&socket);
    host.request(1, "tools/call");
    let under_way = daemon.expect("tools/call");
    daemon.drain("stop");
    daemon.mail(&news());
    assert_eq!(host.expect_message()["method"], "notifications/message");
    host.request(2, "tools/call");
    let text = host.expect_failed_call(2, "stopped");
    assert_eq!(text, "switchboardd was stopped; run `switchboard start`");
    under_way.result(&json!({}));
    host.expect_result(1);
    daemon.die();
    host.request(3, "tools/list");
    host.expect_fault(3, "stopped");
    let next = FakeDaemon::bind(&socket, "boot2");
    next.sessions(1);
    // The daemon knows the session a moment before the shim does.
    let answered = crate::daemon::until(|| {
        host.request(4, "tools/list");
        let asked = next.quiet_for(Duration::from_millis(100));
        if asked {
            host.expect_fault(4, "stopped");
        }
        !asked
    });
    assert!(answered);
}

#[test]
fn a_stop_during_the_hello_fails_requests() {
    let (_folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    // The shim may say hello before it has read the request, and once more for the request.
    for _ in 0..2 {
        daemon.refuse("HTTP/1.1 503 X\r\ncontent-length: 0\r\nSwitchboard-Draining: stop\r\n\r\n");
    }
    let mut host = Host::start(&socket);
    host.request(1, "tools/call");
    host.expect_failed_call(1, "stopped");
}

//! Sequence numbers, the mailbox and the limit of calls in flight.

use std::time::Duration;

use serde_json::json;

use crate::daemon::FakeDaemon;
use crate::host::{Host, binary, shim, socket_dir};

#[test]
fn messages_are_numbered_in_order_and_passed_on_unchanged() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    let body = r#"{"jsonrpc":"2.0", "id":1.0,"z":123456789012345678901234567890,"method":"tools/call","a":"ä\u00e4"}"#;
    host.write(format!("{body}\n").as_bytes());
    host.notify("notifications/initialized");
    host.request("x", "tools/list");
    let mut calls: Vec<_> = (0..3).map(|_| daemon.call()).collect();
    calls.sort_by_key(|call| call.seq);
    assert_eq!(calls.iter().map(|call| call.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(calls[0].body, body);
    assert!(calls.iter().all(|call| call.session == "boot1-session-1"));
    calls[1].accepted();
    calls[2].result(&json!({}));
    host.expect_result("x");
    // The answer's bytes are passed on unchanged.
    calls[0].answer(200, "", "{\"jsonrpc\":\"2.0\", \"id\":1.0,\"result\":{\"b\":1,\"a\":1e400}}");
    assert_eq!(host.line(), "{\"jsonrpc\":\"2.0\", \"id\":1.0,\"result\":{\"b\":1,\"a\":1e400}}");
}

#[test]
fn the_session_is_opened_with_the_workspace() {
    let (folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let _host = Host::run(
        shim(binary(), &socket).arg("--no-start").arg("--workspace=some/where").current_dir(folder.path()),
    );
    let hello = &daemon.sessions(1)[0];
    let expect = folder.path().canonicalize().unwrap().join("some/where");
    assert_eq!(hello["workspace"], expect.to_str().unwrap());
    assert_eq!(hello["hop"], json!({"min": 1, "max": 1}));
    assert_eq!(hello["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(hello.get("handshake"), None);
}

#[test]
fn an_answer_waits_for_the_mailbox_messages_before_it() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    let progress =
        |n: u32| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": n}});
    for round in 0..20u64 {
        host.request(round, "tools/call");
        let call = daemon.expect("tools/call");
        // The answer arrives before the mailbox messages that it names.
        call.result_after(&json!({}), round * 2 + 2);
        daemon.mail(&progress(1));
        daemon.mail(&progress(2));
        assert_eq!(host.expect_message()["params"]["progress"], 1);
        assert_eq!(host.expect_message()["params"]["progress"], 2);
        host.expect_result(round);
    }
}

#[test]
fn an_answer_waits_only_a_limited_time_for_the_mailbox() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    host.request(1, "tools/call");
    daemon.expect("tools/call").result_after(&json!({}), 99);
    host.ping();
    host.expect_result(1);
}

#[test]
fn the_65th_request_waits_but_notifications_do_not() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    for id in 0..70 {
        host.request(id, "tools/call");
    }
    let first: Vec<_> = (0..64).map(|_| daemon.call()).collect();
    host.notify("notifications/x");
    let note = daemon.expect("notifications/x");
    assert_eq!(note.seq, 65);
    note.accepted();
    assert!(daemon.quiet_for(Duration::from_millis(50)));
    first[7].result(&json!({}));
    host.expect_result(first[7].json()["id"].clone());
    let next = daemon.expect("tools/call");
    assert_eq!((next.seq, next.json()["id"].as_u64()), (66, Some(64)));
}

#[test]
fn a_ping_is_answered_however_slow_the_daemon_is() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    host.request(1, "tools/call");
    let _never = daemon.expect("tools/call");
    host.write(b"{\"jsonrpc\":\"2.0\",\"id\":7.50,\"method\":\"ping\"}\n");
    assert_eq!(host.line(), r#"{"jsonrpc":"2.0","id":7.50,"result":{}}"#);
    // Only the daemon can answer `server/discover`.
    host.request("d", "server/discover");
    assert_eq!(daemon.expect("server/discover").json()["id"], "d");
}

#[test]
fn daemon_errors_get_the_id_of_their_request() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    let body = r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"},"id":null}"#;
    host.request("a", "tools/list");
    daemon.call().answer(413, "", body);
    assert_eq!(
        host.expect_message(),
        json!({"jsonrpc": "2.0", "id": "a", "error": {"code": -32600, "message": "no"}})
    );
    // A failed call gets a result: hosts retry what ends with a protocol error.
    host.request("a", "tools/call");
    daemon.call().answer(413, "", body);
    assert_eq!(host.expect_failed_call("a", "too_long"), "no");
    host.request("b", "tools/call");
    daemon.call().answer(500, "", "<html>");
    assert!(host.expect_failed_call("b", "refused").contains("500"));
    host.request("b", "tools/list");
    daemon.call().answer(500, "", "<html>");
    assert_eq!(host.expect_fault("b", "refused")["code"], -32603);
    host.request("c", "tools/call");
    // The host did not cancel it.
    daemon.call().answer(204, "", "");
    assert!(host.expect_failed_call("c", "refused").contains("204"));
}

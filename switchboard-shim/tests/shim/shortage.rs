//! A shim that may open only a few files: everything takes longer, nothing is lost.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::json;

use crate::daemon::FakeDaemon;
use crate::host::{Host, binary, socket_dir};

/// A shim with room for its mailbox and three more connections.
#[expect(clippy::disallowed_methods, reason = "a shell sets the limit that the shim is to find")]
fn cramped(socket: &std::path::Path) -> Host {
    let mut command = std::process::Command::new("bash");
    // Descriptor numbers count against the limit, so leaked descriptors below it are closed first.
    let script = r#"for fd in {3..15}; do eval "exec $fd<&-"; done
        ulimit -n 16; exec 7</dev/null 8</dev/null 9</dev/null; exec "$0" "$@""#;
    command
        .args(["-c", script])
        .arg(binary())
        .args(["--no-start", "--socket"])
        .arg(socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Host::run(&mut command)
}

#[test]
fn calls_without_a_descriptor_wait_for_one() {
    let (_folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let mut host = cramped(&socket);
    for id in 0..40 {
        host.request(id, "tools/call");
    }
    let mut seen = BTreeSet::new();
    let mut held = Vec::new();
    while seen.len() < 40 {
        let call = daemon.call();
        assert!(seen.insert(call.seq), "{} came twice", call.seq);
        held.push(call);
        // Answer only when the shim can open no further connection.
        if held.len() == 3 || seen.len() == 40 {
            held.drain(..).for_each(|call| call.result(&json!({})));
        }
    }
    let mut answered: Vec<_> = (0..40)
        .map(|_| {
            let answer = host.expect_message();
            assert!(answer.get("result").is_some(), "{answer}");
            answer["id"].as_u64().unwrap()
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..40).collect::<Vec<_>>());
    assert_eq!(seen, (1..=40).collect());
    assert_eq!(daemon.sessions(1).len(), 1);
}

#[test]
fn a_filler_without_a_descriptor_waits_for_one() {
    let (_folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let mut host = cramped(&socket);
    for id in 0..4 {
        host.request(id, "tools/call");
    }
    let held: Vec<_> = (0..3).map(|_| daemon.call()).collect();
    // The fourth call finds no descriptor, and neither does its filler.
    host.cancel(3);
    host.request(4, "tools/call");
    held[0].result(&json!({}));
    host.expect_result(held[0].json()["id"].clone());
    let mut next = daemon.call();
    // If the cancel arrived before the fourth call was numbered, there is no gap to fill.
    if next.json()["method"] == "notifications/cancelled" {
        assert_eq!(next.seq, 4);
        next.accepted();
        next = daemon.expect("tools/call");
        assert_eq!(next.seq, 5);
    } else {
        assert_eq!(next.seq, 4);
    }
    assert_eq!(next.json()["id"].as_u64(), Some(4));
    next.result(&json!({}));
    host.expect_result(4);
}

#[test]
fn a_lost_filler_is_sent_again() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    host.request(1, "tools/call");
    daemon.expect("tools/call").hang_up();
    host.expect_failed_call(1, "connection_lost");
    for _ in 0..3 {
        let filler = daemon.expect("notifications/cancelled");
        assert_eq!(filler.seq, 1);
        filler.hang_up();
    }
    daemon.expect("notifications/cancelled").accepted();
    host.request(2, "tools/call");
    daemon.expect("tools/call").result(&json!({}));
    host.expect_result(2);
    assert_eq!(daemon.sessions(1).len(), 1);
}

#[test]
fn a_session_with_an_unfilled_gap_is_replaced() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    host.request(1, "tools/call");
    daemon.expect("tools/call").hang_up();
    host.expect_failed_call(1, "connection_lost");
    for _ in 0..5 {
        daemon.expect("notifications/cancelled").hang_up();
    }
    daemon.sessions(2);
    host.request(2, "tools/call");
    let call = daemon.expect("tools/call");
    assert_eq!((call.session.as_str(), call.seq), ("boot1-session-2", 1));
    call.result(&json!({}));
    host.expect_result(2);
}

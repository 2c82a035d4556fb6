//! SIGTERM under load: calls in flight finish, and calls that have not started are not lost.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::collections::HashSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use proto_tests::shim::{call_params, kind_of, structured};
use proto_tests::streamable::{HttpHost, ModernHost, with_meta};
use proto_tests::wait::until_true;
use proto_tests::{Home, Shim, TEST_TIMEOUT};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

#[test]
fn a_restart_under_load_fails_no_call_and_runs_none_twice() {
    let home = Home::new();
    let journal = home.path().join("journal");
    home.child_with("k", &["echo"], &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
    let mut daemon = home.daemon();
    let mut shims: Vec<Shim> = (0..8).map(|_| home.shim()).collect();
    shims[0].call("k", "echo", "{}");
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let sent: u64 = thread::scope(|scope| {
        let load: Vec<_> = shims
            .iter_mut()
            .zip(0..)
            .map(|(shim, session)| {
                let (stop, done) = (&stop, &done);
                scope.spawn(move || {
                    let mut n = 0;
                    while !stop.load(Ordering::Relaxed) {
                        n += 1;
                        let args = format!(r#"{{"session":{session},"n":{n},"ms":30}}"#);
                        let answer = shim.call("k", "slow", &args);
                        assert!(answer.contains("\"result\""), "session {session}, call {n}: {answer}");
                        assert_eq!(structured(&answer)["args"]["n"], n);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    n
                })
            })
            .collect();
        // Under load before, during and after each of three restarts.
        for restart in 0..3 {
            let before = done.load(Ordering::Relaxed);
            until_true("load", TEST_TIMEOUT, || done.load(Ordering::Relaxed) >= before + 40);
            let old = home.daemons();
            assert_eq!(old.len(), 1, "restart {restart}: {old:#?}");
            kill_process(Pid::from_raw(old[0].pid).unwrap(), Signal::TERM).unwrap();
            if restart == 0 {
                assert!(daemon.ended(TEST_TIMEOUT).success());
            }
            until_true("another daemon", TEST_TIMEOUT, || {
                let now = home.daemons();
                now.len() == 1 && now[0].pid != old[0].pid
            });
        }
        let before = done.load(Ordering::Relaxed);
        until_true("load afterwards", TEST_TIMEOUT, || done.load(Ordering::Relaxed) >= before + 40);
        stop.store(true, Ordering::Relaxed);
        load.into_iter().map(|load| load.join().unwrap()).sum()
    });
    let mut seen = HashSet::new();
    for line in fs::read_to_string(&journal).unwrap().lines() {
        let Some(line) = line.split_once(' ').and_then(|(_, line)| serde_json::from_str::<Value>(line).ok())
        else {
            continue;
        };
        let args = &line["params"]["arguments"];
        if let (Some(session), Some(n)) = (args["session"].as_u64(), args["n"].as_u64()) {
            assert!(seen.insert((session, n)), "call {n} of session {session} ran twice");
        }
    }
    assert_eq!(seen.len() as u64, sent);
}

#[test]
fn a_call_that_outlasts_the_drain_gets_a_clear_fault() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let mut daemon = home.daemon();
    let mut shim = home.shim();
    let finishes = shim.start_call("k", "slow", r#"{"ms":1500}"#);
    let hangs = shim.start_call("k", "hang", "{}");
    until_true("both calls", TEST_TIMEOUT, || {
        let received = shim.call("k", "received", "{}");
        received.contains("1500") && received.contains("hang")
    });
    let asked = Instant::now();
    daemon.signal(Signal::TERM);
    assert!(shim.answer_to(&finishes.to_string()).contains("\"ok\":true"));
    let answer = shim.answer_to(&hangs.to_string());
    assert_eq!(kind_of(&answer).as_deref(), Some("daemon_draining"), "{answer}");
    assert!(daemon.ended(TEST_TIMEOUT).success(), "{}", daemon.log());
    // The drain takes at most 10 s, the rest of the shutdown at most 5 s.
    assert!(asked.elapsed() < Duration::from_secs(25), "{:?}", asked.elapsed());
    assert!(shim.call("k", "echo", "{}").contains("\"ok\":true"));
}

#[test]
fn a_call_over_http_during_a_drain_fails_with_a_result() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    let legacy = HttpHost::open(daemon.endpoint(), "/mcp", "2025-11-25", &json!({}));
    shim.start_call("k", "hang", "{}");
    until_true("the call", TEST_TIMEOUT, || shim.call("k", "received", "{}").contains("hang"));
    daemon.signal(Signal::TERM);
    let post = |method: &str, params: &Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        daemon.endpoint().post("/proxy", &body.to_string())
    };
    until_true("the drain to begin", TEST_TIMEOUT, || post("tools/list", &json!({})).status == 503);
    let params: Value = serde_json::from_str(&call_params("k", "echo", "{}")).unwrap();
    let about = json!({"kind": "daemon_draining", "retryable": true});
    let modern = ModernHost::new(daemon.endpoint(), "/mcp");
    for answer in [
        post("tools/call", &params).json(),
        post("tools/call", &with_meta(&params)).json(),
        legacy.ask("tools/call", &params),
        modern.ask("tools/call", &params),
    ] {
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(answer["result"]["_meta"]["switchboard"], about, "{answer}");
    }
}

#[test]
fn a_second_signal_ends_the_daemon_at_once() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let mut daemon = home.daemon();
    {
        let mut shim = home.shim();
        shim.start_call("k", "hang", "{}");
        until_true("the call", TEST_TIMEOUT, || shim.call("k", "received", "{}").contains("hang"));
        daemon.signal(Signal::TERM);
        until_true("the drain to begin", TEST_TIMEOUT, || {
            daemon.log().to_lowercase().contains("drain") || !proto_tests::procs::alive(daemon.pid())
        });
        let again = Instant::now();
        daemon.signal(Signal::TERM);
        daemon.ended(TEST_TIMEOUT);
        assert!(again.elapsed() < Duration::from_secs(5), "{:?}", again.elapsed());
    }
}

#[test]
fn an_idle_daemon_exits_quickly() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let mut daemon = home.daemon();
    home.shim().call("k", "echo", "{}");
    let asked = Instant::now();
    daemon.signal(Signal::TERM);
    assert!(daemon.ended(TEST_TIMEOUT).success(), "{}", daemon.log());
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
}

#[test]
fn sigint_stops_the_daemon_too() {
    let home = Home::new();
    let mut daemon = home.daemon();
    daemon.signal(Signal::INT);
    assert!(daemon.ended(TEST_TIMEOUT).success(), "{}", daemon.log());
}

#[test]
fn a_request_sent_while_the_daemon_exits_is_always_answered() {
    let home = Home::new();
    home.child("k", &["echo"]);
    // Usually no call is in flight, so the daemon exits as soon as it can.
    let mut shims: Vec<Shim> = (0..4).map(|_| home.shim()).collect();
    shims[0].call("k", "echo", "{}");
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for shim in &mut shims {
            let (stop, done) = (&stop, &done);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let answer = shim.call("k", "echo", "{}");
                    assert!(answer.contains("\"ok\":true"), "{answer}");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..6 {
            let before = done.load(Ordering::Relaxed);
            until_true("load", TEST_TIMEOUT, || done.load(Ordering::Relaxed) >= before + 200);
            let pid = proto_tests::daemon::read_daemon_file(&home.socket())["pid"].as_i64().unwrap();
            kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::TERM).unwrap();
            until_true("its end", TEST_TIMEOUT, || !proto_tests::procs::alive(i32::try_from(pid).unwrap()));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_daemon_whose_socket_was_deleted_exits() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let mut daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("k", "echo", "{}");
    fs::remove_file(home.socket()).unwrap();
    let mut late = home.shim();
    assert!(late.call("k", "echo", "{}").contains("\"ok\":true"));
    assert!(daemon.ended(TEST_TIMEOUT).success(), "{}", daemon.log());
    assert!(daemon.log().contains("no longer ours"), "{}", daemon.log());
    assert!(shim.call("k", "echo", "{}").contains("\"ok\":true"));
    assert_eq!(home.daemons().len(), 1, "{:#?}", home.daemons());
}

//! Whatever dies, in whatever order: callers are told, the next call works, and nothing is left.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::time::{Duration, Instant};

use proto_tests::shim::{kind_of, structured};
use proto_tests::wait::until_true;
use proto_tests::{Home, PATIENCE, Shim, procs};
use rustix::process::{Pid, Signal, kill_process};

/// Grandchildren of every kind, started by a call.
fn fork(shim: &mut Shim, child: &str) -> Vec<i32> {
    let answer = structured(&shim.call(child, "fork", "{}"));
    let pids: Vec<_> = answer["pids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pid| i32::try_from(pid.as_i64().unwrap()).unwrap())
        .collect();
    assert_eq!(pids.len(), 5);
    assert!(pids.iter().all(|pid| procs::alive(*pid)), "{pids:?}");
    pids
}

#[track_caller]
fn all_gone(pids: &[i32], bound: Duration) {
    let living = || pids.iter().filter(|pid| procs::alive(**pid)).count();
    until_true("every grandchild to go", bound, || living() == 0);
}

/// Five times what is promised: the machine may be busy.
const TOLD: Duration = Duration::from_secs(5);
const GONE: Duration = Duration::from_secs(10);

#[test]
fn a_killed_daemon_is_told_to_everybody_and_leaves_nothing() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.child("stubborn", &["ignores-term"]);
    let mut daemon = Some(home.daemon());
    let mut shims: Vec<Shim> = (0..8).map(|_| home.shim()).collect();
    for round in 0..3 {
        let mut pids = fork(&mut shims[0], "k");
        pids.extend(fork(&mut shims[1], "stubborn"));
        pids.extend(home.children().iter().map(|process| process.pid));
        let ids: Vec<Vec<u64>> = shims
            .iter_mut()
            .map(|shim| (0..8).map(|_| shim.start_call("k", "hang", "{}")).collect())
            .collect();
        until_true("the calls to arrive", PATIENCE, || {
            shims[0].call("k", "received", "{}").matches("hang").count() >= 64
        });

        let killed = Instant::now();
        match daemon.take() {
            Some(mut daemon) => daemon.kill(),
            // From the second round on it is one that a shim started.
            None => {
                let running = home.daemons();
                assert_eq!(running.len(), 1, "{running:#?}");
                kill_process(Pid::from_raw(running[0].pid).unwrap(), Signal::KILL).unwrap();
            }
        }
        for (shim, ids) in shims.iter_mut().zip(&ids) {
            for id in ids {
                let left = TOLD.saturating_sub(killed.elapsed());
                let answer = shim.answer_within(&id.to_string(), left);
                let answer =
                    answer.unwrap_or_else(|| panic!("round {round}: no answer to {id} within {TOLD:?}"));
                assert_eq!(kind_of(&answer).as_deref(), Some("daemon_gone"), "{answer}");
                assert!(answer.contains("may or may not have run"), "{answer}");
            }
        }
        all_gone(&pids, GONE.saturating_sub(killed.elapsed()));
        for shim in &mut shims {
            assert!(shim.call("k", "echo", "{}").contains("\"ok\":true"), "round {round}");
        }
        assert_eq!(home.daemons().len(), 1);
    }
}

#[test]
fn what_is_safe_to_repeat_survives_the_daemon() {
    let home = Home::new();
    home.child("slow", &["slow-initialize", "1500"]);
    let mut daemon = home.daemon();
    let mut shim = home.shim();
    let id = shim.start_request("tools/list", "{}");
    daemon.kill();
    let answer = shim.answer_to(&id.to_string());
    assert!(answer.contains("slow_suite"), "{answer}");
}

#[test]
fn a_terminated_daemon_takes_everything_along() {
    let home = Home::new();
    for (name, behaviour) in
        [("a", "echo"), ("b", "ignores-eof"), ("c", "ignores-term"), ("d", "forks-at-start")]
    {
        home.child(name, &[behaviour]);
    }
    let mut daemon = home.daemon();
    let mut pids = Vec::new();
    {
        let mut shim = home.shim();
        for child in ["a", "b", "c", "d"] {
            pids.extend(fork(&mut shim, child));
        }
    }
    pids.extend(procs::descendants(daemon.pid()).iter().map(|process| process.pid));
    assert!(pids.len() >= 28, "{pids:?}");
    let asked = Instant::now();
    daemon.signal(Signal::TERM);
    let status = daemon.ended(PATIENCE);
    assert_eq!(status.code(), Some(0), "{status}: {}", daemon.log());
    assert!(asked.elapsed() < Duration::from_secs(15), "the promise is 5 s: {:?}", asked.elapsed());
    all_gone(&pids, GONE);
}

#[test]
fn a_child_that_dies_leaves_no_grandchildren() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    for subtool in ["crash", "die"] {
        let pids = fork(&mut shim, "k");
        shim.call("k", subtool, r#"{"code":0}"#);
        all_gone(&pids, GONE);
    }
    let pids = fork(&mut shim, "k");
    let child = structured(&shim.call("k", "where", "{}"))["pid"].as_i64().unwrap();
    kill_process(Pid::from_raw(i32::try_from(child).unwrap()).unwrap(), Signal::KILL).unwrap();
    all_gone(&pids, GONE);
}

#[test]
fn a_grandchild_that_holds_stdout_holds_up_nothing() {
    let home = Home::new();
    home.child("k", &["forks-and-exits"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let asked = Instant::now();
    let answer = shim.call("k", "echo", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("child_exited"), "{answer}");
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    until_true("the grandchild to go", GONE, || home.children().is_empty());
}

#[test]
fn descriptors_and_threads_come_back_after_crashes() {
    let home = Home::new();
    for child in 0..12 {
        home.child(&format!("k{child}"), &["echo"]);
    }
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("k0", "echo", "{}");
    shim.call("k0", "crash", "{}");
    let settled = |descendants: usize| procs::descendants(daemon.pid()).len() <= descendants;
    until_true("the first to be cleared", PATIENCE, || settled(0));
    let (fds, threads) = (procs::fds(daemon.pid()), procs::threads(daemon.pid()));
    for _ in 0..3 {
        for child in 1..12 {
            shim.call(&format!("k{child}"), "crash", "{}");
        }
    }
    until_true("all to be cleared, zombies too", PATIENCE, || settled(0));
    until_true("the descriptors to come back", PATIENCE, || procs::fds(daemon.pid()) <= fds + 2);
    assert!(procs::threads(daemon.pid()) <= threads + 2, "{}", procs::threads(daemon.pid()));
}

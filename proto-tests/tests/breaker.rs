//! Children that keep crashing, are killed or hang: what callers are told, how soon, and how often the pool
//! restarts them.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::collections::HashSet;
use std::time::{Duration, Instant};

use proto_tests::proof::{counted, measured, measured_ms};
use proto_tests::shim::kind_of;
use proto_tests::wait::{until, until_true};
use proto_tests::{Home, Shim, TEST_TIMEOUT, procs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn is_ok(answer: &str) -> bool {
    answer.contains("\"ok\":true")
}

/// Limit for calls that the open circuit refuses without a start. Generous for a busy machine, but shorter
/// than the pauses that such a call would otherwise wait for.
const FROM_MEMORY: Duration = Duration::from_secs(1);

#[test]
fn a_crashing_child_is_restarted_rarely_and_its_calls_fail_fast() {
    let home = Home::new();
    home.child("k", &["exit-at-start", "1"]);
    home.child("well", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("well", "echo", "{}");
    let begin = Instant::now();
    let (mut resting, mut slow) = (0_u32, 0_u32);
    let mut from_memory = Vec::new();
    while begin.elapsed() < Duration::from_secs(12) {
        let asked = Instant::now();
        let answer = shim.call("k", "echo", "{}");
        let took = asked.elapsed();
        assert!(answer.contains("EVIL_TOKEN is not set"), "no reason in {answer}");
        assert!(answer.contains("status 1"), "no exit status in {answer}");
        if kind_of(&answer).as_deref() == Some("child_resting") {
            resting += 1;
            from_memory.push(took);
            slow += u32::from(took > FROM_MEMORY);
        } else {
            assert_eq!(kind_of(&answer).as_deref(), Some("child_exited"), "{answer}");
        }
        assert!(is_ok(&shim.call("well", "echo", "{}")));
    }
    // Pauses of 0.2, 0.4, 0.8 and 1.6 s, then the circuit opens for 30 s.
    let starts = daemon.starts("k");
    from_memory.sort();
    measured_ms("R18", "p50 of answers while it rests", from_memory[from_memory.len() / 2]);
    measured_ms("R18", "p99 of answers while it rests", from_memory[from_memory.len() * 99 / 100]);
    // More than in any other minute: the pauses are shortest at the beginning.
    measured("R18", "starts in the first 12 s", f64::from(u32::try_from(starts).unwrap()));
    assert!((5..=7).contains(&starts), "{starts} starts in 12 s");
    assert!(resting > 20, "{resting}");
    // A busy machine may delay a few of the answers, but not all of them.
    assert!(slow * 20 <= resting, "{slow} of {resting} answers took more than {FROM_MEMORY:?}");
    let suite = daemon.suite("k");
    assert_eq!(suite["state"], "resting", "{suite}");
    let told = String::from_utf8(home.command(&["status"]).stdout).unwrap();
    assert!(told.contains(" paused ") && !told.contains("resting"), "{told}");
    assert!(suite["lastError"].as_str().unwrap().contains("EVIL_TOKEN"), "{suite}");
    let answer = shim.call("k", "echo", "{}");
    assert!(answer.contains("not started again for"), "{answer}");
}

#[test]
fn a_manual_restart_closes_the_circuit() {
    let home = Home::new();
    // The child starts only once there is a licence file.
    let licence = home.path().join("licence");
    let script = home.write("licensed", "");
    let evil = proto_tests::bins().evil_child.display().to_string();
    let text = format!(
        "#!/bin/sh\nif [ -e {} ]; then exec {evil} echo; fi\necho no licence >&2\nexit 5\n",
        licence.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    home.definition("k", &json!({"mcpServers": {"k": home.entry(&script, &[], &[])}}).to_string());
    let daemon = home.daemon();
    let mut shim = home.shim();
    until_true("the circuit to open", TEST_TIMEOUT, || {
        shim.call("k", "echo", "{}");
        daemon.suite("k")["state"] == "resting"
    });
    std::fs::write(&licence, "").unwrap();
    let answer = shim.call("k", "echo", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("child_resting"), "{answer}");
    assert!(answer.contains("no licence"), "{answer}");
    home.run_ok(&["restart", "k"]);
    let answer = shim.call("k", "echo", "{}");
    assert!(is_ok(&answer), "{answer}");
    assert_eq!(daemon.suite("k")["state"], "ready");
}

#[test]
fn a_child_is_restarted_at_once_after_one_crash() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    assert!(is_ok(&shim.call("k", "echo", "{}")));
    let answer = shim.call("k", "crash", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("child_exited"), "{answer}");
    assert!(answer.contains("status 3") && answer.contains("crash was asked for"), "{answer}");
    let answer = shim.call("k", "echo", "{}");
    assert!(is_ok(&answer), "{answer}");
    assert_eq!(daemon.starts("k"), 2);
    assert_eq!(daemon.suite("k")["state"], "ready");
}

#[test]
fn a_child_killed_by_a_signal_is_restarted_every_time() {
    let home = Home::new();
    home.child("k", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    for round in 1..=12 {
        let pid = shim.pid_of("k");
        let hanging = shim.start_call("k", "hang", "{}");
        until_true("the call", TEST_TIMEOUT, || daemon.suite("k")["children"][0]["inFlight"] == 1);
        signal(pid, Signal::KILL);
        let answer = shim.answer_to(&hanging.to_string());
        assert!(answer.contains("signal 9"), "round {round}: {answer}");
        assert_eq!(daemon.starts("k"), round);
    }
}

#[test]
fn a_child_that_serves_one_call_and_crashes_at_the_next_opens_the_circuit() {
    let home = Home::new();
    home.child("k", &["crash-after", "1"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(10) {
        shim.call("k", "echo", "{}");
    }
    let starts = daemon.starts("k");
    assert!(starts <= 10, "{starts} starts in {:?}", begin.elapsed());
    let answer = shim.call("k", "echo", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("child_resting"), "{answer}");
    assert!(answer.contains("one too many"), "{answer}");
}

#[test]
fn a_child_that_crashes_at_every_call_opens_the_circuit() {
    let home = Home::new();
    home.child("k", &["exit-0-mid-call"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    let begin = Instant::now();
    until_true("the circuit to open", TEST_TIMEOUT, || {
        shim.call("k", "echo", "{}");
        daemon.suite("k")["state"] == "resting"
    });
    let starts = daemon.starts("k");
    assert!(starts <= 7, "{starts} starts in {:?}", begin.elapsed());
}

fn rounds() -> u32 {
    let usual = if cfg!(debug_assertions) { 20 } else { 200 };
    std::env::var("SWITCHBOARD_KILL_ROUNDS").map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn all_64_calls_in_flight_are_answered_when_their_child_is_killed() {
    let home = Home::new();
    let journal = home.path().join("journal");
    home.child_with("k", &["echo"], &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
    let daemon = home.daemon();
    let mut shims: Vec<Shim> = (0..8).map(|_| home.shim()).collect();
    let (mut told, mut all_told, mut served) = (Vec::new(), Vec::new(), Vec::new());
    let mut calls = 0_u64;
    for round in 0..rounds() {
        let pid = shims[0].pid_of("k");
        let ids: Vec<Vec<u64>> = shims
            .iter_mut()
            .map(|shim| {
                (0..8)
                    .map(|_| {
                        calls += 1;
                        shim.start_call("k", "hang", &format!(r#"{{"n":{calls}}}"#))
                    })
                    .collect()
            })
            .collect();
        until_true("64 in flight", TEST_TIMEOUT, || daemon.suite("k")["children"][0]["inFlight"] == 64);
        let killed = Instant::now();
        signal(pid, Signal::KILL);
        for (shim, ids) in shims.iter_mut().zip(&ids) {
            for id in ids {
                let answer = shim
                    .answer_within(&id.to_string(), TEST_TIMEOUT)
                    .unwrap_or_else(|| panic!("round {round}: {id} was never answered"));
                told.push(killed.elapsed());
                assert_eq!(kind_of(&answer).as_deref(), Some("child_exited"), "{answer}");
                assert!(answer.contains("signal 9"), "{answer}");
            }
        }
        all_told.push(killed.elapsed());
        assert!(is_ok(&shims[1].call("k", "echo", "{}")), "round {round}");
        served.push(killed.elapsed());
    }
    told.sort();
    served.sort();
    let p99 = |times: &[Duration]| times[(times.len() * 99 / 100).min(times.len() - 1)];
    all_told.sort();
    counted("R1", "calls answered after a kill", told.len() as u64);
    measured_ms("R1", "p99 of answers", p99(&told));
    measured_ms("R1", "p99 of the last caller", p99(&all_told));
    measured_ms("R1", "p99 until served again", p99(&served));
    assert_eq!(told.len(), 64 * usize::try_from(rounds()).unwrap());
    assert!(p99(&told) < Duration::from_secs(1), "promised are 100 ms: {:?}", p99(&told));
    assert!(p99(&served) < Duration::from_secs(3), "promised are 250 ms and its start: {:?}", p99(&served));
    // At most once: no call reached two processes, or one of them twice.
    let mut seen = HashSet::new();
    for line in std::fs::read_to_string(&journal).unwrap().lines() {
        let Some((_, line)) = line.split_once(' ') else { continue };
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        if let Some(n) = line["params"]["arguments"]["n"].as_u64() {
            assert!(seen.insert(n), "call {n} reached a child twice");
        }
    }
    assert!(!seen.is_empty());
}

// --- hung children ---

#[test]
fn a_stopped_child_times_out_its_own_callers_only() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.child("well", &["echo"]);
    home.config(&json!({"suites": {"k": {"timeouts": {"rpcMs": 3000}}}}));
    let daemon = home.daemon();
    let (mut shim, mut other) = (home.shim(), home.shim());
    let pid = shim.pid_of("k");
    other.pid_of("well");
    // What the other server's callers wait for, without and with a stopped server beside it.
    let times = |shim: &mut Shim| {
        let mut times: Vec<Duration> = (0..20)
            .map(|_| {
                let asked = Instant::now();
                assert!(is_ok(&shim.call("well", "echo", "{}")));
                asked.elapsed()
            })
            .collect();
        times.sort();
        times
    };
    let before = times(&mut other);
    signal(pid, Signal::STOP);
    let asked = Instant::now();
    let ids: Vec<u64> = (0..4).map(|_| shim.start_call("k", "echo", "{}")).collect();
    let beside = times(&mut other);
    measured_ms("R2", "p50 of others before", before[10]);
    measured_ms("R2", "p50 of others beside it", beside[10]);
    // Other children's callers did not wait for the deadline.
    assert!(asked.elapsed() < Duration::from_secs(3), "others waited: {:?}", asked.elapsed());
    for id in ids {
        let answer = shim.answer_to(&id.to_string());
        assert_eq!(kind_of(&answer).as_deref(), Some("rpc_timeout"), "{answer}");
        assert!(answer.contains("3000"), "{answer}");
    }
    measured_ms(
        "R2",
        "last error after its deadline",
        asked.elapsed().saturating_sub(Duration::from_secs(3)),
    );
    assert!(asked.elapsed() >= Duration::from_secs(3));
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    // A ping that stays unanswered for 5 s ends the child.
    until_true("the stopped child to be replaced", TEST_TIMEOUT, || !procs::alive(pid));
    let next = until("another one", TEST_TIMEOUT, || {
        let answer = shim.call("k", "where", "{}");
        answer.contains("\"pid\"").then(|| shim.pid_of("k"))
    });
    assert_ne!(next, pid);
    assert_eq!(daemon.pids("k"), [next]);
}

#[test]
fn a_busy_child_that_answers_pings_is_kept() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.config(&json!({"suites": {"k": {"timeouts": {"rpcMs": 500}}}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let pid = shim.pid_of("k");
    let answer = shim.call("k", "hang", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("rpc_timeout"), "{answer}");
    // Longer than the 5 s that a ping may take.
    let begin = Instant::now();
    until_true("six seconds", TEST_TIMEOUT, || {
        assert!(is_ok(&shim.call("k", "echo", "{}")));
        begin.elapsed() > Duration::from_secs(6)
    });
    assert_eq!(daemon.pids("k"), [pid]);
}

#[test]
fn a_child_that_stops_reading_is_replaced() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.config(&json!({"suites": {"k": {"timeouts": {"rpcMs": 800}}}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let pid = shim.pid_of("k");
    shim.call("k", "stop-reading", "{}");
    let answer = shim.call("k", "echo", "{}");
    assert_eq!(kind_of(&answer).as_deref(), Some("rpc_timeout"), "{answer}");
    until_true("it to be replaced", TEST_TIMEOUT, || !procs::alive(pid));
    until_true("the next to serve", TEST_TIMEOUT, || is_ok(&shim.call("k", "echo", "{}")));
}

// --- slow starts ---

#[test]
fn a_slow_start_is_reported_as_progress_and_delays_no_other_call() {
    let home = Home::new();
    home.child("x", &["slow-initialize", "12000"]);
    home.child("well", &["echo"]);
    home.config(&json!({"timeouts": {"childSpawnMs": 30_000}}));
    let daemon = home.daemon();
    let (mut shim, mut other) = (home.shim(), home.shim());
    let silent = other.start_call("x", "echo", "{}");
    let id = shim.start_call_with_token("x", "echo", "{}", "\"tok\"");
    let asked = Instant::now();
    assert!(is_ok(&shim.call("well", "echo", "{}")));
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    assert_eq!(daemon.suite("x")["state"], "starting");
    let mut last = -1.0;
    for seconds in [5, 10] {
        let news = shim.notification("notifications/progress");
        assert_eq!(news["params"]["progressToken"], "tok", "{news}");
        let said = news["params"]["message"].as_str().unwrap();
        let heard: u64 = said
            .strip_prefix("starting `x`: ")
            .and_then(|rest| rest.strip_suffix(" s"))
            .and_then(|number| number.parse().ok())
            .unwrap_or_else(|| panic!("{news}"));
        assert!((seconds..seconds + 4).contains(&heard), "{news}");
        let progress = news["params"]["progress"].as_f64().unwrap();
        assert!(progress > last, "progress only grows: {news}");
        last = progress;
    }
    assert!(is_ok(&shim.answer_to(&id.to_string())));
    assert!(is_ok(&other.answer_to(&silent.to_string())));
    assert!(other.take_notifications_of_calls().is_empty(), "who did not ask for progress hears none");
    assert_eq!(daemon.starts("x"), 1);
}

/// Takes most of a minute: `.ci/long` sets the variable.
#[test]
fn a_call_that_waits_too_long_for_a_start_gets_a_retry_advice() {
    if std::env::var_os("SWITCHBOARD_LONG").is_none() {
        return;
    }
    let home = Home::new();
    home.child("x", &["slow-initialize", "70000"]);
    home.config(&json!({"timeouts": {"childSpawnMs": 100_000}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let asked = Instant::now();
    let id = shim.start_call("x", "echo", "{}");
    // The second call queues behind the first and has waited as long.
    let second = shim.start_call("x", "echo", "{}");
    let answer = shim.answer_within(&id.to_string(), Duration::from_secs(59)).expect("an answer in time");
    let also = shim.answer_within(&second.to_string(), Duration::from_secs(5)).expect("an answer in time");
    assert!(also.contains("still starting"), "{also}");
    assert!(asked.elapsed() >= Duration::from_secs(49), "{:?}", asked.elapsed());
    assert!(answer.contains("still starting") && answer.contains("call again"), "{answer}");
    assert!(answer.contains("\"isError\":true"), "a result that a model can mend: {answer}");
    assert_eq!(daemon.suite("x")["state"], "starting", "the start goes on");
    until_true("it to be ready", TEST_TIMEOUT, || daemon.suite("x")["state"] == "ready");
    assert!(is_ok(&shim.call("x", "echo", "{}")));
    assert_eq!(daemon.starts("x"), 1);
}

//! Failing starts: how often they are retried, what they cost, what ends the retries, and which calls they
//! fail.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use proto_tests::shim::{kind_of, structured};
use proto_tests::wait::{until, until_true};
use proto_tests::{DaemonProcess, Home, TEST_TIMEOUT, bins};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// How long a failing start is observed.
const OBSERVED: Duration = Duration::from_secs(5);

fn is_ok(answer: &str) -> bool {
    answer.contains("\"ok\":true")
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// CPU time of the daemon, in hundredths of a second.
fn cpu(daemon: &DaemonProcess) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", daemon.pid())).unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// While nobody calls, a failing start is retried a few times at most, with little log output and CPU time.
#[track_caller]
fn is_quiet(daemon: &DaemonProcess, child: &str) {
    let (starts, log, work) = (daemon.starts(child), daemon.log().len(), cpu(daemon));
    let begin = Instant::now();
    while begin.elapsed() < OBSERVED {
        thread::sleep(Duration::from_millis(100));
    }
    let work = cpu(daemon) - work;
    let log = daemon.log().len() - log;
    let starts = daemon.starts(child) - starts;
    assert!(starts <= 6, "{starts} starts, {log} bytes of log and {work} ticks of work in {OBSERVED:?}");
    assert!(log < 20_000, "{log} bytes of log in {OBSERVED:?}");
    assert!(work < 150, "{work} ticks of work in {OBSERVED:?}");
}

/// Waits for a child to start without a call.
#[track_caller]
fn comes_by_itself(daemon: &DaemonProcess, child: &str) {
    until_true("a child that nobody called", TEST_TIMEOUT, || !daemon.pids(child).is_empty());
}

fn warm(home: &Home, more: &Value) {
    let mut config = json!({"suites": {"k": {"pool": {"warm": 1}}}});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    home.config(&config);
}

fn set_variables(home: &Home, text: &str) {
    let file = home.config_folder().join("env");
    let new = home.config_folder().join("env.new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, file).unwrap();
}

fn script(home: &Home, name: &str, text: &str) -> PathBuf {
    let script = home.write(name, &format!("#!/bin/sh\n{text}"));
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

// --- spares that cannot be started ---

#[test]
fn a_spare_without_its_variable_waits_for_the_variable() {
    let home = Home::new();
    home.child_with("k", &["echo"], &[("X", "${MYVAR}")]);
    set_variables(&home, "MYVAR=1\n");
    warm(&home, &json!({}));
    let daemon = home.daemon();
    let pid = home.shim().pid_of("k");
    set_variables(&home, "OTHER=1\n");
    until_true("it to be missed", TEST_TIMEOUT, || daemon.suite("k")["lastError"].is_string());
    kill(pid);
    until_true("its end", TEST_TIMEOUT, || daemon.pids("k").is_empty());
    is_quiet(&daemon, "k");
    assert_eq!(daemon.suite("k")["state"], "misconfigured");
    set_variables(&home, "MYVAR=2\n");
    comes_by_itself(&daemon, "k");
    assert_eq!(structured(&home.shim().call("k", "env", "{}"))["X"], "2");
}

#[test]
fn a_spare_whose_program_is_missing_is_retried_with_back_off() {
    let home = Home::new();
    let program = home.path().join("server");
    fs::copy(&bins().evil_child, &program).unwrap();
    home.definition("k", &json!({"mcpServers": {"k": home.entry(&program, &["echo"], &[])}}).to_string());
    warm(&home, &json!({}));
    let daemon = home.daemon();
    let pid = home.shim().pid_of("k");
    fs::remove_file(&program).unwrap();
    kill(pid);
    until_true("its end", TEST_TIMEOUT, || daemon.pids("k").is_empty());
    is_quiet(&daemon, "k");
    fs::copy(&bins().evil_child, &program).unwrap();
    home.run_ok(&["reload"]);
    comes_by_itself(&daemon, "k");
}

#[test]
fn a_spare_whose_program_changed_waits_for_the_allowed_one() {
    let home = Home::new();
    let project = home.project("work");
    let folders = ["first", "second"].map(|name| home.path().join(name));
    let path = format!("{}:{}:/usr/bin:/bin", folders[1].display(), folders[0].display());
    home.write(".profile", &format!("export PATH={path}\n"));
    let put = |folder: &Path| {
        fs::create_dir_all(folder).unwrap();
        fs::copy(&bins().evil_child, folder.join("server")).unwrap();
    };
    put(&folders[0]);
    project.define("k", &home.entry(Path::new("server"), &["echo"], &[]));
    project.config(&json!({"suites": {"k": {"pool": {"warm": 1}}}}));
    let daemon = home.daemon();
    project.allow();
    let mut shim = project.shim();
    let pid = shim.pid_of("k");
    put(&folders[1]);
    let log = daemon.log().len();
    let work = cpu(&daemon);
    kill(pid);
    let state = || daemon.suite_from(project.path(), "k")["state"].clone();
    until_true("it to be held", TEST_TIMEOUT, || state() == "held");
    let begin = Instant::now();
    while begin.elapsed() < OBSERVED {
        thread::sleep(Duration::from_millis(100));
    }
    let (log, work) = (daemon.log().len() - log, cpu(&daemon) - work);
    assert!(log < 20_000 && work < 150, "{log} bytes of log, {work} ticks of work");
    fs::remove_file(folders[1].join("server")).unwrap();
    home.run_ok(&["reload"]);
    until_true("a child that nobody called", TEST_TIMEOUT, || state() == "ready");
}

#[test]
fn a_spare_that_exits_at_start_is_retried_with_back_off() {
    let home = Home::new();
    let licence = home.write("licence", "");
    let evil = bins().evil_child.display();
    let text = format!("[ -e {} ] && exec {evil} echo\necho no licence >&2\nexit 5\n", licence.display());
    let script = script(&home, "licensed", &text);
    home.definition("k", &json!({"mcpServers": {"k": home.entry(&script, &[], &[])}}).to_string());
    warm(&home, &json!({}));
    let daemon = home.daemon();
    let pid = home.shim().pid_of("k");
    fs::remove_file(&licence).unwrap();
    kill(pid);
    until_true("its end", TEST_TIMEOUT, || daemon.pids("k").is_empty());
    is_quiet(&daemon, "k");
    fs::write(&licence, "").unwrap();
    home.run_ok(&["reload"]);
    comes_by_itself(&daemon, "k");
}

#[test]
fn a_spare_waits_until_the_budget_allows_it() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.child("two", &["echo"]);
    warm(&home, &json!({"budget": {"children": 1}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.pid_of("k");
    let two = shim.pid_of("two");
    is_quiet(&daemon, "k");
    assert_eq!(daemon.pids("two"), [two], "a spare pushes nobody out");
    home.run_ok(&["restart", "two"]);
    comes_by_itself(&daemon, "k");
}

#[test]
fn a_spare_waits_until_the_memory_limit_allows_it() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.child("glutton", &["echo"]);
    warm(&home, &json!({"budget": {"memoryMb": 100}}));
    let daemon = home.daemon();
    let (mut shim, mut other) = (home.shim(), home.shim());
    let pid = shim.pid_of("k");
    assert!(is_ok(&other.call("glutton", "eat", r#"{"mb":130}"#)));
    let held = other.start_call("glutton", "hang", "{}");
    until_true("the call", TEST_TIMEOUT, || daemon.suite("glutton")["children"][0]["inFlight"] == 1);
    // It may already have been stopped to save memory.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
    until_true("its end", TEST_TIMEOUT, || daemon.pids("k").is_empty());
    is_quiet(&daemon, "k");
    let begin = Instant::now();
    assert!(is_ok(&other.call("glutton", "echo", "{}")), "the daemon still answers");
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    other.send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{held}}}}}"#
    ));
    home.run_ok(&["restart", "glutton"]);
    until_true("a child that nobody called", TEST_TIMEOUT * 2, || !daemon.pids("k").is_empty());
}

#[test]
fn a_spare_stopped_to_save_memory_is_not_restarted_at_once() {
    let home = Home::new();
    home.child("k", &["echo"]);
    warm(&home, &json!({"budget": {"memoryMb": 1}}));
    let daemon = home.daemon();
    home.shim().call("k", "eat", r#"{"mb":8}"#);
    // Memory is checked every 10 s.
    until_true("it to be stopped", TEST_TIMEOUT, || daemon.log().contains("stopped to save memory"));
    until_true("its end", TEST_TIMEOUT, || daemon.pids("k").is_empty());
    let begin = Instant::now();
    while begin.elapsed() < OBSERVED {
        assert_eq!(daemon.starts("k"), 1, "it would be stopped again");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn introspections_do_not_bypass_the_back_off() {
    let home = Home::new();
    home.child_with("k", &["echo"], &[("X", "${MYVAR}")]);
    set_variables(&home, "MYVAR=1\n");
    let daemon = home.daemon();
    let mut shim = home.shim();
    let pid = shim.pid_of("k");
    set_variables(&home, "OTHER=1\n");
    until_true("it to be missed", TEST_TIMEOUT, || daemon.suite("k")["lastError"].is_string());
    kill(pid);
    until_true("its end", TEST_TIMEOUT, || daemon.pids("k").is_empty());
    for _ in 0..30 {
        shim.introspect("k");
        thread::sleep(Duration::from_millis(50));
    }
    assert!(daemon.starts("k") <= 4, "{} starts", daemon.starts("k"));
    set_variables(&home, "MYVAR=2\n");
    until_true("it to start for a look at its tools", TEST_TIMEOUT, || {
        shim.introspect("k");
        !daemon.pids("k").is_empty()
    });
}

/// A child that died while it had a subscriber is restarted as soon as a start is possible.
#[test]
fn a_child_with_subscribers_is_restarted_as_soon_as_possible() {
    for scope in ["shared", "session"] {
        let home = Home::new();
        let entry = home.entry(&bins().era_child, &["--era", "legacy"], &[("X", "${MYVAR}")]);
        home.definition("k", &json!({"mcpServers": {"k": entry}}).to_string());
        home.config(&json!({"suites": {"k": {"pool": {"scope": scope}}}}));
        set_variables(&home, "MYVAR=1\n");
        let daemon = home.daemon();
        let mut shim = home.shim_of("k");
        shim.initialize();
        let watched = json!({"uri": "test://watched-resource"}).to_string();
        assert!(shim.request("resources/subscribe", &watched).contains("result"));
        let pid = daemon.pids("k")[0];
        set_variables(&home, "OTHER=1\n");
        until_true("it to be missed", TEST_TIMEOUT, || daemon.suite("k")["lastError"].is_string());
        kill(pid);
        until_true("its end", TEST_TIMEOUT, || daemon.pids("k").is_empty());
        is_quiet(&daemon, "k");
        set_variables(&home, "MYVAR=2\n");
        comes_by_itself(&daemon, "k");
    }
}

// --- which calls a failure answers ---

#[test]
fn a_dying_child_fails_no_call_that_waits_for_another() {
    let home = Home::new();
    let journal = home.path().join("journal");
    home.child_with("k", &["echo"], &[("EVIL_JOURNAL", journal.to_str().unwrap())]);
    home.config(&json!({"suites": {"k": {"pool": {"scope": "call", "max": 2}}}}));
    let daemon = home.daemon();
    let (mut one, mut two) = (home.shim(), home.shim());
    let slow = one.start_call("k", "slow", r#"{"ms":10000}"#);
    let doomed = one.start_call("k", "hang", "{}");
    let pid = until("the call that never ends", TEST_TIMEOUT, || {
        let text = fs::read_to_string(&journal).ok()?;
        text.lines().find(|line| line.contains("\"hang\""))?.split(' ').next()?.parse::<i32>().ok()
    });
    let waiting: Vec<_> = (0..6).map(|_| two.start_call("k", "echo", "{}")).collect();
    until_true("all of them to wait", TEST_TIMEOUT, || {
        let metrics = daemon.endpoint().get("/metrics").text();
        metrics.lines().any(|line| line.starts_with("switchboard_queue_depth") && line.ends_with(" 6"))
    });
    kill(pid);
    let answer = one.answer_to(&doomed.to_string());
    assert_eq!(kind_of(&answer).as_deref(), Some("child_exited"), "{answer}");
    for id in waiting {
        let answer = two.answer_to(&id.to_string());
        assert!(is_ok(&answer), "{answer}");
    }
    assert!(is_ok(&one.answer_to(&slow.to_string())));
}

#[test]
fn a_refused_start_of_one_session_does_not_fail_another_session() {
    let home = Home::new();
    home.child("k", &["slow-initialize", "9000"]);
    home.config(&json!({
        "budget": {"children": 1},
        "timeouts": {"childSpawnMs": 30_000},
        "suites": {"k": {"pool": {"scope": "session"}}},
    }));
    let daemon = home.daemon();
    let (mut one, mut two) = (home.shim(), home.shim());
    let first = one.start_call("k", "echo", "{}");
    until_true("its start", TEST_TIMEOUT, || !home.children().is_empty());
    let refused = two.call("k", "echo", "{}");
    assert_eq!(kind_of(&refused).as_deref(), Some("no_room"), "{refused}");
    let answer = one.answer_to(&first.to_string());
    assert!(is_ok(&answer), "{answer}");
    assert_eq!(daemon.pids("k").len(), 1);
}

#[test]
fn calls_wait_for_a_busy_child_if_no_other_fits_the_budget() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.config(&json!({
        "budget": {"children": 2},
        "suites": {"k": {"pool": {"scope": "call", "max": 8}}},
    }));
    let daemon = home.daemon();
    let mut shim = home.shim();
    let begin = Instant::now();
    let ids: Vec<_> = (0..12).map(|_| shim.start_call("k", "slow", r#"{"ms":1500}"#)).collect();
    for id in ids {
        let answer = shim.answer_to(&id.to_string());
        assert!(is_ok(&answer), "after {:?}: {answer}", begin.elapsed());
    }
    assert!(daemon.pids("k").len() <= 2);
}

#[test]
fn a_call_next_to_another_hosts_call_evicts_no_child() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.child("other", &["echo"]);
    home.config(&json!({"budget": {"children": 2}, "suites": {"k": {"pool": {"max": 4}}}}));
    let daemon = home.daemon();
    let (mut one, mut two) = (home.shim(), home.shim());
    let (pid, other) = (one.pid_of("k"), one.pid_of("other"));
    one.start_call("k", "hang", "{}");
    until_true("the call", TEST_TIMEOUT, || daemon.suite("k")["children"][0]["inFlight"] == 1);
    for _ in 0..5 {
        assert_eq!(two.pid_of("k"), pid);
    }
    assert_eq!(daemon.pids("other"), [other], "an idle child went for a start that nobody needs");
    assert!(daemon.starts("k") <= 3, "each call tried a start");
    assert!(!daemon.log().contains("was not started"), "{}", daemon.log());
}

#[test]
fn a_call_next_to_another_hosts_call_does_not_wait_for_a_slow_start() {
    let home = Home::new();
    // The first start is quick, every other one takes 60 s.
    let slow = script(&home, "slow", "mkdir \"$0.ran\" 2>/dev/null || sleep 60; exec \"$@\"\n");
    let entry = home.entry(&slow, &[bins().evil_child.to_str().unwrap(), "echo"], &[]);
    home.definition("k", &json!({"mcpServers": {"k": entry}}).to_string());
    home.config(&json!({
        "timeouts": {"childSpawnMs": 90_000},
        "suites": {"k": {"pool": {"max": 2}}},
    }));
    let daemon = home.daemon();
    let (mut one, mut two) = (home.shim(), home.shim());
    let pid = one.pid_of("k");
    one.start_call("k", "hang", "{}");
    until_true("the call", TEST_TIMEOUT, || daemon.suite("k")["children"][0]["inFlight"] == 1);
    let begin = Instant::now();
    assert_eq!(two.pid_of("k"), pid);
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn calls_wait_for_a_busy_child_while_starts_are_paused() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.config(&json!({"suites": {"k": {"pool": {"scope": "call", "max": 2}}}}));
    let daemon = home.daemon();
    let (mut one, mut two) = (home.shim(), home.shim());
    let slow = one.start_call("k", "slow", r#"{"ms":4000}"#);
    until_true("the call", TEST_TIMEOUT, || daemon.suite("k")["children"][0]["inFlight"] == 1);
    for _ in 0..3 {
        let answer = two.call("k", "crash", "{}");
        assert_eq!(kind_of(&answer).as_deref(), Some("child_exited"), "{answer}");
    }
    // Each crash doubled the pause before the next start, but the other child is only busy.
    let answer = two.call("k", "echo", "{}");
    assert!(is_ok(&answer), "{answer}");
    assert!(is_ok(&one.answer_to(&slow.to_string())));
}

#[test]
fn a_crash_of_a_shared_child_fails_only_its_own_calls() {
    let home = Home::new();
    home.child("k", &["slow-initialize", "500"]);
    let _daemon = home.daemon();
    let (mut one, mut two) = (home.shim(), home.shim());
    for _ in 0..3 {
        until_true("a crash", TEST_TIMEOUT, || {
            kind_of(&one.call("k", "crash", "{}")).as_deref() == Some("child_exited")
        });
        // A later call waits for the next child, or is told that it may not be started yet.
        let answer = two.call("k", "echo", "{}");
        assert!(is_ok(&answer) || kind_of(&answer).as_deref() == Some("child_resting"), "{answer}");
    }
}

// --- how long calls wait ---

#[test]
fn parallel_calls_of_a_host_wait_for_room_together() {
    let home = Home::new();
    home.child("a", &["echo"]);
    home.child("b", &["echo"]);
    home.config(&json!({"budget": {"children": 1}}));
    let daemon = home.daemon();
    let (mut one, mut two) = (home.shim(), home.shim());
    one.start_call("a", "hang", "{}");
    until_true("the call", TEST_TIMEOUT, || daemon.suite("a")["children"][0]["inFlight"] == 1);
    let begin = Instant::now();
    let ids: Vec<_> = (0..6).map(|_| two.start_call("b", "echo", "{}")).collect();
    for id in ids {
        let answer = two.answer_to(&id.to_string());
        assert_eq!(kind_of(&answer).as_deref(), Some("no_room"), "{answer}");
    }
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(4), "it did not wait for room: {took:?}");
    assert!(took < Duration::from_secs(14), "each waited after the other: {took:?}");
}

#[test]
fn parallel_calls_of_a_host_are_refused_by_one_failed_start() {
    let home = Home::new();
    home.child("k", &["never-initialize"]);
    home.config(&json!({"timeouts": {"childSpawnMs": 2000}}));
    for scope in ["shared", "session"] {
        home.config(&json!({
            "timeouts": {"childSpawnMs": 2000},
            "suites": {"k": {"pool": {"scope": scope}}},
        }));
        let daemon = home.daemon();
        let mut shim = home.shim();
        let ids: Vec<_> = (0..4).map(|_| shim.start_call("k", "echo", "{}")).collect();
        for id in ids {
            let answer = shim.answer_to(&id.to_string());
            assert_eq!(kind_of(&answer).as_deref(), Some("child_spawn_timeout"), "{answer}");
        }
        assert_eq!(daemon.starts("k"), 1, "{scope}");
    }
}

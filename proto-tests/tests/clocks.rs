//! The wall clock jumps by days, and the daemon is stopped for longer than its deadlines, as on a laptop that sleeps:
//! no call fails that did not have to, and no server or session ends.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use proto_tests::proof::{counted, measured_ms};
use proto_tests::shim::kind_of;
use proto_tests::streamable::HttpHost;
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, TEST_TIMEOUT, procs};
use rustix::process::Signal;
use serde_json::json;

const DAY: i64 = 86_400;

fn is_ok(answer: &str) -> bool {
    answer.contains("\"ok\":true")
}

/// A wall clock of the daemon's own.
struct WallClock {
    library: PathBuf,
    offset: PathBuf,
}

impl WallClock {
    /// `None` without a C compiler, which Rust also needs to link.
    fn new(home: &Home) -> Option<Self> {
        let library = home.path().join("wall_clock.so");
        let offset = home.write("wall-clock", "0");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/wall_clock.c"))
            .status();
        compiled.is_ok_and(|status| status.success()).then_some(Self { library, offset })
    }

    fn daemon(&self, home: &Home) -> DaemonProcess {
        let (library, offset) = (self.library.to_str().unwrap(), self.offset.to_str().unwrap());
        DaemonProcess::start_with(
            home,
            &["--listen", "off"],
            &[("LD_PRELOAD", library), ("WALL_CLOCK", offset)],
        )
    }

    fn set(&self, offset: i64) {
        std::fs::write(&self.offset, offset.to_string()).unwrap();
    }
}

/// How far the daemon's wall clock is from ours, in seconds.
fn difference(daemon: &DaemonProcess) -> i64 {
    let theirs = daemon.status()["nowMs"].as_i64().unwrap() / 1000;
    let ours = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    theirs - i64::try_from(ours).unwrap()
}

#[test]
fn a_jump_of_the_wall_clock_breaks_nothing() {
    const DEADLINE: Duration = Duration::from_secs(3);
    let home = Home::new();
    home.child("k", &["echo"]);
    home.child("sick", &["exit-at-start", "1"]);
    home.config(&json!({"suites": {"k": {"timeouts": {"rpcMs": 3000}, "pool": {"idleMs": 3_600_000}}}}));
    let Some(clock) = WallClock::new(&home) else {
        return eprintln!("skipped: there is no C compiler");
    };
    let daemon = clock.daemon(&home);
    let mut shim = home.shim();
    let http = HttpHost::open(daemon.endpoint(), "/mcp", "2025-06-18", &json!({}));
    let pid = shim.pid_of("k");
    for (round, jump) in [DAY, -DAY, 400 * DAY, -400 * DAY, 0].into_iter().enumerate() {
        let slow = shim.start_call("k", "slow", r#"{"ms":1500}"#);
        let (hanging, begun) = (shim.start_call("k", "hang", "{}"), Instant::now());
        until_true("the calls", TEST_TIMEOUT, || daemon.suite("k")["children"][0]["inFlight"] == 2);
        clock.set(jump);
        assert!((difference(&daemon) - jump).abs() < 60, "the clock of the daemon is not {jump} s ahead");
        // Neither early nor late.
        assert!(is_ok(&shim.answer_to(&slow.to_string())), "jump {jump}");
        let answer = shim.answer_to(&hanging.to_string());
        assert_eq!(kind_of(&answer).as_deref(), Some("rpc_timeout"), "jump {jump}: {answer}");
        assert!(begun.elapsed() >= DEADLINE, "jump {jump}: {:?}", begun.elapsed());
        measured_ms("R19", "deadline missed after a jump", begun.elapsed() - DEADLINE);
        assert!(begun.elapsed() < DEADLINE * 3, "jump {jump}: {:?}", begun.elapsed());
        // The pause of a server that fails is as long as without the jump.
        let answer = shim.call("sick", "echo", "{}");
        assert!(answer.contains("EVIL_TOKEN is not set"), "{answer}");
        // The same process serves the same sessions, and files are read again.
        assert_eq!(shim.pid_of("k"), pid, "jump {jump}: the server was restarted");
        let listed = http.ask("tools/list", &json!({}));
        assert!(listed["result"]["tools"].is_array(), "jump {jump}: {listed}");
        let added = format!("added{round}");
        home.child(&added, &["echo"]);
        until_true("the new definition", TEST_TIMEOUT, || is_ok(&shim.call(&added, "echo", "{}")));
        home.config(&json!({"suites": {
            "k": {"timeouts": {"rpcMs": 3000}, "pool": {"idleMs": 3_600_000}},
            added.as_str(): {"description": format!("changed in round {round}")},
        }}));
        until_true("the new config", TEST_TIMEOUT, || {
            shim.tools()[&format!("{added}_suite")].to_string().contains("changed")
        });
        counted("R19", "jumps of the wall clock", 1);
    }
    // No entry of the record has a time that never was: calls took as long as they took.
    let output = home.command(&["calls", "--json", "-n", "1000"]);
    let calls: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for call in calls["calls"].as_array().unwrap() {
        let took = call["tookMs"].as_f64().or(call["ms"].as_f64()).unwrap_or_else(|| panic!("{call}"));
        assert!((0.0..60_000.0).contains(&took), "{call}");
    }
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
    let before = procs::cpu_time(daemon.pid());
    sleep(Duration::from_secs(1));
    let used = procs::cpu_time(daemon.pid()).saturating_sub(before);
    assert!(used < Duration::from_millis(200), "{used:?} of a core in a second");
}

/// How long the daemon is stopped; `.ci/long` sets more.
fn stopped() -> Duration {
    let seconds =
        std::env::var("SWITCHBOARD_STOPPED_SECONDS").map_or(4, |text| text.parse().expect("a number"));
    Duration::from_secs(seconds)
}

#[test]
fn a_daemon_that_was_stopped_gives_the_answers_that_came_meanwhile() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.config(&json!({"timeouts": {"rpcMs": 2000}}));
    let daemon = home.daemon();
    let mut shims: Vec<_> = (0..4).map(|_| home.shim()).collect();
    let http = HttpHost::open(daemon.endpoint(), "/mcp", "2025-06-18", &json!({}));
    let pid = shims[0].pid_of("k");
    let rounds = if stopped() > Duration::from_secs(60) { 1 } else { 3 };
    for round in 0..rounds {
        let ids: Vec<Vec<u64>> = shims
            .iter_mut()
            .map(|shim| {
                (0..8).map(|n| shim.start_call("k", "slow", &format!(r#"{{"ms":1000,"n":{n}}}"#))).collect()
            })
            .collect();
        until_true("the calls", TEST_TIMEOUT, || daemon.suite("k")["children"][0]["inFlight"] == 32);
        daemon.signal(Signal::STOP);
        sleep(stopped());
        let continued = Instant::now();
        daemon.signal(Signal::CONT);
        for (shim, ids) in shims.iter_mut().zip(&ids) {
            for id in ids {
                let answer = shim.answer_to(&id.to_string());
                assert!(is_ok(&answer), "round {round}: {answer}");
            }
        }
        measured_ms("R19", "all answers after the daemon continues", continued.elapsed());
        counted("R19", "calls answered while the daemon was stopped", 32);
        // The same process, the same sessions.
        assert_eq!(shims[0].pid_of("k"), pid, "the server was restarted");
        assert!(http.ask("tools/list", &json!({}))["result"]["tools"].is_array());
    }
    // Deadlines still hold.
    let hanging = shims[0].start_call("k", "hang", "{}");
    let answer = shims[0].answer_to(&hanging.to_string());
    assert_eq!(kind_of(&answer).as_deref(), Some("rpc_timeout"), "{answer}");
}

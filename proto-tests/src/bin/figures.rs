//! Measures figures that have a bound and prints both; see `src/bench/bounds.rs`. `--gate` fails if a figure
//! stays beyond its gate; `--record` adds the run to `HISTORY.md`.
//!
//! Run it with `cargo run --release -p proto-tests --bin figures`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that measures, for people and for CI"
)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use proto_tests::bench::bounds::Measurer;
use proto_tests::bench::history;
use proto_tests::bench::report::{Report, Row};
use proto_tests::{DaemonProcess, Home, Shim, ShimOptions, TEST_TIMEOUT, bins, procs, wait};
use rustix::process::Signal;
use serde_json::json;

/// How often a child is killed.
const CRASHES: usize = 20;

/// How often `--gate` measures a figure that is beyond its gate.
const TRIES: usize = 3;

const USAGE: &str = "usage: figures [--gate] [--record]";

/// Measures some figures that belong together.
type Measure = fn() -> Vec<Row>;
const MEASURES: [Measure; 6] = [sizes, starts, answers, ends, shared, crash_loop];

fn main() -> ExitCode {
    let (mut gate, mut record) = (false, false);
    for arg in std::env::args().skip(1) {
        match &*arg {
            "--gate" => gate = true,
            "--record" => record = true,
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let mut report = if gate { Report::for_this_machine() } else { Report::default() };
    for measure in MEASURES {
        let tries = if gate { TRIES } else { 1 };
        report.measure(tries, |report| measure().into_iter().for_each(|row| report.add(row)));
    }
    println!("{}\n{}", report.table(), history::changes("figures", &report));
    if record && let Err(error) = history::record("figures", &report) {
        eprintln!("cannot write `{}`: {error}", history::file().display());
        return ExitCode::FAILURE;
    }
    if !gate || (report.gate() & report.is_complete(Measurer::Figures)) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn time(what: &str, taken: Duration) -> Row {
    Row::new(what, "ms", taken.as_secs_f64() * 1000.0)
}

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

/// The size of the shim's binary, and its memory.
fn sizes() -> Vec<Row> {
    let home = Home::new();
    home.child("a", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("a", "echo", "{}");
    let mebi = |bytes: f64| bytes / 1024.0 / 1024.0;
    let size = std::fs::metadata(&bins().switchboard).unwrap().len();
    vec![
        Row::new("shim: binary", "MiB", mebi(size as f64)),
        Row::new("shim: resident after a call", "MiB", procs::rss_kib(shim.pid()) as f64 / 1024.0),
    ]
}

/// From starting the shim to the first list.
fn starts() -> Vec<Row> {
    let home = Home::new();
    home.child("a", &["echo"]);
    let list = |shim: &mut Shim| {
        shim.initialize();
        shim.request("tools/list", "{}");
    };
    let warm = {
        let _daemon = home.daemon();
        median(
            (0..20)
                .map(|_| {
                    let start = Instant::now();
                    list(&mut home.raw_shim());
                    start.elapsed()
                })
                .collect(),
        )
    };
    let cold = median(
        (0..5)
            .map(|_| {
                let start = Instant::now();
                let mut shim = home.raw_shim();
                list(&mut shim);
                let taken = start.elapsed();
                // A running shim would restart the daemon.
                drop(shim);
                home.kill_daemons();
                taken
            })
            .collect(),
    );
    vec![
        time("shim start to first tools/list, daemon running (p50)", warm),
        time("shim start to first tools/list, no daemon (p50)", cold),
    ]
}

/// How long operations take that must be quick.
fn answers() -> Vec<Row> {
    let home = Home::new();
    home.child("a", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("a", "echo", "{}");
    let calls = (0..300).map(|_| timed(|| drop(shim.call("a", "echo", "{}")))).collect();
    let parse = (0..50)
        .map(|_| timed(|| assert_eq!(daemon.endpoint().post("/proxy", "{\"incomplete\": json").status, 400)))
        .collect();
    daemon.signal(Signal::STOP);
    let pings = (0..100).map(|_| timed(|| drop(shim.request("ping", "{}")))).collect();
    daemon.signal(Signal::CONT);
    vec![
        time("one call through shim and daemon (p50)", median(calls)),
        time("400 for a body that is not JSON (p50)", median(parse)),
        time("ping while the daemon does not answer (p50)", median(pings)),
    ]
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// How many processes eight servers need for three hosts.
fn shared() -> Vec<Row> {
    let home = Home::new();
    let children: Vec<String> = (0..8).map(|number| format!("c{number}")).collect();
    children.iter().for_each(|child| home.child(child, &["echo"]));
    let daemon = home.daemon();
    let mut hosts: Vec<Shim> = (0..3).map(|_| home.shim()).collect();
    for host in &mut hosts {
        children.iter().for_each(|child| drop(host.call(child, "echo", "{}")));
    }
    let running = daemon.endpoint().get("/status").json()["budget"]["running"].as_u64().unwrap_or(0);
    let seen = home.children().len();
    let guards: Vec<u64> = procs::descendants(daemon.pid())
        .iter()
        .map(|process| process.pid)
        .filter(|pid| is_guard(*pid))
        .map(procs::pss_kib)
        .collect();
    assert_eq!(guards.len(), children.len(), "each server has a guard");
    let guard = guards.iter().sum::<u64>() as f64 / guards.len() as f64;
    vec![
        Row::new("processes of 8 servers for 3 hosts, as /status counts them", "", running as f64),
        Row::new("processes of 8 servers for 3 hosts, as the system counts them", "", seen as f64),
        Row::new("guard of each of 8 servers (PSS)", "MiB", guard / 1024.0),
    ]
}

fn is_guard(pid: i32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.starts_with(b"switchboard-guard\0")
}

/// How quickly a call fails while its child is in a crash loop.
fn crash_loop() -> Vec<Row> {
    let home = Home::new();
    home.child("a", &["exit-at-start", "1"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    wait::until_true("the circuit to open", TEST_TIMEOUT, || {
        shim.call("a", "echo", "{}");
        daemon.endpoint().get("/suites/a_suite").json()["state"] == "resting"
    });
    let calls = (0..50).map(|_| timed(|| drop(shim.call("a", "echo", "{}")))).collect();
    let starts = daemon.endpoint().get("/suites/a_suite").json()["pool"]["starts"].as_u64().unwrap_or(0);
    vec![
        time("crash loop: a call is refused with the reason (p50)", median(calls)),
        Row::new("crash loop: starts so far (at most 10 a minute)", "", starts as f64),
    ]
}

/// How quickly callers learn that a child, the daemon or the shim has died.
fn ends() -> Vec<Row> {
    let home = Home::new();
    home.child("a", &["echo"]);
    let (crash, again) = child_crash(&home);
    let (told, next) = daemon_crash(&home);
    let mut shim = home.raw_shim();
    shim.initialize();
    let leaving = timed(|| {
        shim.signal(Signal::TERM);
        shim.ended(TEST_TIMEOUT);
    });
    home.kill_daemons();
    vec![
        time("kill -9 of a child: last of 64 callers knows (max of 20)", crash),
        time("kill -9 of a child: next call served (max of 20)", again),
        time("kill -9 of the daemon: last of 8 x 8 callers knows", told),
        time("kill -9 of the daemon: next call of each shim served", next),
        time("shim gone after SIGTERM", leaving),
    ]
}

/// The slowest of many rounds: until the last of 64 callers has its answer, and until the next call is
/// served.
fn child_crash(home: &Home) -> (Duration, Duration) {
    let daemon = home.daemon();
    let mut shim = home.shim();
    let mut slowest = (Duration::ZERO, Duration::ZERO);
    for _ in 0..CRASHES {
        shim.call("a", "echo", "{}");
        let ids: Vec<u64> =
            (0..64).map(|_| shim.start_call("a", "slow", &json!({"ms": 60_000}).to_string())).collect();
        wait::until_true("all 64 to be in flight", TEST_TIMEOUT, || {
            let suite = daemon.endpoint().get("/suites/a_suite").json();
            suite["children"][0]["inFlight"] == 64
        });
        let child = home.children().into_iter().next().unwrap();
        let start = Instant::now();
        rustix::process::kill_process(rustix::process::Pid::from_raw(child.pid).unwrap(), Signal::KILL)
            .unwrap();
        for id in ids {
            shim.answer_to(&id.to_string());
        }
        let told = start.elapsed();
        let again = timed(|| drop(shim.call("a", "echo", "{}")));
        slowest = (slowest.0.max(told), slowest.1.max(again));
    }
    slowest
}

fn daemon_crash(home: &Home) -> (Duration, Duration) {
    let mut daemon = DaemonProcess::start(home, &["--listen", "off"]);
    let mut shims: Vec<Shim> = (0..8).map(|_| Shim::start(home, ShimOptions::default())).collect();
    let mut asked = Vec::new();
    for shim in &mut shims {
        shim.initialize();
        let ids: Vec<u64> =
            (0..8).map(|_| shim.start_call("a", "slow", &json!({"ms": 60_000}).to_string())).collect();
        asked.push(ids);
    }
    wait::until_true("all calls to be in flight", TEST_TIMEOUT, || {
        let status = daemon.endpoint().get("/status").json();
        let flying = status["sessions"].as_array().into_iter().flatten();
        flying.map(|session| session["inFlight"].as_u64().unwrap_or(0)).sum::<u64>() == 64
    });
    let start = Instant::now();
    daemon.kill();
    for (shim, ids) in shims.iter_mut().zip(asked) {
        for id in ids {
            shim.answer_to(&id.to_string());
        }
    }
    let told = start.elapsed();
    let start = Instant::now();
    for shim in &mut shims {
        shim.call("a", "echo", "{}");
    }
    (told, start.elapsed())
}

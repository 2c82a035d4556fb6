//! Many children, sessions and definitions at once: what a call and a reload cost then, and how long the event
//! loop runs without a pause.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Effort;
use super::drive::Call;
use super::report::{Report, Row};
use super::samples::Samples;
use super::setup::{self, CpuCores, ECHO, PipedProcess, SwitchboardSetup, suite_call};
use crate::http::Endpoint;
use crate::{TEST_TIMEOUT, wait};

const CHILDREN: usize = 500;
const SESSIONS: usize = 64;
const DEFINITIONS: usize = 10_000;
const CALLS: usize = 200;

pub fn measure(effort: Effort, report: &mut Report) {
    let small = SwitchboardSetup::new(1);
    let mut base = small.warm_shim();
    let mut large = SwitchboardSetup::without_daemon(DEFINITIONS);
    large.home.config(&json!({"budget": {"children": 2 * CHILDREN}}));
    large.daemon = Some(large.home.daemon());
    let mut shim = large.warm_shim();
    for number in 1..CHILDREN {
        shim.wire.ask(&Call::suite(&setup::name(number), "echo", ECHO));
    }
    let mut others: Vec<PipedProcess> = (1..SESSIONS).map(|_| large.warm_shim()).collect();
    calls(effort, report, (&small, &mut base), (&large, &mut shim));
    let endpoint = large.daemon.as_ref().unwrap().endpoint();
    let step = longest_step(&endpoint, Duration::from_millis(effort.pick(1500, 5000)), || {
        let time = Duration::from_millis(effort.pick(1000, 4000));
        thread::scope(|scope| {
            for (number, other) in others.iter_mut().enumerate() {
                let call = Call::suite(&setup::name(number % CHILDREN), "echo", ECHO);
                scope.spawn(move || other.wire.pipelined(&call, 4, time));
            }
        });
    });
    let steps = |what: &str, step| Row::new(format!("longest step of the event loop, {what}"), "ms", step);
    report.add(steps(&format!("{SESSIONS} sessions that call"), step));

    for (what, changed) in [("one", 1), ("all", DEFINITIONS)] {
        let text = format!("{what} of the second edition");
        for number in (0..changed).rev() {
            setup::define(&large.home, number, &text, 0);
        }
        let mut taken = Duration::ZERO;
        let step = longest_step(&endpoint, Duration::from_millis(2500), || taken = shown(&endpoint, &text));
        let what = format!("{what} of {DEFINITIONS} definitions changed");
        report.add(Row::new(format!("reload, {what}"), "ms", taken.as_secs_f64() * 1e3));
        report.add(steps(&what, step));
    }
    drop((shim, others, base));
}

/// Compares calls of one host at the large daemon with calls at the small one.
fn calls(
    effort: Effort,
    report: &mut Report,
    (small, base): (&SwitchboardSetup, &mut PipedProcess),
    (large, shim): (&SwitchboardSetup, &mut PipedProcess),
) {
    let cores = CpuCores::new();
    let pids: Vec<i32> = [base.process.pid(), shim.process.pid()]
        .into_iter()
        .chain(small.pids())
        .chain(large.pids())
        .collect();
    cores.pin(true, &pids);
    let call = suite_call("echo", ECHO);
    let (mut few, mut many) = (Samples::default(), Samples::default());
    for _ in 0..effort.pick(8, 20) {
        few.round(|out| base.wire.sequential(&call, CALLS, out));
        many.round(|out| shim.wire.sequential(&call, CALLS, out));
    }
    cores.pin(false, &pids);
    let what = format!(
        "call with {CHILDREN} children, {SESSIONS} sessions and {DEFINITIONS} definitions, beside 1 of each, pinned"
    );
    report.add(Row::new(what, "us", many.p50()).beside(None, Some(few.p50())).to_floor(many.over(&few)));
}

/// The longest step of the daemon's event loop, in milliseconds, while `work` runs.
fn longest_step(endpoint: &Endpoint, time: Duration, work: impl FnOnce()) -> f64 {
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let order = json!({"waitMs": time.as_millis()}).to_string();
            endpoint.post("/control/longest-step", &order)
        });
        work();
        let answer: Value = serde_json::from_slice(&watch.join().unwrap().body).unwrap();
        answer["longestStepMs"].as_f64().unwrap()
    })
}

/// How long it takes until the first suite is described by `text`.
fn shown(endpoint: &Endpoint, text: &str) -> Duration {
    let begin = Instant::now();
    wait::until_true("the new description", TEST_TIMEOUT, || {
        let answer = endpoint.get(&format!("/suites/{}", setup::name(0)));
        let done = String::from_utf8_lossy(&answer.body).contains(text);
        if !done {
            thread::sleep(Duration::from_millis(10));
        }
        done
    });
    begin.elapsed()
}

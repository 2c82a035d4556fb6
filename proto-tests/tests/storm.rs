//! Many sessions that all use the same ids, with random cancels and crashes: no call is lost, doubled or
//! misrouted. `SWITCHBOARD_STORM_CALLS` makes it longer.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use proto_tests::proof::counted;
use proto_tests::shim::kind_of;
use proto_tests::{Home, Shim, procs};
use serde_json::Value;

const SESSIONS: u64 = 64;
const CHILDREN: u64 = 8;
/// More crashes of one child within a minute would open its circuit, which `breaker.rs` tests.
const CRASHES_PER_CHILD: u32 = 4;
/// Calls of one session in flight at once.
const WINDOW: usize = 16;

fn calls() -> u64 {
    let usual = 40_000;
    std::env::var("SWITCHBOARD_STORM_CALLS").map_or(usual, |text| text.parse().expect("a number"))
}

/// A simple generator that is the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[derive(Debug, Default)]
struct Tally {
    answered: u64,
    faults: u64,
    cancelled: u64,
}

#[test]
fn no_call_is_lost_doubled_or_misrouted() {
    let home = Home::new();
    let journal = |child: u64| home.path().join(format!("journal-{child}"));
    for child in 0..CHILDREN {
        let path = journal(child);
        home.child_with(&format!("k{child}"), &["echo"], &[("EVIL_JOURNAL", path.to_str().unwrap())]);
    }
    let daemon = home.daemon();
    let crashes: Vec<AtomicU32> = (0..CHILDREN).map(|_| AtomicU32::new(0)).collect();
    let per_session = calls().div_ceil(SESSIONS);
    let mut shims: Vec<Shim> = (0..SESSIONS).map(|_| home.shim()).collect();
    let tallies: Vec<Tally> = thread::scope(|scope| {
        let storms: Vec<_> = shims
            .iter_mut()
            .zip(0..)
            .map(|(shim, session)| {
                let crashes = &crashes;
                scope.spawn(move || storm(shim, session, per_session, crashes))
            })
            .collect();
        storms.into_iter().map(|storm| storm.join().unwrap()).collect()
    });
    let answered: u64 = tallies.iter().map(|tally| tally.answered).sum();
    let faults: u64 = tallies.iter().map(|tally| tally.faults).sum();
    let cancelled: u64 = tallies.iter().map(|tally| tally.cancelled).sum();
    counted("R9", "calls answered", answered);
    counted("R9", "faults of crashed servers", faults);
    counted("R9", "calls cancelled", cancelled);
    assert!(answered > per_session * SESSIONS * 8 / 10, "mostly faults: {tallies:?}");

    // No call reached a child twice.
    let mut seen = HashSet::new();
    for child in 0..CHILDREN {
        for line in fs::read_to_string(journal(child)).unwrap_or_default().lines() {
            let Some((_, line)) = line.split_once(' ') else { continue };
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let args = &line["params"]["arguments"];
            if let (Some(session), Some(n)) = (args["session"].as_u64(), args["n"].as_u64()) {
                assert!(seen.insert((session, n)), "call {n} of session {session} reached a child twice");
            }
        }
    }
    drop(shims);
    assert!(procs::alive(daemon.pid()));
}

/// What a session still expects for a call.
enum Open {
    Waiting,
    Cancelled,
}

fn storm(shim: &mut Shim, session: u64, calls: u64, crashes: &[AtomicU32]) -> Tally {
    let mut dice = Dice(session + 1);
    let mut open: HashMap<u64, Open> = HashMap::new();
    let mut waiting = 0;
    let mut tally = Tally::default();
    for n in 0..calls {
        while waiting >= WINDOW {
            take_answer(shim, session, &mut open, &mut waiting, &mut tally);
        }
        let child = dice.roll(CHILDREN);
        let fate = dice.roll(1000);
        let crash = fate == 0
            && crashes[usize::try_from(child).unwrap()].fetch_add(1, Ordering::Relaxed) < CRASHES_PER_CHILD;
        let subtool = if crash { "crash" } else { "echo" };
        // All sessions use the same ids.
        let arguments =
            format!(r#"{{"action":"call","subtool":"{subtool}","args":{{"session":{session},"n":{n}}}}}"#);
        shim.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{n},"method":"tools/call","params":{{"name":"k{child}_suite","arguments":{arguments}}}}}"#
        ));
        if fate % 50 == 1 {
            shim.send(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{n}}}}}"#
            ));
            tally.cancelled += 1;
            open.insert(n, Open::Cancelled);
        } else {
            waiting += 1;
            open.insert(n, Open::Waiting);
        }
    }
    while waiting > 0 {
        take_answer(shim, session, &mut open, &mut waiting, &mut tally);
    }
    tally
}

fn take_answer(
    shim: &mut Shim,
    session: u64,
    open: &mut HashMap<u64, Open>,
    waiting: &mut usize,
    tally: &mut Tally,
) {
    let line = shim.receive();
    let answer: Value = serde_json::from_str(&line).unwrap();
    let Some(id) = answer["id"].as_u64() else { return };
    if answer.get("method").is_some() {
        return;
    }
    match open.remove(&id) {
        Some(Open::Waiting) => *waiting -= 1,
        // The cancel came too late, which is allowed.
        Some(Open::Cancelled) => {}
        None => panic!("session {session} got an answer that it did not wait for: {line}"),
    }
    if let Some(kind) = kind_of(&line) {
        // The child crashed, or its circuit is open after several crashes.
        assert!(matches!(kind.as_str(), "child_exited" | "child_resting"), "{line}");
        tally.faults += 1;
        return;
    }
    let args = &answer["result"]["structuredContent"]["args"];
    assert_eq!(
        (args["session"].as_u64(), args["n"].as_u64()),
        (Some(session), Some(id)),
        "misrouted: {line}"
    );
    tally.answered += 1;
}

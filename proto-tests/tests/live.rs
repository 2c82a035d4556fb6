//! At 200 calls a second, a definition is changed, removed and restored again and again. Only calls to the
//! removed child fail, and the host's list follows.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use proto_tests::wait::becomes;
use proto_tests::{Home, Shim, TEST_TIMEOUT, bins};
use serde_json::json;

const PACE: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
struct Counted {
    served: u32,
    /// Calls to the child while it was removed.
    refused: u32,
    failed: Vec<String>,
}

/// Calls both children in turn until `stop` is set.
fn call_on(shim: &mut Shim, stop: &AtomicBool, removed: &AtomicBool) -> Counted {
    let mut counted = Counted::default();
    let mut next = Instant::now();
    for turn in 0_u32.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let child = if turn % 2 == 0 { "steady" } else { "moving" };
        let was_removed = removed.load(Ordering::Relaxed);
        let answer = shim.call(child, "echo", r#"{"n": 1}"#);
        let is_removed = was_removed || removed.load(Ordering::Relaxed);
        if answer.contains("\"result\"") && !answer.contains("\"isError\":true") {
            counted.served += 1;
        } else if child == "moving" && is_removed && answer.contains("Unknown tool: moving_suite") {
            counted.refused += 1;
        } else {
            counted.failed.push(answer);
        }
        next += PACE;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    counted
}

fn lists(shim: &mut Shim, name: &str) -> bool {
    shim.request("tools/list", "{}").contains(name)
}

#[test]
fn a_definition_is_changed_removed_and_brought_back_under_load() {
    let rounds: u32 =
        std::env::var("SWITCHBOARD_LIVE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(50);
    let home = Home::new();
    let text = |name: &str, version: &str| {
        json!({"mcpServers": {name: home.entry(&bins().evil_child, &["echo"], &[("VERSION", version)])}})
            .to_string()
    };
    home.definition("steady", &text("steady", "1"));
    let file = home.definition("moving", &text("moving", "0"));
    let daemon = home.daemon();
    let (mut caller, mut watcher) = (home.shim(), home.shim());
    let (stop, removed) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut lags = Vec::new();
    let started = Instant::now();
    let counted = thread::scope(|scope| {
        let calls = scope.spawn(|| call_on(&mut caller, &stop, &removed));
        let mut follows = |what: &str, mut seen: Box<dyn FnMut(&mut Shim) -> bool>| {
            let begin = Instant::now();
            assert!(becomes(TEST_TIMEOUT, || seen(&mut watcher)), "the list did not follow: {what}");
            lags.push(begin.elapsed());
        };
        for round in 1..=rounds {
            let version = round.to_string();
            fs::write(&file, text("moving", &version)).unwrap();
            let expect = format!("\"VERSION\":\"{version}\"");
            follows("changed", Box::new(move |shim| shim.call("moving", "env", "{}").contains(&expect)));
            removed.store(true, Ordering::Relaxed);
            fs::remove_file(&file).unwrap();
            follows("removed", Box::new(|shim| !lists(shim, "moving_suite")));
            fs::write(&file, text("moving", &version)).unwrap();
            follows("back", Box::new(|shim| lists(shim, "moving_suite")));
            removed.store(false, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
        calls.join().unwrap()
    });
    let seconds = started.elapsed().as_secs_f64();
    lags.sort();
    let Counted { served, refused, failed } = counted;
    println!(
        "{rounds} rounds in {seconds:.0} s: {served} calls served ({:.0} a second), {refused} aimed at the removed child, {} failed; the list followed in {:?} (median), {:?} (worst)",
        f64::from(served + refused) / seconds,
        failed.len(),
        lags[lags.len() / 2],
        lags[lags.len() - 1],
    );
    assert_eq!(failed, [""; 0]);
    assert_eq!(daemon.starts("steady"), 1, "a child was restarted that did not change");
    let median = lags[lags.len() / 2];
    assert!(median < Duration::from_secs(1), "the list follows within a second, not {median:?}");
}

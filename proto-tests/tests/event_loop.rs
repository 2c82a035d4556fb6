//! How long the daemon's event loop runs without a pause. The benchmark measures the same with many more
//! children.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::thread;
use std::time::Duration;

use proto_tests::Home;
use serde_json::json;

/// A longer step would be felt by every other session.
const LONGEST_STEP_MS: f64 = 10.0;
const CHILDREN: usize = 40;

#[test]
fn calls_and_reloads_never_hold_up_the_event_loop() {
    let home = Home::new();
    let define = |edition: &str| {
        for number in 0..CHILDREN {
            home.child_with(&format!("c{number}"), &["echo"], &[("EDITION", edition)]);
        }
    };
    define("first");
    let daemon = home.daemon();
    let endpoint = daemon.endpoint();
    let watched = thread::spawn(move || endpoint.post("/control/longest-step", r#"{"waitMs":2000}"#));
    let mut shim = home.shim();
    for number in 0..CHILDREN / 4 {
        shim.call(&format!("c{number}"), "echo", "{}");
    }
    define("second");
    let answer = watched.join().unwrap().json();
    assert!(answer["readings"].as_u64().unwrap() > 100, "{answer}");
    let longest = answer["longestStepMs"].as_f64().unwrap();
    assert!(0.0 < longest && longest <= LONGEST_STEP_MS, "{answer}");
}

#[test]
fn the_loop_is_measured_no_longer_than_asked() {
    let home = Home::new();
    let daemon = home.daemon();
    let answer = daemon.endpoint().post("/control/longest-step", "{}");
    assert_eq!(answer.json(), json!({"longestStepMs": 0.0, "readings": 0}));
    let begin = std::time::Instant::now();
    daemon.endpoint().post("/control/longest-step", r#"{"waitMs":50}"#);
    assert!(begin.elapsed() >= Duration::from_millis(50));
}

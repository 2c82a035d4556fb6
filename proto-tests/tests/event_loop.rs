//! How long the daemon's event loop runs without a pause. The benchmark measures the same with many more
//! children.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::thread;
use std::time::Duration;

use proto_tests::shim::text_of;
use proto_tests::wait::until_true;
use proto_tests::{Home, TEST_TIMEOUT};
use serde_json::json;

/// A longer step would be felt by every other session. The programs of these tests are not optimised; the benchmark holds
/// those that are shipped to 10 ms.
const LONGEST_STEP_MS: f64 = 25.0;
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

/// Searching, listing and guessing what a wrong name means take long for a server with thousands of tools; other threads
/// do it.
#[test]
fn a_search_among_thousands_of_tools_does_not_hold_up_the_event_loop() {
    const TOOLS: usize = 3000;
    let home = Home::new();
    let about = ["invoice", "customer", "shipment", "contract", "calendar", "warehouse", "payment"];
    let tool = |at: usize| {
        let words: Vec<String> =
            (0..30).map(|word| format!("{}{}", about[(at + word) % 7], at * word % 997)).collect();
        json!({
            "name": format!("{}_{at}", about[at % 7]),
            "description": format!("Handles one {}. {}", about[at % 7], words.join(" ")),
            "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        })
    };
    let list = home.path().join("big.tools");
    std::fs::write(&list, json!({"tools": (0..TOOLS).map(tool).collect::<Vec<_>>()}).to_string()).unwrap();
    home.child("big", &["annotated", list.to_str().unwrap()]);
    home.config(&json!({"aggregate": {"find": true}}));
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("big", "invoice_0", r#"{"id":"1"}"#);
    until_true("the manifest", TEST_TIMEOUT, || daemon.suite("big")["subtools"] == TOOLS);
    // What the start has left to do.
    thread::sleep(Duration::from_secs(2));
    let endpoint = daemon.endpoint();
    let watched = thread::spawn(move || endpoint.post("/control/longest-step", r#"{"waitMs":4000}"#));
    for query in ["send the invioce to the custmer", "wharehouse calender shipmnet", "zzzz", "list payments"]
    {
        let ask = json!({"name": "big_suite", "arguments": {"action": "introspect", "query": query}});
        let said = text_of(&shim.request("tools/call", &ask.to_string()));
        assert!(said.contains("Other subtools: "), "{said}");
        let ask = json!({"name": "find", "arguments": {"query": query}});
        assert!(text_of(&shim.request("tools/call", &ask.to_string())).contains("big_suite"));
    }
    let whole =
        text_of(&shim.request("tools/call", r#"{"name":"big_suite","arguments":{"action":"introspect"}}"#));
    assert!(whole.contains("invoice_2996"), "{}", &whole[..500]);
    assert!(shim.call("big", "wharehouse-5", "{}").contains("did you mean `warehouse_5`?"));
    let answer = watched.join().unwrap().json();
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

//! A shim that shows a single child: the child's own names and changes, and a clear error if it does not
//! exist.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proto_tests::wait::until_true;
use proto_tests::{Home, Shim, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

fn home(era: &str) -> Home {
    let home = Home::new();
    define(&home, era);
    home
}

fn define(home: &Home, era: &str) {
    let entry = home.entry(&bins().era_child, &["--era", era], &[]);
    home.definition("era", &json!({"mcpServers": {"era": entry}}).to_string());
}

#[track_caller]
fn ask(shim: &mut Shim, method: &str, params: &Value) -> Value {
    serde_json::from_str(&shim.request(method, &params.to_string())).unwrap()
}

#[track_caller]
fn call(shim: &mut Shim, tool: &str) -> Value {
    ask(shim, "tools/call", &json!({"name": tool, "arguments": {}}))
}

fn has_tool(listed: &Value, name: &str) -> bool {
    listed["result"]["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["name"] == name))
}

#[test]
fn tools_keep_their_names_and_no_suite_is_listed() {
    for era in ["legacy", "modern"] {
        let home = home(era);
        let _daemon = home.daemon();
        let mut shim = home.shim_of("era");
        shim.initialize();
        let listed = ask(&mut shim, "tools/list", &json!({}));
        assert!(has_tool(&listed, "test_simple_text") && !has_tool(&listed, "era_suite"), "{listed}");
        let said = call(&mut shim, "test_simple_text");
        assert_eq!(said["result"]["content"][0]["text"], "This is a simple text response for testing.");
        let prompts = ask(&mut shim, "prompts/list", &json!({}));
        assert!(!prompts["result"]["prompts"].as_array().unwrap().is_empty());
    }
}

#[test]
fn the_host_hears_of_changes_of_this_child_only() {
    let home = home("legacy");
    let _daemon = home.daemon();
    let mut shim = home.shim_of("era");
    shim.initialize();
    call(&mut shim, "test_simple_text");
    home.child("another", &[]);
    until_true("the other child to be there", TEST_TIMEOUT, || {
        let suites = home.command(&["status", "--json"]);
        String::from_utf8_lossy(&suites.stdout).contains("another")
    });
    assert_eq!(shim.take_notifications(), Vec::<String>::new());
    call(&mut shim, "test_trigger_tool_change");
    shim.notification("notifications/tools/list_changed");
}

/// A legacy host subscribes to a resource of a child of either era.
#[test]
fn a_host_can_subscribe_to_the_childs_resources() {
    for era in ["legacy", "modern"] {
        let home = home(era);
        let _daemon = home.daemon();
        let mut shim = home.shim_of("era");
        shim.initialize();
        let watched = json!({"uri": "test://watched-resource"});
        assert_eq!(ask(&mut shim, "resources/subscribe", &watched)["result"], json!({}));
        until_true("the child to be asked for it", TEST_TIMEOUT, || {
            call(&mut shim, "test_report")["result"]["structuredContent"]["watched"] == 1
        });
        call(&mut shim, "test_update_watched_resource");
        assert_eq!(shim.notification("notifications/resources/updated")["params"], watched, "{era}");
        assert_eq!(ask(&mut shim, "resources/unsubscribe", &watched)["result"], json!({}));
        until_true("the child to be told", TEST_TIMEOUT, || {
            call(&mut shim, "test_report")["result"]["structuredContent"]["watched"] == 0
        });
    }
}

/// After a crash, the daemon repeats the subscriptions at the next child.
#[test]
fn subscriptions_survive_a_crash_of_the_child() {
    for era in ["legacy", "modern"] {
        let home = home(era);
        let daemon = home.daemon();
        let mut shim = home.shim_of("era");
        shim.initialize();
        let watched = json!({"uri": "test://watched-resource"});
        ask(&mut shim, "resources/subscribe", &watched);
        for pid in daemon.pids("era") {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        until_true("the next child, which nobody calls", TEST_TIMEOUT, || daemon.starts("era") == 2);
        until_true("the next child to be asked for it", TEST_TIMEOUT, || {
            call(&mut shim, "test_report")["result"]["structuredContent"]["watched"] == 1
        });
        call(&mut shim, "test_update_watched_resource");
        shim.notification("notifications/resources/updated");
    }
}

#[test]
fn a_missing_child_is_named_and_works_once_defined() {
    let home = Home::new();
    let _daemon = home.daemon();
    let mut shim = home.shim_of("era");
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let refused = ask(&mut shim, "initialize", &hello);
    assert!(refused["error"]["message"].as_str().unwrap().contains("`era`"), "{refused}");
    define(&home, "legacy");
    until_true("the child to be there", TEST_TIMEOUT, || {
        ask(&mut shim, "initialize", &hello).get("result").is_some()
    });
    assert!(has_tool(&ask(&mut shim, "tools/list", &json!({})), "test_simple_text"));
}

#[test]
fn the_next_daemon_shows_the_same_child() {
    let home = home("legacy");
    let mut daemon = home.daemon();
    let mut shim = home.shim_of("era");
    shim.initialize();
    call(&mut shim, "test_simple_text");
    daemon.signal(rustix::process::Signal::KILL);
    daemon.ended(TEST_TIMEOUT);
    let _next = home.daemon();
    let listed = ask(&mut shim, "tools/list", &json!({}));
    assert!(has_tool(&listed, "test_simple_text") && !has_tool(&listed, "era_suite"), "{listed}");
}

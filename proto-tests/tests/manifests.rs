//! The daemon caches what each child says about itself: listing a child needs no start, and a damaged cache
//! file causes no error.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use proto_tests::wait::{until, until_true};
use proto_tests::{Home, Shim, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

fn manifests(home: &Home) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(home.state_folder().join("manifests")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Runs the children once, and ends the daemon once it has written their manifests.
fn learn(home: &Home, children: &[&str]) {
    let _daemon = home.daemon();
    let mut shim = home.shim();
    for child in children {
        shim.introspect(child);
    }
    until_true("the manifests", TEST_TIMEOUT, || manifests(home).len() >= children.len());
}

fn names(introspected: &Value) -> Vec<String> {
    let tools = introspected["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// A child whose behaviour, and so its tool list, is read from the returned file at each start.
fn changeable(home: &Home) -> PathBuf {
    let tools = home.write("behaviour", "echo");
    let script = home.write("changeable", "");
    let text = format!("#!/bin/sh\nexec {} $(cat {})\n", bins().evil_child.display(), tools.display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    home.definition("k", &json!({"mcpServers": {"k": home.entry(&script, &[], &[])}}).to_string());
    tools
}

#[test]
fn after_a_restart_known_children_are_listed_without_a_start() {
    let home = Home::new();
    // Their start blocks while this file exists.
    let gate = home.path().join("gate");
    let script = home.write("gated", "");
    let text = format!(
        "#!/bin/sh\nwhile [ -e {} ]; do sleep 0.1; done\nexec {} echo\n",
        gate.display(),
        bins().evil_child.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for child in ["a", "b", "c"] {
        home.definition(child, &json!({"mcpServers": {child: home.entry(&script, &[], &[])}}).to_string());
    }
    learn(&home, &["a", "b"]);
    fs::write(&gate, "").unwrap();
    until_true("the children to go", TEST_TIMEOUT, || home.children().is_empty());

    let daemon = home.daemon();
    let mut shim = home.shim();
    let list = shim.request("tools/list", "{}");
    for suite in ["a_suite", "b_suite", "c_suite"] {
        assert!(list.contains(suite), "{list}");
    }
    let tools = daemon.endpoint().get("/suites/a_suite/tools").json();
    assert_eq!(tools["known"], true, "{tools}");
    assert!(home.children().is_empty(), "a listing starts nothing: {:#?}", home.children());
    assert_eq!((daemon.starts("a"), daemon.starts("b")), (0, 0));

    // `introspect` does not wait for the start.
    let known = shim.introspect("a");
    assert!(names(&known).contains(&"echo".to_owned()), "{known}");
    fs::remove_file(&gate).unwrap();
    // `introspect` starts `a` in the background for the call that is likely to follow; `b` stays cold.
    until_true("the start in the background", TEST_TIMEOUT, || daemon.starts("a") == 1);
    assert!(shim.call("a", "echo", "{}").contains("\"ok\":true"));
    assert_eq!((daemon.starts("a"), daemon.starts("b")), (1, 0));
    assert_eq!(daemon.endpoint().get("/suites/c_suite/tools").json()["known"], false);
}

#[test]
fn schemas_survive_a_restart_byte_for_byte() {
    let home = Home::new();
    home.child("k", &["schema-as-written"]);
    let introspect = |shim: &mut Shim| {
        shim.request("tools/call", r#"{"name":"k_suite","arguments":{"action":"introspect"}}"#)
    };
    let before = {
        let _daemon = home.daemon();
        let mut shim = home.shim();
        let before = introspect(&mut shim);
        until_true("the manifest", TEST_TIMEOUT, || manifests(&home).len() == 1);
        before
    };
    let _daemon = home.daemon();
    assert_eq!(introspect(&mut home.shim()), before);
    assert!(before.contains("123456789012345678901234567890"), "{before}");
}

#[test]
fn a_damaged_manifest_is_rewritten() {
    for damage in ["", "{", "null", "{\"version\":1}", "\u{0}\u{0}\u{0}", "[1,2,3]"] {
        let home = Home::new();
        home.child("k", &["echo"]);
        learn(&home, &["k"]);
        let [file] = manifests(&home).try_into().unwrap();
        let good = fs::read(&file).unwrap();
        fs::write(&file, damage).unwrap();
        let _daemon = home.daemon();
        let mut shim = home.shim();
        assert!(shim.request("tools/list", "{}").contains("k_suite"), "{damage:?}");
        let known = shim.introspect("k");
        assert!(names(&known).contains(&"echo".to_owned()), "{damage:?}: {known}");
        until_true("a good one in its place", TEST_TIMEOUT, || fs::read(&file).is_ok_and(|now| now == good));
    }
}

#[test]
fn an_unreadable_manifest_causes_no_error() {
    let home = Home::new();
    home.child("k", &["echo"]);
    learn(&home, &["k"]);
    let [file] = manifests(&home).try_into().unwrap();
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let _daemon = home.daemon();
    let mut shim = home.shim();
    assert!(names(&shim.introspect("k")).contains(&"echo".to_owned()));
    assert!(shim.call("k", "echo", "{}").contains("\"ok\":true"));
}

#[test]
fn secrets_of_a_definition_are_not_in_its_manifest() {
    let home = Home::new();
    home.child_with("k", &["echo"], &[("TOKEN", "canary-5f1e")]);
    learn(&home, &["k"]);
    for file in manifests(&home) {
        use std::os::unix::fs::PermissionsExt;
        assert!(!fs::read_to_string(&file).unwrap().contains("canary-5f1e"));
        assert!(!file.to_str().unwrap().contains("canary"));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0);
    }
}

#[test]
fn a_list_that_changed_meanwhile_is_updated_at_the_next_start() {
    let home = Home::new();
    let behaviour = changeable(&home);
    learn(&home, &["k"]);
    fs::write(&behaviour, "paged-list 3").unwrap();
    let daemon = home.daemon();
    let mut shim = home.shim();
    let old = names(&shim.introspect("k"));
    assert!(old.contains(&"crash".to_owned()), "as it last said: {old:?}");
    until_true("the new list", TEST_TIMEOUT, || names(&shim.introspect("k")) == ["page-1", "page-2", "echo"]);
    until_true("the new manifest", TEST_TIMEOUT, || {
        manifests(&home).iter().any(|file| fs::read_to_string(file).is_ok_and(|text| text.contains("page-2")))
    });
    assert_eq!(daemon.starts("k"), 1);
    assert!(
        shim.take_notifications().iter().all(|line| !line.contains("list_changed")),
        "nothing that this host sees changed"
    );
}

#[test]
fn a_call_is_checked_against_the_running_child_and_not_its_manifest() {
    let home = Home::new();
    let behaviour = changeable(&home);
    fs::write(&behaviour, "paged-list 3").unwrap();
    learn(&home, &["k"]);
    fs::write(&behaviour, "echo").unwrap();
    let _daemon = home.daemon();
    // `count` is not in the manifest, but the child has it.
    let answer = home.shim().call("k", "count", "{}");
    assert!(answer.contains("\"count\":1"), "{answer}");
}

#[test]
fn list_changed_updates_the_manifest() {
    let home = Home::new();
    home.child("k", &["echo"]);
    {
        let _daemon = home.daemon();
        let mut shim = home.shim();
        assert!(!names(&shim.introspect("k")).contains(&"grown".to_owned()));
        shim.call("k", "change", "{}");
        until_true("the new tool", TEST_TIMEOUT, || {
            names(&shim.introspect("k")).contains(&"grown".to_owned())
        });
        until_true("the new manifest", TEST_TIMEOUT, || {
            manifests(&home)
                .iter()
                .any(|file| fs::read_to_string(file).is_ok_and(|text| text.contains("\"grown\"")))
        });
    }
    let daemon = home.daemon();
    let mut shim = home.shim();
    assert!(names(&shim.introspect("k")).contains(&"grown".to_owned()), "as it last said");
    // The new process lacks the tool, and the daemon notices that, too.
    until("the old list again", TEST_TIMEOUT, || {
        (!names(&shim.introspect("k")).contains(&"grown".to_owned())).then_some(())
    });
    assert_eq!(daemon.starts("k"), 1);
}

#[test]
fn a_changed_list_is_updated_during_a_call_longer_than_the_idle_time() {
    let home = Home::new();
    home.child("k", &["echo"]);
    home.config(&json!({"suites": {"k": {"pool": {"idleMs": 4000}}}}));
    let _daemon = home.daemon();
    let mut shim = home.shim();
    shim.pid_of("k");
    let long = shim.start_call("k", "slow", r#"{"ms":9000}"#);
    let begin = Instant::now();
    until_true("its idle time to pass", TEST_TIMEOUT, || begin.elapsed() > Duration::from_millis(4500));
    shim.call("k", "change", "{}");
    let changed = Instant::now();
    until_true("the new manifest", TEST_TIMEOUT, || {
        manifests(&home)
            .iter()
            .any(|file| fs::read_to_string(file).is_ok_and(|text| text.contains("\"grown\"")))
    });
    let took = changed.elapsed();
    assert!(took < Duration::from_millis(2500), "it waited for the next look at its idleness: {took:?}");
    shim.answer_to(&long.to_string());
}

#[test]
fn a_new_description_keeps_the_manifest_and_a_new_command_gets_its_own() {
    let home = Home::new();
    home.child("k", &["slow-initialize", "2500"]);
    learn(&home, &["k"]);
    let [file] = manifests(&home).try_into().unwrap();
    let definition = home.config_folder().join("mcps/k/.mcp.json");
    let text = fs::read_to_string(&definition).unwrap();
    fs::write(&definition, text.replace("things that k does", "other words")).unwrap();
    let daemon = home.daemon();
    let mut shim = home.shim();
    let asked = Instant::now();
    shim.introspect("k");
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    assert!(shim.request("tools/list", "{}").contains("other words"));

    home.child_with("k", &["slow-initialize", "2500"], &[("OTHER", "1")]);
    home.run_ok(&["reload"]);
    assert_eq!(daemon.endpoint().get("/suites/k_suite/tools").json()["known"], false);
    shim.introspect("k");
    until_true("a manifest more", TEST_TIMEOUT, || manifests(&home).len() == 2);
    assert!(file.exists());
}

#[test]
fn a_dry_run_waits_for_slow_lists_and_writes_the_manifest() {
    let home = Home::new();
    home.child("k", &["prompts-slow", "1500"]);
    home.run_ok(&["--dry-run"]);
    assert_eq!(manifests(&home).len(), 1);
    let _daemon = home.daemon();
    let suites = String::from_utf8(home.command(&["ls", "--json"]).stdout).unwrap();
    let suites: Value = serde_json::from_str(&suites).unwrap();
    assert!(suites["suites"][0]["subtools"].as_u64().is_some_and(|count| count > 1), "{suites}");
}

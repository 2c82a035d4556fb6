//! Definitions and config: what is found, in which shapes, and what is said of what is wrong.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proto_tests::wait::until_true;
use proto_tests::{Daemon, Home, PATIENCE, bins};
use serde_json::{Value, json};

fn suites(home: &Home) -> Vec<String> {
    let answer: Value = serde_json::from_str(&home.shim().request("tools/list", "{}")).unwrap();
    let tools = answer["result"]["tools"].as_array().unwrap();
    let mut names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn without_any_file_there_are_defaults() {
    let home = Home::new();
    std::fs::remove_dir_all(home.config_folder()).unwrap();
    let _daemon = home.daemon();
    assert_eq!(suites(&home), Vec::<String>::new());
}

#[test]
fn both_shapes_are_read_with_comments_and_trailing_commas() {
    let home = Home::new();
    let entry = home.entry(&bins().evil_child, &["echo"], &[]);
    let one = json!({"cmd": entry["command"], "args": entry["args"], "env": entry["env"]});
    home.definition("one", &format!(r#"{{"name": "one", /* how */ "command": {one},}}"#));
    home.definition("two", &format!("{{\n  // a comment\n  \"mcpServers\": {{\"two\": {entry},}},\n}}\n"));
    home.definition("bom", &format!("\u{feff}{}", json!({"mcpServers": {"three": entry}})));
    let _daemon = home.daemon();
    let names = ["one", "two", "three"];
    let mut shim = home.shim();
    for name in names {
        let answer = shim.call(name, "echo", "{}");
        assert!(answer.contains("\"ok\":true"), "{name}: {answer}");
    }
    assert_eq!(suites(&home).len(), names.len());
}

#[test]
fn a_bad_file_is_reported_and_its_neighbours_work() {
    let home = Home::new();
    home.child("good", &["echo"]);
    home.definition("broken", "{\n  \"name\": \"broken\",\n  \"command\": {,}\n}");
    home.definition("twice", r#"{"name":"twice","name":"thrice","command":{"cmd":"true","args":[]}}"#);
    home.definition("empty", "");
    home.definition("number", "7");
    let entry = home.entry(&bins().evil_child, &["echo"], &[]);
    home.definition(
        "mixed",
        &json!({"mcpServers": {"bad": {"command": 7}, "worse": [], "fine": entry}}).to_string(),
    );
    std::fs::create_dir_all(home.config_folder().join("mcps/folder/.mcp.json")).unwrap();
    let daemon = home.daemon();
    let names = suites(&home);
    for name in ["good_suite", "fine_suite"] {
        assert!(names.iter().any(|known| known == name), "{name} is missing in {names:?}");
    }
    let mut shim = home.shim();
    assert!(shim.call("good", "echo", "{}").contains("\"ok\":true"));
    assert!(shim.call("fine", "echo", "{}").contains("\"ok\":true"));
    let log = daemon.log();
    for said in ["broken/.mcp.json:3:", "twice/.mcp.json", "empty/.mcp.json", "mixed/.mcp.json"] {
        assert!(log.contains(said), "{said} is missing in {log}");
    }
}

#[test]
fn globs_say_where_definitions_are() {
    let home = Home::new();
    home.child("usual", &["echo"]);
    let entry = home.entry(&bins().evil_child, &["echo"], &[]);
    home.write(".config/switchboard/a/b/x.json", &json!({"mcpServers": {"deep": entry}}).to_string());
    home.write(".config/switchboard/a/b/y.txt", &json!({"mcpServers": {"other": entry}}).to_string());
    home.config(&json!({"discoverGlobs": ["a/**/*.json"]}));
    let _daemon = home.daemon();
    assert_eq!(suites(&home), ["deep_suite"]);
}

/// A daemon that does not start says why, with the place and the key.
#[track_caller]
fn refused(config: &str, says: &[&str]) {
    let home = Home::new();
    home.write(".config/switchboard/switchboard.config.json", config);
    let mut daemon = Daemon::spawn(&home, &["--listen", "off"]);
    let status = daemon.ended(PATIENCE);
    assert!(!status.success(), "{config} was accepted");
    let log = daemon.log();
    for word in says {
        assert!(log.contains(word), "{word:?} is missing in {log}");
    }
}

#[test]
fn a_wrong_config_is_refused_with_its_place_and_the_nearest_key() {
    refused("{\n  \"suitez\": {}\n}", &["switchboard.config.json:2:3", "suitez", "`suites`"]);
    refused("{\n  \"timeouts\": {\"rpcMS\": 5}\n}", &["switchboard.config.json:2:", "rpcMS", "`rpcMs`"]);
    refused("{\"timeouts\": {\"rpcMs\": \"soon\"}}", &["switchboard.config.json:1:", "rpcMs"]);
    refused("{\"suites\": {\"x\": {\"expose\": {\"alow\": []}}}}", &["alow", "`allow`"]);
    refused("{\"introspection\": {\"mode\": \"loud\"}}", &["introspection.mode", "summary"]);
    refused("{\n\n  nonsense\n}", &["switchboard.config.json:3:"]);
    refused("[]", &["switchboard.config.json:1:1"]);
}

#[test]
fn two_suites_cannot_have_one_name() {
    let home = Home::new();
    home.child("a", &["echo"]);
    home.child("b", &["echo"]);
    home.config(&json!({"suites": {"a": {"suiteName": "same"}, "b": {"suiteName": "same"}}}));
    let mut daemon = Daemon::spawn(&home, &["--listen", "off"]);
    // Whether it refuses to start or only to rename: both are never shown under one name.
    until_true("an end or a word", PATIENCE, || daemon.log().contains("same"));
    daemon.signal(rustix::process::Signal::TERM);
    daemon.ended(PATIENCE);
}

#[test]
fn a_config_that_is_a_program_is_refused_with_a_sentence() {
    for name in ["switchboard.config.js", "switchboard.config.cjs", "switchboard.config.mjs"] {
        let home = Home::new();
        std::fs::remove_file(home.config_folder().join("switchboard.config.json")).unwrap();
        home.write(&format!(".config/switchboard/{name}"), "module.exports = {}");
        let daemon = Daemon::spawn(&home, &["--listen", "off"]);
        until_true("a sentence about it", PATIENCE, || daemon.log().contains(name));
    }
}

#[test]
fn a_config_named_on_the_command_line_is_the_one() {
    let home = Home::new();
    let entry = home.entry(&bins().evil_child, &["echo"], &[]);
    home.child("usual", &["echo"]);
    home.write("elsewhere/kids/k/.mcp.json", &json!({"mcpServers": {"there": entry}}).to_string());
    let config = home.write(
        "elsewhere/switchboard.config.json",
        &json!({"$schema": "../any.json", "discoverGlobs": ["kids/*/.mcp.json"]}).to_string(),
    );
    let _daemon = Daemon::start(&home, &["--listen", "off", "--config", config.to_str().unwrap()]);
    assert_eq!(suites(&home), ["there_suite"]);
}

#[test]
fn the_examples_are_read() {
    let home = Home::new();
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/switchboard.config.json");
    let _daemon = Daemon::start(&home, &["--listen", "off", "--config", config]);
    assert!(suites(&home).contains(&"mock_suite".to_owned()), "{:?}", suites(&home));
    let playwright = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/playwright/switchboard.config.json");
    let home = Home::new();
    let _daemon = Daemon::start(&home, &["--listen", "off", "--config", playwright]);
    assert_eq!(suites(&home), ["browser"]);
}

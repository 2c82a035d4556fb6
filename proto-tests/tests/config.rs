//! Definitions and config: which files are found, in which formats, and how mistakes are reported.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use proto_tests::shim::kind_of;
use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, Shim, TEST_TIMEOUT, bins};
use serde_json::{Value, json};

fn suites(home: &Home) -> Vec<String> {
    let answer: Value = serde_json::from_str(&home.shim().request("tools/list", "{}")).unwrap();
    let tools = answer["result"]["tools"].as_array().unwrap();
    let mut names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn defaults_apply_without_any_file() {
    let home = Home::new();
    std::fs::remove_dir_all(home.config_folder()).unwrap();
    let _daemon = home.daemon();
    assert_eq!(suites(&home), Vec::<String>::new());
}

#[test]
fn both_formats_allow_comments_and_trailing_commas() {
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
fn a_bad_file_is_reported_and_the_others_work() {
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
fn globs_select_the_definition_files() {
    let home = Home::new();
    home.child("usual", &["echo"]);
    let entry = home.entry(&bins().evil_child, &["echo"], &[]);
    home.write(".config/switchboard/a/b/x.json", &json!({"mcpServers": {"deep": entry}}).to_string());
    home.write(".config/switchboard/a/b/y.txt", &json!({"mcpServers": {"other": entry}}).to_string());
    home.config(&json!({"discoverGlobs": ["a/**/*.json"]}));
    let _daemon = home.daemon();
    assert_eq!(suites(&home), ["deep_suite"]);
}

const CONFIG: &str = ".config/switchboard/switchboard.config.json";

/// The daemon starts and serves in spite of the mistake; the log, `status` and `doctor` report its position
/// and key.
#[track_caller]
fn complains(config: &str, says: &[&str]) {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.write(CONFIG, config);
    let daemon = home.daemon();
    assert_eq!(suites(&home), ["kid_suite"], "{config}");
    let status = daemon.status()["problems"].to_string();
    let shown = home.command(&["status"]);
    let doctor = home.command(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    let told = |output: &std::process::Output| {
        let text = [&output.stdout[..], &output.stderr].concat();
        String::from_utf8_lossy(&text).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for word in says.iter().chain(&["until this is fixed, "]) {
        for text in [daemon.log(), status.replace("\\\"", "\""), told(&shown), told(&doctor)] {
            assert!(text.contains(word), "{word:?} is missing in {text}");
        }
    }
    let file = home.path().join(CONFIG);
    let check = home.command(&["check", file.to_str().unwrap()]);
    assert_eq!(check.status.code(), Some(1), "{check:?}");
    assert!(told(&check).contains("switchboard.config.json:"), "{check:?}");
}

#[test]
fn a_config_mistake_is_reported_with_its_position_and_the_nearest_key() {
    complains("{\n  \"suitez\": {}\n}", &["switchboard.config.json:2:3", "suitez", "`suites`"]);
    complains("{\n  \"timeouts\": {\"rpcMS\": 5}\n}", &["switchboard.config.json:2:", "rpcMS", "`rpcMs`"]);
    complains("{\"timeouts\": {\"rpcMs\": \"soon\"}}", &["switchboard.config.json:1:", "rpcMs"]);
    complains("{\"introspection\": {\"mode\": \"loud\"}}", &["introspection.mode"]);
    complains("{\n\n  nonsense\n}", &["switchboard.config.json:3:"]);
    complains("[]", &["switchboard.config.json:1:1"]);
}

#[test]
fn a_config_mistake_disables_only_its_suite_and_reveals_no_hidden_tool() {
    let home = Home::new();
    for child in ["fine", "typo", "hidden", "level"] {
        home.child(child, &["echo"]);
    }
    let settings = json!({
        "http": {"listen": "off"},
        "nonsense": 1,
        "timeouts": {"rpcMs": "soon"},
        "suites": {
            "fine": {"suiteName": "chosen", "timeouts": {"rcpMs": 5}, "expose": {"deny": ["count"]}},
            "typo": {"expose": {"deyn": ["count"]}},
            "hidden": {"expsoe": {"allow": ["echo"]}},
            "level": {"deny": ["count"]},
        },
    });
    home.write(CONFIG, &settings.to_string());
    // The daemon is started by a shim, as it is for an editor.
    let mut shim = home.shim();
    let names: Vec<_> = shim.tools().into_keys().collect();
    assert_eq!(names, ["chosen", "hidden_suite", "level_suite", "typo_suite"]);
    let call = |shim: &mut Shim, suite: &str, tool: &str| {
        let arguments = json!({"action": "call", "subtool": tool, "args": {}});
        shim.request("tools/call", &json!({"name": suite, "arguments": arguments}).to_string())
    };
    assert!(call(&mut shim, "chosen", "echo").contains("\"ok\":true"));
    assert!(call(&mut shim, "chosen", "count").contains("not allowed"));
    for suite in ["typo_suite", "hidden_suite", "level_suite"] {
        for tool in ["echo", "count"] {
            let answer = call(&mut shim, suite, tool);
            assert_eq!(kind_of(&answer).as_deref(), Some("misconfigured"), "{answer}");
            assert!(answer.contains("switchboard.config.json:1:"), "{answer}");
            assert!(answer.contains("switchboard.config.json`") && !answer.contains(".mcp.json"), "{answer}");
        }
    }
    let doctor = home.command(&["doctor", "--json"]);
    let doctor: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    assert!(doctor.to_string().contains("server `typo` is misconfigured"), "{doctor}");
    assert!(!doctor.to_string().contains("mcps/typo/.mcp.json"), "{doctor}");
    // Once the config is valid, the host is notified and everything works again.
    let mut settings = settings;
    settings.as_object_mut().unwrap().remove("nonsense");
    settings["timeouts"] = json!({});
    settings["suites"] = json!({"typo": {"expose": {"deny": ["count"]}, "suiteName": "other"}});
    home.write(CONFIG, &settings.to_string());
    shim.notification("notifications/tools/list_changed");
    until_true("the new list", TEST_TIMEOUT, || shim.tools().contains_key("other"));
    assert!(call(&mut shim, "hidden_suite", "count").contains("\"count\""));
    assert!(call(&mut shim, "other", "count").contains("not allowed"));
    let status: Value = serde_json::from_slice(&home.command(&["status", "--json"]).stdout).unwrap();
    assert_eq!(status["problems"], json!([]), "{status}");
    drop(shim);
    home.kill_daemons();
}

#[test]
fn the_last_config_without_a_mistake_is_used_by_the_next_daemon() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.config(&json!({"suites": {"kid": {"suiteName": "chosen", "expose": {"deny": ["count"]}}}}));
    let mut daemon = home.daemon();
    assert_eq!(suites(&home), ["chosen"]);
    daemon.signal(rustix::process::Signal::TERM);
    daemon.ended(TEST_TIMEOUT);
    for broken in [r#"{"suite": {}}"#, "{", r#"{"suites": {"kid": {"expose": {"deyn": ["x"]}}}}"#] {
        home.write(CONFIG, broken);
        let daemon = home.daemon();
        let mut shim = home.shim();
        assert_eq!(shim.tools().into_keys().collect::<Vec<_>>(), ["chosen"], "{broken}");
        let params = r#"{"name":"chosen","arguments":{"action":"call","subtool":"count","args":{}}}"#;
        assert!(shim.request("tools/call", params).contains("not allowed"), "{broken}");
        let problems = daemon.status()["problems"].to_string();
        assert!(problems.contains("the last version of the file without a mistake is used"), "{problems}");
        assert!(daemon.log().contains("switchboard.config.json:1:"), "{}", daemon.log());
    }
    // The same holds for a workspace's config.
    home.config(&json!({}));
    let project = home.project("work");
    project.child("theirs", &[]);
    project.config(&json!({"suites": {"theirs": {"suiteName": "ours"}}}));
    for config in [None, Some("{")] {
        if let Some(broken) = config {
            project.write("switchboard.config.json", broken);
        }
        let daemon = DaemonProcess::start(&home, &["--listen", "off", "--trust-root", home.mark()]);
        let tools = project.shim().tools();
        assert!(tools.contains_key("ours"), "{tools:?}");
        until_true("both to be kept", TEST_TIMEOUT, || {
            std::fs::read_dir(home.state_folder().join("configs")).unwrap().count() == 2
        });
        drop(daemon);
    }
}

#[test]
fn two_suites_cannot_have_one_name() {
    let home = Home::new();
    home.child("a", &["echo"]);
    home.child("b", &["echo"]);
    home.config(&json!({"suites": {"a": {"suiteName": "same"}, "b": {"suiteName": "same"}}}));
    let daemon = home.daemon();
    assert_eq!(suites(&home), ["b_suite", "same"]);
    assert!(daemon.log().contains("two suites are named `same`"), "{}", daemon.log());
}

#[test]
fn a_javascript_config_is_refused_with_an_explanation() {
    for name in ["switchboard.config.js", "switchboard.config.cjs", "switchboard.config.mjs"] {
        let home = Home::new();
        std::fs::remove_file(home.config_folder().join("switchboard.config.json")).unwrap();
        home.child("kid", &["echo"]);
        let program = home.write(&format!(".config/switchboard/{name}"), "module.exports = {}");
        let daemon = DaemonProcess::spawn(&home, &["--listen", "off"]).serving();
        until_true("a sentence about it", TEST_TIMEOUT, || daemon.log().contains(name));
        // The messages name that file, since there is no other.
        let mut shim = home.shim();
        let told = [
            shim.call("kid", "echo", "{}"),
            String::from_utf8(home.command(&["explain", "kid"]).stderr).unwrap(),
            String::from_utf8(home.command(&["doctor", "--json"]).stdout).unwrap(),
        ];
        for told in told {
            assert!(told.contains(program.to_str().unwrap()), "{told}");
            assert!(!told.contains("/switchboard.config.json"), "{told}");
        }
        std::fs::remove_file(program).unwrap();
        home.run_ok(&["reload"]);
        shim.pid_of("kid");
    }
}

#[test]
fn a_config_given_on_the_command_line_is_used() {
    let home = Home::new();
    let entry = home.entry(&bins().evil_child, &["echo"], &[]);
    home.child("usual", &["echo"]);
    home.write("elsewhere/kids/k/.mcp.json", &json!({"mcpServers": {"there": entry}}).to_string());
    let config = home.write(
        "elsewhere/switchboard.config.json",
        &json!({"$schema": "../any.json", "discoverGlobs": ["kids/*/.mcp.json"]}).to_string(),
    );
    let _daemon = DaemonProcess::start(&home, &["--listen", "off", "--config", config.to_str().unwrap()]);
    assert_eq!(suites(&home), ["there_suite"]);
}

#[test]
fn the_examples_are_read() {
    let home = Home::new();
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/switchboard.config.json");
    let _daemon = DaemonProcess::start(&home, &["--listen", "off", "--config", config]);
    assert!(suites(&home).contains(&"mock_suite".to_owned()), "{:?}", suites(&home));
    let playwright = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/playwright/switchboard.config.json");
    let home = Home::new();
    let _daemon = DaemonProcess::start(&home, &["--listen", "off", "--config", playwright]);
    assert_eq!(suites(&home), ["browser"]);
}

//! What users type and read back: names of commands in other programs, mistakes that a message puts right, names without
//! `_suite`, one row for each variable.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::process::{Command, Output, Stdio};

use proto_tests::{Home, bins};
use serde_json::Value;

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn each_program_says_its_own_name_version_and_help() {
    let home = Home::new();
    for (program, name) in [(&bins().switchboardd, "switchboardd"), (&bins().switchboard, "switchboard")] {
        let said = Command::new(program).arg("--version").output().unwrap();
        assert_eq!(out(&said), format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
    }
    let said = Command::new(&bins().switchboardd).arg("--help").envs(home.environment()).output().unwrap();
    let text = out(&said);
    assert!(said.status.success() && text.contains("Usage: switchboardd"), "{said:?}");
    assert!(text.contains("--listen") && !text.contains("introspect"), "{text}");
    let text = out(&home.command(&["--help"]));
    assert!(text.contains("[--socket PATH] [--config FILE]"), "{text}");
    // Without the other programs beside it, too.
    let alone = tempfile::tempdir().unwrap();
    let copy = alone.path().join("switchboard");
    assert!(Command::new("cp").arg(&bins().switchboard).arg(&copy).status().unwrap().success());
    let said = Command::new(&copy).arg("--version").env("PATH", "/nowhere").output().unwrap();
    assert_eq!(out(&said), format!("switchboard {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn commands_of_other_programs_are_named_as_they_are_here() {
    let home = Home::new();
    for (typed, ours) in
        [("ps", "switchboard status"), ("servers", "switchboard ls"), ("version", "switchboard --version")]
    {
        let output = home.command(&[typed]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(err(&output).contains(&format!("`{ours}`")), "{output:?}");
    }
}

#[test]
fn a_shim_whose_host_says_nothing_starts_no_daemon() {
    let home = Home::new();
    let output = home.command(&[]);
    assert!(output.status.success(), "{output:?}");
    assert!(home.daemons().is_empty() && !home.socket().exists());
    assert_eq!(err(&output), "");
}

#[test]
fn a_shim_starts_the_daemon_when_its_host_says_something_late() {
    let home = Home::new();
    let mut shim = home.raw_shim();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(home.daemons().is_empty());
    shim.initialize();
    assert_eq!(home.daemons().len(), 1);
}

#[test]
fn a_name_that_nobody_would_type_is_refused_with_one_that_will_do() {
    let home = Home::new();
    let output = home.command(&["add", "bad name", "--no-start", "--", "true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("`bad-name` would do"), "{output:?}");
    assert!(!home.config_folder().join("mcps/bad name").exists());
}

#[test]
fn a_definition_is_written_as_people_write_them() {
    let home = Home::new();
    home.run_ok(&["add", "kid", "--no-start", "--env", "A=1", "--", "true", "x"]);
    let text = fs::read_to_string(home.config_folder().join("mcps/kid/.mcp.json")).unwrap();
    let places: Vec<usize> = ["\"name\"", "\"command\"", "\"cmd\"", "\"args\"", "\"env\""]
        .iter()
        .map(|key| text.find(key).unwrap_or_else(|| panic!("{key}: {text}")))
        .collect();
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn each_variable_has_one_row_and_shows_its_placeholders_as_written() {
    let home = Home::new();
    home.child_with("kid", &["echo"], &[("KEY", "${input:the-key}"), ("PLAIN", "plain-secret-value")]);
    let remote = r#"{"name": "far", "type": "http", "url": "https://far.example.com/mcp", "headers": {"Authorization": "Bearer ${FAR_TOKEN}"}}"#;
    home.definition("far", remote);
    let text = out(&home.command(&["explain", "kid"]));
    let rows = |name: &str| text.lines().filter(|line| line.contains(name)).count();
    assert!(text.contains("sets      KEY=${input:the-key}  (the-key is not set"), "{text}");
    assert!(text.contains("PLAIN=•••") && rows("PLAIN") == 1 && rows("KEY=") == 1, "{text}");
    let text = out(&home.command(&["explain", "far"]));
    assert!(
        text.contains("header    authorization: Bearer ${FAR_TOKEN}")
            || text.contains("header    Authorization: Bearer ${FAR_TOKEN}"),
        "{text}"
    );
    assert_eq!(text.matches("is not set").count(), 1, "{text}");
}

#[test]
fn the_first_start_through_a_package_runner_has_its_own_limit() {
    let home = Home::new();
    home.definition("npm", r#"{"name": "npm", "command": {"cmd": "npx", "args": ["-y", "nothing@1"]}}"#);
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    assert!(out(&home.command(&["explain", "npm"])).contains("start 2 min"));
    assert!(out(&home.command(&["explain", "kid"])).contains("start 8 s, silence 60 s, whole call 30 min"));
}

#[test]
fn a_denied_server_is_named_as_such_when_it_is_called() {
    let home = Home::new();
    let project = home.project("work");
    project.child("notes", &["echo"]);
    let _daemon = home.daemon();
    project.allow();
    let run = |args: &[&str]| {
        Command::new(&bins().switchboard)
            .args(args)
            .env_clear()
            .envs(home.environment())
            .env("SWITCHBOARD_SOCKET", home.socket())
            .current_dir(project.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    assert!(run(&["deny", "notes"]).status.success());
    for command in [&["call", "notes", "echo"][..], &["introspect", "notes"]] {
        let output = run(command);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(err(&output).contains("you denied server `notes`"), "{output:?}");
    }
}

#[test]
fn people_see_servers_by_their_own_names() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let dry = out(&home.command(&["--dry-run"]));
    assert!(dry.lines().any(|line| line.starts_with("kid  (")) && !dry.contains("kid_suite"), "{dry}");
    let _daemon = home.daemon();
    let one = out(&home.command(&["introspect", "kid", "strict"]));
    assert!(one.trim_end().ends_with("switchboard call kid strict 'need=…'"), "{one}");
    home.run_ok(&["call", "kid", "echo"]);
    let ls = out(&home.command(&["ls"]));
    assert!(ls.contains("kid") && !ls.contains("kid_suite"), "{ls}");
    let calls = out(&home.command(&["calls"]));
    assert!(calls.contains("  kid ") && !calls.contains("kid_suite"), "{calls}");
    // Programs still get both.
    let calls: Value = serde_json::from_slice(&home.command(&["calls", "--json"]).stdout).unwrap();
    assert_eq!(calls["calls"][0]["suite"], "kid_suite", "{calls}");
}

#[test]
fn a_value_that_begins_with_an_at_sign_says_how_to_send_it() {
    let home = Home::new();
    let output = home.command(&["call", "kid", "echo", "to=@ada"]);
    assert_eq!(output.status.code(), Some(2));
    let text = err(&output);
    assert!(text.contains("`to=@ada` reads a file") && text.contains(r#"write 'to:="@ada"'"#), "{text}");
}

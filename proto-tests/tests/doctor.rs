//! `switchboard doctor`: it finds each problem, and the command that it suggests fixes it.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, TEST_TIMEOUT, bins};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// All findings, and the exit code.
fn examined(home: &Home) -> (Vec<Value>, Option<i32>) {
    let output = home.command(&["doctor", "--json"]);
    let told: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(told["ok"] == true, output.status.success(), "{told}");
    (told["findings"].as_array().unwrap().clone(), output.status.code())
}

/// Expects a finding with this subject, severity and text, and returns the command that fixes it.
#[track_caller]
fn found(home: &Home, about: &str, severity: &str, part: &str) -> String {
    let (findings, code) = examined(home);
    let is_it = |finding: &&Value| {
        finding["about"] == about
            && finding["severity"] == severity
            && finding["what"].as_str().unwrap().contains(part)
    };
    let finding = findings.iter().find(is_it).unwrap_or_else(|| panic!("no {about} {part:?}: {findings:#?}"));
    if severity == "error" {
        assert_eq!(code, Some(1), "{findings:#?}");
    }
    finding["mend"].as_str().unwrap().to_owned()
}

#[track_caller]
fn healed(home: &Home, about: &str, part: &str) {
    let (findings, _) = examined(home);
    let still = findings.iter().find(|finding| {
        finding["about"] == about
            && finding["severity"] != "ok"
            && finding["what"].as_str().unwrap().contains(part)
    });
    assert!(still.is_none(), "{still:#?}");
}

/// Runs the suggested command in a shell that has our programs on its PATH.
#[track_caller]
fn typed(home: &Home, mend: &str) {
    let folder = bins().switchboard.parent().unwrap();
    let output = Command::new("sh")
        .args(["-c", mend])
        .env_clear()
        .envs(home.environment())
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display()))
        .env("SWITCHBOARD_SOCKET", home.socket())
        .current_dir(home.workspace())
        .output()
        .unwrap();
    assert!(output.status.success(), "{mend}: {output:?}");
}

fn mode(path: &Path, mode: u32) {
    set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A home with our own programs on the PATH and one working server.
fn healthy() -> Home {
    let home = Home::new();
    let folder = bins().switchboard.parent().unwrap();
    home.write(".profile", &format!("export PATH={}:/usr/local/bin:/usr/bin:/bin\n", folder.display()));
    home.child("kid", &["echo"]);
    home
}

#[test]
fn a_healthy_home_is_fine_with_and_without_a_daemon() {
    let home = healthy();
    for _ in 0..2 {
        let (findings, code) = examined(&home);
        assert_eq!(code, Some(0), "{findings:#?}");
        let wrong: Vec<_> = findings
            .iter()
            // inotify limits belong to the machine, so they are not tested here.
            .filter(|finding| finding["severity"] != "ok" && finding["about"] != "inotify")
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(findings.iter().any(|finding| finding["about"] == "path"), "{findings:#?}");
        home.run_ok(&["start"]);
    }
    let text = String::from_utf8(home.command(&["doctor"]).stdout).unwrap();
    assert!(
        text.contains('✓')
            && text.contains("switchboardd")
            && text.contains("no docker") | text.contains("docker is"),
        "{text}"
    );
}

#[test]
fn settings_for_a_server_that_is_not_there_are_named() {
    let home = healthy();
    home.config(&json!({"suites": {"kid": {"validate": false}}}));
    let config = home.config_folder().join("switchboard.config.json");
    let (findings, _) = examined(&home);
    assert!(findings.iter().all(|finding| finding["about"] != "config" || finding["severity"] == "ok"));
    for (key, said) in [
        ("kid_suite", "suites.kid_suite: no server of this name; did you mean `kid`?"),
        ("Kidd", "suites.Kidd: no server of this name; did you mean `kid`?"),
        ("github", "suites.github: no server of this name"),
    ] {
        home.config(&json!({"suites": {key: {"validate": false}}}));
        let mend = found(&home, "config", "warning", said);
        assert!(mend.contains("EDITOR"), "{mend}");
        let (findings, code) = examined(&home);
        assert_eq!(code, Some(0), "{findings:#?}");
        let is_fine = |finding: &Value| finding["about"] == "config" && finding["severity"] == "ok";
        assert!(!findings.iter().any(is_fine), "{findings:#?}");
        let output = home.command(&["check", config.to_str().unwrap()]);
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && told.contains("note: ") && told.contains(said), "{told}");
    }
    // A project's config refers to the project's own servers.
    home.config(&json!({}));
    let workspace = home.workspace();
    let project = home.project(workspace.file_name().unwrap().to_str().unwrap());
    project.config(&json!({"suites": {"w_suite": {"validate": false}}}));
    project.child("w", &[]);
    found(&home, "config", "warning", "suites.w_suite: no server of this name; did you mean `w`?");
    project.config(&json!({"suites": {"w": {"validate": false}}}));
    healed(&home, "config", "no server of this name");
}

#[test]
fn permissions_of_open_folders_and_files_are_fixed() {
    let home = healthy();
    home.run_ok(&["start"]);
    let state = home.state_folder();
    for (path, open) in [(state.clone(), 0o755), (state.join("token"), 0o644), (home.socket(), 0o666)] {
        mode(&path, open);
        let part = path.file_name().unwrap().to_str().unwrap();
        let part = if part == "s" { "/s is open".to_owned() } else { format!("{part} is open") };
        let mend = found(&home, "modes", "error", &part);
        assert!(mend.starts_with("chmod "), "{mend}");
        typed(&home, &mend);
        healed(&home, "modes", &part);
    }
}

#[test]
fn a_killed_stopped_or_hung_daemon_is_reported() {
    let home = healthy();
    home.run_ok(&["start"]);
    home.run_ok(&["call", "kid", "echo"]);
    home.kill_daemons();
    let mend = found(&home, "daemon", "warning", "killed, or crashed");
    typed(&home, &mend);
    healed(&home, "daemon", "");
    home.run_ok(&["stop"]);
    let mend = found(&home, "daemon", "warning", "was stopped");
    typed(&home, &mend);
    healed(&home, "daemon", "");
    // A daemon that runs, but cannot be reached.
    let pid = home.daemons()[0].pid;
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    std::fs::remove_file(home.socket()).unwrap();
    let mend = found(&home, "daemon", "error", "does not answer");
    assert!(mend.contains(&pid.to_string()), "{mend}");
    kill_process(Pid::from_raw(pid).unwrap(), Signal::CONT).unwrap();
    until_true("it to go", TEST_TIMEOUT, || home.daemons().is_empty());
}

#[test]
fn problems_in_definitions_are_found() {
    let home = healthy();
    home.definition(
        "loose",
        &json!({"name": "loose", "command": {"cmd": "npx", "args": ["-y", "some-server"]}}).to_string(),
    );
    assert_eq!(found(&home, "unpinned", "warning", "`some-server`"), "switchboard pin loose");
    home.definition(
        "loose",
        &json!({"name": "loose", "command": {"cmd": "/nonexistent/server"}}).to_string(),
    );
    found(&home, "program", "error", "`loose`");
    let file = home.definition(
        "loose",
        &json!({"name": "loose", "command": {"cmd": "sh", "env": {"API_TOKEN": "0123456789abcdef"}}})
            .to_string(),
    );
    mode(&file, 0o644);
    let mend = found(&home, "secret", "error", "others can read it");
    typed(&home, &mend);
    healed(&home, "secret", "others can read it");
    let mend = found(&home, "secret", "warning", "`API_TOKEN` is written in");
    assert!(mend.starts_with("switchboard secret set API_TOKEN"), "{mend}");
    let (findings, _) = examined(&home);
    assert!(!json!(findings).to_string().contains("0123456789abcdef"));
    home.definition(
        "loose",
        &json!({"name": "loose", "command": {"cmd": "sh", "env": {"A": "${NOWHERE_SET}"}}}).to_string(),
    );
    let mend = found(&home, "value", "error", "`NOWHERE_SET`");
    typed(&home, &format!("echo value | {mend}"));
    healed(&home, "value", "NOWHERE_SET");
    home.definition("loose", "{");
    let mend = found(&home, "definition", "warning", "loose/.mcp.json");
    assert!(mend.starts_with("switchboard check "), "{mend}");
}

#[test]
fn a_held_server_is_named_with_the_command_that_allows_it() {
    let home = healthy();
    let project = home.project("work");
    project.child("notes", &[]);
    assert_eq!(found(&home, "held", "warning", "`notes`"), "switchboard allow notes");
    project.allow();
    healed(&home, "held", "notes");
}

#[test]
fn a_host_that_starts_its_own_servers_is_reported_with_a_fix() {
    let home = healthy();
    home.write(".cursor/mcp.json", r#"{"mcpServers": {"own": {"command": "sh", "args": ["-c", "true"]}}}"#);
    let mend = found(&home, "host", "warning", "Cursor still starts own itself");
    assert!(mend.contains("--host cursor"), "{mend}");
    let mend = found(&home, "host", "warning", "Cursor does not start Switchboard");
    assert_eq!(mend, "switchboard setup --host cursor");
    typed(&home, &format!("{mend} --yes --shim {}", bins().switchboard.display()));
    healed(&home, "host", "does not start");
}

#[test]
fn config_and_trust_that_cannot_be_read_are_errors() {
    let home = healthy();
    let file = home.write(".config/switchboard/switchboard.config.json", r#"{"htp": {}}"#);
    assert_eq!(found(&home, "config", "error", "htp"), format!("switchboard check {}", file.display()));
    home.config(&json!({}));
    healed(&home, "config", "");
    let trust = home.write(".local/state/switchboard/trust/trust.json", "not json");
    for folder in trust.ancestors().skip(1).take(2) {
        mode(folder, 0o700);
    }
    mode(&trust, 0o600);
    let mend = found(&home, "trust", "error", "held until");
    typed(&home, &mend);
    healed(&home, "trust", "");
}

#[test]
fn a_taken_port_and_a_failing_server_are_found() {
    let home = healthy();
    home.child("bad", &["exit-at-start", "1"]);
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    home.config(&json!({"http": {"listen": address}}));
    found(&home, "port", "warning", &address);
    let _daemon = DaemonProcess::start(&home, &[]);
    found(&home, "port", "warning", "is taken");
    assert_eq!(home.command(&["call", "bad", "x"]).status.code(), Some(5));
    assert!(found(&home, "server", "error", "`bad`").contains("switchboard logs bad"));
}

#[test]
fn orphans_of_an_earlier_daemon_are_found_and_cleared() {
    let home = healthy();
    // The state that a run leaves if it is killed with its guards: its mark in the ledger, and a process with
    // that mark.
    let mark = "0123456789abcdef0123456789abcdef";
    std::fs::write(home.socket().with_file_name("s.ledger"), format!("{mark}\n")).unwrap();
    let mut stray = Command::new("sleep")
        .arg("300")
        .env_clear()
        .envs(home.environment())
        .env("SWITCHBOARD_RUN", mark)
        .spawn()
        .unwrap();
    let mend = found(&home, "orphans", "error", &stray.id().to_string());
    typed(&home, &mend);
    until_true("the stray to go", TEST_TIMEOUT, || stray.try_wait().unwrap().is_some());
    healed(&home, "orphans", "");
}

#[test]
fn a_shared_server_that_follows_roots_is_found() {
    let home = healthy();
    home.child("files", &["echo", "server-filesystem"]);
    let roots = |home: &Home| {
        let told = home.command(&["explain", "files"]);
        let told = String::from_utf8(told.stdout).unwrap();
        told.lines().find(|line| line.trim_start().starts_with("roots")).unwrap().to_owned()
    };
    assert!(roots(&home).contains("those of its editor"), "{}", roots(&home));
    healed(&home, "roots", "server `files` follows");
    home.config(&json!({"suites": {"files": {"pool": {"scope": "shared"}}}}));
    assert!(roots(&home).contains("none"), "{}", roots(&home));
    found(&home, "roots", "warning", "server `files` follows the roots of its editor");
}

#[test]
fn of_a_servers_last_lines_the_telling_one_is_shown() {
    let home = Home::new();
    let last_words = r#"printf 'Traceback:\n\tin x\nKeyError\n' >&2; exit 1"#;
    home.definition(
        "kid",
        &json!({"mcpServers": {"kid": {"command": "sh", "args": ["-c", last_words]}}}).to_string(),
    );
    let _daemon = home.daemon();
    assert_eq!(home.command(&["call", "kid", "x"]).status.code(), Some(5));
    for args in [&["doctor"][..], &["--dry-run"], &["explain", "kid"]] {
        let output = home.command(args);
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!told.contains(r"\u{"), "{told}");
        assert!(told.contains("last stderr: `KeyError`"), "{told}");
        // `explain` has the others below it.
        let shows_all = told.lines().any(|line| line.starts_with("  stderr") && line.contains("Traceback:"));
        assert_eq!(shows_all, args[0] == "explain", "{told}");
    }
}

#[test]
fn a_server_that_cannot_be_started_is_reported_once() {
    let home = healthy();
    home.definition("gone", &json!({"mcpServers": {"gone": {"command": "no-such-program"}}}).to_string());
    let _daemon = home.daemon();
    assert_eq!(home.command(&["introspect", "gone"]).status.code(), Some(5));
    let (findings, _) = examined(&home);
    let about: Vec<_> = findings
        .iter()
        .filter(|finding| finding["what"].as_str().unwrap().contains("no-such-program"))
        .collect();
    assert_eq!(about.len(), 1, "{about:#?}");
}

#[test]
fn an_entry_of_an_editor_that_starts_nothing_is_not_a_server() {
    let home = healthy();
    home.write(
        ".cursor/mcp.json",
        &json!({"mcpServers": {"typo": {"args": ["x"]}, "real": {"command": "npx"}}}).to_string(),
    );
    found(&home, "host", "warning", "Cursor still starts real itself (");
}

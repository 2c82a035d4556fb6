//! The commands that users type, through the shim's binary.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::process::{Command, Output, Stdio};

use proto_tests::shim::{kind_of, structured};
use proto_tests::terminal::Terminal;
use proto_tests::wait::until_true;
use proto_tests::{Home, TEST_TIMEOUT, bins};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn switchboard(home: &Home, args: &[&str]) -> Output {
    Command::new(&bins().switchboard)
        .args(args)
        .env_clear()
        .envs(home.environment())
        .env("SWITCHBOARD_SOCKET", home.socket())
        .current_dir(home.workspace())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[track_caller]
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_dry_run_lists_suites_and_subtools_without_a_daemon() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.config(&json!({"suites": {"kid": {"suiteName": "toys", "expose": {"deny": ["crash"]}}}}));
    let text = said(&switchboard(&home, &["--dry-run"]));
    assert!(text.lines().any(|line| line.starts_with("kid  (suite toys, ")), "{text}");
    assert!(text.lines().any(|line| line.trim_start().starts_with("echo ")), "{text}");
    assert!(text.lines().any(|line| line.trim_start().starts_with("- crash")), "{text}");
    assert!(home.processes().is_empty(), "{:#?}", home.processes());
}

#[test]
fn a_dry_run_says_which_child_failed_and_lists_the_rest() {
    let home = Home::new();
    home.child("bad", &["exit-at-start", "1"]);
    home.child("good", &["echo"]);
    let output = switchboard(&home, &["--dry-run"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.lines().any(|line| line.starts_with("good  (")) && out.contains("    echo "), "{out}");
    assert!(out.contains("1 of 2 servers answers; these do not: bad"), "{out}");
    assert!(err.contains("`bad`") && err.contains("EVIL_TOKEN"), "{err}");
}

#[test]
fn the_socket_command_prints_the_path() {
    let home = Home::new();
    assert_eq!(said(&switchboard(&home, &["socket"])).trim_end(), home.socket().to_str().unwrap());
    // With nothing but HOME set, the shim and the daemon use the same path.
    let found = |program: &std::path::Path| {
        let output = Command::new(program)
            .arg("socket")
            .env_clear()
            .envs(home.environment())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        said(&output)
    };
    assert_eq!(found(&bins().switchboard), found(&bins().switchboardd));
    assert!(found(&bins().switchboard).starts_with('/'));
}

/// The command's answer with `--json`, and its exit code.
#[track_caller]
fn in_json(home: &Home, command: &[&str]) -> (Value, Option<i32>) {
    // In front: after `--` it would be an argument of the server.
    let output = switchboard(home, &[&["--json"], command].concat());
    let told = String::from_utf8(output.stdout).unwrap();
    let told = serde_json::from_str(&told)
        .unwrap_or_else(|error| panic!("{command:?}: {error}: {told} {:?}", output.stderr.escape_ascii()));
    (told, output.status.code())
}

/// Every command that needs a daemon.
const ASKS_THE_DAEMON: &[&[&str]] = &[
    &["status"],
    &["ls"],
    &["introspect", "kid"],
    &["call", "kid", "echo"],
    &["logs", "kid"],
    &["reload"],
    &["restart"],
    &["restart", "kid"],
    &["login", "kid"],
    &["logout", "kid"],
];

#[test]
fn commands_report_a_missing_daemon() {
    let home = Home::new();
    for command in ASKS_THE_DAEMON {
        let output = switchboard(&home, command);
        assert_eq!(output.status.code(), Some(3), "{command:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{command:?}: {output:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(told.lines().count(), 1, "{command:?}: {told}");
        assert!(told.contains("switchboard start"), "{command:?}: {told}");
        let (told, code) = in_json(&home, command);
        assert_eq!(code, Some(3), "{command:?}: {told}");
        assert!(told["error"].as_str().unwrap().contains("switchboard start"), "{command:?}: {told}");
    }
    assert!(home.processes().is_empty());
}

#[test]
fn invalid_arguments_exit_with_2() {
    let home = Home::new();
    for command in [
        &["no-such-command"][..],
        &["status", "--no-such-flag"],
        &["call", "kid"],
        &["call", "kid", "echo", "[1]"],
        &["call", "kid", "echo", "{"],
        &["call", "kid", "echo", "@/nonexistent"],
        &["--workspace", "/nonexistent", "status"],
        &["--no-start", "status"],
        &["--child", "kid", "status"],
    ] {
        let output = switchboard(&home, command);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {output:?}");
        assert!(!output.stderr.is_empty(), "{command:?}");
        let (told, code) = in_json(&home, command);
        assert_eq!(code, Some(2), "{command:?}: {told}");
        assert!(told["error"].is_string(), "{command:?}: {told}");
    }
    for command in ["--help", "--version"] {
        assert!(!said(&switchboard(&home, &[command])).is_empty());
    }
}

#[test]
fn every_command_answers_in_json() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    let pages = home.workspace().join("pages");
    for command in [
        &["status"][..],
        &["ls"],
        &["introspect", "kid"],
        &["introspect", "kid", "echo"],
        &["call", "kid", "echo", "{\"a\": 1}"],
        &["logs", "kid"],
        &["reload"],
        &["restart", "kid"],
        &["start"],
        &["socket"],
        &["allow", "--list"],
        &["secret", "ls"],
        &["add", "time", "--", "true"],
        &["remove", "time_suite"],
        &["explain", "kid"],
        &["savings"],
        &["overview"],
        &["--dry-run"],
        &["completions", "fish"],
        &["doctor"],
        &["pin", "--dry-run"],
        &["uninstall", "--dry-run"],
        &["man"],
        &["man", "call"],
        &["man", "--out", pages.to_str().unwrap()],
        &["stop"],
    ] {
        let (told, code) = in_json(&home, command);
        assert_eq!(code, Some(0), "{command:?}: {told}");
        assert!(told.is_object() || told.is_array(), "{command:?}: {told}");
    }
}

#[test]
fn every_command_that_fails_says_so_in_json() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    for (command, code) in [
        (&["introspect", "nope"][..], 1),
        (&["call", "nope", "echo"], 1),
        (&["call", "kid", "echo", "{"], 2),
        (&["logs", "nope"], 1),
        (&["explain", "nope"], 1),
        (&["restart", "nope"], 1),
        (&["allow"], 1),
        (&["allow", "nope"], 1),
        (&["deny", "nope"], 1),
        (&["login", "kid"], 1),
        (&["logout", "kid"], 1),
        (&["add", "kid", "--", "true"], 1),
        (&["remove", "nope"], 1),
        (&["secret", "set", "no name"], 1),
        (&["secret", "rm", "NOPE"], 1),
        (&["man", "nope"], 1),
    ] {
        let (told, exit) = in_json(&home, command);
        assert_eq!(exit, Some(code), "{command:?}: {told}");
        assert!(!told["error"].as_str().unwrap_or_default().is_empty(), "{command:?}: {told}");
    }
    home.write(".config/switchboard/switchboard.config.json", "{ \"htp\": 1 }");
    let (told, exit) = in_json(&home, &["--dry-run"]);
    assert_eq!(exit, Some(1), "{told}");
    assert!(told["problems"][0].as_str().unwrap().contains("did you mean `http`?"), "{told}");
    assert_eq!(told["suites"][0]["name"], "kid_suite", "{told}");
}

#[test]
fn an_invalid_config_prevents_neither_restart_nor_dry_run() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.config(&json!({"suites": {"kid": {"suiteName": "toys"}}}));
    let daemon = home.daemon();
    home.write(".config/switchboard/switchboard.config.json", "{ \"htp\": 1 }");
    let output = switchboard(&home, &["restart"]);
    assert!(said(&output).contains("restarted"), "{output:?}");
    let mistake = ":1:3: unknown key `htp`; did you mean `http`?";
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(mistake) && told.contains("last version of the file without a mistake"), "{told}");
    let status: Value = serde_json::from_str(&said(&switchboard(&home, &["status", "--json"]))).unwrap();
    assert_ne!(status["pid"], daemon.pid());
    assert_eq!(status["suites"][0]["name"], "toys", "{status}");
    let output = switchboard(&home, &["--dry-run"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.lines().any(|line| line.starts_with("kid  (suite toys, ")), "{out}");
    assert!(err.contains(mistake) && err.contains("last version of the file without a mistake"), "{err}");
    said(&switchboard(&home, &["stop"]));
}

#[test]
fn a_failed_daemon_start_is_explained_once() {
    let home = Home::new();
    let start = ["--config", "/nonexistent/c.json", "start"];
    let output = switchboard(&home, &start);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told.matches("there is no config file `/nonexistent/c.json`").count(), 1, "{told}");
    assert_eq!(told.matches("switchboard: ").count(), 1, "{told}");
    let (told, _) = in_json(&home, &start);
    assert!(told["error"].as_str().unwrap().contains("there is no config file"), "{told}");
    // A daemon that starts deletes the failure file.
    home.config(&json!({}));
    said(&switchboard(&home, &["start"]));
    let failure = format!("{}.failure", home.socket().display());
    assert!(!std::path::Path::new(&failure).exists());
    said(&switchboard(&home, &["stop"]));
}

#[test]
fn colour_is_used_on_terminals_without_no_color() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    home.shim().call("kid", "echo", "{}");
    let shown = |args: &[&str], env: &[(&str, &str)]| {
        Terminal::start(&home, &home.workspace(), args, &[&[("TERM", "xterm")], env].concat()).end().text
    };
    for args in [&["status"][..], &["ls"]] {
        assert!(!said(&switchboard(&home, args)).contains('\u{1b}'), "{args:?}");
        let colourful = shown(args, &[]);
        assert!(colourful.contains("\u{1b}[32mready"), "{args:?}: {colourful:?}");
        let plain = shown(args, &[("NO_COLOR", "1")]);
        assert!(plain.contains("ready") && !plain.contains('\u{1b}'), "{args:?}: {plain:?}");
    }
}

#[test]
fn restart_replaces_the_daemon_and_shims_reconnect() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let mut daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("kid", "echo", "{}");
    let told = said(&switchboard(&home, &["restart"]));
    assert!(told.contains("restarted"), "{told}");
    assert!(daemon.ended(TEST_TIMEOUT).success());
    until_true("the shim to find the next", TEST_TIMEOUT, || {
        shim.call("kid", "echo", "{}").contains("\"ok\":true")
    });
    assert_eq!(home.daemons().len(), 1);
    // A restart also works with no shim that would start the next daemon.
    drop(shim);
    let before = home.daemons()[0].pid;
    said(&switchboard(&home, &["restart"]));
    until_true("one daemon", TEST_TIMEOUT, || home.daemons().len() == 1);
    assert_ne!(home.daemons()[0].pid, before);
}

#[test]
fn a_stop_says_what_it_waits_for() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let slow = shim.start_call("kid", "slow", r#"{"ms":2500}"#);
    until_true("the call", TEST_TIMEOUT, || shim.call("kid", "received", "{}").contains("2500"));
    let output = switchboard(&home, &["stop"]);
    said(&output);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("waiting for 1 call in flight (`kid`)"), "{told}");
    assert!(shim.answer_to(&slow.to_string()).contains("\"ok\":true"));
}

#[test]
fn status_and_logs_show_sessions_suites_and_stderr() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("kid", "stderr", r#"{"text":"a word on stderr"}"#);
    let status: Value = serde_json::from_str(&said(&switchboard(&home, &["status", "--json"]))).unwrap();
    assert_eq!(status["pid"], daemon.pid());
    assert_eq!(status["sessions"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(status["suites"][0]["name"], "kid_suite");
    assert!(said(&switchboard(&home, &["status"])).contains("  kid "));
    until_true("the word", TEST_TIMEOUT, || {
        said(&switchboard(&home, &["logs", "kid_suite"])).contains("a word on stderr")
    });
}

#[test]
fn a_restarted_suite_has_a_fresh_child_and_loses_no_call() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let pid =
        |shim: &mut proto_tests::Shim| structured(&shim.call("kid", "where", "{}"))["pid"].as_u64().unwrap();
    let before = pid(&mut shim);
    let slow = shim.start_call("kid", "slow", r#"{"ms":700}"#);
    until_true("the call", TEST_TIMEOUT, || shim.call("kid", "received", "{}").contains("700"));
    said(&switchboard(&home, &["restart", "kid_suite"]));
    let after = pid(&mut shim);
    assert_ne!(before, after);
    assert!(shim.answer_to(&slow.to_string()).contains("\"ok\":true"));
    until_true("the old child to go", TEST_TIMEOUT, || home.children().len() == 1);
}

#[test]
fn a_stopped_daemon_stays_stopped_until_a_new_shim_starts() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let mut daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("kid", "echo", "{}");
    said(&switchboard(&home, &["stop"]));
    assert!(daemon.ended(TEST_TIMEOUT).success());
    // A running shim does not start it again.
    let answer = shim.call("kid", "echo", "{}");
    assert!(kind_of(&answer).is_some(), "{answer}");
    assert!(home.daemons().is_empty(), "{:#?}", home.daemons());
    assert!(shim.request("ping", "{}").contains("\"result\":{}"));
    // A new shim does, and the old one finds it.
    assert!(home.shim().call("kid", "echo", "{}").contains("\"ok\":true"));
    let answer = shim.call("kid", "echo", "{}");
    assert!(answer.contains("\"ok\":true"), "{answer}");
    assert_eq!(home.daemons().len(), 1);
}

#[test]
fn a_shim_that_missed_a_stop_does_not_undo_it() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let mut daemon = home.daemon();
    let mut shim = home.shim();
    shim.call("kid", "echo", "{}");
    shim.signal(Signal::STOP);
    said(&switchboard(&home, &["stop"]));
    assert!(daemon.ended(TEST_TIMEOUT).success());
    shim.signal(Signal::CONT);
    let answer = shim.call("kid", "echo", "{}");
    // The old daemon may never have received the first call.
    assert_eq!(kind_of(&answer).as_deref(), Some("stopped"), "{answer}");
    assert!(home.daemons().is_empty(), "{:#?}", home.daemons());
    said(&switchboard(&home, &["start"]));
    // The stop no longer applies: the request is served at once.
    let answer = shim.call("kid", "echo", "{}");
    assert!(answer.contains("\"ok\":true"), "{answer}");
    // The stop is forgotten: if this daemon is killed, it is replaced.
    let pid = home.daemons()[0].pid;
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    until_true("another one", TEST_TIMEOUT, || shim.call("kid", "echo", "{}").contains("\"ok\":true"));
    assert_ne!(home.daemons()[0].pid, pid);
}

#[test]
fn start_starts_one_daemon() {
    let home = Home::new();
    said(&switchboard(&home, &["start"]));
    assert_eq!(home.daemons().len(), 1);
    said(&switchboard(&home, &["start"]));
    assert_eq!(home.daemons().len(), 1);
    said(&switchboard(&home, &["stop"]));
    until_true("it to go", TEST_TIMEOUT, || home.daemons().is_empty());
}

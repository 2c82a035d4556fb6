//! `switchboard introspect` and `switchboard call`: using servers from a shell.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

use proto_tests::terminal::Terminal;
use proto_tests::wait::until_true;
use proto_tests::{Home, TEST_TIMEOUT, bins};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Starts a command that runs while the test does something else.
fn started(home: &Home, args: &[&str]) -> Child {
    Command::new(&bins().switchboard)
        .args(args)
        .env_clear()
        .envs(home.environment())
        .env("SWITCHBOARD_SOCKET", home.socket())
        .current_dir(home.workspace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_call_prints_what_the_server_says() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    for name in ["kid", "kid_suite"] {
        let output = home.command(&["call", name, "echo", r#"{"a": 12345678901234567890}"#]);
        assert!(output.status.success(), "{output:?}");
        assert!(stdout(&output).contains("12345678901234567890"), "{output:?}");
        assert!(stderr(&output).is_empty(), "{output:?}");
    }
    // From a file, and from standard input.
    let file = home.write("args.json", r#"{"from": "file"}"#);
    let output = home.command(&["call", "kid", "echo", &format!("@{}", file.display())]);
    assert!(stdout(&output).contains(r#""from":"file""#), "{output:?}");
    let mut child = started(&home, &["call", "kid", "echo", "-"]);
    child.stdin.take().unwrap().write_all(br#"{"from": "pipe"}"#).unwrap();
    assert!(stdout(&child.wait_with_output().unwrap()).contains(r#""from":"pipe""#));
    // `--json` prints the whole result.
    let output = home.command(&["call", "kid", "echo", r#"{"a": 1}"#, "--json"]);
    let result: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(result["structuredContent"]["args"], json!({"a": 1}), "{result}");
}

#[test]
fn each_kind_of_failure_has_its_own_exit_code() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.child("bad", &["exit-at-start", "1"]);
    let _daemon = home.daemon();
    let check = |args: &[&str], code: i32, parts: &[&str]| {
        let output = home.command(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        let told = stderr(&output);
        assert!(parts.iter().all(|part| told.contains(part)), "{args:?}: {told}");
    };
    check(&["call", "kdi", "echo"], 1, &["`kdi`", "did you mean `kid`"]);
    check(&["introspect", "kdi"], 1, &["did you mean `kid`"]);
    check(&["call", "kid", "ehco"], 1, &["unknown tool `ehco`", "did you mean `echo`"]);
    check(&["call", "kid", "slow"], 1, &["ms"]);
    let raw = json!({"json": r#"{"content":[{"type":"text","text":"no luck"}],"isError":true}"#}).to_string();
    check(&["call", "kid", "raw", &raw], 1, &["no luck"]);
    let own = json!({"json": r#"{"code":-32050,"message":"my own error"}"#}).to_string();
    check(&["call", "kid", "raise", &own], 1, &["my own error"]);
    check(&["call", "kid", "crash"], 5, &["status 3", "crash was asked for"]);
    check(&["call", "bad", "echo"], 5, &["`bad`"]);
    check(&["introspect", "bad"], 5, &["`bad`"]);
}

#[test]
fn a_held_server_is_neither_called_nor_shown() {
    let home = Home::new();
    let project = home.project("work");
    project.child("notes", &[]);
    let _daemon = home.daemon();
    for args in [
        &["call", "notes", "echo"][..],
        &["introspect", "notes"],
        &["logs", "notes"],
        &["login", "notes"],
        &["logout", "notes"],
        &["restart", "notes"],
    ] {
        let output = home.command(args);
        assert_eq!(output.status.code(), Some(4), "{args:?}: {output:?}");
        assert!(stderr(&output).contains("switchboard allow notes"), "{args:?}: {output:?}");
    }
    assert!(home.children().is_empty());
    // They are listed before any host has opened a session here.
    let status = stdout(&home.command(&["status"]));
    assert!(status.contains("  notes ") && status.contains("held"), "{status}");
    let listed = stdout(&home.command(&["ls"]));
    assert!(listed.contains("  notes ") && listed.contains("held"), "{listed}");
}

#[test]
fn introspect_lists_searches_and_describes_tools() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.config(&json!({"suites": {"kid": {"expose": {"deny": ["crash"]}}}}));
    let _daemon = home.daemon();
    let all = stdout(&home.command(&["introspect", "kid"]));
    assert!(all.contains("echo") && all.contains("progress") && !all.contains("crash"), "{all}");
    let some = stdout(&home.command(&["introspect", "kid", "environment"]));
    assert!(some.lines().count() < all.lines().count() && some.contains("env"), "{some}");
    let one = stdout(&home.command(&["introspect", "kid", "strict"]));
    assert!(one.contains("need") && one.contains("required"), "{one}");
    assert!(one.contains(r#"switchboard call kid strict 'need=…'"#), "{one}");
    let full: Value = serde_json::from_str(&stdout(&home.command(&["introspect", "kid", "--full"]))).unwrap();
    let strict = full["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "strict").unwrap();
    assert_eq!(strict["inputSchema"]["additionalProperties"], false);
}

#[test]
fn an_interrupted_call_is_cancelled_in_the_server() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    let mut shim = home.shim();
    let call = started(&home, &["call", "kid", "hang"]);
    let received = |shim: &mut proto_tests::Shim| shim.call("kid", "received", "{}");
    until_true("the call", TEST_TIMEOUT, || received(&mut shim).contains(r#"\"name\":\"hang\""#));
    kill_process(Pid::from_raw(call.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let output = call.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(stderr(&output).contains("cancelled"), "{output:?}");
    until_true("the cancel", TEST_TIMEOUT, || received(&mut shim).contains("notifications/cancelled"));
}

#[test]
fn a_question_is_asked_on_a_terminal_and_declined_without_one() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    let args = ["call", "kid", "ask", r#"{"kind": "elicitation"}"#];
    let output = home.command(&args);
    assert!(output.status.success(), "{output:?}");
    assert!(!stdout(&output).contains("accept"), "{output:?}");
    let mut terminal = Terminal::start(&home, &home.workspace(), &args, &[]);
    assert!(terminal.shows("how old?"));
    assert!(terminal.shows("may be empty): "));
    terminal.type_in("seven\n");
    assert!(terminal.shows("may be empty): "));
    terminal.type_in("7\n");
    let screen = terminal.end();
    assert_eq!(screen.code, Some(0), "{screen:?}");
    assert!(screen.text.contains("that is not a whole number"), "{screen:?}");
    assert!(screen.text.contains(r#""action":"accept""#) && screen.text.contains(r#""age":7"#), "{screen:?}");
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    let args = ["call", "kid", "progress", r#"{"steps": 3, "ms": 50, "mark": "halfway there"}"#];
    let output = home.command(&args);
    assert!(output.status.success() && stderr(&output).is_empty(), "{output:?}");
    let screen = Terminal::start(&home, &home.workspace(), &args, &[]).end();
    assert!(screen.text.contains("halfway there") && screen.text.contains("2 of 3"), "{screen:?}");
}

#[test]
fn the_record_names_the_command_that_looked_up_a_schema() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    home.run_ok(&["call", "kid", "echo", "word=x"]);
    let told: Value = serde_json::from_slice(&home.command(&["calls", "--json"]).stdout).unwrap();
    let calls = told["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2, "{told}");
    assert!(calls.iter().all(|call| call["host"] == "switchboard call"), "{told}");
}

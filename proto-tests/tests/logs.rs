//! `switchboard logs`: what servers and the daemon have written, and following what they write next.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use proto_tests::wait::until_true;
use proto_tests::{DaemonProcess, Home, TEST_TIMEOUT, bins};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// `switchboard logs -f …`, read line by line.
struct Follower {
    process: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn start(home: &Home, args: &[&str]) -> Self {
        let mut process = Command::new(&bins().switchboard)
            .args(args)
            .env_clear()
            .envs(home.environment())
            .env("SWITCHBOARD_SOCKET", home.socket())
            .current_dir(home.workspace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, lines) = channel();
        for output in [
            Box::new(process.stdout.take().unwrap()) as Box<dyn Read + Send>,
            Box::new(process.stderr.take().unwrap()),
        ] {
            let tell = tell.clone();
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let _ = tell.send(line);
                }
            });
        }
        Self { process, lines }
    }

    #[track_caller]
    fn shows(&self, part: &str) {
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(TEST_TIMEOUT) {
            if line.contains(part) {
                return;
            }
            seen.push(line);
        }
        panic!("no {part:?} in {seen:#?}");
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn say(home: &Home, text: &str) {
    home.run_ok(&["call", "kid", "stderr", &json!({"text": text}).to_string()]);
}

#[test]
fn the_last_lines_are_shown_with_their_time() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    let _daemon = home.daemon();
    for number in 1..=5 {
        say(&home, &format!("word {number}"));
    }
    let shown = || String::from_utf8(home.command(&["logs", "kid", "-n", "2"]).stdout).unwrap();
    until_true("the last word", TEST_TIMEOUT, || shown().contains("word 5"));
    let text = shown();
    assert_eq!(text.lines().count(), 2, "{text}");
    // `2026-11-18 14:02:11`, by the clock of the user.
    let (time, said) = text.lines().next().unwrap().split_at("2026-11-18 14:02:11".len());
    let is_time = time.starts_with("20") && time.bytes().all(|b| b.is_ascii_digit() || b"- :".contains(&b));
    assert!(is_time && said == " word 4", "{text}");
    let told: Value =
        serde_json::from_slice(&home.command(&["logs", "kid", "--json", "-n", "1"]).stdout).unwrap();
    assert_eq!(told["lines"][0]["text"], "word 5", "{told}");
    assert!(told["lines"][0]["at"].as_str().unwrap().ends_with('Z'), "{told}");
}

#[test]
fn a_follower_sees_new_lines_a_crash_and_the_next_daemon() {
    let home = Home::new();
    home.child("kid", &["echo"]);
    home.run_ok(&["start"]);
    say(&home, "before");
    until_true("it", TEST_TIMEOUT, || {
        String::from_utf8_lossy(&home.command(&["logs", "kid"]).stdout).contains("before")
    });
    let follower = Follower::start(&home, &["logs", "-f", "kid"]);
    follower.shows("before");
    say(&home, "a new line");
    follower.shows("a new line");
    assert_eq!(home.command(&["call", "kid", "crash"]).status.code(), Some(5));
    follower.shows("crash was asked for");
    until_true("the next server", TEST_TIMEOUT, || {
        home.command(&["call", "kid", "stderr", r#"{"text":"the next server"}"#]).status.success()
    });
    follower.shows("the next server");
    home.run_ok(&["restart"]);
    say(&home, "the next daemon");
    follower.shows("the next daemon");
    // Not found by name, because the follower runs the same program.
    let status: Value = serde_json::from_slice(&home.command(&["status", "--json"]).stdout).unwrap();
    let pid = i32::try_from(status["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    follower.shows("waiting for the next one");
    // For a moment, connections to the socket of a killed process still succeed.
    until_true("its end", TEST_TIMEOUT, || home.command(&["status"]).status.code() == Some(3));
    home.run_ok(&["start"]);
    say(&home, "after a kill");
    follower.shows("after a kill");
}

#[test]
fn the_daemons_own_log_is_followed_through_a_rotation() {
    let home = Home::new();
    home.run_ok(&["start"]);
    let text = String::from_utf8(home.command(&["logs"]).stdout).unwrap();
    assert!(text.contains("serving"), "{text}");
    let follower = Follower::start(&home, &["logs", "-f", "-n", "1"]);
    let file = home.state_folder().join("logs/switchboardd.log");
    follower.shows("INFO");
    home.run_ok(&["restart"]);
    follower.shows("restarting on request");
    follower.shows("serving");
    // A new file under the same name, as a rotation by the daemon creates it.
    std::fs::rename(&file, file.with_extension("log.1")).unwrap();
    std::fs::write(&file, "the first line of another file\n").unwrap();
    follower.shows("the first line of another file");
    // Without a daemon, it shows what the last one wrote.
    home.run_ok(&["stop"]);
    let text = String::from_utf8(home.command(&["logs", "-n", "500"]).stdout).unwrap();
    assert!(text.contains("serving") && text.contains("another file"), "{text}");
}

#[test]
fn logs_of_a_foreground_daemon_name_its_process() {
    let home = Home::new();
    let daemon = home.daemon();
    let output = home.command(&["logs"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(&daemon.pid().to_string()) && told.contains("foreground"), "{told}");
}

#[test]
fn logs_of_a_remote_server_show_its_connection() {
    let home = Home::new();
    home.definition(
        "far",
        &json!({"name": "far", "type": "http", "url": "http://127.0.0.1:9/mcp"}).to_string(),
    );
    let _daemon = home.daemon();
    let output = home.command(&["logs", "far"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("not connected"), "{output:?}");
    assert_eq!(home.command(&["call", "far", "x"]).status.code(), Some(5));
    let text = String::from_utf8(home.command(&["logs", "far"]).stdout).unwrap();
    assert!(text.contains("127.0.0.1:9"), "{text}");
}

/// A daemon that writes its log into a folder that it watches.
fn log_in_a_watched_folder(variable: &str, level: &str) -> String {
    let home = Home::new();
    let project = home.project("w");
    project.child("a", &[]);
    let log = project.path().join("out.log");
    let mut daemon = Command::new(&bins().switchboardd)
        .args(["--listen", "off", "--socket"])
        .arg(home.socket())
        .env_clear()
        .envs(home.environment())
        .env(variable, level)
        .current_dir(project.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    until_true("the daemon", TEST_TIMEOUT, || std::os::unix::net::UnixStream::connect(home.socket()).is_ok());
    let mut shim = project.shim();
    shim.tools();
    let begin = std::time::Instant::now();
    until_true("a while", TEST_TIMEOUT, || begin.elapsed() > std::time::Duration::from_secs(3));
    drop(shim);
    kill_process(Pid::from_raw(i32::try_from(daemon.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
    daemon.wait().unwrap();
    std::fs::read_to_string(log).unwrap()
}

#[test]
fn a_log_in_a_watched_folder_causes_no_feedback_loop() {
    for variable in ["LOG_LEVEL", "RUST_LOG"] {
        let log = log_in_a_watched_folder(variable, "trace");
        assert!(log.contains("catalog"), "{log}");
        assert!(log.len() < 100_000, "{} bytes, such as {:?}", log.len(), log.lines().last());
        assert!(!log.contains("notify::"), "{log}");
    }
}

#[test]
fn a_library_logs_only_if_the_filter_names_it() {
    let home = Home::new();
    let daemon = DaemonProcess::start_with(&home, &["--listen", "off"], &[("RUST_LOG", "warn,notify=trace")]);
    until_true("a line of the library", TEST_TIMEOUT, || daemon.log().contains("notify::"));
}

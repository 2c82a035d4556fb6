//! How the daemon is started and found: it belongs to no host, and every command and shim finds the one that
//! runs.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use proto_tests::shim::INITIALIZE;
use proto_tests::wait::until_true;
use proto_tests::{Home, TEST_TIMEOUT, bins, procs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A host process that has started a shim.
struct Host(Child);

impl Host {
    /// Starts the host and waits until its shim has started the daemon.
    fn start(home: &Home) -> Self {
        let mut host = Command::new("/bin/sh")
            .args(["-c", "\"$0\" \"$@\"; true"])
            .arg(&bins().switchboard)
            .arg("--socket")
            .arg(home.socket())
            .env_clear()
            .envs(home.environment())
            .current_dir(home.workspace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{INITIALIZE}}}"#);
        writeln!(host.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        BufReader::new(host.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
        assert!(answer.contains("serverInfo"), "{answer}");
        Self(host)
    }

    /// As OpenCode and Copilot CLI do when they exit: every descendant gets the signal.
    fn end_descendants(&self, signal: Signal) -> Vec<procs::Process> {
        let family = procs::descendants(i32::try_from(self.0.id()).unwrap());
        for process in &family {
            let _ = kill_process(Pid::from_raw(process.pid).unwrap(), signal);
        }
        family
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_host_that_ends_its_whole_process_tree_ends_no_daemon() {
    let home = Home::new();
    home.child("e", &["echo"]);
    let host = Host::start(&home);
    let mut other = home.shim();
    let child = other.pid_of("e");
    let daemon = home.daemons()[0].pid;
    let call = other.start_call("e", "slow", r#"{"ms":2000}"#);
    for signal in [Signal::TERM, Signal::KILL] {
        let ended = host.end_descendants(signal);
        assert!(ended.iter().all(|process| process.pid != daemon), "{ended:#?}");
    }
    drop(host);
    let answer = other.answer_to(&call.to_string());
    assert!(answer.contains("\"ok\":true"), "{answer}");
    assert_eq!(other.pid_of("e"), child);
    let daemons: Vec<_> = home.daemons().iter().map(|process| process.pid).collect();
    assert_eq!(daemons, [daemon]);
}

#[test]
fn the_process_that_launches_the_daemon_is_gone_when_it_serves() {
    let home = Home::new();
    let shim = home.shim();
    let daemon = home.daemons()[0].clone();
    until_true("only the shim to be left", TEST_TIMEOUT, || procs::descendants(shim.pid()).is_empty());
    assert_ne!(procs::find(daemon.pid).unwrap().parent, shim.pid());
    assert_eq!(home.processes().len(), 2, "{:#?}", home.processes());
}

/// A user who is neither the test's user nor root, with a runtime directory that comes and goes.
struct Person {
    uid: u32,
    home: Home,
}

impl Person {
    /// `None` if the test cannot switch users. Each test needs a different uid.
    fn new(uid: u32) -> Option<Self> {
        if !rustix::process::getuid().is_root() || Command::new("setpriv").arg("--version").output().is_err()
        {
            eprintln!("skipped: becoming another user needs root and setpriv");
            return None;
        }
        let home = Home::new();
        bins().copy_to(&home.workspace());
        let person = Self { uid, home };
        person.give(Path::new(person.home.mark()));
        Some(person)
    }

    fn give(&self, path: &Path) {
        chown(path, Some(self.uid), Some(self.uid)).unwrap();
        for entry in path.is_dir().then(|| fs::read_dir(path).unwrap()).into_iter().flatten() {
            self.give(&entry.unwrap().path());
        }
    }

    fn runtime(&self) -> PathBuf {
        PathBuf::from(format!("/run/user/{}", self.uid))
    }

    /// Creates the runtime directory, as the first login does.
    fn log_in(&self) {
        fs::create_dir_all(self.runtime()).unwrap();
        fs::set_permissions(self.runtime(), fs::Permissions::from_mode(0o700)).unwrap();
        chown(self.runtime(), Some(self.uid), Some(self.uid)).unwrap();
    }

    /// Deletes the runtime directory, as the last logout does.
    fn log_out(&self) {
        let _ = fs::remove_dir_all(self.runtime());
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        let uid = self.uid;
        command.args([&format!("--reuid={uid}"), &format!("--regid={uid}"), "--clear-groups"]);
        command.arg(self.home.workspace().join(program)).env_clear().envs(self.home.environment());
        command.current_dir(self.home.workspace()).stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn says(&self, args: &[&str]) -> String {
        let output = self.command("switchboard").args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn daemon(&self) -> u64 {
        let status: Value = serde_json::from_str(&self.says(&["status", "--json"])).unwrap();
        status["pid"].as_u64().unwrap()
    }

    /// A shim's answers to a host that lists the tools.
    fn tools(&self) -> String {
        let mut shim =
            self.command("switchboard").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = shim.stdin.take().unwrap();
        writeln!(stdin, r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{INITIALIZE}}}"#).unwrap();
        writeln!(stdin, r#"{{"jsonrpc":"2.0","id":2,"method":"tools/list"}}"#).unwrap();
        let mut lines = BufReader::new(shim.stdout.take().unwrap()).lines();
        let answers: Vec<String> = lines.by_ref().take(2).map(Result::unwrap).collect();
        drop(stdin);
        shim.wait().unwrap();
        answers.join("\n")
    }

    fn daemons(&self) -> usize {
        let program = self.home.workspace().join("switchboardd").display().to_string();
        let is_daemon = |process: &procs::Process| process.cmdline.starts_with(&program);
        self.home.processes().into_iter().filter(is_daemon).count()
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.command("switchboard").arg("stop").output();
        self.log_out();
    }
}

#[test]
fn the_daemon_is_found_after_the_socket_path_has_changed() {
    let Some(person) = Person::new(42_417) else { return };
    person.log_out();
    person.says(&["start"]);
    let first = person.daemon();
    let socket = person.says(&["socket"]);
    assert!(socket.contains("/.local/state/switchboard/"), "{socket}");
    person.log_in();
    let place = person.runtime().join("switchboard/switchboard.sock");
    assert_eq!(person.daemon(), first);
    assert_eq!(person.says(&["socket"]), socket);
    assert!(person.says(&["start"]).contains("is running"));
    assert!(person.tools().contains("\"tools\":"), "{}", person.tools());
    // A second daemon started by hand exits at once and does not take over the socket.
    let second = person.command("switchboardd").output().unwrap();
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    let told = String::from_utf8_lossy(&second.stderr);
    assert!(told.contains(socket.trim()), "{told}");
    assert!(!place.exists());
    assert_eq!((person.daemon(), person.daemons()), (first, 1));
    // The next daemon uses the new path.
    person.says(&["restart"]);
    let next = person.daemon();
    assert_ne!(next, first);
    assert_eq!(Path::new(person.says(&["socket"]).trim()), place);
    assert!(person.tools().contains("\"tools\":"));
    // The other way round: the path disappears, and the daemon exits.
    person.log_out();
    until_true("another daemon", TEST_TIMEOUT, || person.tools().contains("\"tools\":"));
    until_true("the old one to go", TEST_TIMEOUT, || person.daemons() == 1);
    assert_ne!(person.daemon(), next);
    assert_eq!(person.says(&["socket"]), socket);
    person.log_in();
    person.says(&["stop"]);
    assert_eq!(person.daemons(), 0);
    let output = person.command("switchboard").arg("status").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

#[test]
fn the_editors_shell_counts_for_a_user_whom_etc_passwd_does_not_have() {
    let Some(person) = Person::new(42_418) else { return };
    person.log_out();
    person.home.write(".profile", "export PATH=/only/in/my/profile:/usr/bin:/bin\n");
    person.home.definition("x", &json!({"mcpServers": {"x": {"command": "no-such-program"}}}).to_string());
    person.give(Path::new(person.home.mark()));
    let started = person.command("switchboard").arg("start").env("SHELL", "/bin/sh").output().unwrap();
    assert!(started.status.success(), "{started:?}");
    let refused = person.command("switchboard").args(["call", "x", "y"]).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("not found in PATH `/only/in/my/profile:/usr/bin:/bin`"), "{told}");
}

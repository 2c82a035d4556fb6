//! One `switchboardd` under test.
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bins::bins;
use crate::home::Home;
use crate::http::Endpoint;
use crate::wait::{TEST_TIMEOUT, becomes, until};

pub struct DaemonProcess {
    process: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl DaemonProcess {
    /// Starts it and waits until it serves.
    #[track_caller]
    pub fn start(home: &Home, args: &[&str]) -> Self {
        Self::spawn(home, args).serving()
    }

    /// Starts it with additional variables and waits until it serves.
    #[track_caller]
    pub fn start_with(home: &Home, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::spawn_with(home, args, env).serving()
    }

    /// Waits until it serves.
    #[track_caller]
    pub fn serving(self) -> Self {
        let mut daemon = self;
        until("the daemon to serve", TEST_TIMEOUT, || {
            if let Some(status) = daemon.process.try_wait().unwrap() {
                panic!("the daemon ended with {status}: {}", daemon.log());
            }
            let answer = daemon.endpoint().connect().ok().map(|mut connection| {
                connection.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
                connection.response(false)
            })?;
            answer.ok().filter(|answer| answer.status == 200)
        });
        daemon
    }

    /// Starts it and does not wait.
    #[track_caller]
    pub fn spawn(home: &Home, args: &[&str]) -> Self {
        Self::spawn_with(home, args, &[])
    }

    /// Starts it with additional variables and does not wait.
    #[track_caller]
    pub fn spawn_with_env(home: &Home, env: &[(&str, &str)]) -> Self {
        Self::spawn_with(home, &["--listen", "off"], env)
    }

    #[track_caller]
    fn spawn_with(home: &Home, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(&bins().switchboardd);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Self::spawn_as(home, command, args, env)
    }

    /// Starts it through `command`, whose stdin and stdout are already set.
    #[track_caller]
    pub fn spawn_as(home: &Home, mut command: Command, args: &[&str], env: &[(&str, &str)]) -> Self {
        // Several daemons may run one after another in one home.
        let log =
            (1..).map(|n| home.path().join(format!("daemon-{n}.log"))).find(|log| !log.exists()).unwrap();
        let process = command
            .arg("--socket")
            .arg(home.socket())
            .args(args)
            .env_clear()
            .envs(home.environment())
            .env("HOST_SECRET", "never-for-children")
            .envs(env.iter().copied())
            .current_dir(home.path())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .expect("switchboardd");
        Self { process, socket: home.socket(), log }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap()
    }

    /// The unix socket.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::unix(&self.socket)
    }

    /// The TCP socket.
    #[track_caller]
    pub fn tcp(&self) -> Endpoint {
        Endpoint::Tcp(self.tcp_address())
    }

    #[track_caller]
    pub fn tcp_address(&self) -> SocketAddr {
        let told = self.daemon_file();
        told["tcp"].as_str().unwrap_or_else(|| panic!("no TCP address in {told}")).parse().unwrap()
    }

    #[track_caller]
    pub fn token(&self) -> String {
        let told = self.daemon_file();
        let file = told["tokenFile"].as_str().unwrap_or_else(|| panic!("no token file in {told}"));
        fs::read_to_string(file).unwrap().trim().to_owned()
    }

    /// The contents of the JSON file next to its socket.
    #[track_caller]
    pub fn daemon_file(&self) -> Value {
        read_daemon_file(&self.socket)
    }

    /// `/status`, as the daemon's user sees it.
    #[track_caller]
    pub fn status(&self) -> Value {
        self.endpoint().get("/status").json()
    }

    /// The entry of this child's suite in `/status`.
    #[track_caller]
    pub fn suite(&self, child: &str) -> Value {
        let status = self.status();
        let suite = status["suites"].as_array().unwrap().iter().find(|suite| suite["child"] == child);
        suite.unwrap_or_else(|| panic!("no suite of `{child}` in {status}")).clone()
    }

    /// The suites and problems that sessions in this workspace see.
    #[track_caller]
    pub fn seen_from(&self, workspace: &Path) -> Value {
        self.endpoint().get(&format!("/suites?workspace={}", workspace.display())).json()
    }

    /// The suite of this child that sessions in this workspace see; `null` if none.
    #[track_caller]
    pub fn suite_from(&self, workspace: &Path, child: &str) -> Value {
        let seen = self.seen_from(workspace);
        let suite = seen["suites"].as_array().unwrap().iter().find(|suite| suite["child"] == child);
        suite.cloned().unwrap_or_default()
    }

    /// The pids of this child's processes, from `/status`.
    #[track_caller]
    pub fn pids(&self, child: &str) -> Vec<i32> {
        let suite = self.suite(child);
        let children = suite["children"].as_array().unwrap_or_else(|| panic!("no children in {suite}"));
        children.iter().map(|child| i32::try_from(child["pid"].as_i64().unwrap()).unwrap()).collect()
    }

    /// How often this child was started.
    #[track_caller]
    pub fn starts(&self, child: &str) -> u64 {
        let suite = self.suite(child);
        suite["pool"]["starts"].as_u64().unwrap_or_else(|| panic!("no starts in {suite}"))
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).expect("a daemon to signal");
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Waits until it ends.
    #[track_caller]
    pub fn ended(&mut self, bound: Duration) -> ExitStatus {
        until("the daemon to end", bound, || self.process.try_wait().unwrap())
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The contents of the JSON file next to this socket.
#[track_caller]
pub fn read_daemon_file(socket: &Path) -> Value {
    let file = PathBuf::from(format!("{}.json", socket.display()));
    until("the daemon's file", TEST_TIMEOUT, || {
        let text = fs::read_to_string(&file).ok()?;
        serde_json::from_str(&text).ok()
    })
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        if self.process.try_wait().unwrap().is_none() {
            self.signal(Signal::TERM);
            if !becomes(TEST_TIMEOUT, || self.process.try_wait().unwrap().is_some()) {
                self.kill();
                assert!(std::thread::panicking(), "the daemon did not end on SIGTERM: {}", self.log());
            }
        }
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<_> = log.lines().rev().take(60).collect();
            eprintln!("--- the daemon's last words ---");
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

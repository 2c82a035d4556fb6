//! Sets up what is measured: the child alone, the floor, and Switchboard.
#![allow(clippy::disallowed_methods, reason = "a benchmark starts processes")]

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::drive::{Call, Wire};
use crate::bins::bins;
use crate::{DaemonProcess, Home, procs};

/// The child's name on every stage.
pub const CHILD: &str = "bench";

/// A process that is killed on drop.
pub struct Process(Child);

impl Process {
    pub fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process and the pipes to it.
pub struct PipedProcess {
    // Dropped before the process, so that a process which waits for input ends by itself.
    pub wire: Wire,
    pub process: Process,
}

impl PipedProcess {
    pub fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let input = child.stdin.take().unwrap().into();
        let output = child.stdout.take().unwrap().into();
        Self { wire: Wire::new(input, output), process: Process(child) }
    }
}

/// The child, driven directly.
pub fn direct(ballast: usize) -> PipedProcess {
    PipedProcess::start(Command::new(&bins().bench_part).arg("child").arg(ballast.to_string()))
}

/// A process that echoes its input: the cost of two pipes and two context switches.
pub fn pong() -> PipedProcess {
    PipedProcess::start(Command::new(&bins().bench_part).arg("pong"))
}

/// The minimal shim and daemon of `floor.rs`.
pub struct BaselineSetup {
    folder: tempfile::TempDir,
    daemon: Option<Process>,
    pub port: u16,
}

impl Default for BaselineSetup {
    fn default() -> Self {
        Self::new()
    }
}

impl BaselineSetup {
    pub fn new() -> Self {
        Self::with_daemon(Command::new(&bins().bench_part))
    }

    /// `program` starts `bench-part`.
    pub fn with_daemon(mut program: Command) -> Self {
        let mut floor = Self::without_daemon();
        let mut process =
            program.args(floor.daemon_command()).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        floor.port = port.trim().parse().unwrap();
        floor.daemon = Some(Process(process));
        floor
    }

    /// Only the directory; a shim starts the daemon.
    pub fn without_daemon() -> Self {
        let folder = tempfile::Builder::new().prefix("sb-floor-").tempdir_in("/tmp").unwrap();
        Self { folder, daemon: None, port: 0 }
    }

    fn daemon_command(&self) -> Vec<String> {
        let part = bins().bench_part.to_str().unwrap();
        ["floor-daemon", self.socket().to_str().unwrap(), part, "child", "0"].map(str::to_owned).to_vec()
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    pub fn connect(&self) -> UnixStream {
        UnixStream::connect(self.socket()).unwrap()
    }

    pub fn shim(&self) -> PipedProcess {
        self.shim_by(Command::new(&bins().bench_part))
    }

    /// `program` starts `bench-part`.
    pub fn shim_by(&self, mut program: Command) -> PipedProcess {
        PipedProcess::start(program.arg("floor-shim").arg(self.socket()))
    }

    /// A shim that starts its daemon.
    pub fn starting_shim(&self) -> PipedProcess {
        let mut command = Command::new(&bins().bench_part);
        command.arg("floor-shim").arg(self.socket()).arg(&bins().bench_part).args(self.daemon_command());
        PipedProcess::start(&mut command)
    }

    pub fn pids(&self) -> Vec<i32> {
        self.daemon.as_ref().map(|daemon| with_descendants(daemon.pid())).unwrap_or_default()
    }

    pub fn daemon_pid(&self) -> i32 {
        self.daemon.as_ref().unwrap().pid()
    }
}

impl Drop for BaselineSetup {
    fn drop(&mut self) {
        // Kills also a daemon that a shim started; its child ends when its pipe closes.
        let socket = self.socket();
        let mark = format!("floor-daemon {}", socket.display());
        for process in procs::all().into_iter().filter(|process| process.cmdline.contains(&mark)) {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(process.pid).unwrap(),
                rustix::process::Signal::KILL,
            );
        }
    }
}

/// Switchboard itself, with `suites` definitions of the child.
pub struct SwitchboardSetup {
    // Dropped before the home, which checks that no process is left.
    pub daemon: Option<DaemonProcess>,
    pub home: Home,
}

impl SwitchboardSetup {
    pub fn new(suites: usize) -> Self {
        let mut ours = Self::without_daemon(suites);
        ours.daemon = Some(ours.home.daemon());
        ours
    }

    /// One definition, of a child that speaks the modern era.
    pub fn modern() -> Self {
        let home = Home::new();
        define_as(&home, 0, "GitHub issues and pull requests", &["child", "0", "modern"]);
        let daemon = Some(home.daemon());
        Self { daemon, home }
    }

    pub fn without_daemon(suites: usize) -> Self {
        let home = Home::new();
        for number in 0..suites {
            define(&home, number, "GitHub issues and pull requests", 0);
        }
        Self { daemon: None, home }
    }

    pub fn pid(&self) -> i32 {
        self.daemon.as_ref().unwrap().pid()
    }

    /// A shim before its handshake.
    pub fn shim(&self) -> PipedProcess {
        self.shim_by(Command::new(&bins().switchboard))
    }

    /// `program` starts `switchboard`.
    pub fn shim_by(&self, mut program: Command) -> PipedProcess {
        program
            .arg("--socket")
            .arg(self.home.socket())
            .arg("--workspace")
            .arg(self.home.workspace())
            .env_clear()
            .envs(self.home.environment())
            .current_dir(self.home.workspace());
        PipedProcess::start(&mut program)
    }

    /// A shim after its handshake, with the child running.
    pub fn warm_shim(&self) -> PipedProcess {
        let mut shim = self.shim();
        shim.wire.initialize();
        shim.wire.ask(&suite_call("echo", ECHO));
        shim
    }

    pub fn connect(&self) -> UnixStream {
        UnixStream::connect(self.home.socket()).unwrap()
    }

    pub fn pids(&self) -> Vec<i32> {
        with_descendants(self.pid())
    }
}

/// Writes the definition of child `number`; number 0 is called [`CHILD`].
pub fn define(home: &Home, number: usize, description: &str, ballast: usize) {
    define_as(home, number, description, &["child", &ballast.to_string()]);
}

fn define_as(home: &Home, number: usize, description: &str, args: &[&str]) {
    let name = name(number);
    let entry = home.entry(&bins().bench_part, args, &[("NUMBER", &name)]);
    let definition = json!({
        "name": name,
        "description": description,
        "command": {"cmd": entry["command"], "args": entry["args"], "env": entry["env"]},
    });
    home.definition(&name, &definition.to_string());
}

pub fn name(number: usize) -> String {
    if number == 0 { CHILD.to_owned() } else { format!("{CHILD}{number}") }
}

/// The arguments of the call used in all measurements.
pub const ECHO: &str = r#"{"text":"The quick brown fox jumps over the lazy dog"}"#;

pub fn direct_call(tool: &str, arguments: &str) -> Call {
    Call::direct(tool, arguments)
}

pub fn suite_call(tool: &str, arguments: &str) -> Call {
    Call::suite(CHILD, tool, arguments)
}

fn with_descendants(pid: i32) -> Vec<i32> {
    let below = procs::descendants(pid).into_iter().map(|process| process.pid);
    std::iter::once(pid).chain(below).collect()
}

/// The CPU sets that processes are placed on.
#[cfg(target_os = "linux")]
pub struct CpuCores {
    all: rustix::thread::CpuSet,
    one: rustix::thread::CpuSet,
}

/// Other systems place processes as they like: their figures have no pinned runs.
#[cfg(not(target_os = "linux"))]
pub struct CpuCores;

impl Default for CpuCores {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(target_os = "linux")]
impl CpuCores {
    pub fn new() -> Self {
        use rustix::thread::CpuSet;
        let all = rustix::thread::sched_getaffinity(None).unwrap();
        let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| all.is_set(*cpu)).unwrap();
        let mut one = CpuSet::new();
        one.set(last);
        Self { all, one }
    }

    /// Pins these processes, and this thread, to one core, or lets them run on all.
    pub fn pin(&self, pinned: bool, pids: &[i32]) {
        use rustix::thread::{Pid, sched_setaffinity};
        let set = if pinned { &self.one } else { &self.all };
        sched_setaffinity(None, set).unwrap();
        for pid in pids {
            let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            let ids = threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
            for thread in ids.filter_map(Pid::from_raw) {
                // The thread may have ended.
                let _ = sched_setaffinity(Some(thread), set);
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl CpuCores {
    pub fn new() -> Self {
        Self
    }

    pub fn pin(&self, _: bool, _: &[i32]) {}
}

//! How many instructions a sequential call takes in user space, counted by valgrind: the same on any machine, however busy
//! it is. Where valgrind is missing, nothing is measured, which `--gate` reports.
#![allow(clippy::disallowed_methods, reason = "a benchmark starts processes")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::Effort;
use super::drive::Call;
use super::report::{Report, Row};
use super::setup::{BaselineSetup, ECHO, PipedProcess, SwitchboardSetup, direct_call, suite_call};
use crate::bins::bins;
use crate::wait::until_true;
use crate::{DaemonProcess, Home};

/// Calls of two runs: what a start and an end take is the same in both, and what runs by time is little beside so many.
const CALLS: [u32; 2] = [500, 8500];
const MAX_WRITING: Duration = Duration::from_secs(30);

pub fn measure(_: Effort, report: &mut Report) {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("  instructions are not counted: valgrind is missing");
        return;
    }
    let (straight, suite) = (direct_call("echo", ECHO), suite_call("echo", ECHO));
    let floor_daemon = per_call(|counter, calls| {
        let floor = BaselineSetup::with_daemon(counter.command(&bins().bench_part));
        counter.count(floor.daemon_pid(), &mut floor.shim(), &straight, calls)
    });
    let floor_shim = per_call(|counter, calls| {
        let floor = BaselineSetup::new();
        let mut shim = floor.shim_by(counter.command(&bins().bench_part));
        counter.count(shim.process.pid(), &mut shim, &straight, calls)
    });
    let daemon = per_call(|counter, calls| {
        let mut ours = SwitchboardSetup::without_daemon(1);
        let program = counter.command(&replaceable(&ours.home));
        ours.daemon = Some(DaemonProcess::spawn_as(&ours.home, program, &[], &[]).serving());
        counter.count(ours.pid(), &mut ours.warm_shim(), &suite, calls)
    });
    let shim = per_call(|counter, calls| {
        let ours = SwitchboardSetup::new(1);
        let mut shim = ours.shim_by(counter.command(&bins().switchboard));
        shim.wire.initialize();
        counter.count(shim.process.pid(), &mut shim, &suite, calls)
    });
    for (program, ours, floor) in [("daemon", daemon, floor_daemon), ("shim", shim, floor_shim)] {
        let what = format!("instructions of the {program} for a call");
        report.add(Row::new(what, "", ours).beside(None, Some(floor)));
    }
}

/// `count`: the instructions of a process that so many calls run through.
fn per_call(count: impl Fn(&Counter, u32) -> f64) -> f64 {
    let [few, many] = CALLS.map(|calls| {
        let folder = tempfile::tempdir().unwrap();
        count(&Counter { file: folder.path().join("count") }, calls)
    });
    (many - few) / f64::from(CALLS[1] - CALLS[0])
}

/// A copy of the daemon that others can write: under valgrind the daemon takes its program for replaced, and it hands over
/// only to one that nobody else can write.
fn replaceable(home: &Home) -> PathBuf {
    let folder = home.path().join("bin");
    fs::create_dir(&folder).unwrap();
    for program in [&bins().switchboardd, &bins().switchboard_guard] {
        fs::copy(program, folder.join(program.file_name().unwrap())).unwrap();
    }
    let program = folder.join("switchboardd");
    fs::set_permissions(&program, Permissions::from_mode(0o777)).unwrap();
    program
}

/// Counts the instructions of one process.
struct Counter {
    /// What valgrind writes when the process ends.
    file: PathBuf,
}

impl Counter {
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("valgrind");
        command
            .args(["--quiet", "--tool=callgrind"])
            .arg(format!("--callgrind-out-file={}", self.file.display()))
            .arg(program);
        command
    }

    /// Instructions of the process `pid`, which is ended after these calls.
    fn count(&self, pid: i32, shim: &mut PipedProcess, call: &Call, calls: u32) -> f64 {
        (0..calls).for_each(|_| drop(shim.wire.ask(call)));
        kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
        until_true("the count of instructions", MAX_WRITING, || self.total().is_some());
        self.total().unwrap()
    }

    fn total(&self) -> Option<f64> {
        let text = fs::read_to_string(&self.file).ok()?;
        text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok())
    }
}

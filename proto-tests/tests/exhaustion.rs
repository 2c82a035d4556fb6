//! No descriptors, no processes, no memory, no room on the disk: callers get a clear error, nothing runs in circles,
//! and the daemon recovers alone once there is enough again.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]
// Limits of another process, cgroups and mounts are those of Linux; descriptors are limited everywhere.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proto_tests::proof::{counted, measured, measured_ms};
use proto_tests::shim::{kind_of, text_of};
use proto_tests::wait::{becomes, until, until_true};
use proto_tests::{DaemonProcess, Home, Shim, TEST_TIMEOUT, bins, procs};
use serde_json::json;

/// The promise is 5 % of a core. A busy machine does not change what a process uses, but a debug build uses more.
const MOST_OF_A_CORE: f64 = 20.0;

/// The share of a core that a process uses for a while, in percent.
fn share_of_a_core(pid: i32) -> f64 {
    let (before, begin) = (procs::cpu_time(pid), Instant::now());
    std::thread::sleep(Duration::from_secs(2));
    (procs::cpu_time(pid).saturating_sub(before)).as_secs_f64() / begin.elapsed().as_secs_f64() * 100.0
}

#[track_caller]
fn is_idle(daemon: &DaemonProcess, without: &str) {
    let share = share_of_a_core(daemon.pid());
    measured("R17", &format!("share of a core without {without}, %"), share);
    assert!(share < MOST_OF_A_CORE, "{share} % of a core without {without}: {}", daemon.log());
}

fn is_ok(answer: &str) -> bool {
    answer.contains("\"ok\":true")
}

/// Every server answers, old and new hosts are served, and a new definition is found.
#[track_caller]
fn recovers(home: &Home, shim: &mut Shim) {
    let begin = Instant::now();
    for server in ["running", "later", "added"] {
        let mut last = String::new();
        let is_served = becomes(TEST_TIMEOUT, || {
            last = shim.call(server, "echo", "{}");
            is_ok(&last)
        });
        assert!(is_served, "`{server}` is not served again: {last}");
    }
    measured_ms("R17", "last server answers after it is over", begin.elapsed());
    assert!(is_ok(&home.shim().call("later", "echo", "{}")));
}

fn no_panic(daemon: &DaemonProcess) {
    let log = daemon.log();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn without_descriptors_nothing_runs_in_circles_and_service_comes_back() {
    const DESCRIPTORS: usize = 64;
    let home = Home::new();
    home.child("running", &["echo"]);
    home.child("later", &["echo"]);
    let mut limited = Command::new("/bin/sh");
    limited.args(["-c", r#"ulimit -n "$0" && exec "$@""#, &DESCRIPTORS.to_string()]);
    limited.arg(&bins().switchboardd).stdin(Stdio::null()).stdout(Stdio::null());
    let daemon = DaemonProcess::spawn_as(&home, limited, &["--listen", "off"], &[]).serving();
    let mut shim = home.shim();
    assert!(is_ok(&shim.call("running", "echo", "{}")));
    // What is known of it is on disk before nothing can be read any more.
    until_true("what it said to be stored", TEST_TIMEOUT, || {
        ["manifests", "tools"].iter().all(|folder| {
            let files = std::fs::read_dir(home.state_folder().join(folder));
            files.is_ok_and(|mut files| files.next().is_some())
        })
    });
    let held: Vec<_> = (0..DESCRIPTORS).filter_map(|_| daemon.endpoint().connect().ok()).collect();
    until_true("no descriptor to be left", TEST_TIMEOUT, || procs::fds(daemon.pid()) >= DESCRIPTORS);
    is_idle(&daemon, "descriptors");
    let begin = Instant::now();
    let answer = shim.call("later", "echo", "{}");
    measured_ms("R17", "error of a start without descriptors", begin.elapsed());
    assert!(kind_of(&answer).is_some() && answer.contains("open files"), "{answer}");
    home.child("added", &["echo"]);
    drop(held);
    recovers(&home, &mut shim);
    no_panic(&daemon);
    counted("R17", "kinds of exhaustion", 1);
}

/// Root has no limit of processes, so as root the test runs as another user.
#[cfg(target_os = "linux")]
#[test]
fn without_processes_nothing_panics_and_service_comes_back() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    const NAME: &str = "without_processes_nothing_panics_and_service_comes_back";
    if rustix::process::getuid().is_root() {
        return as_another_user(NAME);
    }
    let home = Home::new();
    home.child("running", &["echo"]);
    home.child("later", &["echo"]);
    let daemon = home.daemon();
    let mut shim = home.shim();
    assert!(is_ok(&shim.call("running", "echo", "{}")));
    // Helper threads end after a while without work: no thread is left to help out.
    let mut last = (procs::threads(daemon.pid()), Instant::now());
    until_true("helper threads to end", TEST_TIMEOUT, || {
        let now = procs::threads(daemon.pid());
        if now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() > Duration::from_secs(4)
    });
    let pid = Pid::from_raw(daemon.pid()).unwrap();
    let before = prlimit(Some(pid), Resource::Nproc, Rlimit { current: Some(1), maximum: None });
    let before = before.or_else(|_| {
        let maximum = rustix::process::getrlimit(Resource::Nproc).maximum;
        prlimit(Some(pid), Resource::Nproc, Rlimit { current: Some(1), maximum })
    });
    let before = before.unwrap();
    // Reads files, which needs a thread.
    home.child("added", &["echo"]);
    let begin = Instant::now();
    let answer = shim.call("later", "echo", "{}");
    measured_ms("R17", "error of a start without processes", begin.elapsed());
    assert!(kind_of(&answer).is_some() && answer.contains("temporarily unavailable"), "{answer}");
    assert!(is_ok(&shim.call("running", "echo", "{}")), "a server that runs needs no process");
    is_idle(&daemon, "processes");
    no_panic(&daemon);
    prlimit(Some(pid), Resource::Nproc, before).unwrap();
    recovers(&home, &mut shim);
    no_panic(&daemon);
    counted("R17", "kinds of exhaustion", 1);
}

/// Runs this test again as a user who is not root and has no other processes.
fn as_another_user(test: &str) {
    const USER: &str = "54321";
    bins();
    let output = Command::new("setpriv")
        .args(["--reuid", USER, "--regid", USER, "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("PROTO_TESTS_BUILT", "1")
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: becoming another user needs setpriv");
        return;
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}{complaint}");
    complaint.lines().filter(|line| line.starts_with("proof ")).for_each(|line| eprintln!("{line}"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_gets_no_memory_ends_alone() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let limited = |pid: i32| {
        let limit = Rlimit { current: Some(256 << 20), maximum: Some(256 << 20) };
        prlimit(Some(Pid::from_raw(pid).unwrap()), Resource::As, limit).unwrap();
    };
    dies_of_memory("SIGABRT", limited);
}

/// A group of processes with a limit of memory; removed with it.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// `None` if this machine lets nobody make one.
    fn new() -> Option<Self> {
        let name = format!("switchboard-test-{}", std::process::id());
        let (first, second) = (Path::new("/sys/fs/cgroup/memory"), Path::new("/sys/fs/cgroup"));
        let is_first = first.join("memory.limit_in_bytes").exists();
        let group = Self(if is_first { first } else { second }.join(name));
        std::fs::create_dir(&group.0).ok()?;
        let limit = if is_first { "memory.limit_in_bytes" } else { "memory.max" };
        let is_limited = std::fs::write(group.0.join(limit), (64 << 20).to_string()).is_ok();
        // Swapped out, it would live on.
        let swap = if is_first { "memory.memsw.limit_in_bytes" } else { "memory.swap.max" };
        let _ = std::fs::write(
            group.0.join(swap),
            if is_first { (64 << 20).to_string() } else { "0".to_owned() },
        );
        is_limited.then_some(group)
    }

    fn add(&self, pid: i32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_the_kernel_kills_for_memory_ends_alone() {
    let Some(group) = MemoryGroup::new() else {
        eprintln!("skipped: nobody can limit the memory of a group of processes here");
        return;
    };
    dies_of_memory("SIGKILL", |pid| group.add(pid));
}

/// A server takes more memory than it can get; its callers are told how it ended.
fn dies_of_memory(how: &str, limit: impl Fn(i32)) {
    let home = Home::new();
    home.child("hungry", &["echo"]);
    home.child("well", &["echo"]);
    let daemon = home.daemon();
    let (mut shim, mut other) = (home.shim(), home.shim());
    let well = other.pid_of("well");
    for round in 0..3 {
        let pid = shim.pid_of("hungry");
        limit(pid);
        let hanging = shim.start_call("hungry", "hang", "{}");
        let begin = Instant::now();
        for answer in [shim.call("hungry", "eat", r#"{"mb":512}"#), shim.answer_to(&hanging.to_string())] {
            assert_eq!(kind_of(&answer).as_deref(), Some("child_exited"), "round {round}: {answer}");
            assert!(answer.contains(how), "round {round}: {answer}");
        }
        measured_ms("R17", &format!("callers know of a server without memory ({how})"), begin.elapsed());
        until_true("the next process", TEST_TIMEOUT, || is_ok(&shim.call("hungry", "echo", "{}")));
        assert_eq!(other.pid_of("well"), well);
    }
    assert!(procs::alive(daemon.pid()));
    counted("R17", "kinds of exhaustion", 1);
}

/// Something mounted on a folder, until it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// `None` if nothing can be mounted here.
    fn new(options: &[&str], folder: &Path) -> Option<Self> {
        let status = Command::new("mount").args(options).arg(folder).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success()).then(|| Self(folder.to_owned()))
    }

    /// A folder that nobody can write to, not even root.
    fn read_only(folder: &Path) -> Option<Self> {
        let mounted = Self::new(&["--bind", folder.to_str().unwrap()], folder)?;
        mounted.remount("ro,bind");
        Some(mounted)
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn private(folder: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).unwrap();
}

const NO_MOUNT: &str = "skipped: nothing can be mounted here";

#[test]
fn a_home_that_cannot_be_written_costs_no_call() {
    let home = Home::new();
    home.child("running", &["echo"]);
    home.child("later", &["echo"]);
    private(&home.state_folder());
    private(&home.path().join(".cache"));
    let folders = [home.path().join(".config"), home.path().join(".local"), home.path().join(".cache")];
    let Some(mounted) = folders.iter().map(|folder| Mounted::read_only(folder)).collect::<Option<Vec<_>>>()
    else {
        return eprintln!("{NO_MOUNT}");
    };
    let daemon = home.daemon();
    let mut shim = home.shim();
    assert!(is_ok(&shim.call("running", "echo", "{}")), "{}", daemon.log());
    assert_eq!(shim.tools().len(), 2);
    is_idle(&daemon, "a writable home");
    // What cannot be kept is said.
    until_true("the problem", TEST_TIMEOUT, || daemon.status()["record"]["problem"].is_string());
    let log = daemon.log();
    assert!(log.contains("Read-only file system"), "{log}");
    mounted.iter().for_each(|mounted| mounted.remount("rw,bind"));
    home.child("added", &["echo"]);
    recovers(&home, &mut shim);
    until_true("the problem to be over", TEST_TIMEOUT, || {
        shim.call("running", "echo", "{}");
        daemon.status()["record"]["problem"].is_null()
    });
    no_panic(&daemon);
    counted("R17", "kinds of exhaustion", 1);
}

#[test]
fn a_disk_that_is_full_from_the_start_costs_no_call() {
    let home = Home::new();
    home.child("running", &["echo"]);
    home.child("later", &["echo"]);
    private(&home.state_folder());
    let small = ["-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs"];
    let Some(mounted) = Mounted::new(&small, &home.state_folder()) else {
        return eprintln!("{NO_MOUNT}");
    };
    let filler = home.state_folder().join("filler");
    let error = std::fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    let daemon = home.daemon();
    let mut shim = home.shim();
    assert!(is_ok(&shim.call("running", "echo", "{}")), "{}", daemon.log());
    is_idle(&daemon, "room on the disk");
    until_true("the problem", TEST_TIMEOUT, || daemon.status()["record"]["problem"].is_string());
    // Nothing that is written half is read later.
    let calls = until("the calls", TEST_TIMEOUT, || {
        let output = home.command(&["calls", "--json"]);
        output.status.success().then(|| serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap())
    });
    assert!(calls["calls"].as_array().is_some_and(|calls| calls.len() <= 1), "{calls}");
    std::fs::remove_file(&filler).unwrap();
    mounted.remount("size=4m");
    home.child("added", &["echo"]);
    recovers(&home, &mut shim);
    until_true("the problem to be over", TEST_TIMEOUT, || {
        text_of(&shim.call("running", "echo", &json!({"again": true}).to_string()));
        daemon.status()["record"]["problem"].is_null()
    });
    no_panic(&daemon);
    counted("R17", "kinds of exhaustion", 1);
}

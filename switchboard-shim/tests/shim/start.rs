//! Starting a daemon. The `switchboardd` next to a copy of the shim is a script that records its arguments
//! and environment and execs this test binary, which acts as the daemon.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::daemon::{FakeDaemon, until};
use crate::host::{Host, shim};

/// Set in the process that acts as the daemon.
const ROLE: &str = "SWITCHBOARD_TEST_DAEMON";

/// Not a test: the script runs it. Answers everything until no request has come for a long time.
#[test]
fn the_daemon() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let socket: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let daemon = FakeDaemon::serve(UnixListener::from(socket), &format!("pid{}", std::process::id()));
    while !daemon.quiet_for_ever(|call| match call.json()["method"].as_str() {
        Some("die") => std::process::exit(3),
        _ if call.json().get("id").is_some() => call.result(&json!({"pid": std::process::id()})),
        _ => call.accepted(),
    }) {}
}

struct Install {
    folder: tempfile::TempDir,
}

impl Install {
    fn new(script: &str) -> Self {
        let folder = crate::host::private_folder();
        crate::small::copy_to(folder.path());
        write_script(&folder.path().join("switchboardd"), script);
        Self { folder }
    }

    /// With a working `switchboardd`.
    fn working() -> Self {
        let test = std::env::current_exe().unwrap();
        Self::new(&format!(
            "#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho $$ >> pids\nenv > environment\necho \"$@\" > arguments\nls -l /proc/$$/fd > descriptors\n\
             export {ROLE}=1\nexec '{}' --exact start::the_daemon --nocapture <&3 3<&-\n",
            test.display()
        ))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn shim(&self) -> std::process::Command {
        shim(&self.path("switchboard"), &self.path("s.sock"))
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn pids(&self) -> Vec<i32> {
        self.read("pids").lines().map(|line| line.parse().unwrap()).collect()
    }
}

impl Drop for Install {
    fn drop(&mut self) {
        for pid in self.pids() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
}

pub(crate) fn write_script(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_started_daemon_inherits_only_the_socket_and_few_variables() {
    let install = Install::working();
    let mut command = install.shim();
    command.env("SECRET", "x").arg("--config").arg("conf").current_dir(install.folder.path());
    let mut host = Host::run(&mut command);
    host.request(0, "initialize");
    let pid = host.expect_result(0)["pid"].as_i64().unwrap();
    assert_eq!(install.pids(), [i32::try_from(pid).unwrap()]);
    let environment = install.read("environment");
    assert!(environment.contains("LISTEN_FDS=1\n"), "{environment}");
    assert!(environment.contains(&format!("LISTEN_PID={pid}\n")), "{environment}");
    assert!(!environment.contains("SECRET"), "{environment}");
    let folder = install.folder.path().canonicalize().unwrap();
    let expect =
        format!("--socket {} --config {}\n", install.path("s.sock").display(), folder.join("conf").display());
    assert_eq!(install.read("arguments"), expect);
    let mode = std::fs::metadata(install.path("s.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Detached: its own session, none of the host's pipes.
    let daemon = u32::try_from(pid).unwrap();
    assert_eq!(switchboard_wire::process::Stat::of(daemon).unwrap().session, daemon);
    let descriptors = install.read("descriptors");
    assert!(descriptors.contains(" 3 -> socket:"), "{descriptors}");
    for number in 0..3 {
        let link = format!("/proc/{}/fd/{number}", host.shim.id());
        let pipe = std::fs::read_link(link).unwrap();
        assert!(!descriptors.contains(pipe.to_str().unwrap()), "{descriptors}");
    }
}

#[test]
fn one_message_through_a_pipe_is_answered_with_or_without_a_running_daemon() {
    let install = Install::working();
    for _ in 0..2 {
        let mut host = Host::run(&mut install.shim());
        host.write(br#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#);
        host.end_input();
        host.expect_result(0);
        assert!(host.ends_within(Duration::from_secs(2)).success());
    }
    assert_eq!(install.pids().len(), 1);
}

#[test]
fn many_shims_at_once_end_with_one_daemon() {
    let install = Install::working();
    let mut hosts: Vec<_> = (0..8).map(|_| Host::run(&mut install.shim())).collect();
    for host in &mut hosts {
        host.request(0, "initialize");
    }
    let pids: Vec<_> = hosts.iter().map(|host| host.expect_result(0)["pid"].clone()).collect();
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    assert_eq!(install.pids().len(), 1);

    // Again, when the daemon dies under all of them.
    let old = install.pids()[0];
    kill_process(Pid::from_raw(old).unwrap(), Signal::KILL).unwrap();
    for host in &mut hosts {
        // Safe to repeat, so either daemon may receive it.
        host.request(1, "tools/list");
    }
    for host in &hosts {
        host.expect_result(1);
    }
    assert_eq!(install.pids().len(), 2);
    // It is no child of a shim, so a process that adopts orphans has to reap it.
    assert!(until(|| !switchboard_wire::process::is_running(old.cast_unsigned())));
}

#[test]
fn a_daemon_that_dies_in_a_call_is_started_again() {
    let install = Install::working();
    let mut host = Host::run(&mut install.shim());
    host.request(0, "die");
    host.expect_fault(0, "daemon_gone");
    host.request(1, "tools/call");
    host.expect_result(1);
    assert_eq!(install.pids().len(), 2);
}

#[test]
fn a_daemon_that_cannot_run_is_a_clear_fault() {
    let install = Install::new("#!/no/such/interpreter\n");
    let mut host = Host::run(&mut install.shim());
    host.request(0, "initialize");
    // The connection stays open, and the instructions say why there are no tools.
    let hello = host.expect_result(0);
    let text = hello["instructions"].as_str().unwrap();
    assert!(text.contains("cannot start switchboardd") && text.contains("switchboardd`"), "{text}");
    host.request(1, "tools/call");
    let text = host.expect_failed_call(1, "no_daemon");
    assert!(text.contains("cannot start switchboardd"), "{text}");
    host.ping();
}

#[test]
fn a_daemon_that_ends_at_once_is_a_clear_fault() {
    let install = Install::new("#!/bin/sh\nexit 9\n");
    let mut host = Host::run(&mut install.shim());
    host.write(br#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#);
    host.end_input();
    let fault = host.expect_fault(0, "input_closed");
    assert!(fault["message"].as_str().unwrap().contains("ended before it answered"), "{fault}");
    host.ends_within(Duration::from_secs(2));
    // Few lines, however often the start was tried.
    assert!(host.stderr_to_end().len() <= 3);
}

#[test]
fn a_leaked_descriptor_does_not_reach_the_daemon() {
    let install = Install::working();
    let leaky = install.path("leaky");
    // Without CLOEXEC, so every process started meanwhile inherits it.
    let _leak = rustix::io::dup(std::fs::File::open("/dev/zero").unwrap()).unwrap();
    write_script(
        &leaky,
        "#!/bin/sh\nexec \"$(dirname \"$0\")/switchboard\" \"$@\" 3</dev/null 5</dev/zero\n",
    );
    let mut host = Host::run(&mut shim(&leaky, &install.path("s.sock")));
    host.request(0, "initialize");
    let pid = host.expect_result(0)["pid"].as_i64().unwrap();
    let descriptors = install.read("descriptors");
    assert!(descriptors.contains(" 3 -> socket:"), "{descriptors}");
    assert!(!descriptors.contains("zero"), "{descriptors}");
    assert!(install.read("environment").contains(&format!("LISTEN_PID={pid}\n")));
}

#[test]
fn a_file_at_the_socket_path_is_not_removed() {
    let install = Install::working();
    std::fs::write(install.path("s.sock"), "precious").unwrap();
    let mut host = Host::run(&mut install.shim());
    host.request(0, "initialize");
    assert!(host.stderr_line().contains("s.sock"));
    assert_eq!(install.read("s.sock"), "precious");
    host.ping();
}

#[test]
fn a_config_for_a_running_daemon_is_a_warning() {
    let (_folder, socket) = crate::host::socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let host = Host::run(shim(crate::host::binary(), &socket).arg("--config=/x"));
    daemon.sessions(1);
    assert!(host.stderr_line().contains("`--config` has no effect"));
}

#[test]
fn a_shim_that_missed_the_stop_does_not_undo_it() {
    let install = Install::working();
    let mut host = Host::run(&mut install.shim());
    host.request(0, "initialize");
    let pid = host.expect_result(0)["pid"].as_i64().unwrap();
    let place = switchboard_wire::runtime_paths::RuntimePaths::beside(&install.path("s.sock"));
    place.mark_stopped().unwrap();
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    host.stderr_line();
    host.request(1, "tools/list");
    host.expect_fault(1, "stopped");
    assert_eq!(install.pids().len(), 1);
    // Starting a new shim asks for a daemon again; the old shim uses that daemon too.
    let mut next = Host::run(&mut install.shim());
    next.request(0, "initialize");
    next.expect_result(0);
    assert_eq!(install.pids().len(), 2);
    assert!(!place.stopped.exists());
    let served = until(|| {
        host.request(2, "tools/list");
        host.expect_message().get("result").is_some()
    });
    assert!(served);
    // The old shim may now start a daemon again.
    kill_process(Pid::from_raw(install.pids()[1]).unwrap(), Signal::KILL).unwrap();
    drop(next);
    host.request(3, "tools/list");
    host.expect_result(3);
    assert_eq!(install.pids().len(), 3);
}

#[test]
fn the_daemon_gets_the_limits_that_the_shim_was_started_with() {
    let install = Install::new("#!/bin/sh\ncd \"$(dirname \"$0\")\"\nulimit -Sn > soft\nulimit -Hn > hard\n");
    let cramped = install.path("cramped");
    write_script(&cramped, "#!/bin/sh\nulimit -Sn 100\nexec \"$(dirname \"$0\")/switchboard\" \"$@\"\n");
    let mut host = Host::run(&mut shim(&cramped, &install.path("s.sock")));
    host.request(0, "initialize");
    assert!(until(|| !install.read("hard").is_empty()));
    assert_eq!(install.read("soft").trim(), "100");
    let ours = std::fs::read_to_string(format!("/proc/{}/limits", host.shim.id())).unwrap();
    let files = ours.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<_> = files.split_whitespace().filter(|word| word.parse::<u64>().is_ok()).collect();
    assert_eq!(numbers[0], numbers[1], "{files}");
    assert_ne!(numbers[0], "100");
}

//! How the daemon is started and found: it belongs to no host, and everybody finds the one that runs.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use proto_tests::shim::INITIALIZE;
use proto_tests::wait::until_true;
use proto_tests::{Home, PATIENCE, bins, procs};
use rustix::process::{Pid, Signal, kill_process};

/// A host that started a shim, as a process of its own above it.
struct Host(Child);

impl Host {
    /// Starts it, and has its shim start the daemon.
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
    until_true("only the shim to be left", PATIENCE, || procs::descendants(shim.pid()).is_empty());
    assert_ne!(procs::look(daemon.pid).unwrap().parent, shim.pid());
    assert_eq!(home.processes().len(), 2, "{:#?}", home.processes());
}

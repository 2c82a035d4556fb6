//! How the shim ends.

use std::fs::File;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::daemon::FakeDaemon;
use crate::host::{Host, binary, shim, socket_dir};

/// More than the 100 ms of the contract: the machine may be busy with other tests.
const AT_ONCE: Duration = Duration::from_millis(1000);

#[test]
fn end_of_input_waits_for_the_answers() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    host.write(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#);
    host.end_input();
    let call = daemon.expect("tools/call");
    std::thread::sleep(Duration::from_millis(200));
    call.result(&json!({}));
    host.expect_result(1);
    assert!(host.ends_within(AT_ONCE).success());
}

#[test]
fn end_of_input_does_not_wait_for_ever() {
    let (mut host, daemon, _folder) = Host::with_daemon();
    host.request(1, "tools/call");
    let call = daemon.expect("tools/call");
    let ended = Instant::now();
    host.end_input();
    assert!(host.ends_within(Duration::from_secs(5)).success());
    assert!(ended.elapsed() >= Duration::from_millis(1400), "{:?}", ended.elapsed());
    assert!(call.closes());
    assert!(host.rest()[0].contains("input_closed"));
}

#[test]
fn without_input_there_is_no_output() {
    let (_folder, socket) = socket_dir();
    let mut host = Host::run(shim(binary(), &socket).arg("--no-start").stdin(Stdio::null()));
    assert!(host.ends_within(AT_ONCE).success());
    assert!(host.rest().is_empty());
}

#[test]
fn stdin_and_stdout_may_be_files() {
    let (folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let input = folder.path().join("in");
    let output = folder.path().join("out");
    std::fs::write(&input, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}\n").unwrap();
    let mut host = Host::run(
        shim(binary(), &socket)
            .arg("--no-start")
            .stdin(File::open(&input).unwrap())
            .stdout(File::create(&output).unwrap()),
    );
    daemon.expect("initialize").result(&json!({}));
    assert!(host.ends_within(AT_ONCE).success());
    let written = std::fs::read_to_string(&output).unwrap();
    assert_eq!(written, "{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":{}}\n");
}

#[test]
fn stdin_and_stdout_may_be_sockets() {
    use std::io::{BufRead, BufReader, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    let (_folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let (ours_in, theirs_in) = UnixStream::pair().unwrap();
    let (ours_out, theirs_out) = UnixStream::pair().unwrap();
    let mut command = shim(binary(), &socket);
    command.arg("--no-start").stdin(OwnedFd::from(theirs_in)).stdout(OwnedFd::from(theirs_out));
    let mut host = Host::run(&mut command);
    // Otherwise our copies of the shim's ends would keep them open.
    drop(command);
    (&ours_in).write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n").unwrap();
    daemon.expect("tools/list").result(&json!({}));
    let mut line = String::new();
    BufReader::new(&ours_out).read_line(&mut line).unwrap();
    assert!(line.contains("\"result\""), "{line}");
    drop(ours_out);
    assert!(host.ends_within(AT_ONCE).success());
}

#[test]
fn stdin_and_stdout_may_be_one_half_closed_socket() {
    use std::io::{BufRead, BufReader, Write};
    use std::net::Shutdown;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    let (_folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = shim(binary(), &socket);
    command.arg("--no-start").stdin(OwnedFd::from(theirs.try_clone().unwrap())).stdout(OwnedFd::from(theirs));
    let mut host = Host::run(&mut command);
    drop(command);
    (&ours).write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n").unwrap();
    let list = daemon.expect("tools/list");
    // The host sends nothing more, but still reads.
    ours.shutdown(Shutdown::Write).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    list.result(&json!({}));
    let mut line = String::new();
    BufReader::new(&ours).read_line(&mut line).unwrap();
    assert!(line.contains("\"result\""), "{line}");
    assert!(host.ends_within(AT_ONCE).success());
}

#[test]
fn signals_end_the_shim_even_when_the_host_does_not_read() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (_folder, socket) = socket_dir();
        let daemon = FakeDaemon::bind(&socket, "boot1");
        let mut child = shim(binary(), &socket).arg("--no-start").spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut host = Host::run_child(child);
        host.request(1, "tools/call");
        // More than a pipe holds, and nothing reads it.
        daemon.expect("tools/call").result(&json!({"x": "y".repeat(1 << 20)}));
        let news =
            json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"x": "y".repeat(1 << 16)}});
        for _ in 0..100 {
            daemon.mail(&news);
        }
        let pid = Pid::from_child(&host.shim);
        kill_process(pid, signal).unwrap();
        assert!(host.ends_within(AT_ONCE).success(), "{signal:?}");
        drop(stdout);
    }
}

#[test]
fn a_closed_stdout_ends_an_idle_shim() {
    let (_folder, socket) = socket_dir();
    let daemon = FakeDaemon::bind(&socket, "boot1");
    let mut child = shim(binary(), &socket).arg("--no-start").spawn().unwrap();
    let stdout = child.stdout.take();
    let mut host = Host::run_child(child);
    daemon.sessions(1);
    drop(stdout);
    assert!(host.ends_within(AT_ONCE).success());
}

#[test]
fn an_unread_stderr_does_not_block_the_shim() {
    let (_folder, socket) = socket_dir();
    let mut child = shim(binary(), &socket).arg("--no-start").spawn().unwrap();
    let _unread = child.stderr.take();
    let mut host = Host::run_child(child);
    for boot in 0..5 {
        let daemon = FakeDaemon::bind(&socket, &format!("boot{boot}"));
        daemon.sessions(1);
        daemon.die();
    }
    host.ping();
}

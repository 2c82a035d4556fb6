//! Processes that a child leaves behind: plain, in their own session, forked twice, ignoring TERM.
#![allow(clippy::disallowed_methods, reason = "starting processes is what this child is for")]
#![allow(clippy::zombie_processes, reason = "so is leaving them behind")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Behaviour;
use super::serve::{Handling, serve, usual};
use super::tools::{close_stdout, forever};

pub(crate) const TABLE: &[Behaviour] = &[
    Behaviour::new(
        "grandchild",
        "not a server: a grandchild of the given kind; prints its pid and stays",
        |_, args| {
            stay(args.first().copied().unwrap_or("plain"));
        },
    ),
    Behaviour::new("forks-at-start", "starts grandchildren of every kind before it serves", |peer, _| {
        start_all();
        serve(&peer, usual);
    }),
    Behaviour::new(
        "forks-and-exits",
        "a call starts a grandchild that keeps stdout open, then the child exits",
        |peer, _| {
            serve(&peer, |_, message| {
                if message.is("tools/call") {
                    start("silent", Stdio::inherit());
                    return Handling::Leave;
                }
                Handling::Usual
            });
        },
    ),
    Behaviour::new(
        "forks-and-closes",
        "a call starts a grandchild that keeps stdout open, then the child closes its own and stays",
        |peer, _| {
            serve(&peer, |_, message| {
                if message.is("tools/call") {
                    start("silent", Stdio::inherit());
                    close_stdout();
                    return Handling::Taken;
                }
                Handling::Usual
            });
        },
    ),
    Behaviour::new(
        "chains",
        "FILE: serves, beside two chains of processes that fork and exit at once and touch FILE.sh and FILE.setsid",
        |peer, args| {
            start_chains(args[0]);
            serve(&peer, usual);
        },
    ),
    Behaviour::new(
        "chain-link",
        "FILE: not a server: touches the file, starts the next of its kind in a session of its own, and exits",
        |_, args| link(args[0]),
    ),
    Behaviour::new(
        "stops-guard",
        "FILE: a call has it stop its guard, start a grandchild and forget its environment; their pids are in FILE",
        |peer, args| {
            let file = args[0].to_owned();
            serve(&peer, move |_, message| {
                if message.is("tools/call") {
                    stop_guard(&file);
                }
                Handling::Usual
            });
        },
    ),
];

/// Forks without `exec`, as fast as possible. Ends when the file can no longer be written.
const CHAIN: &str = r#"trap '' TERM HUP INT; f() { : > "$0.sh" || exit; f & }; f"#;

fn start_chains(file: &str) {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", CHAIN, file]);
    let mut linked = Command::new(std::env::current_exe().expect("a path of my own"));
    linked.args(["chain-link", file]);
    for command in [&mut shell, &mut linked] {
        let quiet = command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.spawn().expect("a chain");
    }
}

fn link(file: &str) {
    leave_session();
    ignore_term();
    if std::fs::write(format!("{file}.setsid"), "").is_ok() {
        let mut next = Command::new(std::env::current_exe().expect("a path of my own"));
        let _ = next.args(["chain-link", file]).spawn();
    }
}

fn stop_guard(file: &str) {
    let guard = rustix::process::getppid().expect("a parent");
    rustix::process::kill_process(guard, rustix::process::Signal::STOP).expect("a guard to stop");
    let myself = std::env::current_exe().expect("a path of my own");
    let mut command = Command::new(&myself);
    command.args(["grandchild", "worst"]).env_clear().stdin(Stdio::null()).stdout(Stdio::piped());
    let grandchild = pid_of(command.spawn().expect("a grandchild"));
    let pids = format!("{} {grandchild} {}\n", std::process::id(), guard.as_raw_nonzero());
    std::fs::write(file, pids).expect("a file for the pids");
    // The pid stays the same, everything else changes.
    let error = Command::new(&myself).args(["grandchild", "silent"]).env_clear().exec();
    panic!("{error}");
}

const KINDS: [&str; 5] = ["plain", "setsid", "ignore-term", "double", "worst"];

/// Starts one of each kind and returns the pids of those that stay.
pub(crate) fn start_all() -> Vec<u32> {
    KINDS.iter().map(|kind| pid_of(start(kind, Stdio::piped()))).collect()
}

fn start(kind: &str, stdout: Stdio) -> Child {
    let myself = std::env::current_exe().expect("a path of my own");
    let mut command = Command::new(myself);
    command.args(["grandchild", kind]).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null());
    command.spawn().expect("a grandchild")
}

/// The pid that it prints, which is not its own after a double fork.
fn pid_of(mut child: Child) -> u32 {
    let stdout = child.stdout.take().expect("BUG: stdout is piped");
    let mut line = String::new();
    let _ = BufReader::new(stdout).read_line(&mut line);
    line.trim().parse().expect("a grandchild that says its pid")
}

fn stay(kind: &str) {
    match kind {
        "setsid" => leave_session(),
        "ignore-term" => ignore_term(),
        "double" => return fork_again("plain"),
        // The caller waits for the pid of the last process, so all of this has happened by the time it gets
        // the pid.
        "worst" => {
            leave_session();
            return fork_again("ignore-both");
        }
        "ignore-both" => {
            leave_session();
            ignore_term();
        }
        "silent" => {
            ignore_term();
            forever();
        }
        _ => {}
    }
    say_pid(std::process::id());
    forever();
}

/// The intermediate process passes the pid on and ends, so that the last process is orphaned.
fn fork_again(kind: &str) {
    say_pid(pid_of(start(kind, Stdio::piped())));
}

fn say_pid(pid: u32) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{pid}").and_then(|()| stdout.flush());
}

fn leave_session() {
    rustix::process::setsid().expect("a session of its own");
}

/// Catches TERM, HUP and INT and does nothing.
pub(crate) fn ignore_term() {
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).expect("a signal to ignore");
    }
}

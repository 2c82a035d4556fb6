//! The guard: the small process that a local child runs under, so that nothing of it is ever left.
//!
//! `switchboardd --guard PROGRAM ARGS…` adopts every descendant of the child (subreaper) and holds
//! one end of a socket whose other end only the daemon has. End of that socket, or of the child,
//! means TERM and then KILL to every descendant, daemonised ones and all, until none is left. It
//! starts no runtime and reads no configuration, so that it stays tiny and cannot hang.

use std::ffi::{OsStr, OsString};
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions};

use super::descent;
use super::ledger::stop_container;

/// How long descendants may take to end after TERM.
const TERM_GRACE: Duration = Duration::from_millis(1000);

/// How often the guard looks again while descendants are ending.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The whole life of a guard.
pub fn run(mut command: impl Iterator<Item = OsString>) -> ExitCode {
    let Some((control, input)) = take_control() else {
        return ExitCode::from(2);
    };
    let mut program = command.next();
    let (mut container, mut name) = (None, None);
    loop {
        match program.as_deref().and_then(|word| word.to_str()) {
            Some("--container") => container = command.next(),
            Some("--name") => name = command.next(),
            Some("--files") => limit_files(command.next().as_deref()),
            _ => break,
        }
        program = command.next();
    }
    let Some(program) = program else {
        return ExitCode::from(2);
    };
    outlive_signals();
    // It was started through a link of the kernel's, whose name says nothing in a list of processes.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"switchboardd");
    // Leave the terminal's process group: Ctrl-C is for the daemon, which then tells us.
    let _ = rustix::process::setsid();
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));

    #[expect(clippy::disallowed_methods, reason = "the one place where a child is executed")]
    let mut executed = Command::new(&program);
    executed.arg0(name.unwrap_or(program)).args(command);
    let spawned = executed.stdin(input).process_group(0).spawn();
    // It holds the child's input, which must close when the child closes it.
    drop(executed);
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            report(&control, &format!("failed {}\n", error.raw_os_error().unwrap_or(0)));
            return ExitCode::from(127);
        }
    };
    report(&control, &format!("pid {}\n", child.id()));
    let_go_of_pipes();

    // Callers wait for the news of an end, not for the clearing up after it.
    let ended = await_end(&control, &mut child);
    if ended.is_some() {
        report(&control, &ending(ended));
    }
    if let Some(container) = container {
        stop_container(Path::new(&container));
    }
    clear(&child);
    if ended.is_none() {
        report(&control, &ending(child.try_wait().ok().flatten()));
    }
    ExitCode::SUCCESS
}

/// The daemon's socket is our standard input; what the child is to read from comes as its first message.
fn take_control() -> Option<(UnixStream, OwnedFd)> {
    let control = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(&control, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
    let input = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })?;
    Some((control, input))
}

/// The daemon raised its limit of open files for itself; a child gets the one that was there before.
fn limit_files(soft: Option<&OsStr>) {
    let soft = soft.and_then(|soft| soft.to_str()?.parse().ok());
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: soft, ..limit });
}

/// TERM, INT and HUP are not for us: dying of them would leave the child without its guard.
fn outlive_signals() {
    for signal in [1, 2, 15] {
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
}

/// The daemon must see the end of the child's output, so nobody else may keep the pipes open.
fn let_go_of_pipes() {
    let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") else {
        return;
    };
    let null = OwnedFd::from(null);
    let _ = rustix::stdio::dup2_stdin(&null);
    let _ = rustix::stdio::dup2_stdout(&null);
    let _ = rustix::stdio::dup2_stderr(&null);
}

/// Waits for the child to end (its status) or for the daemon to let go (`None`).
fn await_end(mut control: &UnixStream, child: &mut std::process::Child) -> Option<ExitStatus> {
    #[cfg(target_os = "linux")]
    let ended = Pid::from_raw(child.id().cast_signed())
        .and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok());
    #[cfg(not(target_os = "linux"))]
    let ended: Option<OwnedFd> = None;

    loop {
        reap_adopted(child.id());
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        let mut watched = vec![PollFd::new(&control, PollFlags::IN)];
        if let Some(ended) = &ended {
            watched.push(PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN));
        }
        // With a pidfd the pause only serves adopted zombies; without one it is how an end is seen.
        let pause = if ended.is_some() { Duration::from_secs(5) } else { Duration::from_millis(50) };
        let pause = rustix::event::Timespec::try_from(pause).ok();
        let _ = poll(&mut watched, pause.as_ref());
        if !watched[0].revents().is_empty() && matches!(control.read(&mut [0; 16]), Ok(0) | Err(_)) {
            return None;
        }
    }
}

/// Zombies that were re-parented to us; the child itself is left for `try_wait`.
fn reap_adopted(child: u32) {
    for pid in descent::children_of(std::process::id()) {
        if pid.id != child
            && let Some(raw) = Pid::from_raw(pid.id.cast_signed())
        {
            let _ = rustix::process::waitpid(Some(raw), WaitOptions::NOHANG);
        }
    }
}

/// TERM, then KILL, to every descendant until none is left.
fn clear(child: &std::process::Child) {
    let me = std::process::id();
    let group = Pid::from_raw(child.id().cast_signed());
    let kill_from = Instant::now() + TERM_GRACE;
    let mut termed = false;
    loop {
        let family = descent::descendants_of(me);
        let alive: Vec<_> = family.iter().filter(|process| !process.zombie).collect();
        if alive.is_empty() && !other_system_has_group(group) {
            break;
        }
        if Instant::now() >= kill_from {
            alive.iter().for_each(|process| process.signal(Signal::KILL));
            signal_group(group, Signal::KILL);
        } else if !termed {
            alive.iter().for_each(|process| process.signal(Signal::TERM));
            signal_group(group, Signal::TERM);
            termed = true;
        }
        reap_adopted(child.id());
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Where descendants cannot be listed, the process group is all there is.
fn signal_group(group: Option<Pid>, signal: Signal) {
    if cfg!(not(target_os = "linux"))
        && let Some(group) = group
    {
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

fn other_system_has_group(group: Option<Pid>) -> bool {
    cfg!(not(target_os = "linux"))
        && group.is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
}

fn report(mut control: &UnixStream, line: &str) {
    let _ = control.write_all(line.as_bytes());
}

fn ending(status: Option<ExitStatus>) -> String {
    match status.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => format!("exit {code}\n"),
        Some((None, Some(signal))) => format!("signal {signal}\n"),
        _ => "gone\n".to_owned(),
    }
}

//! The guard: a small process that a local child runs under, so that none of its processes is left behind.
//!
//! `switchboard-guard [NOTE]` adopts every descendant of the child (subreaper). It holds one end of a
//! socket to the daemon, which sends the order what to start. When the socket or the child ends, the guard
//! sends TERM and then KILL to every descendant, including daemonised ones, until the kernel reports that
//! none is left. It starts no runtime and reads no configuration, so that it stays tiny and cannot hang.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use switchboard_guard::container::stop_container;
use switchboard_guard::kill_sequence::KillSequence;
use switchboard_guard::memory::{CoreLimitGuard, protect_memory};
use switchboard_guard::order::GuardOrder;
use switchboard_guard::{VERSION, process_tree};

/// How long an adopted process that has ended may stay a zombie at most.
const ZOMBIE_CHECK: Duration = Duration::from_secs(30);

/// How long descendants may take to end after TERM.
const TERM_GRACE: Duration = Duration::from_millis(1000);

/// The NOTE argument is only for readers of a process list.
#[expect(clippy::disallowed_methods, reason = "constant words")]
fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|first| first == "--version") {
        let _ = writeln!(std::io::stdout(), "switchboard-guard {VERSION}");
        return ExitCode::SUCCESS;
    }
    let _ = protect_memory();
    let Some((control, input)) = take_control() else {
        let _ = writeln!(std::io::stderr(), "switchboard-guard: only switchboardd starts this program");
        return ExitCode::from(2);
    };
    let order = match GuardOrder::read(&control) {
        Ok(order) => order,
        Err(error) => {
            if error.kind() == std::io::ErrorKind::Unsupported {
                report(&control, &format!("version {VERSION}\n"));
            }
            return ExitCode::from(2);
        }
    };
    outlive_signals();
    // It was started through `/proc/self/fd`, whose name says nothing in a process list.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"switchboard-guard");
    // Leave the terminal's process group: Ctrl-C goes to the daemon, which then tells the guard.
    let _ = rustix::process::setsid();
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));

    let mut family = match start(&order, input) {
        Ok(family) => family,
        Err(error) => {
            let code = error.raw_os_error().unwrap_or(rustix::io::Errno::INVAL.raw_os_error());
            report(&control, &format!("failed {code}\n"));
            return ExitCode::from(127);
        }
    };
    report(&control, &format!("pid {}\n", family.child));
    close_pipes();

    // Callers wait for the report of the child's end, not for the clearing up after it.
    let has_ended = await_end(&control, &mut family);
    if has_ended {
        report(&control, &ending(family.status));
    }
    if let Some(container) = &order.container {
        // There is nowhere to log: the daemon reads only the reports.
        let _ = stop_container(container);
    }
    clear(&mut family);
    if !has_ended {
        report(&control, &ending(family.status));
    }
    ExitCode::SUCCESS
}

/// The child and all processes that the guard has adopted.
struct GuardedProcesses {
    child: u32,
    /// How the child ended, once it has.
    status: Option<ExitStatus>,
}

impl GuardedProcesses {
    /// Reaps all ended processes. True once none is left: orphans become our children, so the
    /// kernel's answer is final.
    fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid.as_raw_nonzero().get().cast_unsigned() == self.child {
                        self.status = Some(ExitStatus::from_raw(status.as_raw()));
                    }
                }
                Ok(None) => return false,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }
}

fn start(order: &GuardOrder, input: OwnedFd) -> std::io::Result<GuardedProcesses> {
    #[expect(clippy::disallowed_methods, reason = "the one place where a child is executed")]
    let mut executed = Command::new(&order.program);
    executed.arg0(order.name.as_ref().unwrap_or(&order.program)).args(&order.args);
    // The daemon changed its own limits; the child gets the original ones.
    if order.files.is_some() {
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: order.files, ..limit });
    }
    let cores = order.core.map(CoreLimitGuard::allow);
    let spawned = executed.stdin(input).process_group(0).spawn();
    drop(cores);
    // It holds the child's stdin, which must close when the child closes it.
    drop(executed);
    Ok(GuardedProcesses { child: spawned?.id(), status: None })
}

/// The daemon's socket is our stdin; the child's stdin arrives with its first message.
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

/// Survives TERM, INT and HUP: dying of them would leave the child without its guard. CHLD ends a wait, so that
/// adopted processes are reaped as soon as they end.
fn outlive_signals() {
    for signal in [SIGCHLD, SIGHUP, SIGINT, SIGTERM] {
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
}

/// Closes our copies of the pipes: the daemon must see the end of the child's output.
fn close_pipes() {
    let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") else {
        return;
    };
    let null = OwnedFd::from(null);
    let _ = rustix::stdio::dup2_stdin(&null);
    let _ = rustix::stdio::dup2_stdout(&null);
    let _ = rustix::stdio::dup2_stderr(&null);
}

/// Waits until the child ends (`true`) or the daemon closes the socket.
fn await_end(mut control: &UnixStream, family: &mut GuardedProcesses) -> bool {
    #[cfg(target_os = "linux")]
    let ended = Pid::from_raw(family.child.cast_signed())
        .and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok());
    #[cfg(not(target_os = "linux"))]
    let ended: Option<OwnedFd> = None;

    loop {
        let none_left = family.reap();
        if none_left || family.status.is_some() {
            return true;
        }
        let mut watched = vec![PollFd::new(&control, PollFlags::IN)];
        if let Some(ended) = &ended {
            watched.push(PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN));
        }
        // A pidfd tells of the child's end, and CHLD of adopted processes, unless the signal came just before the
        // wait. Without a pidfd the timeout is how an end is noticed.
        let pause = if ended.is_some() { ZOMBIE_CHECK } else { Duration::from_millis(50) };
        let pause = rustix::event::Timespec::try_from(pause).ok();
        let _ = poll(&mut watched, pause.as_ref());
        if !watched[0].revents().is_empty() && matches!(control.read(&mut [0; 16]), Ok(0) | Err(_)) {
            return false;
        }
    }
}

/// Sends TERM, then KILL, to every descendant until none is left.
fn clear(family: &mut GuardedProcesses) {
    let me = std::process::id();
    let group = Pid::from_raw(family.child.cast_signed());
    let own_group = process_tree::Process::look_up(me).map_or(me, |own| own.group);
    let mut clearing = KillSequence::with_grace(TERM_GRACE);
    signal_group(group, Signal::TERM);
    while !family.reap() || other_system_has_group(group) {
        if clearing.kills() {
            // Before any lookup: some processes live only for a moment and leave another one behind. The pid
            // of our child cannot be reused before we reap it.
            let ours = process_tree::child_ids_of(me).unwrap_or_default();
            for pid in ours.into_iter().filter_map(|id| Pid::from_raw(id.cast_signed())) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            signal_group(group, Signal::KILL);
        }
        let pause = clearing.pass(&process_tree::family_now(me), |group| group == own_group);
        std::thread::sleep(pause);
    }
}

/// Where descendants cannot be listed, only the process group can be signalled.
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

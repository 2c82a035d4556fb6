//! The guard: a small process that a local child runs under, so that none of its processes is left behind.
//!
//! `switchboard-guard [NOTE]` adopts every descendant of the child (subreaper). It holds one end of a
//! socket to the daemon, which sends the order what to start. When the socket or the child ends, the guard
//! sends TERM and then KILL to every descendant, including daemonised ones, until the kernel reports that
//! none is left. It starts no runtime and reads no configuration, so that it stays tiny and cannot hang.
//!
//! macOS gives orphans to launchd. There the guard notes every descendant that it sees, looks again whenever one of
//! them forks, and finds the others by session, process group and environment.

#[cfg(target_os = "macos")]
mod process_events;

#[cfg(target_os = "macos")]
use std::ffi::OsString;
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
#[cfg(target_os = "macos")]
use std::os::unix::ffi::OsStrExt;
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
#[cfg(target_os = "macos")]
use switchboard_guard::descendants::Descendants;
use switchboard_guard::kill_sequence::KillSequence;
#[cfg(target_os = "macos")]
use switchboard_guard::kill_sequence::real_now;
#[cfg(target_os = "macos")]
use switchboard_guard::look_times::LookTimes;
use switchboard_guard::memory::{CoreLimitGuard, protect_memory};
use switchboard_guard::order::GuardOrder;
#[cfg(target_os = "macos")]
use switchboard_guard::ps;
use switchboard_guard::{VERSION, process_tree};

/// How long an adopted process that has ended may stay a zombie at most.
const ZOMBIE_CHECK: Duration = Duration::from_secs(30);

#[cfg(target_os = "linux")]
const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const CLOSE_ON_EXEC: RecvFlags = RecvFlags::empty();

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
    /// Those that were seen, and the value of the environment variable that marks them.
    #[cfg(target_os = "macos")]
    descendants: Descendants,
    #[cfg(target_os = "macos")]
    mark: Option<OsString>,
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
    let child = spawned?.id();
    Ok(GuardedProcesses {
        child,
        status: None,
        #[cfg(target_os = "macos")]
        descendants: Descendants::of(std::process::id(), child),
        #[cfg(target_os = "macos")]
        mark: std::env::var_os(ps::GUARD_VARIABLE),
    })
}

/// The daemon's socket is our stdin; the child's stdin arrives with its first message.
fn take_control() -> Option<(UnixStream, OwnedFd)> {
    let control = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(&control, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, CLOSE_ON_EXEC).ok()?;
    let input = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })?;
    // For macOS. No other thread starts a process meanwhile.
    #[cfg(not(target_os = "linux"))]
    rustix::io::fcntl_setfd(&input, rustix::io::FdFlags::CLOEXEC).ok()?;
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

/// Waits until the child ends (`true`), or until the daemon ends or closes the socket. Notes the descendants
/// meanwhile.
#[cfg(target_os = "macos")]
fn await_end(mut control: &UnixStream, family: &mut GuardedProcesses) -> bool {
    let daemon = std::os::unix::process::parent_id();
    let mut events = process_events::ProcessEvents::new();
    if let Some(events) = &mut events {
        events.watch_end(daemon);
        events.watch(std::iter::once(family.child));
    }
    let mut looks = LookTimes::new(events.is_some());
    loop {
        if family.reap() || family.status.is_some() {
            return true;
        }
        // A process that the daemon started at the wrong moment may hold the socket open.
        if std::os::unix::process::parent_id() != daemon {
            return false;
        }
        if looks.is_due(real_now()) {
            looks.begin(real_now());
            family.descendants.update(&process_tree::all(), &[]);
            if let Some(events) = &mut events {
                events.watch(family.descendants.processes().into_iter().map(|process| process.id));
            }
        }
        let mut watched = vec![PollFd::new(&control, PollFlags::IN)];
        if let Some(events) = &events {
            watched.push(PollFd::new(events, PollFlags::IN));
        }
        let pause = looks.pause(real_now()).unwrap_or(ZOMBIE_CHECK);
        let pause = rustix::event::Timespec::try_from(pause).ok();
        let _ = poll(&mut watched, pause.as_ref());
        if !watched[0].revents().is_empty() && matches!(control.read(&mut [0; 16]), Ok(0) | Err(_)) {
            return false;
        }
        if events.as_mut().is_some_and(process_events::ProcessEvents::take) {
            looks.want();
        }
    }
}

/// Waits until the child ends (`true`) or the daemon closes the socket.
#[cfg(not(target_os = "macos"))]
fn await_end(mut control: &UnixStream, family: &mut GuardedProcesses) -> bool {
    let ended = Pid::from_raw(family.child.cast_signed())
        .and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok());

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

/// Sends TERM, then KILL, to every descendant until none is left that can be found.
#[cfg(target_os = "macos")]
fn clear(family: &mut GuardedProcesses) {
    let me = std::process::id();
    let group = Pid::from_raw(family.child.cast_signed());
    let mut clearing = KillSequence::with_grace(TERM_GRACE);
    signal_group(group, Signal::TERM);
    loop {
        if clearing.kills() {
            signal_group(group, Signal::KILL);
        }
        let marked = match &family.mark {
            Some(mark) => ps::ids_with_variable(ps::GUARD_VARIABLE, &[mark.as_bytes()]),
            None => Vec::new(),
        };
        family.descendants.update(&process_tree::all(), &marked);
        let left = family.descendants.processes();
        let has_reaped = family.reap();
        if has_reaped && left.is_empty() {
            return;
        }
        std::thread::sleep(clearing.pass(&left, |group| group == me));
    }
}

#[cfg(target_os = "macos")]
fn signal_group(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

/// Sends TERM, then KILL, to every descendant until none is left.
#[cfg(not(target_os = "macos"))]
fn clear(family: &mut GuardedProcesses) {
    let me = std::process::id();
    let own_group = process_tree::Process::look_up(me).map_or(me, |own| own.group);
    let mut clearing = KillSequence::with_grace(TERM_GRACE);
    while !family.reap() {
        if clearing.kills() {
            // Before any lookup: some processes live only for a moment and leave another one behind. The pid
            // of our child cannot be reused before we reap it.
            let ours = process_tree::child_ids_of(me).unwrap_or_default();
            for pid in ours.into_iter().filter_map(|id| Pid::from_raw(id.cast_signed())) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        let pause = clearing.pass(&process_tree::family_now(me), |group| group == own_group);
        std::thread::sleep(pause);
    }
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

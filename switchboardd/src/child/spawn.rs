//! Starts a child under its guard and returns our ends of its pipes.

use std::ffi::OsString;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use switchboard_definitions::definition::ResolvedCommand;
use switchboard_definitions::files::state::check_child_folder;
use switchboard_guard::container::{remove_container_id, stop_container};
use switchboard_guard::order::GuardOrder;
use switchboard_guard::process_tree::Process;
use switchboard_wire::event_loop::{may_block, run_blocking};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep};

use super::orphans::GuardedFamily;
use super::run_log::{GuardNote, RUN_VARIABLE, Role, RunLog};
use super::runner::{self, Runners};
use super::{ChildError, StartDeps};
use crate::system::environment::ChildEnvironment;
use crate::system::processes::{self, RegisteredProcess};
use crate::system::programs;

/// Container engines whose `run` starts a container.
const CONTAINERS: [&str; 2] = ["docker", "podman"];

/// How long a guard may take to clear up: its descendants get a second, a container a few more.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a guard that clears up is checked: a child may have stopped it.
const CLEAR_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A guard that was found stopped this often, and continued each time, is killed.
const MAX_CONTINUES: u32 = 10;

/// A child that was just started, before its handshake.
pub(super) struct SpawnedChild {
    pub(super) pid: u32,
    pub(super) stdin: pipe::Sender,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
    pub(super) guard: Guard,
}

/// The daemon's end of a guard. Dropping it tells the guard to clear up.
pub(super) struct Guard {
    process: tokio::process::Child,
    reports: Lines<BufReader<UnixStream>>,
    /// The pid of the child; 0 before it has started.
    child: u32,
    /// How the child ended, once the guard has reported it.
    seen: Option<ChildExit>,
    /// The run log's note of the child's container.
    container: Option<PathBuf>,
    /// While these exist, this daemon and the next one know the process as a guard.
    _ours: RegisteredProcess,
    note: Option<GuardNote>,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildExit {
    Status(i32),
    Signal(i32),
    /// It is gone, and its exit status is unknown.
    Unknown,
}

impl std::fmt::Display for ChildExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(code) => write!(f, "exited with status {code}"),
            Self::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "was ended by {name} (signal {signal})"),
                None => write!(f, "was ended by signal {signal}"),
            },
            Self::Unknown => f.write_str("ended"),
        }
    }
}

/// The name of a signal that often ends programs. These have the same number on Linux and macOS.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return None,
    })
}

pub(super) async fn spawn(
    filled: &ResolvedCommand,
    deps: &StartDeps<'_>,
) -> Result<SpawnedChild, ChildError> {
    let StartDeps { variables, run_log, .. } = *deps;
    let failed = |why: std::io::Error| ChildError::Spawn { why: why.to_string() };
    let PreparedStart { program, order, runner, note } = {
        let (filled, variables) = (filled.clone(), variables.clone());
        let (run_log, runners) = (run_log.clone(), deps.runners.clone());
        run_blocking(move || prepare(&filled, &variables, &run_log, &runners)).await?
    };
    let Some(told) = order.encode() else {
        return Err(ChildError::Spawn { why: "its arguments hold a zero byte".to_owned() });
    };
    let ChildPipes { stdin: (stdin, child_stdin), stdout: (child_stdout, stdout), stderr, control } =
        ChildPipes::open().map_err(failed)?;
    let ((child_stderr, stderr), (control, theirs)) = (stderr, control);
    pass_input(&control, &child_stdin.into_blocking_fd().map_err(failed)?).map_err(failed)?;

    let mut command = programs::GUARD.command().await.map_err(|why| ChildError::Spawn { why })?;
    command
        .args(note.as_ref().map(GuardNote::file))
        .env_clear()
        .envs(variables.iter())
        .envs(filled.env.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))))
        .env(RUN_VARIABLE, run_log.mark())
        .envs(note.as_ref().and_then(GuardNote::mark))
        .current_dir(runner.as_ref().map_or(filled.working_dir(), |runner| &runner.cwd))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(child_stdout.into_blocking_fd().map_err(failed)?))
        .stderr(Stdio::from(child_stderr.into_blocking_fd().map_err(failed)?));
    for (name, _) in filled.env.iter().filter(|(_, value)| value.is_none()) {
        command.env_remove(name);
    }
    command.envs(runner.into_iter().flat_map(|runner| runner.env));
    let (process, ours) = processes::start(&mut command.into())
        .map_err(|error| ChildError::Spawn { why: start_failure(&error, filled.working_dir()) })?;
    // Noted before the guard starts the child.
    let note = add_to_note(note, Role::Guard, process.id()).await;

    control.set_nonblocking(true).map_err(failed)?;
    let reports = BufReader::new(UnixStream::from_std(control).map_err(failed)?).lines();
    let mut guard =
        Guard { process, reports, child: 0, seen: None, container: order.container, _ours: ours, note };
    // If the write fails, `started` returns an error.
    let _ = guard.reports.get_mut().get_mut().write_all(&told).await;
    let pid = guard.started(&filled.shown(&program)).await?;
    guard.note = add_to_note(guard.note.take(), Role::Child, Some(pid)).await;
    guard.child = pid;
    Ok(SpawnedChild { pid, stdin, stdout, stderr, guard })
}

/// The descriptors of a start: both ends of each.
struct ChildPipes {
    stdin: (pipe::Sender, pipe::Receiver),
    stdout: (pipe::Sender, pipe::Receiver),
    stderr: (pipe::Sender, pipe::Receiver),
    control: (StdUnixStream, StdUnixStream),
}

impl ChildPipes {
    fn open() -> std::io::Result<Self> {
        // macOS marks a descriptor as close-on-exec after it has made it: a process that starts between the two
        // would keep it open.
        let _no_start = processes::lock();
        Ok(Self {
            stdin: pipe::pipe()?,
            stdout: pipe::pipe()?,
            stderr: pipe::pipe()?,
            control: StdUnixStream::pair()?,
        })
    }
}

/// What is prepared on disk before a start.
struct PreparedStart {
    program: PathBuf,
    order: GuardOrder,
    runner: Option<runner::RunnerStart>,
    note: Option<GuardNote>,
}

fn prepare(
    filled: &ResolvedCommand,
    variables: &ChildEnvironment,
    run_log: &RunLog,
    runners: &Runners,
) -> Result<PreparedStart, ChildError> {
    may_block();
    let failed = |why: std::io::Error| ChildError::Spawn { why: why.to_string() };
    let found = program(filled, variables).map_err(|why| ChildError::Spawn { why })?;
    // The program that was approved is executed, even if a symlink has changed since. `argv[0]` is the name
    // that it was found by, which e.g. programs of a Python virtual environment need.
    let program = filled.program.clone().unwrap_or_else(|| found.clone());
    if is_own_binary(&program) {
        return Err(ChildError::Spawn { why: "it would start Switchboard itself".to_owned() });
    }
    if let Some(data) = &filled.data {
        data.parent().map_or(Ok(()), check_child_folder).map_err(failed)?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(failed)?;
    }
    if !filled.working_dir().is_dir() {
        return Err(ChildError::Spawn {
            why: format!("its directory `{}` does not exist", filled.shown_directory()),
        });
    }
    let runner = runners.start(filled).map_err(failed)?;
    let order = guard_order(&program, &found, filled, run_log);
    Ok(PreparedStart { program, order, runner, note: run_log.note_guard() })
}

/// Why a guard could not be started. The system reports a missing directory as it does a missing program.
fn start_failure(error: &std::io::Error, directory: &Path) -> String {
    if directory.is_dir() {
        return programs::GUARD.explain(error);
    }
    format!("its directory `{}`: {error}", directory.display())
}

/// Adds a process to the note of its guard.
async fn add_to_note(note: Option<GuardNote>, role: Role, pid: Option<u32>) -> Option<GuardNote> {
    let (note, pid) = (note?, pid?);
    run_blocking(move || {
        note.add(role, pid);
        Some(note)
    })
    .await
}

/// The order for the guard.
fn guard_order(program: &Path, found: &Path, filled: &ResolvedCommand, run_log: &RunLog) -> GuardOrder {
    let mut args: Vec<OsString> = filled.args.iter().map(OsString::from).collect();
    let container = container(program, filled, run_log).map(|Container { note, id_file, run }| {
        if let Some(file) = id_file {
            args.splice(run + 1..run + 1, ["--cidfile".into(), file.into()]);
        }
        note
    });
    GuardOrder {
        program: program.to_owned(),
        name: (found != program).then(|| found.to_owned()),
        container,
        files: switchboard_definitions::files::soft_limit_before(),
        core: switchboard_guard::memory::cores_before(),
        args,
    }
}

/// A child that runs in a container.
struct Container {
    /// The run log's note of the container.
    note: PathBuf,
    /// The file for the container id, unless the child's own arguments name one.
    id_file: Option<PathBuf>,
    /// Index of the `run` argument.
    run: usize,
}

/// `docker run …` and the like start processes that are not our descendants. Such a child writes its
/// container id to a file, and the container is stopped by that id.
fn container(program: &Path, filled: &ResolvedCommand, run_log: &RunLog) -> Option<Container> {
    let name = program.file_name()?.to_str()?;
    let run = filled.args.iter().position(|arg| arg == "run")?;
    if !CONTAINERS.contains(&name) || filled.args[..run].iter().any(|arg| !arg.starts_with('-')) {
        return None;
    }
    let own = switchboard_definitions::trust::container_id_file(&filled.args).map(ToOwned::to_owned);
    let has_own = own.is_some();
    // The engine refuses an existing file: one that an earlier start left is removed, any other file stays.
    if let Some(own) = &own {
        remove_container_id(&filled.working_dir().join(own));
    }
    let (note, file) = run_log.note_container(program, own.map(|file| filled.working_dir().join(file)))?;
    Some(Container { note, id_file: (!has_own).then_some(file), run })
}

/// Sends the child's end of its stdin to the guard, as the first message on its socket.
fn pass_input(control: &StdUnixStream, input: &OwnedFd) -> std::io::Result<()> {
    let descriptors = [input.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)), "BUG: no room for one descriptor");
    sendmsg(control, &[IoSlice::new(b"i")], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// The program that will run: as given if it is a path (relative to the child's directory), else the first
/// executable of that name in `PATH`.
pub fn program(filled: &ResolvedCommand, variables: &ChildEnvironment) -> Result<PathBuf, String> {
    if filled.cmd.contains('/') {
        return Ok(filled.cwd.join(&filled.cmd));
    }
    let declared = filled.env.get("PATH").and_then(Option::as_deref);
    let path = declared.unwrap_or_else(|| variables.path());
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(&filled.cmd))
        .find(|file| is_executable(file))
        .ok_or_else(|| match declared {
            // Values in a definition may be secret, even in `PATH`.
            Some(_) => format!("command `{}` not found in the PATH that its `env` sets", filled.written.cmd),
            None => format!("command `{}` not found in PATH `{path}`", filled.written.cmd),
        })
}

/// Whether it is a program of Switchboard, under whatever name.
fn is_own_binary(program: &Path) -> bool {
    let (ours, Ok(program)) = (programs::own_binary(), program.canonicalize()) else { return false };
    ["switchboard", "switchboardd", "switchboard-ctl", "switchboard-guard"]
        .iter()
        .any(|name| ours.with_file_name(name).canonicalize().is_ok_and(|known| known == program))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

impl Guard {
    pub(super) fn pid(&self) -> u32 {
        self.process.id().unwrap_or(0)
    }

    /// What its processes are known by.
    pub(super) fn family(&self) -> GuardedFamily {
        let mark = self.note.as_ref().and_then(GuardNote::mark).map(|(_, mark)| mark);
        GuardedFamily { guard: self.pid(), child: self.child, mark }
    }

    async fn started(&mut self, program: &str) -> Result<u32, ChildError> {
        let report = self.reports.next_line().await.ok().flatten().unwrap_or_default();
        if let Some(pid) = report.strip_prefix("pid ").and_then(|pid| pid.parse().ok()) {
            return Ok(pid);
        }
        if let Some(version) = report.strip_prefix("version ") {
            let guard = programs::GUARD.path();
            // An upgrade may have installed the right one since.
            run_blocking(|| programs::GUARD.open()).await;
            let why = format!(
                "`{}` is version {version} and this daemon {}; install both from one release",
                guard.display(),
                switchboard_guard::VERSION,
            );
            return Err(ChildError::Spawn { why });
        }
        let why = match report.strip_prefix("failed ").and_then(|code| code.parse().ok()) {
            Some(code) => std::io::Error::from_raw_os_error(code).to_string(),
            None => "its guard could not start".to_owned(),
        };
        Err(ChildError::Spawn { why: format!("`{program}`: {why}") })
    }

    /// Waits until the child has ended, and returns how.
    pub(super) async fn exit(&mut self) -> ChildExit {
        while let Ok(Some(report)) = self.reports.next_line().await {
            let number = |word| report.strip_prefix(word).and_then(|text: &str| text.parse().ok());
            if let Some(code) = number("exit ") {
                self.seen = Some(ChildExit::Status(code));
            } else if let Some(signal) = number("signal ") {
                self.seen = Some(ChildExit::Signal(signal));
            } else {
                continue;
            }
            break;
        }
        self.seen.unwrap_or(ChildExit::Unknown)
    }

    /// Tells the guard to clear up, and waits until it has. `Unknown` if it failed: then the
    /// daemon kills what is left.
    pub(super) async fn clear(mut self) -> ChildExit {
        let _ = self.reports.get_mut().get_mut().shutdown().await;
        let id = self.pid();
        let done = tokio::select! {
            (exit, status) = async { (self.exit().await, self.process.wait().await) } => {
                status.is_ok_and(|status| status.success()).then_some(exit)
            }
            () = is_stuck(id) => None,
        };
        if done.is_none() {
            // Through its handle, which cannot refer to another process. KILL also ends a stopped guard.
            let _ = self.process.kill().await;
        }
        let (note, container) = (self.note.take(), self.container.take().filter(|_| done.is_none()));
        run_blocking(move || {
            if let Some(Err(why)) = container.as_deref().map(stop_container) {
                tracing::warn!(target: "ledger", "{why}");
            }
            drop(note);
        })
        .await;
        done.unwrap_or(ChildExit::Unknown)
    }
}

/// Resolves when a guard fails to clear up: its child keeps stopping it, or the timeout has passed.
async fn is_stuck(guard: u32) {
    let give_up = Instant::now() + CLEAR_TIMEOUT;
    let mut stopped = 0;
    while Instant::now() < give_up && stopped < MAX_CONTINUES {
        sleep(CLEAR_POLL_INTERVAL).await;
        let was_stopped = run_blocking(move || match Process::look_up(guard) {
            Some(process) if process.stopped => {
                process.signal(Signal::CONT);
                true
            }
            Some(_) => false,
            None => has_continued_unseen(guard),
        });
        stopped += u32::from(was_stopped.await);
    }
}

/// Continues a stopped guard that `/proc` does not show. Returns whether it was stopped.
fn has_continued_unseen(guard: u32) -> bool {
    let Some(pid) = i32::try_from(guard).ok().and_then(Pid::from_raw) else { return false };
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // `waitid` reports only a child of ours that was not reaped, so the pid is still valid.
    let status = waitid(WaitId::Pid(pid), options).ok().flatten();
    status.is_some_and(|status| status.stopped()) && kill_process(pid, Signal::CONT).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a process to stop")]
    fn a_stopped_process_is_continued_without_proc() {
        let mut process = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&process);
        let was_running = has_continued_unseen(process.id());
        kill_process(pid, Signal::STOP).unwrap();
        // The kernel stops it asynchronously.
        let until = std::time::Instant::now() + Duration::from_secs(30);
        let mut was_stopped = false;
        while !was_stopped && std::time::Instant::now() < until {
            was_stopped = has_continued_unseen(process.id());
            std::thread::sleep(Duration::from_millis(1));
        }
        let is_stopped = has_continued_unseen(process.id());
        let id = process.id();
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!((was_running, was_stopped, is_stopped), (false, true, false));
        assert!(!has_continued_unseen(id), "it is gone");
    }
}

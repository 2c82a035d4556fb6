//! Starts a child under its guard and hands over the ends of its pipes.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::ChildError;
use crate::definition::Launch;
use crate::environment::Variables;

/// A child that was just started: nothing was said to it yet.
pub(super) struct Spawned {
    pub(super) pid: u32,
    pub(super) stdin: pipe::Sender,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
    pub(super) guard: Guard,
}

/// The daemon's end of a guard. Dropping it is the order to clear up.
pub(super) struct Guard {
    process: tokio::process::Child,
    reports: Lines<BufReader<UnixStream>>,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Status(i32),
    Signal(i32),
    /// It is gone, and nobody saw how.
    Unknown,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(code) => write!(f, "exited with status {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::Unknown => f.write_str("ended"),
        }
    }
}

pub(super) async fn spawn(launch: &Launch, variables: &Variables) -> Result<Spawned, ChildError> {
    let failed = |why: std::io::Error| ChildError::Spawn { why: why.to_string() };
    let program = resolve(launch, variables)?;
    let (stdin, child_stdin) = pipe::pipe().map_err(failed)?;
    let (child_stdout, stdout) = pipe::pipe().map_err(failed)?;
    let (child_stderr, stderr) = pipe::pipe().map_err(failed)?;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| failed(error.into()))?;
    pass_input(&ours, &child_stdin.into_blocking_fd().map_err(failed)?).map_err(failed)?;

    let mut command = guard_command(&program, launch).map_err(failed)?;
    command
        .env_clear()
        .envs(variables.iter())
        .envs(&launch.env)
        .current_dir(&launch.cwd)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::from(child_stdout.into_blocking_fd().map_err(failed)?))
        .stderr(Stdio::from(child_stderr.into_blocking_fd().map_err(failed)?));
    let process = tokio::process::Command::from(command).spawn().map_err(|error| {
        if launch.cwd.is_dir() {
            return failed(error);
        }
        ChildError::Spawn { why: format!("its directory `{}` does not exist", launch.cwd.display()) }
    })?;

    let ours = std::os::unix::net::UnixStream::from(ours);
    ours.set_nonblocking(true).map_err(failed)?;
    let reports = BufReader::new(UnixStream::from_std(ours).map_err(failed)?).lines();
    let mut guard = Guard { process, reports };
    let pid = guard.started(&program).await?;
    Ok(Spawned { pid, stdin, stdout, stderr, guard })
}

#[expect(clippy::disallowed_methods, reason = "the one place where the daemon starts a child's guard")]
fn guard_command(program: &Path, launch: &Launch) -> std::io::Result<std::process::Command> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.arg("--guard").arg(program).args(&launch.args);
    Ok(command)
}

/// The child's own end of its input travels to the guard as the first message on its socket.
fn pass_input(control: &OwnedFd, input: &OwnedFd) -> std::io::Result<()> {
    let descriptors = [input.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)), "BUG: no room for one descriptor");
    sendmsg(control, &[IoSlice::new(b"i")], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// The program that will run: as given when it is a path (from the child's directory), else the
/// first executable of that name on the search path.
fn resolve(launch: &Launch, variables: &Variables) -> Result<PathBuf, ChildError> {
    if launch.cmd.contains('/') {
        return Ok(launch.cwd.join(&launch.cmd));
    }
    let path = launch.env.get("PATH").map_or_else(|| variables.path(), String::as_str);
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(&launch.cmd))
        .find(|file| is_executable(file))
        .ok_or_else(|| ChildError::Spawn {
            why: format!("command `{}` not found in PATH `{path}`", launch.cmd),
        })
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

impl Guard {
    pub(super) fn pid(&self) -> u32 {
        self.process.id().unwrap_or(0)
    }

    async fn started(&mut self, program: &Path) -> Result<u32, ChildError> {
        let report = self.reports.next_line().await.ok().flatten().unwrap_or_default();
        if let Some(pid) = report.strip_prefix("pid ").and_then(|pid| pid.parse().ok()) {
            return Ok(pid);
        }
        let why = match report.strip_prefix("failed ").and_then(|code| code.parse().ok()) {
            Some(code) => std::io::Error::from_raw_os_error(code).to_string(),
            None => "its guard could not start".to_owned(),
        };
        Err(ChildError::Spawn { why: format!("`{}`: {why}", program.display()) })
    }

    /// How the child ended, once nothing of it is left.
    pub(super) async fn exit(&mut self) -> Exit {
        while let Ok(Some(report)) = self.reports.next_line().await {
            let number = |word| report.strip_prefix(word).and_then(|text: &str| text.parse().ok());
            if let Some(code) = number("exit ") {
                return Exit::Status(code);
            }
            if let Some(signal) = number("signal ") {
                return Exit::Signal(signal);
            }
        }
        Exit::Unknown
    }

    /// Orders the guard to clear up now, and waits until it has.
    pub(super) async fn clear(self) {
        let Self { mut process, reports } = self;
        drop(reports);
        let _ = process.wait().await;
    }
}

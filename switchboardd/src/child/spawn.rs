//! Starts a child under its guard and hands over the ends of its pipes.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::ledger::{Ledger, MARK};
use super::{ChildError, Ground};
use crate::definition::Filled;
use crate::environment::Variables;

/// Programs whose `run` starts a container.
const CONTAINERS: [&str; 2] = ["docker", "podman"];

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
    /// The child's end, once it was reported.
    seen: Option<Exit>,
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

pub(super) async fn spawn(filled: &Filled, ground: &Ground<'_>) -> Result<Spawned, ChildError> {
    let Ground { variables, ledger, .. } = *ground;
    let failed = |why: std::io::Error| ChildError::Spawn { why: why.to_string() };
    let found = program(filled, variables).map_err(|why| ChildError::Spawn { why })?;
    // What was allowed is what is executed, wherever a link leads by now; under the name that it was found
    // by, which tells programs such as a virtual environment's who they are.
    let program = filled.program.clone().unwrap_or_else(|| found.clone());
    if is_ourselves(&program) {
        return Err(ChildError::Spawn { why: "it would start Switchboard itself".to_owned() });
    }
    if let Some(data) = &filled.data {
        std::fs::create_dir_all(data).map_err(failed)?;
    }
    let (stdin, child_stdin) = pipe::pipe().map_err(failed)?;
    let (child_stdout, stdout) = pipe::pipe().map_err(failed)?;
    let (child_stderr, stderr) = pipe::pipe().map_err(failed)?;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| failed(error.into()))?;
    pass_input(&ours, &child_stdin.into_blocking_fd().map_err(failed)?).map_err(failed)?;

    let mut command = guard_command(&program, &found, filled, ledger);
    command
        .env_clear()
        .envs(variables.iter())
        .envs(filled.env.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))))
        .env(MARK, ledger.mark())
        .current_dir(filled.runs_in())
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::from(child_stdout.into_blocking_fd().map_err(failed)?))
        .stderr(Stdio::from(child_stderr.into_blocking_fd().map_err(failed)?));
    for (name, _) in filled.env.iter().filter(|(_, value)| value.is_none()) {
        command.env_remove(name);
    }
    let process = tokio::process::Command::from(command).spawn().map_err(|error| {
        if filled.runs_in().is_dir() {
            return failed(error);
        }
        ChildError::Spawn { why: format!("its directory `{}` does not exist", filled.shown_directory()) }
    })?;

    let ours = std::os::unix::net::UnixStream::from(ours);
    ours.set_nonblocking(true).map_err(failed)?;
    let reports = BufReader::new(UnixStream::from_std(ours).map_err(failed)?).lines();
    let mut guard = Guard { process, reports, seen: None };
    let pid = guard.started(&filled.shown(&program)).await?;
    Ok(Spawned { pid, stdin, stdout, stderr, guard })
}

#[expect(clippy::disallowed_methods, reason = "the one place where the daemon starts a child's guard")]
fn guard_command(program: &Path, found: &Path, filled: &Filled, ledger: &Ledger) -> std::process::Command {
    // Not by its path: that may be another version by now, or gone.
    let mut command = std::process::Command::new("/proc/self/exe");
    if cfg!(not(target_os = "linux")) {
        command = std::process::Command::new(std::env::current_exe().unwrap_or_default());
    }
    command.arg0("switchboardd").arg("--guard");
    if let Some(soft) = crate::files::soft_limit_before() {
        command.arg("--files").arg(soft.to_string());
    }
    if found != program {
        command.arg("--name").arg(found);
    }
    match container(program, filled, ledger) {
        Some(Container { note, id_file: Some(file), run }) => {
            let (first, rest) = filled.args.split_at(run + 1);
            command
                .arg("--container")
                .arg(note)
                .arg(program)
                .args(first)
                .arg("--cidfile")
                .arg(file)
                .args(rest)
        }
        Some(Container { note, .. }) => command.arg("--container").arg(note).arg(program).args(&filled.args),
        None => command.arg(program).args(&filled.args),
    };
    command
}

/// A child that runs in a container.
struct Container {
    /// What the ledger keeps about it.
    note: PathBuf,
    /// The file for its id, unless its own arguments name one.
    id_file: Option<PathBuf>,
    /// Which argument is the `run`.
    run: usize,
}

/// `docker run …` and the like start what is no descendant of ours: such a child leaves its container's
/// id in a file, and is stopped by it.
fn container(program: &Path, filled: &Filled, ledger: &Ledger) -> Option<Container> {
    let name = program.file_name()?.to_str()?;
    let run = filled.args.iter().position(|arg| arg == "run")?;
    if !CONTAINERS.contains(&name) || filled.args[..run].iter().any(|arg| !arg.starts_with('-')) {
        return None;
    }
    let own = filled.args.iter().enumerate().find_map(|(at, arg)| match arg.strip_prefix("--cidfile") {
        Some("") => filled.args.get(at + 1).cloned(),
        Some(rest) => rest.strip_prefix('=').map(ToOwned::to_owned),
        None => None,
    });
    let has_own = own.is_some();
    // An engine refuses a file that is there already, from the last time.
    if let Some(own) = &own {
        let _ = std::fs::remove_file(filled.cwd.join(own));
    }
    let (note, file) = ledger.note_container(program, own.map(|file| filled.cwd.join(file)))?;
    Some(Container { note, id_file: (!has_own).then_some(file), run })
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
pub fn program(filled: &Filled, variables: &Variables) -> Result<PathBuf, String> {
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
            // What a definition declares may be a secret, even here.
            Some(_) => format!("command `{}` not found in the PATH that its `env` sets", filled.written.cmd),
            None => format!("command `{}` not found in PATH `{path}`", filled.written.cmd),
        })
}

/// Whether it is this very program, or the shim beside it, under whatever name.
fn is_ourselves(program: &Path) -> bool {
    let (Ok(ours), Ok(program)) = (std::env::current_exe(), program.canonicalize()) else { return false };
    [ours.with_file_name("switchboard"), ours]
        .iter()
        .any(|known| known.canonicalize().is_ok_and(|known| known == program))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

impl Guard {
    pub(super) fn pid(&self) -> u32 {
        self.process.id().unwrap_or(0)
    }

    async fn started(&mut self, program: &str) -> Result<u32, ChildError> {
        let report = self.reports.next_line().await.ok().flatten().unwrap_or_default();
        if let Some(pid) = report.strip_prefix("pid ").and_then(|pid| pid.parse().ok()) {
            return Ok(pid);
        }
        let why = match report.strip_prefix("failed ").and_then(|code| code.parse().ok()) {
            Some(code) => std::io::Error::from_raw_os_error(code).to_string(),
            None => "its guard could not start".to_owned(),
        };
        Err(ChildError::Spawn { why: format!("`{program}`: {why}") })
    }

    /// How the child ended.
    pub(super) async fn exit(&mut self) -> Exit {
        while let Ok(Some(report)) = self.reports.next_line().await {
            let number = |word| report.strip_prefix(word).and_then(|text: &str| text.parse().ok());
            if let Some(code) = number("exit ") {
                self.seen = Some(Exit::Status(code));
            } else if let Some(signal) = number("signal ") {
                self.seen = Some(Exit::Signal(signal));
            } else {
                continue;
            }
            break;
        }
        self.seen.unwrap_or(Exit::Unknown)
    }

    /// Orders the guard to clear up now, and waits until it has. `Unknown` if it did not get to it.
    pub(super) async fn clear(mut self) -> Exit {
        use tokio::io::AsyncWriteExt;
        let _ = self.reports.get_mut().get_mut().shutdown().await;
        let exit = self.exit().await;
        match self.process.wait().await {
            Ok(status) if status.success() => exit,
            _ => Exit::Unknown,
        }
    }
}

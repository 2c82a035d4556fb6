//! Hands over to a new version after an upgrade. When nobody needs the daemon, it executes the new binary in
//! the same process: the listening sockets stay open, so that new clients just wait. A busy daemon keeps
//! serving.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use switchboard_wire::event_loop::{may_block, run_blocking};

use super::file_checks::{CHECK_INTERVAL, FileChecks};
use super::listen::HandoverSocket;
use crate::state::{Daemon, Successor};
use crate::system::programs::GUARD;

/// How long a new binary may take to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
/// Above the descriptors that are usually open.
const FIRST_HANDOVER_FD: i32 = 64;

/// The binary that this process runs, by the path it was started with.
#[derive(Debug, Clone)]
pub(super) struct Binary {
    path: PathBuf,
    running: FileVersion,
}

/// Identifies one version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl FileVersion {
    fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            length: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
        }
    }
}

impl Binary {
    pub(super) fn of_this_process() -> Option<Self> {
        let running = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe().ok()?
        };
        let running = FileVersion::of(&std::fs::metadata(running).ok()?);
        // If we were started through a symlink, an upgrade changes the link and not its target.
        let called = std::env::args_os().next().map(PathBuf::from).filter(|path| path.is_absolute());
        let path = match called {
            Some(path) if std::fs::metadata(&path).is_ok_and(|meta| FileVersion::of(&meta) == running) => {
                path
            }
            _ => std::env::current_exe().ok()?,
        };
        Some(Self { path, running })
    }

    /// The file at the path, if it is another one.
    fn replacement(&self) -> Option<(Replacement, Metadata)> {
        may_block();
        let meta =
            std::fs::metadata(&self.path).ok().filter(|meta| meta.is_file() && meta.mode() & 0o100 != 0)?;
        let guard = std::fs::metadata(guard_of(&self.path)).ok();
        let found =
            Replacement { binary: FileVersion::of(&meta), guard: guard.as_ref().map(FileVersion::of) };
        (found.binary != self.running).then_some((found, meta))
    }
}

/// A new binary and the guard beside it: an upgrade replaces one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Replacement {
    binary: FileVersion,
    guard: Option<FileVersion>,
}

/// The guard that belongs to a binary.
fn guard_of(binary: &Path) -> PathBuf {
    let real = binary.canonicalize().unwrap_or_else(|_| binary.to_owned());
    real.with_file_name(GUARD.name())
}

/// Resolves when there is a new binary and the daemon can hand over. Records the successor in the daemon's
/// state.
pub(super) async fn is_due(daemon: &Arc<Daemon>, binary: Option<&Binary>, checks: &FileChecks) {
    let Some(binary) = binary else { return std::future::pending().await };
    let mut before = None;
    let mut judged = None;
    let mut total = daemon.shutdown.total_requests();
    loop {
        let look = binary.clone();
        if before.is_none() {
            checks.until(move || look.replacement().is_some()).await;
        } else {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        // If two looks agree, it is no longer being written.
        let look = binary.clone();
        let found = run_blocking(move || look.replacement()).await;
        let identity = found.as_ref().map(|(identity, _)| *identity);
        let settled = std::mem::replace(&mut before, identity) == identity;
        let Some((identity, meta)) = found.filter(|_| settled) else {
            if identity.is_none() {
                judged = None;
                daemon.shutdown.set_successor(None);
            }
            continue;
        };
        if judged != Some(identity) {
            judged = Some(identity);
            daemon.shutdown.set_successor(Some(judge(&binary.path, &meta).await));
        }
        let was_quiet = std::mem::replace(&mut total, daemon.shutdown.total_requests())
            == daemon.shutdown.total_requests();
        if was_quiet
            && daemon.can_hand_over()
            && daemon.shutdown.successor().is_some_and(|next| next.problem.is_none())
        {
            return;
        }
    }
}

/// Whether a binary may take over.
async fn judge(path: &Path, meta: &Metadata) -> Successor {
    let version = match switchboard_definitions::files::is_ours_alone(meta) {
        Ok(()) => matching_version(path).await,
        Err(why) => Err(why),
    };
    let shown = path.display();
    match &version {
        Ok(version) => {
            tracing::info!(target: "daemon", version, "`{shown}` was replaced; it takes over when nothing is under way")
        }
        Err(why) => {
            tracing::warn!(target: "daemon", "`{shown}` was replaced, and this daemon keeps running: {why}")
        }
    }
    let (version, problem) = match version {
        Ok(version) => (Some(version), None),
        Err(why) => (None, Some(why)),
    };
    Successor { binary: path.to_owned(), version, problem }
}

/// The version of a binary, if the guard beside it has the same one.
async fn matching_version(path: &Path) -> Result<String, String> {
    let daemon = version(path, "switchboardd").await?;
    let file = path.to_owned();
    let (guard, meta) = run_blocking(move || {
        let guard = guard_of(&file);
        let meta = std::fs::metadata(&guard);
        (guard, meta)
    })
    .await;
    let meta = meta.map_err(|error| format!("`{}`: {error}", guard.display()))?;
    switchboard_definitions::files::is_ours_alone(&meta)
        .map_err(|why| format!("`{}`: {why}", guard.display()))?;
    match version(&guard, GUARD.name()).await {
        Ok(found) if found == daemon => Ok(daemon),
        Ok(found) => Err(format!("`{}` is version {found}, and the new daemon {daemon}", guard.display())),
        Err(why) => Err(format!("`{}`: {why}", guard.display())),
    }
}

/// The version that a program prints after its name: one that cannot run is rejected before the daemon hands over.
async fn version(path: &Path, name: &str) -> Result<String, String> {
    let mut command = tokio::process::Command::from(command(path));
    command.arg("--version").env_clear().stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let said = match tokio::time::timeout(VERSION_TIMEOUT, command.output()).await {
        Ok(Ok(said)) if said.status.success() => String::from_utf8_lossy(&said.stdout).into_owned(),
        Ok(Ok(said)) => return Err(format!("`--version` ended with {}", said.status)),
        Ok(Err(error)) => return Err(format!("it cannot be run: {error}")),
        Err(_) => return Err(format!("it did not say its version within {} s", VERSION_TIMEOUT.as_secs())),
    };
    match said.trim().split_once(' ') {
        Some((found, version)) if found == name => Ok(version.to_owned()),
        _ => Err(format!("it does not say `{name}` and its version")),
    }
}

/// Executes the new binary with the same arguments and sockets. Returns only if that fails.
pub(super) fn exec_successor(binary: &Binary, kept: &[HandoverSocket]) -> io::Error {
    let row = match in_a_row(kept) {
        Ok(row) => row,
        Err(error) => return error,
    };
    for fd in &row {
        if let Err(error) = fcntl_setfd(fd, FdFlags::empty()) {
            return error.into();
        }
    }
    switchboard_definitions::files::lower_limit();
    switchboard_guard::memory::restore_core_limit();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut command = command(&binary.path);
    command
        .args(arguments)
        .env("LISTEN_PID", std::process::id().to_string())
        .env("LISTEN_FDS", row.len().to_string())
        // The usual first descriptors are in use here; the reader of this variable is our own binary.
        .env("LISTEN_FDS_FIRST_FD", row.first().map_or(FIRST_HANDOVER_FD, AsRawFd::as_raw_fd).to_string())
        .env("LISTEN_FDNAMES", kept.iter().map(|kept| kept.name).collect::<Vec<_>>().join(":"));
    command.exec()
}

/// Duplicates with consecutive numbers, as `LISTEN_FDS` requires.
fn in_a_row(kept: &[impl AsFd]) -> io::Result<Vec<OwnedFd>> {
    let mut from = FIRST_HANDOVER_FD;
    loop {
        let mut row: Vec<OwnedFd> = Vec::with_capacity(kept.len());
        for fd in kept {
            let next = from + i32::try_from(row.len()).expect("BUG: a handful of sockets");
            row.push(fcntl_dupfd_cloexec(fd, next)?);
        }
        let first = row.first().map_or(from, AsRawFd::as_raw_fd);
        if (first..).zip(&row).all(|(number, fd)| fd.as_raw_fd() == number) {
            return Ok(row);
        }
        from = row.last().map_or(from, AsRawFd::as_raw_fd);
    }
}

#[expect(clippy::disallowed_methods, reason = "another version of this very program, which is no child")]
fn command(path: &Path) -> std::process::Command {
    std::process::Command::new(path)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn program(folder: &Path, script: &str) -> PathBuf {
        install(folder, "switchboardd", script)
    }

    fn install(folder: &Path, name: &str, script: &str) -> PathBuf {
        let path = folder.join(name);
        let draft = folder.join("draft");
        fs::write(&draft, script).unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(draft, &path).unwrap();
        path
    }

    #[test]
    fn a_replaced_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = program(folder.path(), "one");
        let running = FileVersion::of(&fs::metadata(&path).unwrap());
        let binary = Binary { path: path.clone(), running };
        assert!(binary.replacement().is_none());
        program(folder.path(), "two");
        let (before, _) = binary.replacement().unwrap();
        install(folder.path(), "switchboard-guard", "two");
        let (after, _) = binary.replacement().unwrap();
        assert_ne!(before, after, "the guard follows later");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(binary.replacement().is_none(), "half installed");
        fs::remove_file(&path).unwrap();
        assert!(binary.replacement().is_none());
    }

    #[tokio::test]
    async fn only_a_binary_that_runs_and_is_ours_takes_over() {
        let folder = tempfile::tempdir().unwrap();
        install(folder.path(), "switchboard-guard", "#!/bin/sh\necho switchboard-guard 9.8.7\n");
        for (script, expected) in [
            ("#!/bin/sh\necho switchboardd 9.8.7\n", Ok("9.8.7")),
            ("#!/bin/sh\necho switchboardd 9.8.8\n", Err("is version 9.8.7, and the new daemon 9.8.8")),
            ("#!/bin/sh\necho something else\n", Err("does not say `switchboardd`")),
            ("#!/bin/sh\nexit 3\n", Err("exit status: 3")),
            ("#!/no/such/interpreter\n", Err("cannot be run")),
        ] {
            let path = program(folder.path(), script);
            let judged = judge(&path, &fs::metadata(&path).unwrap()).await;
            match expected {
                Ok(version) => assert_eq!((judged.version.as_deref(), judged.problem), (Some(version), None)),
                Err(why) => {
                    assert!(judged.problem.as_ref().is_some_and(|said| said.contains(why)), "{judged:?}")
                }
            }
        }
        let path = program(folder.path(), "#!/bin/sh\necho switchboardd 9.8.7\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(judge(&path, &fs::metadata(&path).unwrap()).await.problem.is_some());
    }

    #[test]
    fn handed_over_sockets_have_consecutive_numbers() {
        let kept: Vec<OwnedFd> = (0..3).map(|_| File::open("/dev/null").unwrap().into()).collect();
        let blocker = fcntl_dupfd_cloexec(&kept[0], FIRST_HANDOVER_FD + 1).unwrap();
        let row = in_a_row(&kept).unwrap();
        let numbers: Vec<_> = row.iter().map(AsRawFd::as_raw_fd).collect();
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
        drop(blocker);
    }
}

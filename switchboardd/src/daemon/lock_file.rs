//! The locks that keep a second daemon from starting, and the file that describes the one that serves.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use switchboard_wire::hop::HOP;
use switchboard_wire::runtime_paths::RuntimePaths;

use super::fatal::Fatal;
use switchboard_guard::process_tree::Process;

/// A draining daemon holds its lock no longer than this.
const DAEMON_LOCK_TIMEOUT: Duration = Duration::from_secs(20);
const START_LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Held as long as the daemon lives.
pub(super) struct DaemonLock {
    _file: File,
}

/// Waits for a predecessor that is shutting down; one that stays is an error.
pub(super) async fn lock(paths: &RuntimePaths) -> Result<DaemonLock, Fatal> {
    exclusive(&paths.daemon_lock, DAEMON_LOCK_TIMEOUT)
        .await?
        .map(|file| DaemonLock { _file: file })
        .ok_or_else(|| Fatal::AlreadyServing(paths.socket_in_use().display().to_string()))
}

pub(super) async fn start_lock(paths: &RuntimePaths) -> Result<File, Fatal> {
    exclusive(&paths.start_lock, START_LOCK_TIMEOUT).await?.ok_or_else(|| {
        Fatal::Listen(format!(
            "another process has been starting a daemon for {} s",
            START_LOCK_TIMEOUT.as_secs()
        ))
    })
}

async fn exclusive(path: &Path, timeout: Duration) -> Result<Option<File>, Fatal> {
    let wrong = |error| Fatal::Io { what: format!("`{}` cannot be locked", path.display()), error };
    let file = switchboard_definitions::files::open_own(path, false).map_err(wrong)?;
    let until = tokio::time::Instant::now() + timeout;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) if tokio::time::Instant::now() < until => {
                tokio::time::sleep(LOCK_RETRY_INTERVAL).await;
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(wrong(error.into())),
        }
    }
}

/// Writes the file that describes this daemon, for commands. Also clears the marks of an earlier stop or
/// failure.
pub(super) fn write_daemon_file(
    paths: &RuntimePaths,
    tcp: Option<SocketAddr>,
    token_file: &Path,
    config_file: &Path,
) -> std::io::Result<()> {
    paths.forget_stop();
    paths.forget_failure();
    let pid = std::process::id();
    let body = json!({
        "pid": pid,
        "startTime": Process::look_up(pid).map(|process| process.start_time),
        "version": env!("CARGO_PKG_VERSION"),
        "hop": HOP,
        "socket": paths.socket,
        "tcp": tcp.map(|address| address.to_string()),
        "tokenFile": token_file,
        "config": config_file,
        "state": token_file.parent(),
    });
    switchboard_definitions::files::replace(&paths.daemon_file, body.to_string().as_bytes())
}

pub(super) fn remove_daemon_file(paths: &RuntimePaths) {
    let _ = std::fs::remove_file(&paths.daemon_file);
}

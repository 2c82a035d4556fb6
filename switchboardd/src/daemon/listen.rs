//! The sockets to serve on: handed over by whoever started us, or bound here.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;

use listenfd::ListenFd;
use switchboard_wire::place::Place;
use tokio::net::{TcpListener, UnixListener};

use super::{Fatal, presence};

/// The unix socket. A shim, systemd or anything else that speaks `LISTEN_FDS` may have bound it.
pub(super) async fn socket(place: &Place) -> Result<UnixListener, Fatal> {
    let wrong =
        |why: String| Fatal::Listen(format!("`{}` cannot be listened on: {why}", place.socket.display()));
    let handed = ListenFd::from_env().take_unix_listener(0).map_err(|error| wrong(error.to_string()))?;
    let listener = match handed {
        Some(listener) => listener,
        None => bind(place).await?,
    };
    listener.set_nonblocking(true).map_err(|error| wrong(error.to_string()))?;
    UnixListener::from_std(listener).map_err(|error| wrong(error.to_string()))
}

/// Which file a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

/// The socket that is found at `path`, if one is.
pub(super) fn identity(path: &Path) -> Option<Identity> {
    let meta = std::fs::symlink_metadata(path).ok().filter(|meta| meta.file_type().is_socket())?;
    Some(Identity { device: meta.dev(), inode: meta.ino() })
}

/// Binds under the start lock, so that two who start at once do not take the socket from each other.
async fn bind(place: &Place) -> Result<StdListener, Fatal> {
    let wrong = |error: std::io::Error| Fatal::Io {
        what: format!("`{}` cannot be bound", place.socket.display()),
        error,
    };
    let _starting = presence::start_lock(place).await?;
    if tokio::net::UnixStream::connect(&place.socket).await.is_ok() {
        return Err(Fatal::AlreadyServing(place.socket.display().to_string()));
    }
    match std::fs::remove_file(&place.socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(wrong(error)),
        _ => {}
    }
    let listener = StdListener::bind(&place.socket).map_err(wrong)?;
    std::fs::set_permissions(&place.socket, std::fs::Permissions::from_mode(0o600)).map_err(wrong)?;
    Ok(listener)
}

/// The TCP listener, if one is wanted and to be had: a taken port is a warning, the socket is enough.
pub(super) async fn tcp(listen: &str) -> Result<Option<TcpListener>, Fatal> {
    if let Some(problem) = crate::config::listen_problem(listen) {
        return Err(Fatal::Listen(problem));
    }
    if listen == "off" {
        return Ok(None);
    }
    match TcpListener::bind(listen).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) => {
            tracing::warn!(target: "daemon", "no TCP on {listen}: {error}; the unix socket is served");
            Ok(None)
        }
    }
}

//! Connecting to the daemon's socket. Whoever does makes sure that it is this user who listens: a socket may be in
//! a folder where another user was quicker.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use tokio::net::UnixStream;

/// How often a socket whose backlog is full is tried.
const BUSY: Duration = Duration::from_millis(5);

/// Connects, if it is our own user who listens. Waits as long as the daemon is there and busy.
pub async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = loop {
        match UnixStream::connect(socket).await {
            // A full backlog: the daemon is there and busy.
            Err(error) if error.kind() == ErrorKind::WouldBlock => tokio::time::sleep(BUSY).await,
            other => break other?,
        }
    };
    let peer = stream.peer_cred()?.uid();
    if peer != rustix::process::getuid().as_raw() {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!("`{}` is served by another user (uid {peer})", socket.display()),
        ));
    }
    Ok(stream)
}

/// Whether nobody listens there, as far as a failed [`connect`] tells.
pub fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

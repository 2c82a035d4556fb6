//! Connects to the daemon's socket, and checks that the listener is this user: the socket may be in a folder
//! where another user was faster.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use tokio::net::UnixStream;

/// Pause between attempts while the backlog is full.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Connects, if the listener is our own user. Retries while the daemon's backlog is full.
pub async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = loop {
        match UnixStream::connect(socket).await {
            // A full backlog: the daemon runs but is busy.
            Err(error) if error.kind() == ErrorKind::WouldBlock => tokio::time::sleep(RETRY_INTERVAL).await,
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

/// Whether the error of a failed [`connect`] means that no daemon listens.
pub fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

//! The sockets to serve on: handed over by whoever started us, or bound here.

use std::net::TcpListener as StdTcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;

use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;
use switchboard_wire::place::Place;
use tokio::net::{TcpListener, UnixListener};

use super::{Fatal, presence};

/// Where the protocol of `LISTEN_FDS` begins to count.
const FIRST_HANDED: usize = 3;

/// Bound sockets, before they are served.
#[derive(Debug, Default)]
pub(super) struct Bound {
    sockets: Vec<StdListener>,
    tcp: Vec<StdTcpListener>,
    /// Why there is none.
    no_tcp: Option<String>,
}

impl Bound {
    /// What a shim, systemd or launchd bound for us, in any order. Without a unix socket among it, ours is bound here.
    pub(super) async fn obtain(place: &Place) -> Result<Self, Fatal> {
        let mut bound = handed()?;
        #[cfg(target_os = "macos")]
        bound.sockets.extend(by_launchd());
        if bound.sockets.is_empty() {
            bound.sockets.push(bind(place).await?);
        }
        Ok(bound)
    }

    /// Adds the TCP address that is wanted, if it is to be had: a taken port is a warning, the socket is enough. One
    /// that was handed over takes its place.
    pub(super) fn with_tcp(mut self, listen: &str) -> Result<Self, Fatal> {
        if let Some(problem) = crate::config::listen_problem(listen) {
            return Err(Fatal::Listen(problem));
        }
        if listen != "off" && self.tcp.is_empty() {
            match StdTcpListener::bind(listen) {
                Ok(listener) => self.tcp.push(listener),
                Err(error) => {
                    let why = match error.kind() {
                        std::io::ErrorKind::AddrInUse => format!("{listen} is taken by another program"),
                        _ => format!("{listen}: {error}"),
                    };
                    tracing::warn!(target: "daemon", "no TCP on {why}; the unix socket is served");
                    self.no_tcp = Some(why);
                }
            }
        } else if listen == "off" {
            self.no_tcp = Some("off".to_owned());
        }
        Ok(self)
    }

    pub(super) fn without_tcp(mut self, why: String) -> Self {
        self.tcp.clear();
        self.no_tcp = Some(why);
        self
    }

    /// Why there is no TCP address.
    pub(super) fn no_tcp(&self) -> Option<String> {
        self.no_tcp.clone().filter(|_| self.tcp.is_empty())
    }

    pub(super) fn address(&self) -> Option<std::net::SocketAddr> {
        self.tcp.first().and_then(|tcp| tcp.local_addr().ok())
    }

    /// Second handles, for a successor to go on with.
    pub(super) fn kept(&self) -> std::io::Result<Vec<OwnedFd>> {
        let sockets = self.sockets.iter().map(|socket| socket.as_fd().try_clone_to_owned());
        sockets.chain(self.tcp.iter().map(|tcp| tcp.as_fd().try_clone_to_owned())).collect()
    }

    pub(super) fn open(self) -> std::io::Result<Vec<crate::http::Listener>> {
        let mut open = Vec::new();
        for socket in self.sockets {
            socket.set_nonblocking(true)?;
            open.push(crate::http::Listener::Socket(UnixListener::from_std(socket)?));
        }
        for tcp in self.tcp {
            tcp.set_nonblocking(true)?;
            open.push(crate::http::Listener::Tcp(TcpListener::from_std(tcp)?));
        }
        Ok(open)
    }
}

/// By `LISTEN_FDS`, if `LISTEN_PID` is ours.
fn handed() -> Result<Bound, Fatal> {
    let mut handed = ListenFd::from_env();
    let mut bound = Bound::default();
    for at in 0..handed.len() {
        let wrong = |why: &str| {
            let fd = at + FIRST_HANDED;
            Fatal::Listen(format!("descriptor {fd}, which was handed over, cannot be served on: {why}"))
        };
        let listens = |fd: &dyn AsFd| socket_acceptconn(fd.as_fd()).unwrap_or(true);
        if let Ok(Some(socket)) = handed.take_unix_listener(at) {
            if !listens(&socket) {
                return Err(wrong("it is a connection; the socket unit needs `Accept=no`"));
            }
            bound.sockets.push(socket);
        } else if let Ok(Some(tcp)) = handed.take_tcp_listener(at) {
            let address = tcp.local_addr().map_err(|error| wrong(&error.to_string()))?;
            if let Some(problem) = crate::config::listen_problem(&address.to_string()) {
                return Err(wrong(&problem));
            }
            if !listens(&tcp) {
                return Err(wrong("it is a connection; the socket unit needs `Accept=no`"));
            }
            bound.tcp.push(tcp);
        } else {
            return Err(wrong("it is neither a unix stream socket nor a TCP one"));
        }
    }
    Ok(bound)
}

/// The socket that our property list has under `Sockets`.
#[cfg(target_os = "macos")]
fn by_launchd() -> Option<StdListener> {
    let binding: service_binding::Binding = "fd://Switchboard".parse().ok()?;
    match service_binding::Listener::try_from(binding) {
        Ok(service_binding::Listener::Unix(socket)) => Some(socket),
        _ => None,
    }
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

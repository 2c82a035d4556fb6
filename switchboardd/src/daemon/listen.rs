//! The listening sockets: handed over by the process that started us, or bound here.

use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use listenfd::ListenFd;
use switchboard_wire::event_loop::may_block;
use switchboard_wire::peer;
use switchboard_wire::runtime_paths::RuntimePaths;
use tokio::net::{TcpListener, UnixListener};

use super::fatal::Fatal;
use super::lock_file;

/// The first descriptor of the `LISTEN_FDS` protocol.
const FIRST_PASSED_FD: usize = 3;

/// How long to try connecting to a daemon whose backlog is full.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Names in `LISTEN_FDNAMES`, for a successor: a TCP address that the config asked for, and all other
/// sockets, which are served whatever the config says.
const BY_CONFIG: &str = "switchboard-config";
const NOT_BY_CONFIG: &str = "switchboard-kept";

/// Ports that are tried if nobody asked for one and the usual one is taken, by another user's daemon as a rule. They
/// begin at a place of the user's own, so that a user gets the same port every time.
const OTHER_PORTS: std::ops::Range<u16> = 7421..7621;
const PORT_TRIES: u16 = 20;

/// The TCP address that is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListenWish<'a> {
    /// `ADDRESS:PORT` or `off`.
    pub(super) listen: &'a str,
    /// Another port is as good.
    pub(super) is_any_port: bool,
}

/// Bound sockets, before they are served.
#[derive(Debug, Default)]
pub(super) struct BoundSockets {
    sockets: Vec<StdListener>,
    tcp: Vec<TcpSocket>,
    /// Why there is no TCP address.
    no_tcp: Option<String>,
}

#[derive(Debug)]
struct TcpSocket {
    listener: StdTcpListener,
    /// Closed when the config asks for another address.
    by_config: bool,
}

/// A duplicate of a socket, and its name for a successor.
#[derive(Debug)]
pub(super) struct HandoverSocket {
    fd: OwnedFd,
    pub(super) name: &'static str,
}

impl AsFd for HandoverSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl BoundSockets {
    /// The sockets that a shim, systemd or launchd bound for us, in any order. Without a unix socket among
    /// them, binds ours.
    pub(super) async fn obtain(paths: &RuntimePaths) -> Result<Self, Fatal> {
        let mut bound = passed_sockets()?;
        #[cfg(target_os = "macos")]
        bound.sockets.extend(by_launchd());
        if bound.sockets.is_empty() {
            bound.sockets.push(bind(paths).await?);
        }
        Ok(bound)
    }

    /// The path of the unix socket, if the socket is found there.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let address = self.sockets.first()?.local_addr().ok()?;
        let path = address.as_pathname().filter(|path| path.is_absolute())?;
        identity(path).map(|_| path.to_owned())
    }

    /// Binds the wanted TCP address if possible: a taken port is only a warning. A TCP socket that was handed
    /// over is used instead, unless a predecessor bound it for a config that has changed.
    pub(super) fn with_tcp(mut self, wish: ListenWish<'_>) -> Result<Self, Fatal> {
        let listen = wish.listen;
        if let Some(problem) = switchboard_definitions::config::listen_problem(listen) {
            return Err(Fatal::Listen(problem));
        }
        self.tcp.retain(|tcp| !tcp.by_config || is_at(&tcp.listener, wish));
        if listen != "off" && self.tcp.is_empty() {
            match bind_tcp(wish) {
                Ok(listener) => self.tcp.push(TcpSocket { listener, by_config: true }),
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

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.tcp.first().and_then(|tcp| tcp.listener.local_addr().ok())
    }

    /// Duplicates of all sockets, for a successor.
    pub(super) fn handover_sockets(&self) -> std::io::Result<Vec<HandoverSocket>> {
        let sockets = self.sockets.iter().map(|socket| (socket.as_fd(), NOT_BY_CONFIG));
        let tcp = self.tcp.iter().map(|tcp| {
            let name = if tcp.by_config { BY_CONFIG } else { NOT_BY_CONFIG };
            (tcp.listener.as_fd(), name)
        });
        sockets
            .chain(tcp)
            .map(|(fd, name)| Ok(HandoverSocket { fd: fd.try_clone_to_owned()?, name }))
            .collect()
    }

    pub(super) fn open(self) -> std::io::Result<Vec<crate::http::Listener>> {
        let mut open = Vec::new();
        for socket in self.sockets {
            socket.set_nonblocking(true)?;
            open.push(crate::http::Listener::Socket(UnixListener::from_std(socket)?));
        }
        for tcp in self.tcp {
            tcp.listener.set_nonblocking(true)?;
            open.push(crate::http::Listener::Tcp(TcpListener::from_std(tcp.listener)?));
        }
        Ok(open)
    }
}

/// Whether a listener has an address that is wanted.
fn is_at(listener: &StdTcpListener, wish: ListenWish<'_>) -> bool {
    let (Ok(is), Ok(wanted)) = (listener.local_addr(), wish.listen.parse::<SocketAddr>()) else {
        return false;
    };
    is.ip() == wanted.ip() && (wish.is_any_port || wanted.port() == 0 || is.port() == wanted.port())
}

fn bind_tcp(wish: ListenWish<'_>) -> std::io::Result<StdTcpListener> {
    let taken = match StdTcpListener::bind(wish.listen) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && wish.is_any_port => error,
        bound => return bound,
    };
    let Ok(wanted) = wish.listen.parse::<SocketAddr>() else { return Err(taken) };
    let uid = rustix::process::geteuid().as_raw();
    let count = OTHER_PORTS.end - OTHER_PORTS.start;
    let first = u16::try_from(uid % u32::from(count)).unwrap_or(0);
    let ports = (0..PORT_TRIES).map(|next| OTHER_PORTS.start + (first + next) % count);
    let mut bound = ports.map(|port| StdTcpListener::bind((wanted.ip(), port))).find_map(Result::ok);
    if bound.is_none() {
        bound = StdTcpListener::bind((wanted.ip(), 0)).ok();
    }
    let listener = bound.ok_or(taken)?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(target: "daemon", "{} is taken by another program; TCP is served on {address}", wish.listen);
    }
    Ok(listener)
}

/// Sockets from `LISTEN_FDS`, if `LISTEN_PID` is ours.
fn passed_sockets() -> Result<BoundSockets, Fatal> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut handed = ListenFd::from_env();
    let mut bound = BoundSockets::default();
    for at in 0..handed.len() {
        let wrong = |why: &str| {
            let fd = at + FIRST_PASSED_FD;
            Fatal::Listen(format!("descriptor {fd}, which was handed over, cannot be served on: {why}"))
        };
        if let Ok(Some(socket)) = handed.take_unix_listener(at) {
            if is_connection(socket.as_fd()) {
                return Err(wrong("it is a connection; the socket unit needs `Accept=no`"));
            }
            bound.sockets.push(socket);
        } else if let Ok(Some(tcp)) = handed.take_tcp_listener(at) {
            let address = tcp.local_addr().map_err(|error| wrong(&error.to_string()))?;
            if let Some(problem) = switchboard_definitions::config::listen_problem(&address.to_string()) {
                return Err(wrong(&problem));
            }
            if is_connection(tcp.as_fd()) {
                return Err(wrong("it is a connection; the socket unit needs `Accept=no`"));
            }
            let by_config = names.split(':').nth(at) == Some(BY_CONFIG);
            bound.tcp.push(TcpSocket { listener: tcp, by_config });
        } else {
            return Err(wrong("it is neither a unix stream socket nor a TCP one"));
        }
    }
    Ok(bound)
}

/// Whether a socket is a connection, and listens to nobody.
#[cfg(target_os = "linux")]
fn is_connection(socket: BorrowedFd<'_>) -> bool {
    rustix::net::sockopt::socket_acceptconn(socket).is_ok_and(|listens| !listens)
}

/// macOS does not say whether a socket listens. Only a connection has a peer.
#[cfg(not(target_os = "linux"))]
fn is_connection(socket: BorrowedFd<'_>) -> bool {
    has_peer(socket)
}

#[cfg(any(not(target_os = "linux"), test))]
fn has_peer(socket: BorrowedFd<'_>) -> bool {
    rustix::net::getpeername(socket).is_ok()
}

/// The socket under `Sockets` in our property list.
#[cfg(target_os = "macos")]
fn by_launchd() -> Option<StdListener> {
    let binding: service_binding::Binding = "fd://Switchboard".parse().ok()?;
    match service_binding::Listener::try_from(binding) {
        Ok(service_binding::Listener::Unix(socket)) => Some(socket),
        _ => None,
    }
}

/// Identifies the file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SocketId {
    device: u64,
    inode: u64,
}

/// The socket at `path`, if there is one.
pub(super) fn identity(path: &Path) -> Option<SocketId> {
    may_block();
    let meta = std::fs::symlink_metadata(path).ok().filter(|meta| meta.file_type().is_socket())?;
    Some(SocketId { device: meta.dev(), inode: meta.ino() })
}

/// Removes an old socket. Anything else is not ours and stays.
pub fn remove_dead_socket(path: &Path) -> Result<(), Fatal> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_socket() => Err(Fatal::Listen(format!(
            "`{}` exists and is not a socket; choose another path or remove it",
            path.display()
        ))),
        Ok(_) => std::fs::remove_file(path)
            .map_err(|error| Fatal::Io { what: format!("`{}` cannot be removed", path.display()), error }),
        Err(_) => Ok(()),
    }
}

/// Binds under the start lock, so that two daemons that start at once cannot take the socket from each other.
async fn bind(paths: &RuntimePaths) -> Result<StdListener, Fatal> {
    let wrong = |error: std::io::Error| Fatal::Io {
        what: format!("`{}` cannot be bound", paths.socket.display()),
        error,
    };
    let _starting = lock_file::start_lock(paths).await?;
    for socket in [&paths.socket_in_use(), &paths.socket] {
        // A timeout means that the daemon is there: its backlog is full.
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, peer::connect(socket)).await;
        if connected.is_ok_and(|connected| connected.is_err()) {
            continue;
        }
        return Err(Fatal::AlreadyServing(socket.display().to_string()));
    }
    remove_dead_socket(&paths.socket)?;
    let listener = StdListener::bind(&paths.socket).map_err(wrong)?;
    std::fs::set_permissions(&paths.socket, std::fs::Permissions::from_mode(0o600)).map_err(wrong)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link, dead) =
            (folder.path().join("file"), folder.path().join("link"), folder.path().join("dead"));
        std::fs::write(&file, "mine").unwrap();
        drop(StdListener::bind(&dead).unwrap());
        std::os::unix::fs::symlink(&dead, &link).unwrap();
        for path in [&file, &link] {
            let refused = remove_dead_socket(path).unwrap_err().to_string();
            assert!(refused.contains("is not a socket"), "{refused}");
        }
        assert!(remove_dead_socket(&dead).is_ok() && !dead.exists());
        assert!(remove_dead_socket(&dead).is_ok());
        assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
    }

    #[test]
    fn a_taken_port_is_replaced_only_if_nobody_asked_for_it() {
        let taken = StdTcpListener::bind("127.0.0.1:0").unwrap();
        let listen = taken.local_addr().unwrap().to_string();
        let bound = |is_any_port| {
            BoundSockets::default().with_tcp(ListenWish { listen: &listen, is_any_port }).unwrap()
        };
        let asked = bound(false);
        assert!(asked.address().is_none() && asked.no_tcp().unwrap().contains("is taken"), "{asked:?}");
        let first = bound(true);
        let port = first.address().unwrap().port();
        assert!(port != taken.local_addr().unwrap().port() && first.no_tcp().is_none(), "{first:?}");
        // A second one, at the same time, gets yet another.
        assert_ne!(bound(true).address().unwrap().port(), port);
        // A successor keeps it, although the usual port is free again.
        drop(taken);
        let kept = first.with_tcp(ListenWish { listen: &listen, is_any_port: true }).unwrap();
        assert_eq!(kept.address().unwrap().port(), port);
    }

    #[test]
    fn a_connection_is_told_from_a_listening_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (listener, tcp) =
            (StdListener::bind(&path).unwrap(), StdTcpListener::bind("127.0.0.1:0").unwrap());
        let connected = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let by_tcp = std::net::TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        for judge in [is_connection, has_peer] {
            assert!(!judge(listener.as_fd()) && !judge(tcp.as_fd()));
            assert!(judge(connected.as_fd()) && judge(by_tcp.as_fd()));
        }
    }

    #[test]
    fn a_successor_serves_what_the_config_says_now() {
        let listener = || StdTcpListener::bind("127.0.0.1:0").unwrap();
        for by_config in [false, true] {
            let bound = |listen: &str| {
                let tcp = vec![TcpSocket { listener: listener(), by_config }];
                let before = tcp[0].listener.local_addr().unwrap();
                let listen = listen.replace("SAME", &before.to_string());
                let bound = BoundSockets { tcp, ..BoundSockets::default() }
                    .with_tcp(ListenWish { listen: &listen, is_any_port: false })
                    .unwrap();
                (bound.address() == Some(before), bound.address().is_some())
            };
            assert_eq!(bound("SAME"), (true, true));
            assert_eq!(bound("127.0.0.1:0"), (true, true));
            assert_eq!(bound("off"), (!by_config, !by_config), "{by_config}");
            assert_eq!(bound("[::1]:0").0, !by_config, "{by_config}");
        }
    }
}

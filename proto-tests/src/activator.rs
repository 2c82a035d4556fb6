//! Stands in for systemd socket activation: owns the daemon's socket, listens before the daemon runs and
//! while it restarts, and starts it when a client connects.
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::bins::bins;
use crate::daemon::DaemonProcess;
use crate::home::Home;

/// Moves stdin (and stdout) to descriptor 3 (and 4), where `LISTEN_FDS` begins, then execs the daemon under
/// the same pid.
const ONE: &str =
    r#"exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$ LISTEN_FDNAMES=socket; exec "$0" "$@""#;
const TWO: &str =
    r#"exec 3<&0 4<&1 </dev/null >/dev/null; export LISTEN_FDS=2 LISTEN_PID=$$; exec "$0" "$@""#;

/// A listening socket that outlives the daemons behind it.
pub struct Activator {
    pub socket: UnixListener,
    path: PathBuf,
}

impl Activator {
    /// Listens where the shims of this home connect.
    pub fn new(home: &Home) -> Self {
        let path = home.socket();
        let socket = UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        Self { socket, path }
    }

    /// The inode of the socket file, to check that it is still the same one.
    pub fn inode(&self) -> u64 {
        fs::symlink_metadata(&self.path).unwrap().ino()
    }

    /// Starts a daemon on the socket, whether or not a client waits.
    pub fn start(&self, home: &Home, program: &Path, env: &[(&str, &str)]) -> DaemonProcess {
        start_with_sockets(home, program, &[self.socket.as_fd().try_clone_to_owned().unwrap()], env)
    }

    /// Whether a connection waits to be accepted, within this time.
    pub fn is_wanted(&self, within: Duration) -> bool {
        let within = Timespec::try_from(within).unwrap();
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        poll(&mut fds, Some(&within)).is_ok_and(|ready| ready > 0)
    }
}

/// Starts a daemon with one or two bound sockets.
pub fn start_with_sockets(
    home: &Home,
    program: &Path,
    sockets: &[OwnedFd],
    env: &[(&str, &str)],
) -> DaemonProcess {
    let again = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(if sockets.len() == 1 { ONE } else { TWO }).arg(program);
    command.stdin(again(&sockets[0]));
    command.stdout(sockets.get(1).map_or_else(Stdio::null, again));
    DaemonProcess::spawn_as(home, command, &["--listen", "off"], env)
}

/// A bound TCP listener.
pub fn tcp(address: &str) -> OwnedFd {
    TcpListener::bind(address).unwrap().into()
}

/// A fake service manager: receives the daemon's `sd_notify` messages.
pub struct Manager {
    socket: UnixDatagram,
}

impl Manager {
    pub fn at(path: &Path) -> Self {
        Self { socket: UnixDatagram::bind(path).unwrap() }
    }

    /// At a value of `NOTIFY_SOCKET`: a path or, on Linux, an abstract name with its `@`.
    pub fn named(name: &str) -> Self {
        #[cfg(target_os = "linux")]
        if name.starts_with('@') {
            return Self::abstract_at(name);
        }
        Self::at(Path::new(name))
    }

    /// On an abstract socket: `name` is the value of `NOTIFY_SOCKET`, with its `@`.
    #[cfg(target_os = "linux")]
    fn abstract_at(name: &str) -> Self {
        let name = name.strip_prefix('@').unwrap();
        let address =
            <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)
                .unwrap();
        Self { socket: UnixDatagram::bind_addr(&address).unwrap() }
    }

    /// The next message, if one arrives within this time.
    pub fn next_message(&self, within: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(within)).unwrap();
        let mut message = [0; 4096];
        let length = self.socket.recv(&mut message).ok()?;
        Some(String::from_utf8(message[..length].to_vec()).unwrap())
    }

    /// All messages up to and including the first with this line.
    #[track_caller]
    pub fn until(&self, line: &str) -> Vec<String> {
        let mut heard = Vec::new();
        loop {
            let message = self.next_message(crate::TEST_TIMEOUT);
            heard.push(message.unwrap_or_else(|| panic!("no `{line}`, but {heard:?}")));
            if heard.last().is_some_and(|message| message.lines().any(|said| said == line)) {
                return heard;
            }
        }
    }
}

/// A directory with copies of all programs, like an installation, so that tests can replace them.
pub fn installed(home: &Home) -> PathBuf {
    let folder = home.path().join("bin");
    fs::create_dir_all(&folder).unwrap();
    for program in bins().installed() {
        install(program, &folder.join(program.file_name().unwrap()), "");
    }
    folder
}

/// Installs a copy atomically, as installers do; `more` is appended to change its content.
pub fn install(program: &Path, to: &Path, more: &str) {
    use std::io::Write;
    let draft = to.with_extension("new");
    fs::copy(program, &draft).unwrap();
    File::options().append(true).open(&draft).unwrap().write_all(more.as_bytes()).unwrap();
    fs::rename(draft, to).unwrap();
}

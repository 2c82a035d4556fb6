//! The paths by which shim and daemon find each other. They depend on the user id and HOME only, because
//! hosts pass very different environments.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;

use crate::folder::is_private;
pub use crate::folder::private_folder;
use crate::members::Members;
use crate::process;
use crate::raw::Raw;

/// The longest path that fits into a unix socket address on every supported system.
const MAX_SOCKET_PATH: usize = 103;

/// Longer than any of these files.
const MAX_FILE: u64 = 64 * 1024;

/// What others need to know of the running daemon.
struct DaemonFile {
    pid: u32,
    start_time: Option<u64>,
    socket: PathBuf,
}

impl DaemonFile {
    fn parse(text: &[u8]) -> Option<Self> {
        let members = Members::of(Raw::parse(text)?)?;
        let start_time = match members.get("startTime").filter(|time| !time.is_null()) {
            Some(time) => Some(time.get().parse().ok()?),
            None => None,
        };
        let socket = members.text("socket")?.into_owned().into();
        Some(Self { pid: members.get("pid")?.get().parse().ok()?, start_time, socket })
    }
}

/// The files by which two Switchboard processes find each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimePaths {
    pub socket: PathBuf,
    /// Held by the process that starts a daemon, during the start.
    pub start_lock: PathBuf,
    /// Held by the daemon while it lives.
    pub daemon_lock: PathBuf,
    /// Describes the running daemon: pid, start time, version, hop, socket, TCP address.
    pub daemon_file: PathBuf,
    /// Exists after the user stopped the daemon, and holds the time of the stop.
    pub stopped: PathBuf,
    /// Why the last failed start failed: the daemon's pid, and the message on the lines below.
    pub failure: PathBuf,
}

impl RuntimePaths {
    /// The paths of this user.
    pub fn of_user(home: &Path) -> Self {
        let uid = rustix::process::getuid().as_raw();
        let state = state_directory(home);
        let runtime = PathBuf::from(format!("/run/user/{uid}"));
        let socket = if is_private(&runtime, uid) {
            runtime.join("switchboard/switchboard.sock")
        } else {
            fitting(state.join("switchboard.sock"), home, uid)
        };
        Self {
            socket,
            start_lock: state.join("start.lock"),
            daemon_lock: state.join("daemon.lock"),
            daemon_file: state.join("daemon.json"),
            stopped: state.join("stopped"),
            failure: state.join("last-failure"),
        }
    }

    /// The paths for a socket given by `--socket`: all files are next to it.
    pub fn beside(socket: &Path) -> Self {
        let with = |suffix: &str| {
            let mut name = socket.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        Self {
            socket: socket.to_owned(),
            start_lock: with(".start.lock"),
            daemon_lock: with(".lock"),
            daemon_file: with(".json"),
            stopped: with(".stopped"),
            failure: with(".failure"),
        }
    }

    /// The socket of the running daemon, from its file. It differs from `socket` if the runtime directory was
    /// created or removed since the daemon started.
    pub fn socket_in_use(&self) -> PathBuf {
        self.daemon_file().map_or_else(|| self.socket.clone(), |announced| announced.socket)
    }

    /// The content of the daemon's file, if that daemon still runs.
    fn daemon_file(&self) -> Option<DaemonFile> {
        let told = DaemonFile::parse(&read_own(&self.daemon_file).ok()?)?;
        (told.socket.is_absolute() && process::is_same(told.pid, told.start_time)).then_some(told)
    }

    /// Records that the user stopped the daemon, now.
    pub fn mark_stopped(&self) -> io::Result<()> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .custom_flags(flags.bits().cast_signed())
            .open(&self.stopped)?;
        file.write_all(nanoseconds(SystemTime::now()).to_string().as_bytes())
    }

    /// Whether the user stopped the daemon at or after `since`.
    pub fn was_stopped_since(&self, since: SystemTime) -> bool {
        self.stopped_at().is_some_and(|at| at >= nanoseconds(since))
    }

    /// Whether the user stopped the daemon before `since`: a shim that came later may start one.
    pub fn was_stopped_before(&self, since: SystemTime) -> bool {
        self.stopped_at().is_some_and(|at| at < nanoseconds(since))
    }

    /// Removes the record of a stop, because a daemon is wanted again.
    pub fn forget_stop(&self) {
        let _ = std::fs::remove_file(&self.stopped);
    }

    /// The message of the daemon with this pid, if it failed to start.
    pub fn failure_of(&self, pid: u32) -> Option<String> {
        let told = String::from_utf8(read_own(&self.failure).ok()?).ok()?;
        let (whose, words) = told.split_once('\n')?;
        (whose == pid.to_string()).then(|| words.to_owned())
    }

    /// Removes the last failure, because a daemon serves now.
    pub fn forget_failure(&self) {
        let _ = std::fs::remove_file(&self.failure);
    }

    fn stopped_at(&self) -> Option<u128> {
        std::str::from_utf8(&read_own(&self.stopped).ok()?).ok()?.trim().parse().ok()
    }

    /// Creates the folders for this user alone, and refuses those that others could tamper with.
    pub fn prepare(&self) -> io::Result<()> {
        for file in [&self.socket, &self.daemon_file] {
            let folder = file.parent().unwrap_or(Path::new("."));
            private_folder(folder)?;
        }
        Ok(())
    }
}

/// Reads a file that only we can have written, without following links.
pub fn read_own(file: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(file)?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.uid() != rustix::process::getuid().as_raw() || meta.mode() & 0o022 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut text = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut text)?;
    Ok(text)
}

fn nanoseconds(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// The folder of the locks, of the daemon's file and, without a runtime directory, of the socket.
pub fn state_directory(home: &Path) -> PathBuf {
    home.join(".local/state/switchboard")
}

/// If HOME is too deep for a socket address, the socket is in /tmp, in a folder whose owner and mode are
/// checked like any other.
fn fitting(socket: PathBuf, home: &Path, uid: u32) -> PathBuf {
    if socket.as_os_str().len() <= MAX_SOCKET_PATH {
        return socket;
    }
    let mut hash: u32 = 0x811c_9dc5;
    for byte in home.as_os_str().as_encoded_bytes() {
        hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    }
    PathBuf::from(format!("/tmp/switchboard-{uid}-{hash:08x}/switchboard.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_compared_with_the_start_time() {
        let socket = std::env::temp_dir().join(format!("switchboard-place-{}", std::process::id()));
        let place = RuntimePaths::beside(&socket);
        let before = SystemTime::now();
        assert!(!place.was_stopped_since(before) && !place.was_stopped_before(before));
        place.mark_stopped().unwrap();
        let after = SystemTime::now() + std::time::Duration::from_millis(1);
        assert!(place.was_stopped_since(before) && !place.was_stopped_since(after));
        assert!(place.was_stopped_before(after) && !place.was_stopped_before(before));
        place.forget_stop();
        assert!(!place.was_stopped_since(before) && !place.was_stopped_before(after));
    }

    #[test]
    fn a_running_daemon_is_found_by_its_file() {
        let socket = std::env::temp_dir().join(format!("switchboard-in-use-{}", std::process::id()));
        let place = RuntimePaths::beside(&socket);
        assert_eq!(place.socket_in_use(), socket);
        let me = std::process::id();
        let began = process::Stat::of(me).map(|stat| stat.start_time);
        let other = began.map(|began| began + 1);
        for (pid, start_time, at, found) in [
            (me, began, "/elsewhere/s", true),
            (me, began, "elsewhere/s", false),
            (i32::MAX.cast_unsigned(), began, "/elsewhere/s", false),
            (me, other.or(Some(1)), "/elsewhere/s", false),
        ] {
            let told = serde_json::json!({ "pid": pid, "startTime": start_time, "socket": at, "more": 1 });
            std::fs::write(&place.daemon_file, told.to_string()).unwrap();
            let expected = if found { Path::new(at) } else { &socket };
            assert_eq!(place.socket_in_use(), expected, "{told}");
        }
        // A link may lead to content of someone else.
        let told = serde_json::json!({ "pid": me, "startTime": began, "socket": "/elsewhere/s" });
        std::fs::write(&place.failure, told.to_string()).unwrap();
        std::fs::remove_file(&place.daemon_file).unwrap();
        std::os::unix::fs::symlink(&place.failure, &place.daemon_file).unwrap();
        assert_eq!(place.socket_in_use(), socket);
        std::fs::remove_file(&place.daemon_file).unwrap();
        std::fs::remove_file(&place.failure).unwrap();
    }

    #[test]
    fn a_socket_path_always_fits_an_address() {
        let home = PathBuf::from("/").join("h".repeat(90));
        let place = fitting(state_directory(&home).join("switchboard.sock"), &home, 1000);
        assert!(place.as_os_str().len() <= MAX_SOCKET_PATH, "{}", place.display());
        let other = PathBuf::from("/").join("i".repeat(90));
        assert_ne!(place, fitting(state_directory(&other).join("switchboard.sock"), &other, 1000));
    }
}

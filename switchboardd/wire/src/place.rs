//! Where shim and daemon meet: found from the user id and HOME alone, because hosts hand over very
//! different environments.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest path that fits into a unix socket address on every system we run on.
const MAX_SOCKET_PATH: usize = 103;

/// The files two Switchboard processes find each other by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub socket: PathBuf,
    /// Held by whoever starts a daemon, while it does.
    pub start_lock: PathBuf,
    /// Held by the daemon as long as it lives.
    pub daemon_lock: PathBuf,
    /// Who serves: pid, start time, version, hop, socket, TCP address.
    pub daemon_file: PathBuf,
    /// There when a person stopped the daemon: when, for those who have been running since before.
    pub stopped: PathBuf,
    /// Why the last daemon that could not start did not: its pid, and below it its words.
    pub failure: PathBuf,
}

impl Place {
    /// The place of this user.
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

    /// The place that belongs to a socket somebody named (`--socket`): everything beside it.
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

    /// Notes that a person stopped the daemon, now.
    pub fn mark_stopped(&self) -> io::Result<()> {
        std::fs::write(&self.stopped, nanoseconds(SystemTime::now()).to_string())
    }

    /// Whether a person stopped the daemon, and no earlier than `since`.
    pub fn was_stopped_since(&self, since: SystemTime) -> bool {
        self.stopped_at().is_some_and(|at| at >= nanoseconds(since))
    }

    /// Whether a person stopped the daemon before `since`: whoever came after that may start one.
    pub fn was_stopped_before(&self, since: SystemTime) -> bool {
        self.stopped_at().is_some_and(|at| at < nanoseconds(since))
    }

    /// A daemon is wanted again.
    pub fn forget_stop(&self) {
        let _ = std::fs::remove_file(&self.stopped);
    }

    /// What the daemon with this pid said when it could not start.
    pub fn failure_of(&self, pid: u32) -> Option<String> {
        let told = std::fs::read_to_string(&self.failure).ok()?;
        let (whose, words) = told.split_once('\n')?;
        (whose == pid.to_string()).then(|| words.to_owned())
    }

    /// One serves: whatever kept another from it is over.
    pub fn forget_failure(&self) {
        let _ = std::fs::remove_file(&self.failure);
    }

    fn stopped_at(&self) -> Option<u128> {
        std::fs::read_to_string(&self.stopped).ok()?.trim().parse().ok()
    }

    /// Makes the folders, readable by nobody else, and refuses those that somebody else could tamper with.
    pub fn prepare(&self) -> io::Result<()> {
        let uid = rustix::process::getuid().as_raw();
        for file in [&self.socket, &self.daemon_file] {
            let folder = file.parent().unwrap_or(Path::new("."));
            private_folder(folder)?;
            if !is_private(folder, uid) {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, advice(folder, uid)));
            }
        }
        Ok(())
    }
}

fn nanoseconds(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// How to get a folder that will do: by closing one's own, but never one that others live in.
fn advice(folder: &Path, uid: u32) -> String {
    let shared =
        std::fs::symlink_metadata(folder).is_ok_and(|meta| meta.uid() != uid || meta.mode() & 0o1000 != 0);
    let folder = folder.display();
    if shared {
        format!("`{folder}` is open to others; choose a folder of your own that is closed to them (mode 700)")
    } else {
        format!("`{folder}` must be closed to others; run: chmod 700 '{folder}'")
    }
}

/// Where the lock, the daemon's file and, where there is no runtime directory, the socket are.
pub fn state_directory(home: &Path) -> PathBuf {
    home.join(".local/state/switchboard")
}

/// Creates a folder, and those above it, for the owner alone.
pub fn private_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A real directory of `uid` that nobody else may enter or change.
fn is_private(folder: &Path, uid: u32) -> bool {
    std::fs::symlink_metadata(folder)
        .is_ok_and(|meta| meta.is_dir() && meta.uid() == uid && meta.mode() & 0o077 == 0)
}

/// A deep HOME makes a path that no socket address can hold; such a user meets in /tmp, in a folder
/// whose owner and mode are checked like any other.
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
    fn a_stop_counts_for_those_who_were_there() {
        let socket = std::env::temp_dir().join(format!("switchboard-place-{}", std::process::id()));
        let place = Place::beside(&socket);
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
    fn a_socket_path_always_fits_an_address() {
        let home = PathBuf::from("/").join("h".repeat(90));
        let place = fitting(state_directory(&home).join("switchboard.sock"), &home, 1000);
        assert!(place.as_os_str().len() <= MAX_SOCKET_PATH, "{}", place.display());
        let other = PathBuf::from("/").join("i".repeat(90));
        assert_ne!(place, fitting(state_directory(&other).join("switchboard.sock"), &other, 1000));
    }
}

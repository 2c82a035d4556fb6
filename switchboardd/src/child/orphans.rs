//! Kills the remaining processes of a child whose guard was killed: on Linux the daemon adopts them (it is a
//! subreaper too) and clears them up instead of the guard. On macOS it finds them as the guard would.

#[cfg(not(target_os = "macos"))]
mod adopted;
#[cfg(target_os = "macos")]
mod unadopted;

#[cfg(not(target_os = "macos"))]
pub(super) use adopted::kill_orphans;
#[cfg(target_os = "macos")]
pub(super) use unadopted::kill_orphans;

use std::ffi::OsString;
use std::time::Duration;

/// What the processes of a guard are known by.
#[derive(Debug)]
#[cfg_attr(not(target_os = "macos"), expect(dead_code, reason = "on Linux the daemon adopts them"))]
pub(super) struct GuardedFamily {
    /// The leader of their session.
    pub(super) guard: u32,
    /// The leader of the child's process group.
    pub(super) child: u32,
    /// The value of an environment variable.
    pub(super) mark: Option<OsString>,
}

const GRACE: Duration = Duration::from_millis(300);

/// A process that cannot be killed in this time (it waits for a disk that does not respond) is left behind.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes orphaned descendants of this process its children.
pub(crate) fn become_subreaper() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

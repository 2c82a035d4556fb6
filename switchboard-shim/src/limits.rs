//! The limit of open files. Each call has its own connection, so the shim raises its limit as far as it may;
//! a daemon that it starts gets the shim's original limit.

use rustix::process::{Resource, getrlimit};
use switchboard_wire::hop::MAX_IN_FLIGHT;
use switchboard_wire::open_files;

/// Passes the daemon's soft limit from the shim to the launcher.
pub(crate) const VARIABLE: &str = "SWITCHBOARD_OPEN_FILES";

/// Descriptors that are not calls: the host's, the runtime's, the mailbox, idle connections, descriptors that
/// the host leaked, and room for answers to the daemon's questions while calls wait for them.
const RESERVED_FILES: u64 = 24;

/// Raises the soft limit to the hard limit.
pub(crate) fn raise_limit() {
    // Best effort: on failure the old limit stays.
    let _ = open_files::raise();
}

/// The soft limit before [`raise_limit`].
pub(crate) fn limit_before() -> Option<u64> {
    open_files::before()
}

/// In the launcher: restores the limit that the shim was started with.
pub(crate) fn restore() {
    let wanted = std::env::var(VARIABLE).ok().and_then(|limit| limit.parse().ok());
    if let Some(wanted) = wanted {
        open_files::set(wanted);
    }
}

/// How many requests may be in flight at once.
pub(crate) fn in_flight() -> usize {
    getrlimit(Resource::Nofile).current.map_or(MAX_IN_FLIGHT, fitting)
}

fn fitting(limit: u64) -> usize {
    usize::try_from(limit.saturating_sub(RESERVED_FILES)).unwrap_or(usize::MAX).clamp(4, MAX_IN_FLIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_leave_reserved_descriptors_free() {
        assert_eq!([16, 24, 32, 64, 1024].map(fitting), [4, 4, 8, 40, MAX_IN_FLIGHT]);
    }
}

//! Open files. Each call has a connection of its own, so the shim takes what it may have; the daemon that
//! it may start gets the limit that the shim was started with.

use rustix::process::{Resource, getrlimit};
use switchboard_wire::hop::MAX_IN_FLIGHT;
use switchboard_wire::open_files;

/// From the shim to the launcher: the soft limit that the daemon is to have.
pub(crate) const VARIABLE: &str = "SWITCHBOARD_OPEN_FILES";

/// Descriptors that are not calls: the host's, the runtime's, the mailbox, idle connections, whatever
/// the host left open, and room for answers to the daemon's questions while calls wait for them.
const RESERVED_FILES: u64 = 24;

/// Lifts the soft limit to the hard one.
pub(crate) fn raise() {
    // As many as before is no reason not to start.
    let _ = open_files::raise();
}

/// The soft limit before [`raise`].
pub(crate) fn before() -> Option<u64> {
    open_files::before()
}

/// In the launcher: goes back to what the shim was started with.
pub(crate) fn restore() {
    let wanted = std::env::var(VARIABLE).ok().and_then(|limit| limit.parse().ok());
    if let Some(wanted) = wanted {
        open_files::set(wanted);
    }
}

/// How many requests may be under way at once.
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
    fn calls_leave_descriptors_for_what_they_wait_for() {
        assert_eq!([16, 24, 32, 64, 1024].map(fitting), [4, 4, 8, 40, MAX_IN_FLIGHT]);
    }
}

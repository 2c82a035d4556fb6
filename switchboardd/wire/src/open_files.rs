//! The open-file limit of this process: raised as far as the system allows, and restored for a process that
//! this one starts.

use std::sync::OnceLock;

use rustix::io;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Used if there is no hard limit: more than a shim or a daemon needs, less than any system refuses.
const MAX_OPEN_FILES: u64 = 10_240;

static LIMIT_BEFORE: OnceLock<Option<u64>> = OnceLock::new();

/// Raises the soft limit to the hard one.
pub fn raise() -> io::Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    LIMIT_BEFORE.get_or_init(|| current);
    let wanted = maximum.unwrap_or(MAX_OPEN_FILES);
    if current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })?;
    }
    Ok(())
}

/// The soft limit before [`raise`]; `None` if it was not called.
pub fn before() -> Option<u64> {
    LIMIT_BEFORE.get().copied().flatten()
}

/// Sets the soft limit; keeps the old one if the system refuses.
pub fn set(limit: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum });
}

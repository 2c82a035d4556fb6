//! Protects this process's memory, which holds secrets, from other processes of the user: no core files, no
//! debugger.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The soft limit of core files that this process was started with.
static CORE_LIMIT_BEFORE: OnceLock<Option<u64>> = OnceLock::new();

/// For our processes that hold secrets. The kernel makes a process readable again on `exec`. An error means that
/// other processes of this user can still read the memory.
pub fn protect_memory() -> std::io::Result<()> {
    CORE_LIMIT_BEFORE.get_or_init(|| getrlimit(Resource::Core).current);
    limit_cores(Some(0));
    // Without this, a core is still written if it is piped to a program
    // (`|/usr/lib/systemd/systemd-coredump`).
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// The soft limit of core files for children; `None` if it was not changed.
pub fn cores_before() -> Option<Option<u64>> {
    CORE_LIMIT_BEFORE.get().copied()
}

/// Restores the limit that this process was started with, for a successor that replaces it.
pub fn restore_core_limit() {
    if let Some(before) = cores_before() {
        limit_cores(before);
    }
}

/// While it lives, processes that are started get this limit.
#[derive(Debug)]
pub struct CoreLimitGuard;

impl CoreLimitGuard {
    pub fn allow(soft: Option<u64>) -> Self {
        limit_cores(soft);
        Self
    }
}

impl Drop for CoreLimitGuard {
    fn drop(&mut self) {
        limit_cores(Some(0));
    }
}

fn limit_cores(soft: Option<u64>) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Core);
    let _ = setrlimit(Resource::Core, Rlimit { current: soft, maximum });
}

//! Keeps this process's memory, which holds secrets, from other processes of its user: no core files, no debugger.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The soft limit of core files that this process was started with.
static CORE: OnceLock<Option<u64>> = OnceLock::new();

/// For processes of ours that know secrets. What they execute can be read again, by rule of the kernel.
pub fn close() {
    CORE.get_or_init(|| getrlimit(Resource::Core).current);
    limit_cores(Some(0));
    // Without this a core is still written where a program takes it (`|/usr/lib/systemd/systemd-coredump`).
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        tracing::warn!(target: "daemon", "others of this user can read the memory of this process: {error}");
    }
}

/// The soft limit of core files for children; `None` if it was not changed.
pub fn cores_before() -> Option<Option<u64>> {
    CORE.get().copied()
}

/// Back to the limit that this process was started with, for another that takes its place.
pub fn give_back() {
    if let Some(before) = cores_before() {
        limit_cores(before);
    }
}

/// While it lives, what is started gets this limit.
#[derive(Debug)]
pub struct Cores;

impl Cores {
    pub fn allow(soft: Option<u64>) -> Self {
        limit_cores(soft);
        Self
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        limit_cores(Some(0));
    }
}

fn limit_cores(soft: Option<u64>) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Core);
    let _ = setrlimit(Resource::Core, Rlimit { current: soft, maximum });
}

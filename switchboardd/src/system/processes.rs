//! Our own helper processes that leave our session (guards and keepers). They are tracked by pid, so that
//! they are not mistaken for orphans.

use std::collections::BTreeSet;
use std::io;
use std::sync::Mutex;

// A leaf lock: held while a process is started, so that no lookup happens before its pid is recorded.
static REGISTERED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Registration of one process. Drop it only when the process has ended, since its pid may be reused after
/// that.
#[derive(Debug)]
pub(crate) struct RegisteredProcess(Option<u32>);

impl Drop for RegisteredProcess {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            lock().remove(&id);
        }
    }
}

/// Starts a process and registers it.
pub(crate) fn start(
    command: &mut tokio::process::Command,
) -> io::Result<(tokio::process::Child, RegisteredProcess)> {
    let mut ours = lock();
    let process = command.spawn()?;
    let id = process.id();
    ours.extend(id);
    Ok((process, RegisteredProcess(id)))
}

/// The pids of all. While the guard is held, no other process can be started.
pub(crate) fn lock() -> std::sync::MutexGuard<'static, BTreeSet<u32>> {
    REGISTERED.lock().expect("BUG: a start panicked")
}

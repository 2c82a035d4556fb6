//! Processes of our own that leave our session, guards and keepers: known by number, so that they are not taken for
//! what somebody else left behind.

use std::collections::BTreeSet;
use std::io;
use std::sync::Mutex;

// A leaf lock: held while one is started, so that nobody looks before its number is in here.
static OURS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// One of them. It is to live as long as the process, whose number may be another's after that.
#[derive(Debug)]
pub(crate) struct Ours(Option<u32>);

impl Drop for Ours {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            lock().remove(&id);
        }
    }
}

/// Starts one.
pub(crate) fn start(command: &mut tokio::process::Command) -> io::Result<(tokio::process::Child, Ours)> {
    let mut ours = lock();
    let process = command.spawn()?;
    let id = process.id();
    ours.extend(id);
    Ok((process, Ours(id)))
}

/// The numbers of all. Whoever holds this keeps others from being started.
pub(crate) fn lock() -> std::sync::MutexGuard<'static, BTreeSet<u32>> {
    OURS.lock().expect("BUG: a start panicked")
}

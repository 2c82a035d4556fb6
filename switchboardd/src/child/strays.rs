//! What is left of a child whose guard was killed: the daemon adopts it (it is a subreaper too) and
//! clears it up in the guard's place.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::clearing::Clearing;
use super::descent::{Process, child_ids_of, children_of, family_now};
use crate::event_loop::may_block;
use crate::processes;

const GRACE: Duration = Duration::from_millis(300);

/// What cannot be killed by then (it waits for a disk that does not answer) is left behind.
const PATIENCE: Duration = Duration::from_secs(10);

/// So many looks in a row have to find nobody: while our own children come and go, one look may miss somebody.
const LOOKS: u32 = 3;

/// Has every orphan of this process's descendants become its child.
pub(crate) fn adopt() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Ends all that were adopted, and their descendants. Blocks until none is left.
pub(super) fn clear() {
    // One at a time: a number is nobody else's as long as nobody reaps it behind our back.
    static ALONE: Mutex<()> = Mutex::new(());
    may_block();
    let _alone = ALONE.lock().expect("BUG: clearing up panicked");
    let mut clearing = Clearing::with_grace(GRACE);
    let give_up = Instant::now() + PATIENCE;
    let mut quiet = 0;
    while quiet < LOOKS {
        if clearing.kills() {
            kill_at_once();
        }
        let adopted: Vec<Process> =
            children_of(std::process::id()).into_iter().filter(|process| !is_ours(process)).collect();
        adopted.iter().filter(|process| process.zombie).for_each(reap);
        // A zombie that was reaped just now counts: it may have left somebody behind.
        quiet = if adopted.is_empty() { quiet + 1 } else { 0 };
        let mut family: Vec<Process> = adopted
            .iter()
            .flat_map(|process| family_now(process.id))
            .chain(adopted.iter().cloned())
            .collect();
        family.retain(|process| !process.zombie || clearing.kills());
        if Instant::now() > give_up {
            let pids: Vec<u32> = family.iter().map(|process| process.id).collect();
            tracing::warn!(target: "child", ?pids, "processes of a child cannot be ended");
            return;
        }
        std::thread::sleep(clearing.pass(&family, |_| false));
    }
}

/// Some live for a moment only and leave another one behind: the newest first, before anything else is looked at.
fn kill_at_once() {
    for id in child_ids_of(std::process::id()).unwrap_or_default().into_iter().rev() {
        if let Some(process) = Process::look_up(id).filter(|process| !is_ours(process)) {
            if let Some(pid) = Pid::from_raw(id.cast_signed()) {
                let _ = kill_process(pid, Signal::KILL);
            }
            if process.zombie {
                reap(&process);
            }
        }
    }
}

fn reap(process: &Process) {
    if let Some(pid) = Pid::from_raw(process.id.cast_signed()) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Whether this process started it. Those in its own session are its own: a guard leaves that session before its
/// child starts, and there is no way back into it.
fn is_ours(process: &Process) -> bool {
    // Read from `/proc`: in a container the leader of this session may be outside, and then the session is 0.
    let session = Process::look_up(std::process::id()).map(|own| own.session);
    Some(process.session) == session || processes::lock().contains(&process.id)
}

//! What is left of a child whose guard was killed: the daemon adopts it (it is a subreaper too) and
//! clears it up in the guard's place.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::clearing::{KillSequence, real_now};
use super::process_tree::{Process, child_ids_of_first_thread, children_of, family_now};
use crate::event_loop::may_block;
use crate::processes;

const GRACE: Duration = Duration::from_millis(300);

/// What cannot be killed by then (it waits for a disk that does not answer) is left behind.
const PATIENCE: Duration = Duration::from_secs(10);

/// So many looks in a row have to find nobody: while our own children come and go, one look may miss somebody.
const LOOKS: u32 = 3;

/// The longest time that adopted processes are killed in a row before anything slower is done.
const BURST: Duration = Duration::from_millis(500);

/// As many are looked at before the list is read again: the newest may have been replaced meanwhile.
const NEWEST: usize = 32;

/// Has every orphan of this process's descendants become its child.
pub(crate) fn become_subreaper() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Ends all that were adopted, and their descendants. Blocks until none is left.
pub(super) fn kill_orphans() {
    // One at a time: a number is nobody else's as long as nobody reaps it behind our back.
    static ALONE: Mutex<()> = Mutex::new(());
    may_block();
    let _alone = ALONE.lock().expect("BUG: clearing up panicked");
    // Read from `/proc`, not from `getsid`: in a container the leader of this session may be outside, and then the
    // session is 0.
    let Some(session) = Process::look_up(std::process::id()).map(|own| own.session) else { return };
    let mut clearing = KillSequence::with_grace(GRACE);
    let give_up = real_now() + PATIENCE;
    let mut quiet = 0;
    while quiet < LOOKS {
        if clearing.kills() {
            kill_adopted(session);
        }
        let mut adopted: Vec<Process> = children_of(std::process::id())
            .into_iter()
            .filter(|process| !is_ours(process, session))
            .collect();
        // A zombie that is reaped just now counts: it may have left somebody behind.
        quiet = if adopted.is_empty() { quiet + 1 } else { 0 };
        adopted.retain(|process| !(process.zombie && reap(process)));
        let descendants = adopted.iter().flat_map(|process| family_now(process.id));
        let mut family: Vec<Process> = descendants.chain(adopted.iter().cloned()).collect();
        family.retain(|process| !process.zombie || clearing.kills());
        if real_now() > give_up {
            let pids: Vec<u32> = family.iter().map(|process| process.id).collect();
            tracing::warn!(target: "child", ?pids, "processes of a child cannot be ended");
            return;
        }
        std::thread::sleep(clearing.pass(&family, |_| false));
    }
}

/// Kills the adopted processes, the newest first, until none is left that has not been killed yet. It looks at none
/// of their descendants, which become adopted ones: a process that starts another one and exits has to be killed
/// between the two, so nothing here may take long.
fn kill_adopted(session: u32) {
    let until = real_now() + BURST;
    let mut killed = HashSet::new();
    let mut is_any_new = true;
    while is_any_new && real_now() < until {
        is_any_new = false;
        // The kernel gives orphans to the first thread: the lists of the others are not read.
        for id in child_ids_of_first_thread(std::process::id()).into_iter().rev().take(NEWEST) {
            let Some(process) = Process::look_up(id).filter(|process| !is_ours(process, session)) else {
                continue;
            };
            is_any_new |= killed.insert((id, process.start_time));
            if let Some(pid) = Pid::from_raw(id.cast_signed()) {
                let _ = kill_process(pid, Signal::KILL);
            }
            if process.zombie {
                is_any_new |= reap(&process);
            }
        }
    }
}

/// Returns whether nothing is left of it. A process whose first thread has ended may go on in others.
fn reap(process: &Process) -> bool {
    let pid = Pid::from_raw(process.id.cast_signed());
    pid.is_some() && !matches!(waitpid(pid, WaitOptions::NOHANG), Ok(None))
}

/// Whether this process started it. Those in its own session are its own: a guard leaves that session before its
/// child starts, and there is no way back into it.
fn is_ours(process: &Process, session: u32) -> bool {
    process.session == session || processes::lock().contains(&process.id)
}

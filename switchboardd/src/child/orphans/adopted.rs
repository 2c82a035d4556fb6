//! Linux: the daemon has adopted the processes.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use switchboard_wire::event_loop::may_block;

use super::{GRACE, GuardedFamily, KILL_TIMEOUT};
use crate::system::processes;
use switchboard_guard::kill_sequence::{KillSequence, real_now};
use switchboard_guard::process_tree::{Process, child_ids_of_first_thread, children_of, family_now};

/// This many scans in a row must find no process: while our own children come and go, one
/// scan may miss a process.
const EMPTY_SCANS: u32 = 3;

/// How long adopted processes are killed in a tight loop before the slower scan of their descendants.
const FAST_KILL_TIME: Duration = Duration::from_millis(500);

/// How many processes are killed before the list is read again: meanwhile the newest may have been replaced.
const KILLS_PER_SCAN: usize = 32;

/// Ends all adopted processes and their descendants. Blocks until none is left.
pub(in crate::child) fn kill_orphans(_: Option<GuardedFamily>) {
    // One at a time: a pid stays valid until it is reaped, so no other thread may reap meanwhile.
    static REAP_LOCK: Mutex<()> = Mutex::new(());
    may_block();
    let _alone = REAP_LOCK.lock().expect("BUG: clearing up panicked");
    // Read from `/proc`, not from `getsid`: in a container the session leader may be outside, and
    // then `getsid` returns 0.
    let Some(session) = Process::look_up(std::process::id()).map(|own| own.session) else { return };
    let mut clearing = KillSequence::with_grace(GRACE);
    let give_up = real_now() + KILL_TIMEOUT;
    let mut quiet = 0;
    while quiet < EMPTY_SCANS {
        if clearing.kills() {
            kill_adopted(session);
        }
        let mut adopted: Vec<Process> = children_of(std::process::id())
            .into_iter()
            .filter(|process| !is_ours(process, session))
            .collect();
        // A zombie that is reaped in this pass counts as found: its children may have just become orphans.
        quiet = if adopted.is_empty() { quiet + 1 } else { 0 };
        adopted.retain(|process| !(process.zombie && reap(process)));
        let descendants = adopted.iter().flat_map(|process| family_now(process.id));
        let mut family: Vec<Process> = descendants.chain(adopted.iter().cloned()).collect();
        family.retain(|process| !process.zombie || clearing.kills());
        if real_now() > give_up {
            let pids: Vec<u32> = family.iter().map(|process| process.id).collect();
            tracing::warn!(target: "server", ?pids, "processes of a server cannot be ended");
            return;
        }
        std::thread::sleep(clearing.pass(&family, |_| false));
    }
}

/// Kills adopted processes, newest first, until a pass finds no new one. It does not scan their descendants,
/// which become adopted ones themselves: a process that forks and exits must be killed between the two, so
/// this loop has to be fast.
fn kill_adopted(session: u32) {
    let until = real_now() + FAST_KILL_TIME;
    let mut killed = HashSet::new();
    let mut is_any_new = true;
    while is_any_new && real_now() < until {
        is_any_new = false;
        // The kernel gives orphans to the first thread, so the children of other threads are not read.
        for id in child_ids_of_first_thread(std::process::id()).into_iter().rev().take(KILLS_PER_SCAN) {
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

/// Returns whether the process is gone. A zombie may still have running threads.
fn reap(process: &Process) -> bool {
    let pid = Pid::from_raw(process.id.cast_signed());
    pid.is_some() && !matches!(waitpid(pid, WaitOptions::NOHANG), Ok(None))
}

/// Whether this process started it. Every process in the daemon's own session is ours: a guard leaves that
/// session before its child starts, and cannot come back.
fn is_ours(process: &Process, session: u32) -> bool {
    process.session == session || processes::lock().contains(&process.id)
}

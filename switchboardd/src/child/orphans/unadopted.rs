//! macOS: launchd has adopted the processes.

use std::os::unix::ffi::OsStrExt;

use switchboard_guard::descendants::Descendants;
use switchboard_guard::kill_sequence::{KillSequence, real_now};
use switchboard_guard::process_tree::all;
use switchboard_guard::ps::{GUARD_VARIABLE, ids_with_variable};
use switchboard_wire::event_loop::may_block;

use super::{GRACE, GuardedFamily, KILL_TIMEOUT};

/// Ends all processes of a guard that is gone, as far as they can be found. Blocks until none is left.
pub(in crate::child) fn kill_orphans(family: Option<GuardedFamily>) {
    may_block();
    let Some(GuardedFamily { guard, child, mark }) =
        family.filter(|family| family.guard != 0 && family.child != 0)
    else {
        return;
    };
    let mut descendants = Descendants::of(guard, child);
    let mut clearing = KillSequence::with_grace(GRACE);
    let give_up = real_now() + KILL_TIMEOUT;
    loop {
        let marked = match &mark {
            Some(mark) => ids_with_variable(GUARD_VARIABLE, &[mark.as_bytes()]),
            None => Vec::new(),
        };
        descendants.update(&all(), &marked);
        let left = descendants.processes();
        if left.is_empty() {
            return;
        }
        if real_now() > give_up {
            let pids: Vec<u32> = left.iter().map(|process| process.id).collect();
            tracing::warn!(target: "server", ?pids, "processes of a server cannot be ended");
            return;
        }
        std::thread::sleep(clearing.pass(&left, |_| false));
    }
}

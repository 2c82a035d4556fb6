//! What is left of a child whose guard was killed: the daemon adopts it (it is a subreaper too) and
//! clears it up in the guard's place.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use super::descent::{Process, children_of, descendants_of};
use crate::event_loop::may_block;

const GRACE: Duration = Duration::from_millis(300);

/// Has every orphan of this process's descendants become its child.
pub(crate) fn adopt() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Ends all that were adopted, and their descendants. Blocks until none is left.
pub(super) fn clear() {
    may_block();
    let kill_from = Instant::now() + GRACE;
    let mut termed = false;
    loop {
        let adopted: Vec<Process> =
            children_of(std::process::id()).into_iter().filter(|process| !is_one_of_us(process)).collect();
        for process in adopted.iter().filter(|process| process.zombie) {
            if let Some(pid) = Pid::from_raw(process.id.cast_signed()) {
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
        let alive: Vec<Process> = adopted
            .into_iter()
            .filter(|process| !process.zombie)
            .flat_map(|process| {
                let mut family = descendants_of(process.id);
                family.push(process);
                family
            })
            .collect();
        if alive.is_empty() {
            return;
        }
        if Instant::now() > kill_from {
            alive.iter().for_each(|process| process.signal(Signal::KILL));
        } else if !termed {
            alive.iter().for_each(|process| process.signal(Signal::TERM));
            termed = true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Guards, and processes that are just becoming one, run our own program. Their zombies, which have none
/// any more but still its name, are reaped by whoever started them.
fn is_one_of_us(process: &Process) -> bool {
    let program =
        |pid: &str| std::fs::metadata(format!("/proc/{pid}/exe")).map(|meta| (meta.dev(), meta.ino()));
    match (program("self"), program(&process.id.to_string())) {
        (Ok(ours), Ok(theirs)) => ours == theirs,
        _ => matches!(process.program.as_str(), "switchboardd" | "exe"),
    }
}

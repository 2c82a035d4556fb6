//! Ends processes: TERM once, then KILL as often as needed. The caller decides when none is left.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::process_tree::Process;

/// How often processes that were told to end are checked again.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How many killed processes are remembered: some fork and exit again and again.
const MAX_KILLED: usize = 10_000;

/// Real time, because processes do not follow a test's paused clock; and a guard has no runtime.
#[expect(clippy::disallowed_methods, reason = "the time of processes")]
pub fn real_now() -> Instant {
    Instant::now()
}

#[derive(Debug)]
pub struct KillSequence {
    kill_from: Instant,
    termed: bool,
    /// Pid and start time of the processes that got KILL.
    killed: HashSet<(u32, u64)>,
}

impl KillSequence {
    /// `grace` is the time between TERM and KILL.
    pub fn with_grace(grace: Duration) -> Self {
        Self { kill_from: real_now() + grace, termed: false, killed: HashSet::new() }
    }

    /// Whether it is time for KILL.
    pub fn kills(&self) -> bool {
        real_now() >= self.kill_from
    }

    /// Whether this process already got KILL.
    pub fn has_killed(&self, process: &Process) -> bool {
        self.killed.contains(&(process.id, process.start_time))
    }

    /// Signals all of them, and returns how long to wait before the next pass. `spared` are process groups
    /// that contain other processes too.
    pub fn pass(&mut self, family: &[Process], spared: impl Fn(u32) -> bool) -> Duration {
        if !self.kills() {
            if !std::mem::replace(&mut self.termed, true) {
                family.iter().for_each(|process| process.signal(Signal::TERM));
            }
            return POLL_INTERVAL;
        }
        // A whole group at once: no process in it can fork in time.
        let groups: HashSet<u32> = family.iter().map(|process| process.group).collect();
        for group in groups.into_iter().filter(|group| *group > 1 && !spared(*group)) {
            if let Some(group) = Pid::from_raw(group.cast_signed()) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        // Zombies too: if only the first thread has ended, others may still run.
        family.iter().for_each(|process| process.signal(Signal::KILL));
        if self.killed.len() > MAX_KILLED {
            self.killed.clear();
        }
        let known = self.killed.len();
        self.killed.extend(family.iter().map(|process| (process.id, process.start_time)));
        // New processes appear: the next pass must be faster than they fork.
        if self.killed.len() > known { Duration::ZERO } else { POLL_INTERVAL }
    }
}

//! For tests of how much work something is: a busy machine does not change the figure.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Processor time that this thread has used.
pub(crate) fn processor_time() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(tv_sec).unwrap(), u32::try_from(tv_nsec).unwrap())
}

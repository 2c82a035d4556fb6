//! What the machine of a run is like, measured without Switchboard: CI has no machine of its own, and a slow or
//! disturbed one says nothing about a change. Only the gates look at it; bounds and figures stay as they are.
//!
//! Switchboard's share of a call runs in user space, most of the floor's in the kernel. Where user code is slow beside a
//! round trip through two pipes, a ratio to the floor is larger for the same code.

use std::fmt;
use std::time::{Duration, Instant};

use super::bounds::{Bound, Promise};
use super::samples::Samples;
use super::setup::{self, CpuCores, ECHO, direct_call};

/// What the bench's child does in user space for a call, in round trips through two pipes, on the machine that the bounds
/// were set on (`HISTORY.md`): 6.16 µs for a call, 4.34 µs for a round trip.
const REFERENCE: f64 = (6.16 - 4.34) / 4.34;
/// A machine that is slower than this is not waited for.
const MAX_SLOWNESS: f64 = 3.0;
/// The part of a core that others may take before the machine counts as disturbed.
const MAX_LOST: f64 = 0.02;
/// How much more a time may be on a disturbed machine.
const DISTURBED: f64 = 2.0;
/// A pause of a busy loop that is longer than this was not its own.
const GAP: Duration = Duration::from_micros(100);
const WATCHED: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// How many times slower user code is than on the machine of the bounds, beside the kernel's.
    slowness: f64,
    /// The part of a core that others took.
    lost: f64,
}

impl Default for Machine {
    /// The one that the bounds were set on.
    fn default() -> Self {
        Self { slowness: 1.0, lost: 0.0 }
    }
}

impl Machine {
    pub fn measure() -> Self {
        let (mut child, mut pong) = (setup::direct(0), setup::pong());
        let cores = CpuCores::new();
        cores.pin(true, &[child.process.pid(), pong.process.pid()]);
        let (mut calls, mut trips) = (Samples::default(), Samples::default());
        for _ in 0..20 {
            calls.round(|out| child.wire.sequential(&direct_call("echo", ECHO), 200, out));
            trips.round(|out| pong.wire.sequential(&direct_call("echo", r#"{"result":1}"#), 200, out));
        }
        let lost = lost();
        cores.pin(false, &[]);
        let user = calls.over(&trips) - 1.0;
        Self { slowness: (user / REFERENCE).clamp(1.0, MAX_SLOWNESS), lost }
    }

    /// The worse of two looks at the same machine.
    pub fn worse(self, other: Self) -> Self {
        Self { slowness: self.slowness.max(other.slowness), lost: self.lost.max(other.lost) }
    }

    /// How many times longer Switchboard's own part of something may take here.
    fn allowance(self) -> f64 {
        self.slowness * if self.lost > MAX_LOST { DISTURBED } else { 1.0 }
    }

    /// By which factor a figure may be beyond its bound on this machine before `--gate` fails.
    pub fn slack(self, promise: &Promise, unit: &str) -> f64 {
        let slack = promise.slack();
        // Of a ratio to the floor, only what is beyond the floor is ours.
        let of_ratio = |most: f64| (1.0 + (most * slack - 1.0).max(0.0) * self.allowance()) / most;
        match promise.bound {
            Bound::AtMost(_) if matches!(unit, "us" | "ms") => slack * self.allowance(),
            Bound::AtMost(_) | Bound::AtMostAnywhere(_) | Bound::FloorAnywhere(_) => slack,
            Bound::Floor(most) => of_ratio(most),
            Bound::Share { floor, .. } => of_ratio(1.0 / floor),
        }
        .max(slack)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slowness, lost } = self;
        write!(
            out,
            "machine: beside the kernel, user code takes {slowness:.1} times as long as where the bounds were set; others took {:.1} % of a core; gates on times allow {:.1} times as much",
            100.0 * lost,
            self.allowance()
        )
    }
}

/// The part of a busy loop's time in which it did not run.
fn lost() -> f64 {
    let begin = Instant::now();
    let (mut last, mut lost) = (begin, Duration::ZERO);
    while last - begin < WATCHED {
        let now = Instant::now();
        if now - last > GAP {
            lost += now - last;
        }
        last = now;
    }
    lost.as_secs_f64() / WATCHED.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::bounds::promise_of;

    #[test]
    fn only_times_and_ratios_are_allowed_more_on_a_slow_machine() {
        let call = promise_of("sequential call through the shim, p50, pinned").unwrap();
        let memory = promise_of("each further shim").unwrap();
        let start = promise_of("shim start to first `tools/list`, daemon warm, pinned").unwrap();
        let rate = promise_of("calls per second, 64 in flight, through the shim").unwrap();
        let near = |one: f64, other: f64| assert!((one - other).abs() < 1e-6, "{one} {other}");

        let usual = Machine::default();
        for (promise, unit) in [(call, "us"), (memory, "MiB"), (start, "ms"), (rate, "/s")] {
            near(usual.slack(promise, unit), 1.25);
        }
        let slow = Machine { slowness: 2.0, lost: 0.0 };
        near(slow.slack(call, "us"), (1.0 + 0.4375 * 2.0) / 1.15);
        near(slow.slack(start, "ms"), 2.5);
        near(slow.slack(memory, "MiB"), 1.25);
        assert!(slow.slack(rate, "/s") > 1.25);
        let disturbed = Machine { lost: 0.5, ..slow };
        near(disturbed.slack(start, "ms"), 5.0);
        assert_eq!(slow.worse(disturbed), disturbed);
    }
}

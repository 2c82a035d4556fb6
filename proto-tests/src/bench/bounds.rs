//! Every promised bound, for `bench` and `figures`. `--gate` fails if a figure is beyond its bound by more
//! than [`SLACK`], three times in a row. To change a promise, change its line here.

/// How far beyond its bound a figure may be before `--gate` fails: machines are noisy.
pub const SLACK: f64 = 1.25;

/// The bound that a figure has to keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// At most this, in the figure's unit.
    AtMost(f64),
    /// At most this on any machine, without slack: a size or a count.
    AtMostAnywhere(f64),
    /// At most this many times the floor of the same run.
    Floor(f64),
    /// The same for what does not depend on the machine, without slack.
    FloorAnywhere(f64),
    /// At least this fraction of the floor, and at least that fraction of direct use.
    Share { floor: f64, direct: f64 },
}

/// What is promised of one figure.
#[derive(Debug, Clone, Copy)]
pub struct Promise {
    /// The name of the row.
    pub what: &'static str,
    pub bound: Bound,
    /// Where `--gate` fails, if not at [`SLACK`] times the bound.
    pub gate: Option<f64>,
    /// The column of this figure in `HISTORY.md`; empty if it has none.
    pub column: &'static str,
}

const fn promise(what: &'static str, bound: Bound, column: &'static str) -> Promise {
    Promise { what, bound, gate: None, column }
}

impl Promise {
    /// Sets where `--gate` fails: a value where the bound is one, else a ratio to the floor.
    const fn gated_at(mut self, gate: f64) -> Self {
        self.gate = Some(gate);
        self
    }

    /// By which factor a figure may be beyond its bound before `--gate` fails.
    pub fn slack(&self) -> f64 {
        match (self.bound, self.gate) {
            (Bound::AtMostAnywhere(_) | Bound::FloorAnywhere(_), _) => 1.0,
            (Bound::AtMost(bound) | Bound::Floor(bound), Some(gate)) => gate / bound,
            (_, _) => SLACK,
        }
    }
}

use Bound::{AtMost, AtMostAnywhere, Floor, FloorAnywhere, Share};

/// The program that measures a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measurer {
    Bench,
    Figures,
}

impl Measurer {
    /// What is promised of its figures.
    pub fn promises(self) -> &'static [Promise] {
        match self {
            Self::Bench => BENCH,
            Self::Figures => FIGURES,
        }
    }
}

#[rustfmt::skip]
const BENCH: &[Promise] = &[
    // calls
    promise("sequential call through the shim, p50, pinned", Floor(1.15), "call, pinned"),
    promise("sequential call through the shim, p50, free", Floor(1.0), "call, free").gated_at(1.5),
    promise("sequential call through the shim, p99, free", Floor(1.5), ""),
    promise("`/proxy` without the shim, p50, pinned", Floor(1.15), "/proxy"),
    promise("`/mcp`, a request of its own, p50, pinned", Floor(1.4), "/mcp"),
    promise("result of 1 MiB, p50, free", Floor(1.1), "1 MiB"),
    promise("calls per second, 64 in flight, through the shim", Share { floor: 0.95, direct: 0.15 }, "64 in flight"),
    promise("call with 64 sessions and 1000 suites, beside 1 and 1, pinned", Floor(1.3), "growth"),
    promise("call of a modern host on a legacy child, p50, pinned", Floor(1.5), "modern on legacy"),
    promise("call of a legacy host on a modern child, p50, pinned", Floor(1.5), "legacy on modern"),
    promise("measuring a call, tracing off, of its time", AtMost(2.0), "measuring %"),
    promise("instructions of the daemon for a call", FloorAnywhere(3.0), "daemon instr."),
    promise("instructions of the shim for a call", FloorAnywhere(1.7), "shim instr."),
    // scale
    promise("call with 500 children, 64 sessions and 10000 definitions, beside 1 of each, pinned", Floor(1.3), "scale"),
    promise("reload, one of 10000 definitions changed", AtMost(1000.0), "reload ms"),
    promise("longest step of the event loop, 64 sessions that call", AtMost(10.0), "step, calls ms"),
    promise("longest step of the event loop, one of 10000 definitions changed", AtMost(10.0), "step, reload ms"),
    // starts
    promise("shim start to first `tools/list`, daemon warm, pinned", AtMost(2.0), "warm, pinned"),
    promise("shim start to first `tools/list`, daemon warm, free", AtMost(2.0), "warm, free"),
    promise("shim start to first `tools/list`, no daemon running, pinned", AtMost(10.0), "cold, pinned"),
    promise("shim start to first `tools/list`, no daemon running, free", AtMost(10.0), "cold, free"),
    // memory
    promise("daemon and one shim, idle, 20 suites", AtMost(6.5), "idle MiB").gated_at(8.0),
    promise("each further shim", AtMost(0.5), "shim MiB"),
    promise("daemon and one shim, idle, 1000 suites", AtMost(25.0), "1000 suites MiB"),
    promise("wake-ups of daemon and shim, idle", AtMost(1.0), "wake-ups"),
    // what a model reads
    promise("`tools/list`, 10 children of 20 tools", AtMostAnywhere(5200.0), "list B"),
    promise("`tools/list`, the same, once all have run", AtMostAnywhere(7500.0), ""),
    promise("`introspect` of 20 tools", AtMostAnywhere(6000.0), ""),
    promise("`introspect` with a query", AtMostAnywhere(1200.0), ""),
];

#[rustfmt::skip]
const FIGURES: &[Promise] = &[
    promise("shim: binary", AtMostAnywhere(2_000_000.0 / 1024.0 / 1024.0), "shim file MiB"),
    promise("shim: resident after a call", AtMostAnywhere(4.0), "shim RSS MiB"),
    promise("guard of each of 8 servers (PSS)", AtMost(0.25), "guard MiB"),
    promise("shim start to first tools/list, daemon running (p50)", AtMost(2.0), ""),
    promise("shim start to first tools/list, no daemon (p50)", AtMost(10.0), ""),
    promise("one call through shim and daemon (p50)", AtMost(1.0), ""),
    promise("400 for a body that is not JSON (p50)", AtMost(5.0), ""),
    promise("ping while the daemon does not answer (p50)", AtMost(1.0), ""),
    promise("kill -9 of a child: last of 64 callers knows (max of 20)", AtMost(100.0), "child killed ms"),
    promise("kill -9 of a child: next call served (max of 20)", AtMost(250.0), "served again ms"),
    promise("kill -9 of the daemon: last of 8 x 8 callers knows", AtMost(1000.0), "daemon killed ms"),
    promise("kill -9 of the daemon: next call of each shim served", AtMost(2000.0), ""),
    promise("shim gone after SIGTERM", AtMost(100.0), ""),
    promise("processes of 8 servers for 3 hosts, as /status counts them", AtMostAnywhere(8.0), ""),
    promise("processes of 8 servers for 3 hosts, as the system counts them", AtMostAnywhere(8.0), ""),
    promise("crash loop: a call is refused with the reason (p50)", AtMost(10.0), ""),
    promise("crash loop: starts so far (at most 10 a minute)", AtMostAnywhere(10.0), ""),
];

/// All promises.
pub fn promises() -> impl Iterator<Item = &'static Promise> {
    BENCH.iter().chain(FIGURES)
}

/// The promise of the row with this name.
pub fn promise_of(what: &str) -> Option<&'static Promise> {
    promises().find(|promise| promise.what == what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_gate_is_wider_than_the_bound() {
        assert_eq!(promise("a", AtMost(4.0), "").slack(), 1.25);
        assert_eq!(promise("a", AtMost(4.0), "").gated_at(8.0).slack(), 2.0);
        assert_eq!(promise("a", AtMostAnywhere(4.0), "").slack(), 1.0);
        assert!(promises().all(|promise| promise.slack() >= 1.0));
    }

    #[test]
    fn every_name_and_column_is_unique() {
        let (mut names, mut columns) = (HashSet::new(), HashSet::new());
        for promise in promises() {
            assert!(names.insert(promise.what), "{}", promise.what);
            assert!(promise.column.is_empty() || columns.insert(promise.column), "{}", promise.column);
        }
    }
}

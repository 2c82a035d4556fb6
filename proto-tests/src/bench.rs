//! The benchmark: what a call costs through Switchboard, beside the same child driven directly and beside
//! the floor, a shim and a daemon that only pass messages on. All three in the same run and round by round,
//! so that a noisy machine is noisy for all of them alike; what counts is their ratio.
//!
//! `stage` sets things up, `drive` has the loops that are timed, `report` holds the figures against their
//! bounds. The other files each measure one thing.

pub mod catalog;
pub mod chart;
pub mod child;
pub mod drive;
pub mod floor;
pub mod growth;
pub mod latency;
pub mod memory;
pub mod reload;
pub mod report;
pub mod samples;
pub mod sizes;
pub mod stage;
pub mod starts;
pub mod throughput;

use report::Report;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// A minute or less: what a regression would show in.
    Quick,
    Full,
}

impl Effort {
    pub fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// One thing that is measured.
pub type Measure = fn(Effort, &mut Report);

/// Everything that is measured, by name.
pub const MEASURES: [(&str, Measure); 8] = [
    ("latency", latency::measure),
    ("large", latency::large),
    ("throughput", throughput::measure),
    ("starts", starts::measure),
    ("memory", memory::measure),
    ("sizes", sizes::measure),
    ("growth", growth::measure),
    ("reload", reload::measure),
];

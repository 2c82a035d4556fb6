//! The benchmark: what a call costs through Switchboard, compared with the same child driven directly and
//! with the floor, a shim and a daemon that only forward messages. All three run interleaved, round by round,
//! so that noise affects them alike; what counts is their ratio.
//!
//! `setup` sets up the processes, `drive` has the timed loops, `bounds` has all that is promised, `report`
//! compares the figures with it, and `history` with earlier runs. The other files each measure one thing.

pub mod bounds;
pub mod catalog;
pub mod chart;
pub mod child;
pub mod drive;
pub mod eras;
pub mod floor;
pub mod growth;
pub mod history;
pub mod instructions;
pub mod latency;
pub mod machine;
pub mod memory;
pub mod reload;
pub mod report;
pub mod samples;
pub mod scale;
pub mod setup;
pub mod sizes;
pub mod starts;
pub mod throughput;

use report::Report;

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// A minute or less: enough to show a regression.
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

/// Measures one thing and adds its rows to the report.
pub type Measure = fn(Effort, &mut Report);

/// All measurements, by name.
pub const MEASURES: [(&str, Measure); 11] = [
    ("latency", latency::measure),
    ("instructions", instructions::measure),
    ("large", latency::large),
    ("throughput", throughput::measure),
    ("starts", starts::measure),
    ("memory", memory::measure),
    ("sizes", sizes::measure),
    ("growth", growth::measure),
    ("reload", reload::measure),
    ("scale", scale::measure),
    ("eras", eras::measure),
];

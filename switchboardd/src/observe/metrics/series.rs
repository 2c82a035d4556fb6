//! One histogram per kind of operation; the number of histograms is bounded.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

use super::names::LabelName;

/// Bucket bounds in seconds: those of the OpenTelemetry conventions for MCP, plus three below them, because
/// most operations here are faster than the lowest.
pub const OPERATION: [f64; 17] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Bucket bounds in seconds for sessions and child lifetimes, from 100 ms to a week.
pub const SESSION: [f64; 12] =
    [0.1, 1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0];

/// Above this many series, owner and tool become `_other`; the remaining labels have few values.
pub const MAX_SERIES: usize = 2000;

/// The entry point a request came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryPoint {
    Shim,
    Proxy,
    Streamable,
}

impl EntryPoint {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shim => "shim",
            Self::Proxy => "proxy",
            Self::Streamable => "registry",
        }
    }
}

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// A host's request. `single`: sent to the face of one child.
    HostRequest { via: EntryPoint, single: bool, method: &'static str },
    /// A request from the daemon to a child.
    ChildRequest { remote: bool, method: &'static str },
    /// A host's session.
    Session { via: EntryPoint },
    /// A child's lifetime, from the end of its handshake.
    ChildLifetime { remote: bool },
}

/// The labels of one series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeriesKey {
    pub kind: OperationKind,
    /// The suite, or the child.
    pub owner: Option<LabelName>,
    pub tool: Option<LabelName>,
    /// `None` for success.
    pub error: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    pub bounds: &'static [f64],
    /// The last bucket counts values above all bounds.
    pub buckets: Box<[u64]>,
    pub sum: Duration,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, buckets: vec![0; bounds.len() + 1].into(), sum: Duration::ZERO }
    }

    pub fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.buckets[self.bounds.partition_point(|bound| *bound < seconds)] += 1;
        self.sum += took;
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[derive(Debug, Default)]
pub struct AllSeries {
    by_kind: HashMap<SeriesKey, Histogram, BuildHasherDefault<SeriesHasher>>,
}

/// A short hash, because each call is added twice. It needs no secret: a key holds constants and numbers of
/// names, and its table is small.
#[derive(Debug, Default)]
struct SeriesHasher(u64);

impl SeriesHasher {
    fn mix(&mut self, word: u64) {
        // The fractional part of the golden ratio: an odd number without a pattern.
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Hasher for SeriesHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.mix(number.into());
    }

    fn write_isize(&mut self, number: isize) {
        self.mix(number.cast_unsigned() as u64);
    }

    fn finish(&self) -> u64 {
        // The table picks a place by the low bits, which a multiplication mixes least.
        self.0.rotate_left(26)
    }
}

impl AllSeries {
    pub fn add(&mut self, kind: SeriesKey, took: Duration) {
        if let Some(known) = self.by_kind.get_mut(&kind) {
            return known.add(took);
        }
        let kind = if self.by_kind.len() < MAX_SERIES {
            kind
        } else {
            let other = |name: Option<LabelName>| name.map(|_| LabelName::OTHER);
            SeriesKey { owner: other(kind.owner), tool: other(kind.tool), ..kind }
        };
        let bounds: &'static [f64] = match kind.kind {
            OperationKind::HostRequest { .. } | OperationKind::ChildRequest { .. } => &OPERATION,
            OperationKind::Session { .. } | OperationKind::ChildLifetime { .. } => &SESSION,
        };
        self.by_kind.entry(kind).or_insert_with(|| Histogram::new(bounds)).add(took);
    }

    pub fn all(&self) -> Vec<(SeriesKey, Histogram)> {
        self.by_kind.iter().map(|(kind, histogram)| (*kind, histogram.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::names::LabelNames;
    use super::*;

    #[test]
    fn a_bound_is_within_its_bucket() {
        let mut histogram = Histogram::new(&OPERATION);
        for millis in [0, 1, 2, 300_000, 300_001] {
            histogram.add(Duration::from_millis(millis));
        }
        let mut wanted = [0; 18];
        (wanted[0], wanted[1], wanted[16], wanted[17]) = (2, 1, 1, 1);
        assert_eq!(*histogram.buckets, wanted);
        assert_eq!((histogram.count(), histogram.sum), (5, Duration::from_millis(600_004)));
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let (names, mut series) = (LabelNames::default(), AllSeries::default());
        let errors = ["a", "b", "c"];
        let what = OperationKind::HostRequest { via: EntryPoint::Proxy, single: false, method: "tools/call" };
        for number in 0..20_000_usize {
            let name = Some(names.number(&number.to_string()));
            let kind = SeriesKey { kind: what, owner: name, tool: name, error: Some(errors[number % 3]) };
            series.add(kind, Duration::ZERO);
        }
        let all = series.all();
        assert!(all.len() <= MAX_SERIES + errors.len(), "{}", all.len());
        assert_eq!(all.iter().map(|(_, histogram)| histogram.count()).sum::<u64>(), 20_000);
    }
}

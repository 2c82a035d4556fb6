//! One line of figures for each kind of operation, with a most to how many there are.

use std::collections::HashMap;
use std::time::Duration;

use super::names::Name;

/// Bounds of the buckets in seconds: those of the OpenTelemetry conventions for MCP, and three below them, because
/// most of what passes here takes less than the first.
pub const OPERATION: [f64; 17] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// From here on suites and tools are no longer told apart; what is left is bounded by itself.
pub const MOST: usize = 2000;

/// By which door an operation came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Via {
    Shim,
    Proxy,
    Registry,
}

impl Via {
    pub fn word(self) -> &'static str {
        match self {
            Self::Shim => "shim",
            Self::Proxy => "proxy",
            Self::Registry => "registry",
        }
    }
}

/// What operations have in common that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind {
    pub via: Via,
    /// The face is one child's.
    pub single: bool,
    pub method: &'static str,
    pub suite: Option<Name>,
    pub tool: Option<Name>,
    /// `None` if all went well.
    pub error: Option<&'static str>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// The last one is for what is above all bounds.
    pub buckets: [u64; OPERATION.len() + 1],
    pub sum: Duration,
}

impl Histogram {
    pub fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.buckets[OPERATION.partition_point(|bound| *bound < seconds)] += 1;
        self.sum += took;
    }
}

#[derive(Debug, Default)]
pub struct AllSeries {
    by_kind: HashMap<Kind, Box<Histogram>>,
}

impl AllSeries {
    pub fn add(&mut self, kind: Kind, took: Duration) {
        if let Some(known) = self.by_kind.get_mut(&kind) {
            return known.add(took);
        }
        let kind = if self.by_kind.len() < MOST {
            kind
        } else {
            let other = |name: Option<Name>| name.map(|_| Name::OTHER);
            Kind { suite: other(kind.suite), tool: other(kind.tool), ..kind }
        };
        self.by_kind.entry(kind).or_default().add(took);
    }

    pub fn all(&self) -> impl Iterator<Item = (&Kind, &Histogram)> {
        self.by_kind.iter().map(|(kind, histogram)| (kind, &**histogram))
    }
}

#[cfg(test)]
mod tests {
    use super::super::names::Names;
    use super::*;

    #[test]
    fn a_bound_is_within_its_bucket() {
        let mut histogram = Histogram::default();
        for millis in [0, 1, 2, 300_000, 300_001] {
            histogram.add(Duration::from_millis(millis));
        }
        let mut wanted = [0; 18];
        (wanted[0], wanted[1], wanted[16], wanted[17]) = (2, 1, 1, 1);
        assert_eq!(histogram.buckets, wanted);
        assert_eq!(histogram.sum, Duration::from_millis(600_004));
    }

    #[test]
    fn whatever_comes_the_series_stay_few() {
        let (names, mut series) = (Names::default(), AllSeries::default());
        let errors = ["a", "b", "c"];
        for number in 0..20_000_usize {
            let name = Some(names.number(&number.to_string()));
            let (method, error) = ("tools/call", Some(errors[number % 3]));
            series.add(
                Kind { via: Via::Proxy, single: false, method, suite: name, tool: name, error },
                Duration::ZERO,
            );
        }
        assert!(series.all().count() <= MOST + errors.len(), "{}", series.all().count());
        let counted: u64 = series.all().map(|(_, histogram)| histogram.buckets.iter().sum::<u64>()).sum();
        assert_eq!(counted, 20_000);
    }
}

//! A compact latency histogram: eight buckets per power of two, so a quantile is off by an eighth at most.

use std::time::Duration;

/// Buckets per power of two.
const STEPS: u64 = 8;
/// In microseconds: one hour and eleven minutes. Longer times count as this.
const LONGEST: u64 = u32::MAX as u64;
const BUCKETS: usize = 240;

#[derive(Debug, Clone)]
pub struct Latency {
    buckets: Box<[u32; BUCKETS]>,
    count: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), count: 0 }
    }
}

impl Latency {
    pub fn add(&mut self, took: Duration) {
        let bucket = &mut self.buckets[bucket(took)];
        *bucket = bucket.saturating_add(1);
        self.count += 1;
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn clear(&mut self) {
        self.buckets.fill(0);
        self.count = 0;
    }

    /// The time that this fraction of all measurements did not exceed; `None` if there are none.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let all: u64 = self.buckets.iter().map(|count| u64::from(*count)).sum();
        #[expect(clippy::cast_precision_loss, reason = "nobody tells quantiles of 2^52 calls apart")]
        let wanted = (all as f64 * part).max(1.0);
        let mut below = 0.0;
        for (at, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(*count);
            if below + count >= wanted {
                let (from, width) = range(at);
                return Some(Duration::from_secs_f64((from + width * (wanted - below) / count) / 1e6));
            }
            below += count;
        }
        None
    }
}

fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(LONGEST).min(LONGEST);
    let Some(doublings) = micros.checked_ilog2().and_then(|top| top.checked_sub(STEPS.ilog2())) else {
        return usize::try_from(micros).unwrap_or_default();
    };
    let step = (micros >> doublings) - STEPS;
    usize::try_from((u64::from(doublings) + 1) * STEPS + step).unwrap_or(BUCKETS - 1)
}

/// Lower bound and width of a bucket, in microseconds.
fn range(at: usize) -> (f64, f64) {
    let at = at as u64;
    let (from, width) = match (at / STEPS).checked_sub(1) {
        None => (at, 1),
        Some(doublings) => ((STEPS + at % STEPS) << doublings, 1 << doublings),
    };
    #[expect(clippy::cast_precision_loss, reason = "both are below 2^33")]
    (from as f64, width as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_bucket_that_holds_it() {
        for micros in (0..70_000).chain((0..32).map(|bit| (1 << bit) - 1)).chain([LONGEST]) {
            let (from, width) = range(bucket(Duration::from_micros(micros)));
            let micros = micros as f64;
            assert!(from <= micros && micros < from + width, "{micros}: {from} + {width}");
        }
        assert_eq!(bucket(Duration::from_secs(1 << 40)), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_near_the_truth() {
        let mut latency = Latency::default();
        assert_eq!(latency.quantile(0.5), None);
        for micros in 1..=10_000_u64 {
            latency.add(Duration::from_micros(micros));
        }
        for part in [0.5, 0.9, 0.99] {
            let (found, truth) = (latency.quantile(part).unwrap().as_secs_f64() * 1e6, part * 1e4);
            assert!((found - truth).abs() / truth < 0.07, "{part}: {found}");
        }
        latency.clear();
        assert_eq!((latency.quantile(0.5), latency.count()), (None, 0));
    }
}

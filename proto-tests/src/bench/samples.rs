//! Times of many calls, collected in rounds.

use std::time::Duration;

#[derive(Debug, Default)]
pub struct Samples {
    all: Vec<Duration>,
    /// The median of each round, in microseconds.
    rounds: Vec<f64>,
}

impl Samples {
    /// Adds one round.
    pub fn round(&mut self, measure: impl FnOnce(&mut Vec<Duration>)) {
        let mut times = Vec::new();
        measure(&mut times);
        times.sort_unstable();
        self.rounds.push(micros(times[times.len() / 2]));
        self.all.extend(times);
    }

    /// The time in microseconds within which this share of all calls finished.
    pub fn percentile(&self, share: f64) -> f64 {
        let mut all = self.all.clone();
        all.sort_unstable();
        let at = (all.len() as f64 * share) as usize;
        micros(all[at.min(all.len() - 1)])
    }

    pub fn p50(&self) -> f64 {
        self.percentile(0.5)
    }

    pub fn p99(&self) -> f64 {
        self.percentile(0.99)
    }

    /// The median of the ratios per round, so that one disturbed round has little weight.
    pub fn over(&self, other: &Self) -> f64 {
        median(self.rounds.iter().zip(&other.rounds).map(|(one, other)| one / other).collect())
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

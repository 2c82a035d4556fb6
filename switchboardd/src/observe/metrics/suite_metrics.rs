//! Metrics of one suite, or of all together: calls, failures and latency, in total and over the last five
//! minutes for charts.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use super::latency::Latency;
use super::names::{LabelName, LabelNames};

/// The time between two points of a chart.
pub const STEP: Duration = Duration::from_secs(5);
/// Points in a chart: five minutes.
pub const POINTS: usize = 60;

#[derive(Debug)]
pub struct SuiteMetrics {
    pub(super) names: Arc<LabelNames>,
    text: Box<str>,
    /// The name of its server.
    server: Box<str>,
    /// Interned on first use, so that unused suites take no name.
    name: OnceLock<LabelName>,
    in_flight: AtomicUsize,
    // A leaf lock: held only to count or to copy. Allocated by the first call.
    counts: Mutex<Option<Box<Counts>>>,
}

/// What is counted of a call that is over. One that was refused did not fail.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CountedResult {
    pub(super) failed: bool,
    pub(super) refused: bool,
}

#[derive(Debug, Default)]
struct Counts {
    errors: u64,
    refused: u64,
    introspections: u64,
    latency: Latency,
    /// Calls in the current step.
    current: Latency,
    current_errors: u32,
    current_refused: u32,
    step: u64,
    past: VecDeque<Point>,
}

/// What happened within one [`STEP`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Number of steps since the daemon started.
    pub step: u64,
    pub count: u64,
    pub errors: u32,
    pub refused: u32,
    pub p50: Duration,
    pub p99: Duration,
}

/// A snapshot for display.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricFigures {
    pub total: u64,
    pub errors: u64,
    pub refused: u64,
    pub introspections: u64,
    pub in_flight: usize,
    pub p50: Option<Duration>,
    pub p99: Option<Duration>,
    /// Oldest first; steps without calls are left out.
    pub points: Vec<Point>,
}

impl SuiteMetrics {
    pub(super) fn new(text: &str, server: &str, names: &Arc<LabelNames>) -> Arc<Self> {
        Arc::new(Self {
            names: names.clone(),
            text: text.into(),
            server: server.into(),
            name: OnceLock::new(),
            in_flight: AtomicUsize::new(0),
            counts: Mutex::default(),
        })
    }

    pub(super) fn name(&self) -> LabelName {
        *self.name.get_or_init(|| self.names.number(&self.text))
    }

    /// Whether it was ever used.
    pub(super) fn is_used(&self) -> bool {
        self.name.get().is_some() || self.in_flight.load(Ordering::Relaxed) > 0
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn enter(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn add(&self, took: Duration, result: CountedResult, step: u64) {
        let mut counts = self.lock();
        let counts = counts.get_or_insert_default();
        counts.turn(step);
        counts.latency.add(took);
        counts.current.add(took);
        counts.errors += u64::from(result.failed);
        counts.refused += u64::from(result.refused);
        counts.current_errors += u32::from(result.failed);
        counts.current_refused += u32::from(result.refused);
    }

    pub(super) fn record_introspection(&self) {
        self.lock().get_or_insert_default().introspections += 1;
    }

    pub fn figures(&self, step: u64) -> MetricFigures {
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        let mut counts = self.lock();
        let Some(counts) = counts.as_mut() else {
            return MetricFigures { in_flight, ..MetricFigures::default() };
        };
        counts.turn(step);
        MetricFigures {
            total: counts.latency.count(),
            errors: counts.errors,
            refused: counts.refused,
            introspections: counts.introspections,
            in_flight,
            p50: counts.latency.quantile(0.5),
            p99: counts.latency.quantile(0.99),
            points: counts.past.iter().copied().chain(counts.point()).collect(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Box<Counts>>> {
        self.counts.lock().expect("BUG: a count panicked")
    }
}

impl Counts {
    /// Closes the current step if it is over.
    fn turn(&mut self, step: u64) {
        if step == self.step {
            return;
        }
        let over = self.point();
        self.past.extend(over);
        self.current.clear();
        self.current_errors = 0;
        self.current_refused = 0;
        self.step = step;
        let first = step.saturating_sub(POINTS as u64 - 1);
        while self.past.front().is_some_and(|point| point.step < first) {
            self.past.pop_front();
        }
    }

    fn point(&self) -> Option<Point> {
        Some(Point {
            step: self.step,
            count: self.current.count(),
            errors: self.current_errors,
            refused: self.current_refused,
            p50: self.current.quantile(0.5)?,
            p99: self.current.quantile(0.99)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_five_minutes_are_kept() {
        let metrics = SuiteMetrics::new("x", "x", &Arc::default());
        assert_eq!(metrics.figures(7), MetricFigures::default());
        for step in 0..1000 {
            let result = CountedResult { failed: step % 2 == 0, refused: step % 2 == 1 };
            metrics.add(Duration::from_millis(step), result, step);
            if step % 3 == 0 {
                metrics.add(Duration::from_millis(1), CountedResult::default(), step);
            }
        }
        let figures = metrics.figures(999);
        assert_eq!((figures.total, figures.errors, figures.refused), (1000 + 334, 500, 500));
        assert_eq!(figures.points.len(), POINTS);
        assert_eq!(
            figures.points.last().map(|point| (point.step, point.count, point.errors, point.refused)),
            Some((999, 2, 0, 1))
        );
        assert_eq!(figures.points[0].step, 940);
        // Steps pass without calls.
        let later = metrics.figures(1050);
        assert_eq!(
            later.points.iter().map(|point| point.step).collect::<Vec<_>>(),
            (991..=999).collect::<Vec<_>>()
        );
        assert!(metrics.figures(5000).points.is_empty());
        assert_eq!(metrics.figures(5000).total, 1334);
    }
}

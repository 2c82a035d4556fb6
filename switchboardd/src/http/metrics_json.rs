//! What was measured, as `/status` shows it. The page reads this shape:
//!
//! ```json
//! "calls": {"total": 12, "errors": 1, "inFlight": 0, "p50Ms": 0.41, "p99Ms": 12.5,
//!           "series": [{"at": 1763311200000, "count": 3, "errors": 0, "p50Ms": 0.4, "p99Ms": 0.9}]}
//! ```
//!
//! `calls` stands at the top and in every suite. The quantiles are those of all calls since the daemon started, `null`
//! before the first one. `series` has a point for each 5 s (`stepMs` at the top) of the last 5 min in which a call ended,
//! the oldest first; `at` is the Unix time in milliseconds at which the step began, and what is left out is zero.
//! `introspections` are no calls. `lastErrors` at the top: `{"at", "method", "suite", "tool", "kind", "message"}`, the
//! newest first; `kind` is a word that programs can rely on, `message` never holds arguments or results.
//! `memoryKb` of a child is what it and all it started take (shared pages once), `memoryKb` at the top the daemon's own;
//! both are at most a second old, and `null` where nobody says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::metrics::Metrics;
use crate::metrics::suite_metrics::{MetricFigures, Point, STEP};

/// How far apart the points of a chart are.
pub(super) fn step_ms() -> u64 {
    whole_millis(STEP)
}

pub(super) fn calls(metrics: &Metrics, figures: &MetricFigures) -> Value {
    let point = |point: &Point| {
        json!({
            "at": unix_millis(metrics.time_of(point.step)),
            "count": point.count,
            "errors": point.errors,
            "p50Ms": millis(point.p50),
            "p99Ms": millis(point.p99),
        })
    };
    json!({
        "total": figures.total,
        "errors": figures.errors,
        "inFlight": figures.in_flight,
        "p50Ms": figures.p50.map(millis),
        "p99Ms": figures.p99.map(millis),
        "series": figures.points.iter().map(point).collect::<Vec<_>>(),
    })
}

pub(super) fn last_errors(metrics: &Metrics) -> Vec<Value> {
    let shown = |recent_error: &crate::metrics::RecentError| {
        json!({
            "at": unix_millis(recent_error.at),
            "method": recent_error.method,
            "suite": recent_error.suite,
            "tool": recent_error.tool.as_deref(),
            "kind": recent_error.kind,
            "message": recent_error.message,
        })
    };
    metrics.recent_errors().iter().rev().map(shown).collect()
}

pub(super) fn kib(bytes: u64) -> u64 {
    bytes >> 10
}

pub(super) fn unix_millis(time: SystemTime) -> u64 {
    whole_millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// With three places, which are microseconds.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

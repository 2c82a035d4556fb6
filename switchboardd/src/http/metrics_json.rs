//! The metrics in `/status`. The status page reads this format:
//!
//! ```json
//! "calls": {"total": 12, "errors": 1, "refused": 2, "inFlight": 0, "p50Ms": 0.41, "p99Ms": 12.5,
//!           "series": [{"at": 1763311200000, "count": 3, "errors": 0, "refused": 0, "p50Ms": 0.4, "p99Ms": 0.9}]}
//! ```
//!
//! `calls` is at the top level and in every suite. `errors` are failures; `refused` are calls that were not sent, or that
//! the server calls wrong. The time that a user took to answer a question is in no time of a call. The quantiles cover all calls since the daemon started,
//! and are `null` before the first call. `series` has one point per 5 s step (`stepMs` at the top level) of
//! the last 5 min in which a call ended, oldest first; `at` is the start of the step in Unix milliseconds,
//! and missing steps are zero. `introspections` are not counted as calls. `lastErrors` at the top level:
//! `{"at", "method", "suite", "tool", "kind", "refused", "message"}`, newest first; `kind` is stable for programs,
//! `message` never contains arguments or results. `memoryKb` of a child includes all its descendants (shared
//! pages counted once); at the top level it is the daemon's own. Both are at most a second old, and `null` if
//! unknown.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::observe::metrics::Metrics;
use crate::observe::metrics::suite_metrics::{MetricFigures, Point, STEP};

/// Distance between two points of a chart.
pub(super) fn step_ms() -> u64 {
    whole_millis(STEP)
}

pub(super) fn calls(metrics: &Metrics, figures: &MetricFigures) -> Value {
    let point = |point: &Point| {
        json!({
            "at": unix_millis(metrics.time_of(point.step)),
            "count": point.count,
            "errors": point.errors,
            "refused": point.refused,
            "p50Ms": millis(point.p50),
            "p99Ms": millis(point.p99),
        })
    };
    json!({
        "total": figures.total,
        "errors": figures.errors,
        "refused": figures.refused,
        "inFlight": figures.in_flight,
        "p50Ms": figures.p50.map(millis),
        "p99Ms": figures.p99.map(millis),
        "series": figures.points.iter().map(point).collect::<Vec<_>>(),
    })
}

pub(super) fn last_errors(metrics: &Metrics) -> Vec<Value> {
    let shown = |recent_error: &crate::observe::metrics::RecentError| {
        json!({
            "at": unix_millis(recent_error.at),
            "method": recent_error.method,
            "suite": recent_error.suite,
            "tool": recent_error.tool.as_deref(),
            "kind": recent_error.kind,
            "refused": recent_error.refused,
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

/// Milliseconds, rounded to microseconds.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

//! What it costs to measure a call, for the benchmark: the steps that a call through a suite takes, with tracing
//! off.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use switchboard_mcp::methods;
use switchboard_wire::envelope::Outcome;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use tokio::time::Instant;

use super::child_metrics::{ChildMetrics, FinishedCall};
use super::series::EntryPoint;
use super::suite_metrics::SuiteMetrics;
use super::{HostOperation, Metrics, outcome};

const CALLS: u32 = 500;
/// The quickest counts: another process may have interrupted the others.
const ROUNDS: usize = 20;
const TOOL: &str = "echo";
const RESULT: &str = r#"{"content":[{"type":"text","text":"The quick brown fox"}],"isError":false}"#;

/// The time that measuring takes of one call. Counts into metrics of its own.
pub fn of_one_call() -> Duration {
    let metrics = Metrics::default();
    let (suite, child) = (metrics.of_suite(TOOL, TOOL, Path::new("/")), metrics.of_child(TOOL));
    let round = || {
        let begin = Instant::now();
        (0..CALLS).for_each(|_| measure_call(&metrics, &suite, &child));
        begin.elapsed() / CALLS
    };
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default()
}

fn measure_call(metrics: &Metrics, suite: &Arc<SuiteMetrics>, child: &ChildMetrics) {
    let (id, meta) = (Raw::unchecked("1"), Members::default());
    let host = HostOperation {
        wants_arguments: false,
        via: EntryPoint::Shim,
        single: false,
        method: methods::TOOLS_CALL,
        id,
        meta: &meta,
        parent: None,
    };
    let mut operation = metrics.begin(host);
    operation.notes.suite(suite);
    operation.notes.tool(TOOL);
    let (begun, tool) = (Instant::now(), Some(child.tool(TOOL)));
    let span = child.span_below(operation.notes.span);
    let error = outcome::of(Outcome::Result(Raw::unchecked(std::hint::black_box(RESULT))));
    let (remote, method, took) = (false, methods::TOOLS_CALL, begun.elapsed());
    child.record_request(FinishedCall { remote, method, id: 1, tool, error, took, span }, |_| true);
    operation.notes.record_answer(error);
    operation.notes.record_end();
    metrics.end(&mut operation);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measuring_is_measured_as_calls_are() {
        let metrics = Metrics::default();
        let (suite, child) = (metrics.of_suite(TOOL, TOOL, Path::new("/")), metrics.of_child(TOOL));
        (0..3).for_each(|_| measure_call(&metrics, &suite, &child));
        // The host's request and the request to the child.
        let counts: Vec<u64> = metrics.series().iter().map(|(_, histogram)| histogram.count()).collect();
        assert_eq!(counts, [3, 3]);
        let figures = metrics.overall();
        assert_eq!(figures.in_flight, 0);
        assert!(of_one_call() > Duration::ZERO);
    }
}

//! Returns the lines that servers wrote to stderr, and the stdout lines that are not messages; can wait for
//! new ones.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use tokio::time::Instant;

use crate::catalog::Catalog;
use crate::child;
use crate::http::discovery::line_json;
use crate::http::errors::{HttpError, json_response};
use crate::state::{Daemon, Phase};

/// Longest wait for a line; a caller that wants to wait longer asks again.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The lines after number `after`; waits up to `wait_ms` for one.
pub(super) async fn answer(
    daemon: &Arc<Daemon>,
    (catalog, at): &(Arc<Catalog>, usize),
    after: u64,
    wait_ms: u64,
) -> Result<Response, HttpError> {
    let suite = &catalog.suites[*at];
    if suite.is_held() {
        return Err(super::held(suite.child_name()));
    }
    let until = Instant::now() + Duration::from_millis(wait_ms).min(MAX_WAIT);
    let mut phase = daemon.phase();
    let lines = loop {
        let written = child::written();
        tokio::pin!(written);
        // Registers before the check, so that a line written in between is not missed.
        written.as_mut().enable();
        let lines = suite.pool.as_ref().map(|pool| pool.stderr_lines(after)).unwrap_or_default();
        if !lines.is_empty() || Instant::now() >= until || *phase.borrow() != Phase::Serving {
            break lines;
        }
        tokio::select! {
            () = written => {}
            () = tokio::time::sleep_until(until) => {}
            _ = phase.changed() => {}
        }
    };
    let next = lines.last().map_or(after, |line| line.number);
    let lines: Vec<_> = lines.iter().map(line_json).collect();
    let answer = json!({
        "suite": suite.name,
        "server": suite.child_name(),
        "remote": suite.is_remote(),
        "boot": daemon.run_id.name(),
        "next": next,
        "draining": *phase.borrow() != Phase::Serving,
        "lines": lines,
    });
    Ok(json_response(StatusCode::OK, answer.to_string()))
}

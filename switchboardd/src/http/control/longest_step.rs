//! Measures how long the event loop runs without a pause: the longest step that everything else waits for.
//!
//! A timer of one millisecond reads the processor time of the loop's thread each time it fires. The time between
//! two readings contains every step that kept the timer from firing, so no step is longer than the longest
//! time between two readings. Processor time does not pass while other processes run, so a busy machine does
//! not change the figure. Nothing is measured unless somebody asks.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::http::errors::json_response;
use crate::state::{Daemon, Phase};

const TICK: Duration = Duration::from_millis(1);

/// Longest time to measure in one request.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Measures for `wait_ms`, or until the daemon stops serving.
pub(super) async fn answer(daemon: &Arc<Daemon>, wait_ms: u64) -> Response {
    let until = Instant::now() + Duration::from_millis(wait_ms).min(MAX_WAIT);
    let phase = daemon.phase();
    let (mut before, mut longest, mut readings) = (processor_time(), Duration::ZERO, 0_u64);
    while Instant::now() < until && *phase.borrow() == Phase::Serving {
        sleep(TICK).await;
        let now = processor_time();
        longest = longest.max(now.saturating_sub(before));
        before = now;
        readings += 1;
    }
    let answer = json!({ "longestStepMs": longest.as_secs_f64() * 1e3, "readings": readings });
    json_response(StatusCode::OK, answer.to_string())
}

/// Processor time of this thread, on which everything but file access runs.
fn processor_time() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(tv_sec).unwrap_or(0), u32::try_from(tv_nsec).unwrap_or(0))
}

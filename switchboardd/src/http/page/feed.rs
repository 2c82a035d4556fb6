//! Keeps one open status page up to date: sends the whole status after a change and at least every 15 s.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::http::discovery::full_status;
use crate::http::stream::streaming;
use crate::reload::Reloader;
use crate::state::Daemon;
use crate::state::page_access::StatusFeed;

/// Changes within this time are sent as one update.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Pages share a snapshot up to this age. Less than `DEBOUNCE`, so no page gets one taken before the change.
const SNAPSHOT_MAX_AGE: Duration = Duration::from_millis(90);
/// Minimum time between two updates of a page.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// Minimum time above `MANY_SUITES` suites: building a large status takes time on the event loop.
const SLOW_MIN_INTERVAL: Duration = Duration::from_secs(1);
const MANY_SUITES: usize = 100;
/// Update at least this often: memory use and the 5-minute charts change without a notification.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Maximum life of a feed; then the page must reconnect with a bearer that is still valid.
const MAX_FEED_TIME: Duration = Duration::from_secs(60 * 60);
/// Updates buffered for a slow reader; newer ones wait until it has read this one.
const QUEUE_LEN: usize = 1;

/// Tells the page that the daemon is shutting down, so that it does not report a broken connection.
const GONE_EVENT: &[u8] = b"event: gone\ndata: {}\n\n";

pub(super) fn response(daemon: Arc<Daemon>, reloader: Arc<Reloader>, feed: StatusFeed) -> Response {
    let (out, pieces) = mpsc::channel(QUEUE_LEN);
    tokio::spawn(pump(daemon, reloader, feed, out));
    streaming(pieces)
}

/// Ends when the connection closes, when the daemon drains, or after `MAX_FEED_TIME`.
async fn pump(daemon: Arc<Daemon>, reloader: Arc<Reloader>, feed: StatusFeed, out: mpsc::Sender<Bytes>) {
    tokio::select! {
        () = write(&daemon, &reloader, &feed, &out) => {}
        () = out.closed() => {}
        () = tokio::time::sleep(MAX_FEED_TIME) => {}
        _ = daemon.wait_for_drain() => {
            let _ = out.try_send(Bytes::from_static(GONE_EVENT));
        }
    }
}

async fn write(daemon: &Daemon, reloader: &Reloader, feed: &StatusFeed, out: &mpsc::Sender<Bytes>) {
    let mut status_changed = daemon.services.status_changed.subscribe();
    daemon.call_recorder.load_recent().await;
    // A snapshot shared before we subscribed may be stale.
    let mut share = Duration::ZERO;
    loop {
        let memory_usage = daemon.services.budget.measure_memory().await;
        // Later changes go into the next update.
        status_changed.mark_unchanged();
        let status = || full_status(daemon, reloader, &memory_usage);
        let body = feed.latest(share, || format!("event: status\ndata: {}\n\n", status()));
        if out.send(body).await.is_err() {
            return;
        }
        share = SNAPSHOT_MAX_AGE;
        let told = Instant::now();
        if let Ok(Ok(())) = tokio::time::timeout(KEEP_ALIVE_INTERVAL, status_changed.changed()).await {
            tokio::time::sleep_until((told + pace(daemon)).max(Instant::now() + DEBOUNCE)).await;
        }
    }
}

fn pace(daemon: &Daemon) -> Duration {
    let own = daemon.catalog().suites.len();
    let theirs = daemon.workspaces.all().iter().map(|known| known.catalog().suites.len()).sum::<usize>();
    if own + theirs > MANY_SUITES { SLOW_MIN_INTERVAL } else { MIN_INTERVAL }
}

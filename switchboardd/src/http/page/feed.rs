//! Keeps one page up to date: the whole status, when something happened and now and then.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::daemon_state::Daemon;
use crate::http::discovery::everything;
use crate::http::stream::streaming;
use crate::page_access::StatusFeed;
use crate::reload::Reloader;

/// What happens together is told together.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Less than it takes to settle, so that nobody is told what was true before.
const SNAPSHOT_MAX_AGE: Duration = Duration::from_millis(90);
/// No page is told more often than that.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// Nor more often than that where there is much to tell, all of it on the one thread.
const SLOW_MIN_INTERVAL: Duration = Duration::from_secs(1);
const MANY_SUITES: usize = 100;
/// Memory and the last five minutes change without a word.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// After that the page has to ask again, with a bearer that still holds.
const MAX_FEED_TIME: Duration = Duration::from_secs(60 * 60);
/// What a slow reader has not taken yet; newer words wait until it has.
const PIECES: usize = 1;

/// A page learns from this that the daemon goes, and does not take it for a broken connection.
const GONE: &[u8] = b"event: gone\ndata: {}\n\n";

pub(super) fn response(daemon: Arc<Daemon>, reloader: Arc<Reloader>, feed: StatusFeed) -> Response {
    let (out, pieces) = mpsc::channel(PIECES);
    tokio::spawn(pump(daemon, reloader, feed, out));
    streaming(pieces)
}

/// Ends with the connection, with the daemon, or after a while.
async fn pump(daemon: Arc<Daemon>, reloader: Arc<Reloader>, feed: StatusFeed, out: mpsc::Sender<Bytes>) {
    tokio::select! {
        () = write(&daemon, &reloader, &feed, &out) => {}
        () = out.closed() => {}
        () = tokio::time::sleep(MAX_FEED_TIME) => {}
        _ = daemon.wait_for_drain() => {
            let _ = out.try_send(Bytes::from_static(GONE));
        }
    }
}

async fn write(daemon: &Daemon, reloader: &Reloader, feed: &StatusFeed, out: &mpsc::Sender<Bytes>) {
    let mut status_changed = daemon.services.status_changed.subscribe();
    // What others were told before we subscribed may be old.
    let mut share = Duration::ZERO;
    loop {
        let memory_usage = daemon.services.budget.measure_memory().await;
        // What happens from here on is told next time.
        status_changed.mark_unchanged();
        let status = || everything(daemon, reloader, &memory_usage);
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

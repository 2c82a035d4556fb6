//! Keeps one page up to date: the whole status, when something happened and now and then.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::board::Board;
use crate::http::discovery::everything;
use crate::http::stream::streaming;
use crate::pages::Feed;

/// What happens together is told together.
const SETTLE: Duration = Duration::from_millis(100);
/// Less than it takes to settle, so that nobody is told what was true before.
const SHARE: Duration = Duration::from_millis(90);
/// No page is told more often than that.
const PACE: Duration = Duration::from_millis(500);
/// Nor more often than that where there is much to tell, all of it on the one thread.
const SLOW_PACE: Duration = Duration::from_secs(1);
const MANY_SUITES: usize = 100;
/// Memory and the last five minutes change without a word.
const BEAT: Duration = Duration::from_secs(15);
/// After that the page has to ask again, with a bearer that still holds.
const LIFE: Duration = Duration::from_secs(60 * 60);
/// What a slow reader has not taken yet; newer words wait until it has.
const PIECES: usize = 1;

/// A page learns from this that the daemon goes, and does not take it for a broken connection.
const GONE: &[u8] = b"event: gone\ndata: {}\n\n";

pub(super) fn response(board: Arc<Board>, feed: Feed) -> Response {
    let (out, pieces) = mpsc::channel(PIECES);
    tokio::spawn(pump(board, feed, out));
    streaming(pieces)
}

/// Ends with the connection, with the daemon, or after a while.
async fn pump(board: Arc<Board>, feed: Feed, out: mpsc::Sender<Bytes>) {
    tokio::select! {
        () = write(&board, &feed, &out) => {}
        () = out.closed() => {}
        () = tokio::time::sleep(LIFE) => {}
        _ = board.begins_to_drain() => {
            let _ = out.try_send(Bytes::from_static(GONE));
        }
    }
}

async fn write(board: &Arc<Board>, feed: &Feed, out: &mpsc::Sender<Bytes>) {
    let mut pulse = board.nursery.pulse.feel();
    // What others were told before we felt the pulse may be old.
    let mut share = Duration::ZERO;
    loop {
        let weights = board.nursery.budget.weigh().await;
        // What happens from here on is told next time.
        pulse.mark_unchanged();
        let body = feed.latest(share, || format!("event: status\ndata: {}\n\n", everything(board, &weights)));
        if out.send(body).await.is_err() {
            return;
        }
        share = SHARE;
        let told = Instant::now();
        if let Ok(Ok(())) = tokio::time::timeout(BEAT, pulse.changed()).await {
            tokio::time::sleep_until((told + pace(board)).max(Instant::now() + SETTLE)).await;
        }
    }
}

fn pace(board: &Board) -> Duration {
    let own = board.catalog().suites.len();
    let theirs = board.workspaces.all().iter().map(|known| known.catalog().suites.len()).sum::<usize>();
    if own + theirs > MANY_SUITES { SLOW_PACE } else { PACE }
}

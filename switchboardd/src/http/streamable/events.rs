//! Writes the messages of a mailbox to a host as an event stream, while the host reads it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use tokio::sync::mpsc;

use super::sse;
use crate::caller::mailbox::Mailbox;
use crate::http::stream::streaming;
use crate::session::{EventId, ReadGuard, Session};
use crate::state::{Daemon, Phase};

const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Chunks buffered for a connection; further messages wait in the mailbox, which has limits of its own.
const QUEUE_LEN: usize = 4;

/// The first revision whose hosts resume streams.
const RESUMABLE_REVISION: &str = "2025-11-25";

/// A request that is being answered. Dropping it cancels the request.
pub(super) type RunningCall = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a host starts to read a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamStart {
    /// The number of the last message that the host has received.
    pub(super) after: u64,
    /// Whether the host can resume a lost stream and needs event ids for it.
    pub(super) resumes: bool,
}

/// Whether the host of this session resumes lost streams.
pub(super) fn resumes(session: &Session) -> bool {
    session.caller.profile().revision == Some(RESUMABLE_REVISION)
}

/// Response with a stream that the host can resume.
pub(super) fn response(daemon: &Arc<Daemon>, reading: ReadGuard, start: StreamStart) -> Response {
    let (out, pieces) = mpsc::channel(QUEUE_LEN);
    tokio::spawn(pump(daemon.clone(), reading, start, out));
    streaming(pieces)
}

/// Response with the stream of one call, which is `None` if it has ended. The call is cancelled when the
/// connection closes.
pub(super) fn of_call(mailbox: Arc<Mailbox>, call: Option<RunningCall>) -> Response {
    let (out, pieces) = mpsc::channel(QUEUE_LEN);
    tokio::spawn(async move {
        // The end of the call closes the mailbox, which ends the stream once everything is written.
        let call = async {
            if let Some(call) = call {
                call.await;
            }
            std::future::pending().await
        };
        tokio::select! {
            _ = write(&mailbox, 0, |_| None, false, &out) => {}
            () = out.closed() => {}
            () = call => {}
        }
    });
    streaming(pieces)
}

/// Ends when the connection closes, when the stream is finished, when another connection takes the stream
/// over, or when the daemon leaves.
async fn pump(daemon: Arc<Daemon>, reading: ReadGuard, start: StreamStart, out: mpsc::Sender<Bytes>) {
    let stream = &reading.stream;
    let write = async {
        if start.resumes {
            out.send(sse::priming(stream.event_id(start.after)).into()).await.ok()?;
        }
        write(&stream.mailbox, start.after, |number| Some(stream.event_id(number)), start.resumes, &out).await
    };
    let mut phase = daemon.phase();
    let _: Option<()> = tokio::select! {
        // Write pending messages before looking at the daemon's phase.
        biased;
        done = write => done,
        () = out.closed() => None,
        () = reading.wait_replaced() => None,
        _ = phase.wait_for(|phase| matches!(phase, Phase::Leaving(_))) => None,
    };
}

/// Writes all messages after number `at`, until the mailbox is closed and empty.
async fn write(
    mailbox: &Mailbox,
    mut at: u64,
    event_id: impl Fn(u64) -> Option<EventId>,
    keep: bool,
    out: &mpsc::Sender<Bytes>,
) -> Option<()> {
    loop {
        let arrival = mailbox.wait_for_message();
        let letters = mailbox.peek_after(at);
        if letters.is_empty() {
            if mailbox.is_closed() {
                return None;
            }
            if tokio::time::timeout(KEEP_ALIVE_INTERVAL, arrival).await.is_err() {
                out.send(Bytes::from_static(sse::KEEP_ALIVE_COMMENT)).await.ok()?;
            }
            continue;
        }
        let mut piece = Vec::new();
        for (number, body) in letters {
            sse::push_message(event_id(number), &body, &mut piece);
            at = number;
        }
        out.send(piece.into()).await.ok()?;
        mailbox.mark_sent(at, keep);
    }
}

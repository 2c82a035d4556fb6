//! A stream on its way to a host: what a mailbox holds, written as events for as long as somebody reads.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use hyper::body::Frame;
use tokio::sync::mpsc;

use super::sse;
use crate::board::{Board, Phase};
use crate::session::Reading;

const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Pieces on their way to a connection; what does not fit waits in the mailbox, which is bounded itself.
const PIECES: usize = 4;

/// How a host reads a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// The number of the last message that it has.
    pub(super) after: u64,
    /// Whether it can take up a stream that it lost, and is told how.
    pub(super) resumes: bool,
}

/// The answer that is a stream.
pub(super) fn response(board: &Arc<Board>, reading: Reading, manner: Manner) -> Response {
    let (out, pieces) = mpsc::channel(PIECES);
    tokio::spawn(pump(board.clone(), reading, manner, out));
    let mut response = Response::new(Body::new(Pieces(pieces)));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Ends with the connection, with the stream, or when another connection comes for it.
async fn pump(board: Arc<Board>, reading: Reading, manner: Manner, out: mpsc::Sender<Bytes>) {
    let write = async {
        let (stream, mut at) = (&reading.stream, manner.after);
        if manner.resumes {
            out.send(sse::priming(stream.mark(at)).into()).await.ok()?;
        }
        loop {
            let arrival = stream.mailbox.arrival();
            let letters = stream.mailbox.after(at);
            if letters.is_empty() {
                if stream.mailbox.is_closed() {
                    return None;
                }
                if tokio::time::timeout(KEEP_ALIVE, arrival).await.is_err() {
                    out.send(Bytes::from_static(sse::KEEP_ALIVE)).await.ok()?;
                }
                continue;
            }
            let mut piece = Vec::new();
            for (number, body) in letters {
                sse::push_message(stream.mark(number), &body, &mut piece);
                at = number;
            }
            out.send(piece.into()).await.ok()?;
            stream.mailbox.sent(at, manner.resumes);
        }
    };
    let mut phase = board.phase();
    let _: Option<()> = tokio::select! {
        done = write => done,
        () = out.closed() => None,
        () = reading.overtaken() => None,
        _ = phase.wait_for(|phase| matches!(phase, Phase::Leaving(_))) => None,
    };
}

struct Pieces(mpsc::Receiver<Bytes>);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

//! Reads the body of a request, up to the limit of a message.

use std::pin::pin;
use std::time::Duration;

use axum::BoxError;
use axum::body::{Bytes, HttpBody};
use bytes::BytesMut;
use http_body_util::BodyExt;
use switchboard_wire::framing::MAX_MESSAGE;

use super::errors::HttpError;
use super::listener::PeerAddress;

/// Time limit for a body: a slow one holds a connection and its place in the session's order.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads a whole body from this peer. There is no time limit on the unix socket: only the owner connects, and
/// a slow body delays only its own session.
pub(super) async fn read_body_from<B>(peer: Option<&PeerAddress>, body: B) -> Result<Bytes, HttpError>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    match peer {
        Some(PeerAddress::Unix) => collect(body).await,
        _ => read_body(body).await,
    }
}

/// Reads a whole body, in limited time.
pub(super) async fn read_body<B>(body: B) -> Result<Bytes, HttpError>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    tokio::time::timeout(BODY_TIMEOUT, collect(body)).await.unwrap_or(Err(HttpError::Incomplete))
}

/// Reads a whole body, however long it takes.
async fn collect<B>(body: B) -> Result<Bytes, HttpError>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    if body.size_hint().lower() > MAX_MESSAGE as u64 {
        return Err(HttpError::TooLarge);
    }
    let mut body = pin!(body);
    // A short body arrives in one piece and is not copied.
    let (mut first, mut whole) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|_| HttpError::Incomplete)?.into_data() else { continue };
        if first.is_empty() {
            first = piece;
            continue;
        }
        if whole.is_empty() {
            let more = usize::try_from(body.size_hint().lower()).unwrap_or(0).min(MAX_MESSAGE);
            whole.reserve(first.len() + piece.len() + more);
            whole.extend_from_slice(&first);
        }
        if whole.len() + piece.len() > MAX_MESSAGE {
            return Err(HttpError::TooLarge);
        }
        whole.extend_from_slice(&piece);
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

//! Reads a legacy server's own stream, for messages that answer no request. It stays open as long as the
//! child is used, and is resumed if it breaks.

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::backoff::Backoff;
use tokio::time::Instant;

use super::client::content_type;
use super::inbound::{ResumePoint, read_events};
use super::{RemoteConnection, headers};
use crate::child::{Child, Protocol};

/// Pause between the end of one stream and the next, unless the server sets one.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// While streams end soon after they began, the pause grows up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A stream that was open for this long does not count as failed.
const HEALTHY_STREAM: Duration = Duration::from_secs(10);

pub(super) fn begin(child: &Arc<Child>, connection: &Arc<RemoteConnection>) {
    if connection.state().protocol == Protocol::Legacy {
        let (child, connection) = (child.clone(), connection.clone());
        let listener = tokio::spawn({
            let connection = connection.clone();
            async move {
                tokio::select! {
                    () = child.lifecycle.stop_requested() => {}
                    () = listen(&child, &connection) => {}
                }
            }
        });
        // A listener on the stream of an earlier session would never end.
        let mut reads = connection.listener.lock().expect("BUG: a copy panicked");
        reads.replace(listener.abort_handle()).into_iter().for_each(|earlier| earlier.abort());
    }
}

async fn listen(child: &Arc<Child>, connection: &Arc<RemoteConnection>) {
    let session = connection.state().session;
    let mut resume_point = ResumePoint::default();
    let mut backoff = Backoff::new(RECONNECT_PAUSE, LONGEST_PAUSE);
    loop {
        let state = connection.state();
        if state.session != session {
            // The new session has its own listener.
            return;
        }
        let begun = Instant::now();
        match connection.get(headers::of_stream(&state, resume_point.last_id.as_deref())).await {
            Ok(stream) if stream.status().is_success() && content_type(&stream) == "text/event-stream" => {
                read_events(child, None, stream, &mut resume_point).await;
            }
            Ok(stream) if stream.status().is_server_error() => {}
            // The server has no such stream, or refuses it; a lost session is noticed by the next call.
            Ok(_) => return,
            Err(error) => tracing::debug!(target: "server", server = child.name(), "no stream: {error}"),
        }
        if begun.elapsed() >= HEALTHY_STREAM {
            backoff.reset();
        }
        let pause = backoff.next_pause();
        tokio::time::sleep(resume_point.retry.unwrap_or(pause)).await;
    }
}

//! What a legacy server says without being asked: a stream that is open for as long as the child is used, and asked
//! for again where it left off.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::client::content_type;
use super::inbound::{Mark, read_events};
use super::{Link, headers};
use crate::child::{Child, Manner};

/// Between the end of one and the next, unless the server says how long.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause grows to this while streams end as soon as they begin.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A stream that was open for this long was no failure.
const GOOD: Duration = Duration::from_secs(10);

pub(super) fn begin(child: &Arc<Child>, link: &Arc<Link>) {
    if link.talk().manner == Manner::Legacy {
        let (child, link) = (child.clone(), link.clone());
        let listener = tokio::spawn({
            let link = link.clone();
            async move {
                tokio::select! {
                    () = child.stopped() => {}
                    () = listen(&child, &link) => {}
                }
            }
        });
        // One that still reads the stream of an earlier session would read it for ever.
        let mut reads = link.listener.lock().expect("BUG: a copy panicked");
        reads.replace(listener.abort_handle()).into_iter().for_each(|earlier| earlier.abort());
    }
}

async fn listen(child: &Arc<Child>, link: &Arc<Link>) {
    let session = link.talk().session;
    let mut mark = Mark::default();
    let mut pause = PAUSE;
    loop {
        let talk = link.talk();
        if talk.session != session {
            // Whoever began the new session listens to it.
            return;
        }
        let begun = Instant::now();
        match link.get(headers::of_stream(&talk, mark.last_id.as_deref())).await {
            Ok(stream) if stream.status().is_success() && content_type(&stream) == "text/event-stream" => {
                read_events(child, None, stream, &mut mark).await;
            }
            Ok(stream) if stream.status().is_server_error() => {}
            // It has none, or not for us; a session that is gone is noticed by the next call.
            Ok(_) => return,
            Err(error) => tracing::debug!(target: "child", child = child.name(), "no stream: {error}"),
        }
        pause = if begun.elapsed() >= GOOD { PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        tokio::time::sleep(mark.retry.unwrap_or(pause)).await;
    }
}

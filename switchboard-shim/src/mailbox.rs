//! The long poll: fetches the daemon's messages to the host that are not answers. It has its own connection,
//! whose end tells the shim that the daemon is gone. Writes nothing: the relay does, in order.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use switchboard_wire::hop::{self, Draining, MailboxBatch, MailboxPoll, POLL_WAIT_MS};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::post::{AnswerBody, Connection, DaemonAnswer, DaemonRequest, is_shortage};

/// Larger than any single message with its envelope.
const MAX_BATCH: usize = 64 * 1024 * 1024;

/// The timeout of a poll: a daemon this late beyond the requested wait counts as gone.
const POLL_TIMEOUT: Duration = Duration::from_millis(POLL_WAIT_MS + 10_000);

/// A draining daemon may answer every poll at once: avoid a busy loop.
const DRAINING_PAUSE: Duration = Duration::from_millis(20);

/// The pause before a retry when no descriptor is free for a connection.
pub(crate) const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) enum MailEvent {
    Batch(Batch),
    /// The poll has ended; holds the reason.
    Ended(String),
}

#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) messages: Vec<Bytes>,
    /// The number of the last message.
    pub(crate) next: u64,
    pub(crate) draining: Option<Draining>,
}

/// Polls until the session or the daemon ends. Each event carries the epoch of its session.
pub(crate) async fn poll(
    socket: Arc<Path>,
    session: Arc<str>,
    epoch: u64,
    posts: mpsc::Sender<(u64, MailEvent)>,
) {
    let why = loop {
        match Connection::open(&socket).await {
            Ok(connection) => break fetch(connection, session, epoch, &posts).await,
            // Calls hold every descriptor. They will end, and the daemon is not gone.
            Err(error) if is_shortage(&error) => sleep(NO_DESCRIPTOR_PAUSE).await,
            Err(error) => break error.to_string(),
        }
    };
    let _ = posts.send((epoch, MailEvent::Ended(why))).await;
}

async fn fetch(
    mut connection: Connection,
    session: Arc<str>,
    epoch: u64,
    posts: &mpsc::Sender<(u64, MailEvent)>,
) -> String {
    let mut after = 0;
    loop {
        let request = DaemonRequest {
            path: hop::MAILBOX,
            session: Some(Arc::clone(&session)),
            seq: None,
            body: ask(after),
            limit: MAX_BATCH,
        };
        let (answer, reusable) = match timeout(POLL_TIMEOUT, connection.exchange(&request)).await {
            Ok(Ok(exchanged)) => exchanged,
            Ok(Err(error)) => return error.to_string(),
            Err(_) => return "the mailbox poll was not answered in time".to_owned(),
        };
        let batch = match read(&answer) {
            Ok(batch) => batch,
            Err(why) => return why,
        };
        after = after.max(batch.next);
        let draining = batch.draining.is_some();
        let pause = draining && batch.messages.is_empty();
        if posts.send((epoch, MailEvent::Batch(batch))).await.is_err() {
            return String::new();
        }
        // The next poll tells the daemon that we know it is draining and will send nothing more. So it must
        // not be sent before the relay has taken this batch out of its queue, which holds one.
        if draining && posts.reserve().await.is_err() {
            return String::new();
        }
        if !reusable {
            return "switchboardd closed the mailbox".to_owned();
        }
        if pause {
            sleep(DRAINING_PAUSE).await;
        }
    }
}

fn ask(after: u64) -> Bytes {
    let poll = MailboxPoll { after, wait_ms: POLL_WAIT_MS };
    poll.json().into()
}

fn read(answer: &DaemonAnswer) -> Result<Batch, String> {
    let AnswerBody::Whole(body) = &answer.body else {
        return Err("a mailbox batch is too long".to_owned());
    };
    match answer.status {
        200 => {
            let batch = MailboxBatch::parse(body).ok_or("a mailbox batch is garbled")?;
            let messages = batch.messages.iter().map(|raw| body.slice_ref(raw.get().as_bytes())).collect();
            Ok(Batch { messages, next: batch.next, draining: batch.draining.or(answer.draining) })
        }
        503 if answer.draining.is_some() => {
            Ok(Batch { messages: Vec::new(), next: 0, draining: answer.draining })
        }
        404 => Err("switchboardd does not know this session".to_owned()),
        status => Err(format!("the mailbox was answered with HTTP status {status}")),
    }
}

//! The event streams of one session over HTTP: its own, for messages that belong to no call, and one for each
//! call.
//!
//! A stream is a mailbox that one connection reads at a time. It outlives its connections, so that a host
//! that lost one can resume.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::caller::mailbox::Mailbox;

/// Limits of the streams of finished calls that are retained for hosts to resume.
const MAX_REPLAY_STREAMS: usize = 32;
const MAX_REPLAY_BYTES: usize = 8 * 1024 * 1024;
/// Concurrent calls of one session; further ones wait.
const MAX_CALL_STREAMS: usize = 64;

/// The number of the session's own stream.
const OWN_STREAM: u64 = 0;

#[derive(Debug)]
pub struct Streams {
    pub calls: Arc<Semaphore>,
    own: Arc<EventStream>,
    // A leaf lock: held to read or change the list.
    state: Mutex<StreamList>,
    /// Connections that are reading a stream.
    readers: AtomicUsize,
    // A leaf lock: held to copy or replace the value.
    contact: Mutex<Instant>,
}

#[derive(Debug, Default)]
struct StreamList {
    opened: u64,
    calls: VecDeque<Arc<EventStream>>,
}

#[derive(Debug)]
pub struct EventStream {
    number: u64,
    pub mailbox: Arc<Mailbox>,
    /// Counts the connections that have read this stream; only the latest one reads.
    reader: watch::Sender<StreamReader>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct StreamReader {
    turn: u64,
    is_connected: bool,
}

/// A host's position in a stream, sent as the SSE event id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    pub stream: u64,
    pub message: u64,
}

impl EventId {
    pub fn parse(text: &str) -> Option<Self> {
        let (stream, letter) = text.split_once('.')?;
        Some(Self { stream: stream.parse().ok()?, message: letter.parse().ok()? })
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.stream, self.message)
    }
}

impl Streams {
    pub fn new(own: Arc<Mailbox>) -> Arc<Self> {
        Arc::new(Self {
            calls: Arc::new(Semaphore::new(MAX_CALL_STREAMS)),
            own: Arc::new(EventStream { number: OWN_STREAM, mailbox: own, reader: watch::Sender::default() }),
            state: Mutex::default(),
            readers: AtomicUsize::new(0),
            contact: Mutex::new(Instant::now()),
        })
    }

    pub fn own(&self) -> &Arc<EventStream> {
        &self.own
    }

    /// Opens a stream for a call. Evicts the oldest finished, unread streams if there are too many.
    pub fn open(&self) -> Arc<EventStream> {
        let mut state = self.lock();
        state.opened += 1;
        let stream =
            EventStream { number: state.opened, mailbox: Arc::default(), reader: watch::Sender::default() };
        let stream = Arc::new(stream);
        let ended = |stream: &Arc<EventStream>| stream.mailbox.is_closed() && !stream.is_read();
        loop {
            let kept = state.calls.iter().filter(|stream| ended(stream));
            let (count, bytes) =
                kept.fold((0, 0), |(count, bytes), stream| (count + 1, bytes + stream.mailbox.bytes()));
            let oldest = state.calls.iter().position(ended);
            match oldest.filter(|_| count >= MAX_REPLAY_STREAMS || bytes > MAX_REPLAY_BYTES) {
                Some(oldest) => drop(state.calls.remove(oldest)),
                None => break,
            }
        }
        state.calls.push_back(stream.clone());
        stream
    }

    /// The stream that an event id refers to.
    pub fn find(&self, event_id: EventId) -> Option<Arc<EventStream>> {
        if event_id.stream == OWN_STREAM {
            return Some(self.own.clone());
        }
        self.lock().calls.iter().find(|stream| stream.number == event_id.stream).cloned()
    }

    /// Removes the stream of a call that was answered as JSON.
    pub fn forget(&self, stream: &EventStream) {
        self.lock().calls.retain(|known| known.number != stream.number);
    }

    /// Ends all streams, when the session ends.
    pub fn close(&self) {
        self.calls.close();
        self.own.mailbox.close();
        for stream in std::mem::take(&mut self.lock().calls) {
            stream.mailbox.close();
        }
    }

    /// Notes that the host made contact.
    pub fn touch(&self) {
        *self.contact.lock().expect("BUG: a copy panicked") = Instant::now();
    }

    /// The time of the host's last contact; `None` while it reads a stream.
    pub fn silent_since(&self) -> Option<Instant> {
        let reads = self.readers.load(Ordering::Relaxed) > 0;
        (!reads).then(|| *self.contact.lock().expect("BUG: a copy panicked"))
    }

    /// Starts a reader; the previous reader of the stream ends.
    pub fn read(self: &Arc<Self>, stream: &Arc<EventStream>) -> ReadGuard {
        let mut turn = 0;
        stream.reader.send_modify(|reader| {
            *reader = StreamReader { turn: reader.turn + 1, is_connected: true };
            turn = reader.turn;
        });
        self.readers.fetch_add(1, Ordering::Relaxed);
        ReadGuard { streams: self.clone(), stream: stream.clone(), turn }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, StreamList> {
        self.state.lock().expect("BUG: bookkeeping panicked")
    }
}

impl EventStream {
    pub fn is_read(&self) -> bool {
        self.reader.borrow().is_connected
    }

    pub fn event_id(&self, letter: u64) -> EventId {
        EventId { stream: self.number, message: letter }
    }
}

/// A connection that reads a stream, until dropped.
#[derive(Debug)]
pub struct ReadGuard {
    streams: Arc<Streams>,
    pub stream: Arc<EventStream>,
    turn: u64,
}

impl ReadGuard {
    /// Resolves when another connection has taken over the stream.
    pub async fn wait_replaced(&self) {
        let mut reader = self.stream.reader.subscribe();
        let _ = reader.wait_for(|reader| reader.turn != self.turn).await;
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        self.stream.reader.send_modify(|reader| reader.is_connected &= reader.turn != self.turn);
        self.streams.readers.fetch_sub(1, Ordering::Relaxed);
        self.streams.touch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_ids_round_trip() {
        let event_id = EventId { stream: 3, message: 14 };
        assert_eq!(EventId::parse(&event_id.to_string()), Some(event_id));
        for wrong in ["", "3", "3.", ".4", "a.b", "1.2.3", "-1.2"] {
            assert_eq!(EventId::parse(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn the_latest_connection_reads_the_stream() {
        let streams = Streams::new(Arc::default());
        let stream = streams.own().clone();
        assert!(!stream.is_read());
        let first = streams.read(&stream);
        let second = streams.read(&stream);
        first.wait_replaced().await;
        drop(first);
        assert!(stream.is_read() && streams.silent_since().is_none());
        drop(second);
        assert!(!stream.is_read() && streams.silent_since().is_some());
    }

    #[tokio::test]
    async fn the_number_of_finished_streams_is_limited() {
        let streams = Streams::new(Arc::default());
        let open = streams.open();
        for _ in 0..MAX_REPLAY_STREAMS * 2 {
            streams.open().mailbox.close();
        }
        assert!(streams.find(open.event_id(0)).is_some());
        assert!(streams.find(EventId { stream: 2, message: 0 }).is_none());
        assert_eq!(streams.lock().calls.len(), MAX_REPLAY_STREAMS + 1);
    }
}

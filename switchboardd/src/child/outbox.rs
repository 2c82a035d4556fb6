//! Writes to a child's stdin.
//!
//! A message is written right where it is made, in one write, as long as the pipe takes it: a hop to a writer
//! task would cost more than the write. Only when several messages are sent at once do they go through a
//! backlog, to be written together. The backlog also holds what the pipe does not take; it is bounded, so
//! that a child that stops reading blocks only its own callers. Calls wait for room while the child reads;
//! answers and cancels have a much higher limit.
//!
//! The pipe is watched only for its end. Watching it for writability would wake the daemon each time the
//! child has read something, so that is done only while the pipe is full.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::io::{Errno, ioctl_fionread};
use switchboard_wire::lazy_stream::watch;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::memory_pipe::PipeWriter;

/// Above this backlog, new calls wait until the child has read some of it. One message of any
/// allowed size always fits.
const BACKLOG: usize = 4 * 1024 * 1024;

/// Above this backlog, a child does not read but keeps asking: it is ended, since no answer may be dropped.
const MAX_BACKLOG: usize = 40 * 1024 * 1024;

/// How long to wait before writing again to a full pipe that cannot be watched.
const PIPE_RETRY: Duration = Duration::from_millis(10);

/// The pipe is watched for its end, which kqueue reports only to writers.
const PIPE_INTEREST: Interest = if cfg!(target_os = "linux") { Interest::ERROR } else { Interest::WRITABLE };

/// Capacity that the backlog keeps for the next messages.
const SMALL_BACKLOG: usize = 64 * 1024;

/// Whether some of the backlog is left.
enum BacklogState {
    Empty,
    Waiting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutboxError {
    /// The backlog is full. A call may wait until the child has read some of it; anything else fails.
    Full,
    /// The child's stdin is closed.
    Closed,
}

pub(super) struct Outbox {
    // A leaf lock: held for one non-blocking write, never across an await. It keeps lines whole.
    state: Mutex<OutboxState>,
    /// Wakes the task that writes the backlog.
    changed: Notify,
    broken: Notify,
    /// Notified when some of the backlog was written or dropped.
    moved: Notify,
}

struct OutboxState {
    pipe: Option<InputPipe>,
    backlog: Vec<u8>,
    written: usize,
    /// When the pipe last accepted bytes while there was a backlog.
    progress: Instant,
    /// Bytes that the child had not read when its stdin was closed.
    unread: u64,
}

/// The writing end of a child's standard input.
#[derive(Clone)]
enum InputPipe {
    Process(Arc<AsyncFd<OwnedFd>>),
    InMemory(Arc<PipeWriter>),
}

impl InputPipe {
    /// Writes without waiting.
    #[inline]
    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Self::Process(pipe) => rustix::io::write(&**pipe, bytes),
            Self::InMemory(pipe) => pipe.try_write(bytes),
        }
    }

    fn unread(&self) -> u64 {
        match self {
            Self::Process(pipe) => ioctl_fionread(&**pipe).unwrap_or(0),
            Self::InMemory(pipe) => pipe.unread(),
        }
    }

    /// Resolves when the child has closed its input.
    async fn closed(&self) {
        match self {
            Self::Process(pipe) => drop(pipe.ready(Interest::ERROR).await),
            Self::InMemory(pipe) => pipe.closed().await,
        }
    }

    /// Resolves when the pipe may have room.
    async fn wait_for_room(&self) {
        match self {
            Self::Process(pipe) => wait_writable(pipe).await,
            Self::InMemory(pipe) => pipe.room().await,
        }
    }
}

impl OutboxState {
    fn waiting(&self) -> usize {
        self.backlog.len() - self.written
    }

    /// Bytes that were sent and not read.
    fn unread(&self) -> u64 {
        let in_pipe = self.pipe.as_ref().map(InputPipe::unread);
        in_pipe.map_or(self.unread, |in_pipe| in_pipe + self.waiting() as u64)
    }

    fn close(&mut self) {
        self.unread = self.unread();
        self.pipe = None;
    }
}

impl Outbox {
    pub(super) fn new(pipe: pipe::Sender) -> std::io::Result<Self> {
        let pipe = watch(pipe.into_nonblocking_fd()?, PIPE_INTEREST)?;
        Ok(Self::to(InputPipe::Process(Arc::new(pipe))))
    }

    /// The outbox of an in-memory child.
    pub(super) fn in_memory(pipe: PipeWriter) -> Self {
        Self::to(InputPipe::InMemory(Arc::new(pipe)))
    }

    fn to(pipe: InputPipe) -> Self {
        let state = OutboxState {
            pipe: Some(pipe),
            backlog: Vec::new(),
            written: 0,
            progress: Instant::now(),
            unread: 0,
        };
        let (changed, broken, moved) = Default::default();
        Self { state: Mutex::new(state), changed, broken, moved }
    }

    /// Sends one line, which ends with its line break. With `coalesce` it is queued and written together with
    /// others; it then counts as sent even if the child dies before a byte of it is written. `yields`: it is
    /// a call, which can wait for room instead.
    pub(super) fn send(&self, line: &[u8], coalesce: bool, yields: bool) -> Result<(), OutboxError> {
        let mut state = self.lock();
        let Some(pipe) = &state.pipe else {
            return Err(OutboxError::Closed);
        };
        let mut rest = line;
        if state.backlog.is_empty() && !coalesce {
            match pipe.write(line) {
                Ok(count) if count == line.len() => return Ok(()),
                Ok(count) => rest = &line[count..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => {
                    self.break_off(&mut state);
                    return Err(OutboxError::Closed);
                }
            }
        } else {
            let waiting = state.waiting();
            let is_full = if yields { waiting >= BACKLOG } else { waiting + line.len() > MAX_BACKLOG };
            if waiting > 0 && is_full {
                return Err(OutboxError::Full);
            }
        }
        if state.backlog.is_empty() {
            state.progress = Instant::now();
        }
        state.backlog.extend_from_slice(rest);
        self.changed.notify_one();
        Ok(())
    }

    /// Waits until there is room for a call. [`OutboxError::Full`] if the child has read nothing for
    /// `timeout`, or at `due`.
    pub(super) async fn room(&self, timeout: Duration, due: Instant) -> Result<(), OutboxError> {
        loop {
            let moved = self.moved.notified();
            let due = {
                let state = self.lock();
                if state.pipe.is_none() || state.waiting() < BACKLOG {
                    return Ok(());
                }
                due.min(state.progress + timeout)
            };
            timeout_at(due, moved).await.map_err(|_| OutboxError::Full)?;
        }
    }

    /// Bytes sent that the child has not read; after the close, those that it never read.
    pub(super) fn unread(&self) -> u64 {
        self.lock().unread()
    }

    /// Closes the child's stdin and drops the backlog.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.close();
        state.backlog = Vec::new();
        state.written = 0;
        self.changed.notify_one();
        self.moved.notify_waiters();
    }

    /// Writes the backlog whenever there is one, until stdin is closed.
    pub(super) async fn write_backlog(&self) {
        loop {
            let Some(pipe) = self.lock().pipe.clone() else { return };
            match self.write_some() {
                BacklogState::Empty => tokio::select! {
                    () = self.changed.notified() => {}
                    // The kernel reports it as soon as the child closes its end, even if nothing is written.
                    () = pipe.closed() => {
                        self.break_off(&mut self.lock());
                        return;
                    }
                },
                BacklogState::Waiting => tokio::select! {
                    () = pipe.wait_for_room() => {}
                    // The pipe may have been closed meanwhile: check again.
                    () = self.changed.notified() => {}
                },
            }
        }
    }

    /// Writes as much of the backlog as the pipe takes.
    fn write_some(&self) -> BacklogState {
        let mut state = self.lock();
        let OutboxState { pipe, backlog, written, progress, .. } = &mut *state;
        let Some(pipe) = pipe.as_ref().filter(|_| !backlog.is_empty()) else { return BacklogState::Empty };
        match pipe.write(&backlog[*written..]) {
            Ok(count) => {
                *written += count;
                *progress = Instant::now();
                self.moved.notify_waiters();
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => {
                self.break_off(&mut state);
                return BacklogState::Empty;
            }
        }
        if *written < backlog.len() {
            if *written > BACKLOG {
                backlog.drain(..*written);
                *written = 0;
            }
            return BacklogState::Waiting;
        }
        *written = 0;
        backlog.clear();
        // A large message must not leave its memory behind.
        backlog.shrink_to(SMALL_BACKLOG);
        BacklogState::Empty
    }

    /// The child has closed its stdin.
    fn break_off(&self, state: &mut OutboxState) {
        state.close();
        self.broken.notify_one();
        self.moved.notify_waiters();
    }

    /// Resolves when a write failed because the child closed its input.
    pub(super) async fn broken(&self) {
        self.broken.notified().await;
    }

    pub(super) fn is_open(&self) -> bool {
        self.lock().pipe.is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OutboxState> {
        self.state.lock().expect("BUG: a write panicked")
    }
}

/// Resolves when the pipe may be writable.
async fn wait_writable(pipe: &AsyncFd<OwnedFd>) {
    let watched = pipe.get_ref().try_clone().and_then(|pipe| watch(pipe, Interest::WRITABLE));
    match watched {
        Ok(room) => drop(room.writable().await),
        // No descriptor is left to watch it with: poll instead.
        Err(_) => tokio::time::sleep(PIPE_RETRY).await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt;

    use super::*;

    fn outbox() -> (Arc<Outbox>, pipe::Receiver) {
        let (sender, receiver) = pipe::pipe().unwrap();
        let outbox = Arc::new(Outbox::new(sender).unwrap());
        let writer = outbox.clone();
        tokio::spawn(async move { writer.write_backlog().await });
        (outbox, receiver)
    }

    #[tokio::test]
    async fn lines_arrive_whole_and_in_order_however_they_are_sent() {
        let (outbox, mut pipe) = outbox();
        let mut expected = Vec::new();
        for number in 0..200_u32 {
            // Some lines fit into the pipe and some do not; some are coalesced.
            let line = format!("{number}{}\n", "x".repeat(if number % 50 == 0 { 100_000 } else { 10 }));
            outbox.send(line.as_bytes(), number % 3 == 0, false).unwrap();
            expected.extend_from_slice(line.as_bytes());
        }
        let mut received = vec![0; expected.len()];
        tokio::time::timeout(Duration::from_secs(10), pipe.read_exact(&mut received)).await.unwrap().unwrap();
        assert!(received == expected);
    }

    #[tokio::test]
    async fn one_message_of_any_size_fits_and_a_second_call_waits_while_the_child_reads() {
        let (outbox, mut pipe) = outbox();
        let long = vec![b'x'; BACKLOG + (1 << 20)];
        let soon = Duration::from_millis(200);
        let wait = || outbox.room(soon, Instant::now() + Duration::from_secs(60));
        assert_eq!(outbox.send(&long, true, true), Ok(()));
        assert_eq!(outbox.send(&long, true, true), Err(OutboxError::Full));
        // A message that is no call is still accepted, up to the limit at which the child is ended.
        assert_eq!(outbox.send(b"x\n", true, false), Ok(()));
        assert_eq!(outbox.send(&vec![b'x'; MAX_BACKLOG], true, false), Err(OutboxError::Full));
        assert_eq!(wait().await, Err(OutboxError::Full));
        let reader = tokio::spawn(async move {
            let mut all = vec![0; 2 * (BACKLOG + (1 << 20)) + 2];
            pipe.read_exact(&mut all).await
        });
        while outbox.send(&long, true, true) == Err(OutboxError::Full) {
            assert_eq!(
                outbox.room(Duration::from_secs(60), Instant::now() + Duration::from_secs(60)).await,
                Ok(())
            );
        }
        assert!(reader.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn unread_counts_the_bytes_that_the_child_has_not_read() {
        let (outbox, mut pipe) = outbox();
        outbox.send(b"one\n", false, false).unwrap();
        assert_eq!(outbox.unread(), 4);
        pipe.read_exact(&mut [0; 4]).await.unwrap();
        assert_eq!(outbox.unread(), 0);
        outbox.send(b"two\n", false, false).unwrap();
        drop(pipe);
        tokio::time::timeout(Duration::from_secs(10), outbox.broken()).await.unwrap();
        assert_eq!(outbox.unread(), 4);
    }

    #[tokio::test]
    async fn a_closed_reader_is_noticed_without_a_write() {
        let (outbox, pipe) = outbox();
        drop(pipe);
        tokio::time::timeout(Duration::from_secs(10), outbox.broken()).await.unwrap();
        assert!(!outbox.is_open());
        assert_eq!(outbox.send(b"x\n", true, false), Err(OutboxError::Closed));
    }
}

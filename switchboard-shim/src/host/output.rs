//! Writes whole messages to stdout, in the order they are pushed, several per write where possible.
//!
//! A host that stops reading must not keep the shim from handling a signal. Bytes that stdout does not take
//! at once go to a thread, started on first use, whose writes may block.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::{Buf, Bytes};
use rustix::event::PollFlags;
use rustix::io::Errno;
use switchboard_wire::framing::{Framing, encode};
use switchboard_wire::lazy_stream::watch;
use tokio::io::Interest;
use tokio::sync::Notify;

use super::{is_ready, thread, wait_for};
use crate::first::first;

/// Bytes queued for a slow host above which the relay accepts no new work.
const MAX_BACKLOG: usize = 1024 * 1024;

/// Messages longer than this are written on their own, so that their memory is freed right after.
const MAX_COALESCED: usize = 64 * 1024;

/// A descriptor that polls writable takes this many bytes without blocking: a pipe has a free page on Linux and
/// `PIPE_BUF` bytes on macOS, and a unix socket has more than this free.
const ATOMIC_WRITE: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// How often to check whether the other half of a half-closed socket has closed too.
const HALF_CLOSED_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// On Linux, the end of a pipe shows as an error and that of a socket as readable. With kqueue, both show as
/// writable.
const PIPE_INTEREST: Interest =
    if cfg!(target_os = "linux") { Interest::READABLE.add(Interest::ERROR) } else { Interest::WRITABLE };

#[derive(Default)]
pub(crate) struct Output {
    /// Bytes that the next [`Output::flush`] writes.
    pending: Vec<u8>,
    /// Created when the host first does not take something at once.
    backlog: Option<Arc<Backlog>>,
    closed: Arc<Notify>,
}

impl Output {
    pub(crate) fn push(&mut self, framing: Framing, body: Bytes) {
        if body.len() <= MAX_COALESCED {
            encode(framing, &body, &mut self.pending);
            if self.pending.len() > MAX_COALESCED {
                self.flush();
            }
            return;
        }
        self.flush();
        // A long message is written without copying it.
        if framing == Framing::Line && memchr::memchr2(b'\n', b'\r', &body).is_none() {
            self.write(body);
            self.pending.push(b'\n');
        } else {
            let mut framed = Vec::new();
            encode(framing, &body, &mut framed);
            self.write(framed.into());
        }
    }

    /// Writes everything that was pushed, with a single write if possible.
    pub(crate) fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut pending = std::mem::take(&mut self.pending);
        let written = self.write_some(&pending);
        if written < pending.len() {
            self.leave_to_thread(Bytes::copy_from_slice(&pending[written..]));
        }
        pending.clear();
        self.pending = pending;
    }

    fn write(&mut self, mut bytes: Bytes) {
        let written = self.write_some(&bytes);
        bytes.advance(written);
        if !bytes.is_empty() {
            self.leave_to_thread(bytes);
        }
    }

    /// Writes what the host takes at once, or nothing while earlier bytes are still queued.
    fn write_some(&self, bytes: &[u8]) -> usize {
        if self.backlog.as_ref().is_some_and(|backlog| backlog.bytes() > 0) {
            return 0;
        }
        match write_now(bytes) {
            Ok(count) => count,
            Err(Errno::INTR | Errno::AGAIN) => 0,
            Err(_) => {
                self.closed.notify_one();
                bytes.len()
            }
        }
    }

    fn leave_to_thread(&mut self, bytes: Bytes) {
        let closed = &self.closed;
        let backlog = self.backlog.get_or_insert_with(|| {
            let backlog = Arc::new(Backlog::default());
            let (theirs, gone) = (Arc::clone(&backlog), Arc::clone(closed));
            if thread("stdout", move || theirs.write(&gone)).is_err() {
                // If there is no memory for a thread, the shim cannot serve the host any longer.
                closed.notify_one();
            }
            backlog
        });
        backlog.add(bytes);
    }

    /// Whether the host reads so slowly that the relay should accept no new work.
    pub(crate) fn is_full(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| backlog.bytes() > MAX_BACKLOG)
    }

    /// Resolves when the host has taken some of the queued bytes.
    pub(crate) async fn wait_for_read(&self) {
        match &self.backlog {
            Some(backlog) => backlog.read_notify.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Resolves when nothing reads our output any more.
    pub(crate) fn wait_closed(&self) -> impl Future<Output = ()> + use<> {
        let closed = Arc::clone(&self.closed);
        async move {
            first(closed.notified(), other_end_closed()).await;
        }
    }

    /// Waits until the host has taken everything.
    pub(crate) async fn finish(mut self) {
        self.flush();
        while self.backlog.as_ref().is_some_and(|backlog| backlog.bytes() > 0) {
            self.wait_for_read().await;
        }
    }
}

/// Resolves when the host closed its end of stdout, also while nothing is written.
async fn other_end_closed() {
    // A file cannot be watched, and it has no other end to close.
    let Ok(stdout) = watch(rustix::stdio::stdout(), PIPE_INTEREST) else {
        return std::future::pending().await;
    };
    loop {
        let Ok(mut now) = stdout.ready(PIPE_INTEREST).await else { return };
        if now.ready().is_error() || is_ready(rustix::stdio::stdout(), PollFlags::empty()) {
            return;
        }
        if now.ready().is_read_closed() {
            break;
        }
        // Readable bytes on this socket belong to stdin; ignore them.
        now.clear_ready();
    }
    // Stdout is a socket, perhaps shared with stdin, and only its read half has closed. The kernel reports
    // the end of the other half only when polled.
    while !is_ready(rustix::stdio::stdout(), PollFlags::empty()) {
        tokio::time::sleep(HALF_CLOSED_CHECK_INTERVAL).await;
    }
}

/// Writes what stdout takes without blocking.
fn write_now(bytes: &[u8]) -> rustix::io::Result<usize> {
    let stdout = rustix::stdio::stdout();
    #[cfg(target_os = "linux")]
    {
        use rustix::io::{IoSlice, ReadWriteFlags, pwritev2};
        let written = pwritev2(stdout, &[IoSlice::new(bytes)], u64::MAX, ReadWriteFlags::NOWAIT);
        // Other errors: `pwritev2` is not supported by this kernel, not for this kind of stdout, or not
        // permitted here.
        if let Ok(_) | Err(Errno::AGAIN | Errno::INTR) = written {
            return written;
        }
    }
    if bytes.len() <= ATOMIC_WRITE && is_ready(stdout, PollFlags::OUT) {
        return rustix::io::write(stdout, bytes);
    }
    Err(Errno::AGAIN)
}

/// Bytes queued for a host that reads slowly.
#[derive(Default)]
struct Backlog {
    // Held to add bytes or to take them out, never during a write.
    state: Mutex<OutputState>,
    more: Condvar,
    read_notify: Notify,
}

#[derive(Default)]
struct OutputState {
    waiting: VecDeque<Bytes>,
    /// Bytes that are queued or being written.
    bytes: usize,
}

impl Backlog {
    fn add(&self, bytes: Bytes) {
        let mut state = self.lock();
        state.bytes += bytes.len();
        state.waiting.push_back(bytes);
        self.more.notify_one();
    }

    fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// The thread's loop; ends with the process, or when nothing reads our output any more.
    fn write(&self, closed: &Notify) {
        loop {
            let bytes = {
                let mut state = self.lock();
                loop {
                    match state.waiting.pop_front() {
                        Some(bytes) => break bytes,
                        None => state = self.more.wait(state).expect("BUG: an append panicked"),
                    }
                }
            };
            if write_all(&bytes).is_err() {
                *self.lock() = OutputState::default();
                self.read_notify.notify_one();
                return closed.notify_one();
            }
            self.lock().bytes -= bytes.len();
            self.read_notify.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OutputState> {
        self.state.lock().expect("BUG: an append panicked")
    }
}

fn write_all(mut bytes: &[u8]) -> rustix::io::Result<()> {
    let stdout = rustix::stdio::stdout();
    while !bytes.is_empty() {
        match rustix::io::write(stdout, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_for(stdout, PollFlags::OUT),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

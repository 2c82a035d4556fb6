//! The way to stdout: whole messages, in the order they are given, many in one write if there are many.
//!
//! A host that stops reading must not keep the shim from noticing a signal, so what stdout does not take at
//! once is left to a thread, which is started when it is first needed and does the writing that may block.

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

/// Bytes that wait for a slow host before the relay takes nothing more on.
const MAX_BACKLOG: usize = 1024 * 1024;

/// Messages beyond this are written by themselves, so that their memory goes with them.
const COALESCED: usize = 64 * 1024;

/// What polls writable takes this much without blocking: a page of a pipe on Linux, less than a unix
/// socket has free by then.
const NEVER_BLOCKS: usize = 4096;

/// How often to ask whether the other half of a half-closed socket is closed, too.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// The end of a pipe shows as an error, that of a socket as something to read; with kqueue, both to those who want
/// to write.
const WATCHED: Interest =
    if cfg!(target_os = "linux") { Interest::READABLE.add(Interest::ERROR) } else { Interest::WRITABLE };

#[derive(Default)]
pub(crate) struct Output {
    /// What the next [`Output::flush`] writes.
    pending: Vec<u8>,
    /// There as soon as the host did not take something at once.
    backlog: Option<Arc<Backlog>>,
    closed: Arc<Notify>,
}

impl Output {
    pub(crate) fn push(&mut self, framing: Framing, body: Bytes) {
        if body.len() <= COALESCED {
            encode(framing, &body, &mut self.pending);
            if self.pending.len() > COALESCED {
                self.flush();
            }
            return;
        }
        self.flush();
        // A long one is written from where it is, without being copied.
        if framing == Framing::Line && memchr::memchr2(b'\n', b'\r', &body).is_none() {
            self.write(body);
            self.pending.push(b'\n');
        } else {
            let mut framed = Vec::new();
            encode(framing, &body, &mut framed);
            self.write(framed.into());
        }
    }

    /// Writes what was pushed, in one go if it can.
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

    /// Writes what the host takes at once, unless it has yet to take something else.
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
                // Without memory for a thread there is nothing left to serve the host with.
                closed.notify_one();
            }
            backlog
        });
        backlog.add(bytes);
    }

    /// Whether the host reads so slowly that nothing more should be taken on for it.
    pub(crate) fn is_full(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| backlog.bytes() > MAX_BACKLOG)
    }

    /// Resolves when the host has taken something of what waits.
    pub(crate) async fn taken(&self) {
        match &self.backlog {
            Some(backlog) => backlog.taken.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Resolves when nobody reads what is written any more.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + use<> {
        let closed = Arc::clone(&self.closed);
        async move {
            tokio::select! {
                () = closed.notified() => {}
                () = other_end_closed() => {}
            }
        }
    }

    /// Waits until everything is with the host.
    pub(crate) async fn finish(mut self) {
        self.flush();
        while self.backlog.as_ref().is_some_and(|backlog| backlog.bytes() > 0) {
            self.taken().await;
        }
    }
}

/// Resolves when the host closed its end of stdout, also while nothing is written.
async fn other_end_closed() {
    // A file cannot be watched, and nobody can close its other end.
    let Ok(stdout) = watch(rustix::stdio::stdout(), WATCHED) else { return std::future::pending().await };
    loop {
        let Ok(mut now) = stdout.ready(WATCHED).await else { return };
        if now.ready().is_error() || is_ready(rustix::stdio::stdout(), PollFlags::empty()) {
            return;
        }
        if now.ready().is_read_closed() {
            break;
        }
        // What comes in there is stdin's, too.
        now.clear_ready();
    }
    // It is a socket, perhaps stdin's too, and only that half has ended. Of the other one's end the kernel tells
    // those who ask.
    while !is_ready(rustix::stdio::stdout(), PollFlags::empty()) {
        tokio::time::sleep(HALF_CLOSED).await;
    }
}

/// Writes what stdout takes without blocking.
fn write_now(bytes: &[u8]) -> rustix::io::Result<usize> {
    let stdout = rustix::stdio::stdout();
    #[cfg(target_os = "linux")]
    {
        use rustix::io::{IoSlice, ReadWriteFlags, pwritev2};
        let written = pwritev2(stdout, &[IoSlice::new(bytes)], u64::MAX, ReadWriteFlags::NOWAIT);
        // Other errors: not on this kernel, not for this kind of stdout, or not allowed here.
        if let Ok(_) | Err(Errno::AGAIN | Errno::INTR) = written {
            return written;
        }
    }
    if bytes.len() <= NEVER_BLOCKS && is_ready(stdout, PollFlags::OUT) {
        return rustix::io::write(stdout, bytes);
    }
    Err(Errno::AGAIN)
}

/// What waits for a host that reads slowly.
#[derive(Default)]
struct Backlog {
    // Held to add bytes or to take them out, never during a write.
    state: Mutex<State>,
    more: Condvar,
    taken: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Bytes>,
    /// How many bytes wait or are being written.
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

    /// The thread's work; ends with the process, or when nobody reads any more.
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
                *self.lock() = State::default();
                self.taken.notify_one();
                return closed.notify_one();
            }
            self.lock().bytes -= bytes.len();
            self.taken.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
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

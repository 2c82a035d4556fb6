//! The host's two pipes: a thread that reads stdin into frames, and the way to stdout.
//!
//! The descriptors are the host's too, so they are used as they came: never reopened (several hosts
//! hand over sockets), never made non-blocking. Parses no JSON.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use switchboard_wire::framing::{Decoder, Frame};
use tokio::sync::{Notify, mpsc, oneshot};

/// Frames between the reader and the relay: enough for a burst, so that a host that writes without
/// pause is slowed down by the relay and not kept in memory.
const INPUT_QUEUE: usize = 64;

/// Messages between the relay and a host that reads slowly; when they are full the relay waits.
const OUTPUT_QUEUE: usize = 64;

/// What polls writable takes this much without blocking: a page of a pipe on Linux, less than a unix
/// socket has free by then.
const NEVER_BLOCKS: usize = 4096;

/// These threads call into nothing deep.
const STACK: usize = 128 * 1024;

/// Starts the reader. The channel ends when stdin does.
pub(crate) fn read() -> io::Result<mpsc::Receiver<Frame>> {
    let (frames, inbox) = mpsc::channel(INPUT_QUEUE);
    thread("stdin", move || read_frames(&frames))?;
    Ok(inbox)
}

fn read_frames(frames: &mpsc::Sender<Frame>) {
    let stdin = rustix::stdio::stdin();
    let mut decoder = Decoder::default();
    let mut chunk = vec![0; 16 * 1024];
    loop {
        match rustix::io::read(stdin, &mut chunk) {
            Ok(0) => break,
            Ok(count) => decoder.buffer().extend_from_slice(&chunk[..count]),
            Err(Errno::INTR) => continue,
            // Somebody else made it non-blocking.
            Err(Errno::AGAIN) => wait_for(stdin, PollFlags::IN, None),
            Err(_) => break,
        }
        while let Some(frame) = decoder.next_frame() {
            if frames.blocking_send(frame).is_err() {
                return;
            }
        }
    }
    if let Some(frame) = decoder.finish() {
        let _ = frames.blocking_send(frame);
    }
}

/// The way to stdout: whole messages, in the order they are given.
///
/// A host that stops reading must not keep the shim from noticing a signal, so a thread does the
/// writing that may block. A short message to a pipe that has room is written by the caller itself.
/// Measured over 15 interleaved rounds on a busy two-core machine, that takes a warm call from 3.9 to
/// 2.6 voluntary thread switches and its median from 85 to 75 µs (the quartiles of the latter overlap).
#[derive(Debug)]
pub(crate) struct Stdout {
    queue: mpsc::Sender<Vec<u8>>,
    queued: Arc<AtomicUsize>,
    closed: Arc<Notify>,
    written: oneshot::Receiver<()>,
}

impl Stdout {
    pub(crate) fn open() -> io::Result<Self> {
        let (queue, messages) = mpsc::channel(OUTPUT_QUEUE);
        let queued = Arc::new(AtomicUsize::new(0));
        let closed = Arc::new(Notify::new());
        let (done, written) = oneshot::channel();
        thread("stdout", {
            let (queued, closed) = (Arc::clone(&queued), Arc::clone(&closed));
            move || {
                write_queue(messages, &queued, &closed);
                let _ = done.send(());
            }
        })?;
        thread("stdout watch", {
            let closed = Arc::clone(&closed);
            move || {
                // Errors and hang-ups are reported although nothing is asked for.
                wait_for(rustix::stdio::stdout(), PollFlags::empty(), None);
                closed.notify_one();
            }
        })?;
        Ok(Self { queue, queued, closed, written })
    }

    /// Resolves when nobody reads what is written any more.
    pub(crate) fn closed(&self) -> Arc<Notify> {
        Arc::clone(&self.closed)
    }

    pub(crate) async fn write(&self, mut message: Vec<u8>) {
        if self.queued.load(Ordering::Acquire) == 0 && message.len() <= NEVER_BLOCKS && has_room() {
            match rustix::io::write(rustix::stdio::stdout(), &message) {
                Ok(count) if count == message.len() => return,
                Ok(count) => drop(message.drain(..count)),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return self.closed.notify_one(),
            }
        }
        self.queued.fetch_add(1, Ordering::AcqRel);
        if self.queue.send(message).await.is_err() {
            self.closed.notify_one();
        }
    }

    /// Waits until everything is with the host.
    pub(crate) async fn finish(self) {
        drop(self.queue);
        let _ = self.written.await;
    }
}

fn write_queue(mut messages: mpsc::Receiver<Vec<u8>>, queued: &AtomicUsize, closed: &Notify) {
    let stdout = rustix::stdio::stdout();
    while let Some(message) = messages.blocking_recv() {
        let mut rest = &message[..];
        while !rest.is_empty() {
            match rustix::io::write(stdout, rest) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait_for(stdout, PollFlags::OUT, None),
                Err(_) => return closed.notify_one(),
            }
        }
        queued.fetch_sub(1, Ordering::AcqRel);
    }
}

fn has_room() -> bool {
    is_ready(rustix::stdio::stdout(), PollFlags::OUT)
}

/// Whether `fd` is ready right now.
pub(crate) fn is_ready(fd: BorrowedFd<'_>, events: PollFlags) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1))
        && fds[0].revents().contains(events)
}

fn wait_for(fd: BorrowedFd<'_>, events: PollFlags, timeout: Option<&Timespec>) {
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    while let Err(Errno::INTR | Errno::AGAIN) = poll(&mut fds, timeout) {}
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(body).map(drop)
}

//! Reads the host's frames in the relay's own loop: a separate thread would cost two context switches per
//! message.
//!
//! Stdin may be blocking and the runtime's readiness may be stale, so every read must be non-blocking by
//! itself. Only an input that the runtime cannot watch (a file) is read by a thread.

use std::io;

use rustix::event::PollFlags;
use rustix::fd::BorrowedFd;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::SocketType;
use switchboard_wire::framing::{Decoder, Frame};
use switchboard_wire::lazy_stream::watch;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use super::{is_ready, thread, wait_for};

/// Bytes per read: room for a burst of typical messages.
const READ_CHUNK: usize = 16 * 1024;

/// Chunks queued between the thread and the relay: a host that writes without pause is slowed down to the
/// relay's pace.
const QUEUE: usize = 1;

pub(crate) struct Input {
    source: Source,
    decoder: Decoder,
    ended: bool,
}

enum Source {
    Watched(WatchedStdin),
    Thread(mpsc::Receiver<Vec<u8>>),
}

struct WatchedStdin {
    stdin: AsyncFd<BorrowedFd<'static>>,
    /// Whether a short read means that nothing is left to read.
    takes_all: bool,
    chunk: Vec<u8>,
}

impl Input {
    pub(crate) fn open() -> io::Result<Self> {
        let source = match WatchedStdin::open() {
            Ok(watched) => Source::Watched(watched),
            Err(_) => {
                let (chunks, inbox) = mpsc::channel(QUEUE);
                thread("stdin", move || read_all(&chunks))?;
                Source::Thread(inbox)
            }
        };
        Ok(Self { source, decoder: Decoder::default(), ended: false })
    }

    /// The next frame; `None` when the host has closed its end and everything was read. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.next_frame() {
                return Some(frame);
            }
            if self.ended {
                return self.decoder.finish();
            }
            self.ended = !match &mut self.source {
                Source::Watched(watched) => watched.read(&mut self.decoder).await,
                Source::Thread(chunks) => match chunks.recv().await {
                    Some(chunk) => {
                        self.decoder.buffer().extend_from_slice(&chunk);
                        true
                    }
                    None => false,
                },
            };
        }
    }

    /// The next frame that is already buffered.
    pub(crate) fn read_before(&mut self) -> Option<Frame> {
        self.decoder.next_frame()
    }
}

impl WatchedStdin {
    fn open() -> io::Result<Self> {
        let stdin = rustix::stdio::stdin();
        // Packet sockets and packet-mode pipes return one packet per read.
        let takes_all = match FileType::from_raw_mode(rustix::fs::fstat(stdin)?.st_mode) {
            FileType::Socket => rustix::net::sockopt::socket_type(stdin) == Ok(SocketType::STREAM),
            FileType::Fifo => !keeps_packets(stdin),
            _ => false,
        };
        Ok(Self { stdin: watch(stdin, Interest::READABLE)?, takes_all, chunk: vec![0; READ_CHUNK] })
    }

    /// Reads once; false at end of input.
    async fn read(&mut self, decoder: &mut Decoder) -> bool {
        loop {
            let Ok(mut ready) = self.stdin.readable().await else { return false };
            match read_now(*ready.get_inner(), &mut self.chunk) {
                Ok(0) => return false,
                Ok(count) => {
                    if self.takes_all && count < self.chunk.len() {
                        ready.clear_ready();
                    }
                    decoder.buffer().extend_from_slice(&self.chunk[..count]);
                    return true;
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

fn keeps_packets(pipe: BorrowedFd<'_>) -> bool {
    #[cfg(target_os = "linux")]
    return rustix::fs::fcntl_getfl(pipe).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::DIRECT));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = pipe;
        false
    }
}

/// Reads what is available, without blocking.
fn read_now(stdin: BorrowedFd<'_>, chunk: &mut [u8]) -> rustix::io::Result<usize> {
    #[cfg(target_os = "linux")]
    {
        use rustix::io::{IoSliceMut, ReadWriteFlags, preadv2};
        let read = preadv2(stdin, &mut [IoSliceMut::new(chunk)], u64::MAX, ReadWriteFlags::NOWAIT);
        // Other errors: `preadv2` is not supported by this kernel, not for this kind of stdin, or not
        // permitted here.
        if let Ok(_) | Err(Errno::AGAIN | Errno::INTR) = read {
            return read;
        }
    }
    if is_ready(stdin, PollFlags::IN) { rustix::io::read(stdin, chunk) } else { Err(Errno::AGAIN) }
}

fn read_all(chunks: &mpsc::Sender<Vec<u8>>) {
    let stdin = rustix::stdio::stdin();
    let mut chunk = vec![0; READ_CHUNK];
    loop {
        match rustix::io::read(stdin, &mut chunk) {
            Ok(0) => return,
            Ok(count) => {
                if chunks.blocking_send(chunk[..count].to_vec()).is_err() {
                    return;
                }
            }
            Err(Errno::INTR) => {}
            // Another process made stdin non-blocking.
            Err(Errno::AGAIN) => wait_for(stdin, PollFlags::IN),
            Err(_) => return,
        }
    }
}

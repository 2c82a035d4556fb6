//! An in-memory pipe, for children that are tasks of this process. It has the properties of a system pipe
//! that the daemon relies on: a limited capacity, a writer that knows how many bytes are unread, and that
//! learns at once when the reader is gone.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// The capacity of a Linux pipe, in bytes.
const CAPACITY: usize = 64 * 1024;

#[derive(Debug, Default)]
struct Pipe {
    // A leaf lock: held to move bytes or to read the state.
    state: Mutex<PipeState>,
    /// Notified when the reader has read something or is gone.
    read: Notify,
}

#[derive(Debug, Default)]
struct PipeState {
    bytes: VecDeque<u8>,
    is_reader_gone: bool,
    is_writer_gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl PipeState {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        if self.is_reader_gone {
            return Err(Errno::PIPE);
        }
        let room = CAPACITY - self.bytes.len();
        if room == 0 {
            return Err(Errno::AGAIN);
        }
        let count = bytes.len().min(room);
        self.bytes.extend(&bytes[..count]);
        self.reader.take().into_iter().for_each(Waker::wake);
        Ok(count)
    }
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock().expect("BUG: a copy panicked")
    }
}

/// The writing end. Dropping it ends the stream for the reader.
#[derive(Debug)]
pub struct PipeWriter(Arc<Pipe>);

/// The reading end.
#[derive(Debug)]
pub struct PipeReader(Arc<Pipe>);

pub(super) fn memory_pipe() -> (PipeWriter, PipeReader) {
    let pipe = Arc::<Pipe>::default();
    (PipeWriter(pipe.clone()), PipeReader(pipe))
}

impl PipeWriter {
    /// Writes as much as fits; `AGAIN` if nothing fits, `PIPE` if the reader is gone.
    pub(super) fn try_write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.0.lock().write(bytes)
    }

    /// The number of unread bytes.
    pub(super) fn unread(&self) -> u64 {
        self.0.lock().bytes.len() as u64
    }

    /// Resolves when there is room, or the reader is gone.
    pub(super) async fn room(&self) {
        self.wait_until(|pipe| pipe.is_reader_gone || pipe.bytes.len() < CAPACITY).await;
    }

    /// Resolves when the reader is gone.
    pub(super) async fn closed(&self) {
        self.wait_until(|pipe| pipe.is_reader_gone).await;
    }

    async fn wait_until(&self, is_so: impl Fn(&PipeState) -> bool) {
        loop {
            let read = self.0.read.notified();
            if is_so(&self.0.lock()) {
                return;
            }
            read.await;
        }
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        let mut pipe = self.0.lock();
        pipe.is_writer_gone = true;
        if let Some(reader) = pipe.reader.take() {
            reader.wake();
        }
    }
}

impl AsyncWrite for PipeWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut pipe = self.0.lock();
        match pipe.write(bytes) {
            Err(Errno::AGAIN) => {
                pipe.writer = Some(cx.waker().clone());
                Poll::Pending
            }
            written => Poll::Ready(written.map_err(Into::into)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// A pipe ends when its writer is dropped.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for PipeReader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut pipe = self.0.lock();
        if pipe.bytes.is_empty() {
            if pipe.is_writer_gone {
                return Poll::Ready(Ok(()));
            }
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let (first, _) = pipe.bytes.as_slices();
        let count = first.len().min(buffer.remaining());
        buffer.put_slice(&first[..count]);
        pipe.bytes.drain(..count);
        let writer = pipe.writer.take();
        drop(pipe);
        writer.into_iter().for_each(Waker::wake);
        self.0.read.notify_waiters();
        Poll::Ready(Ok(()))
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        let writer = {
            let mut pipe = self.0.lock();
            pipe.is_reader_gone = true;
            pipe.writer.take()
        };
        writer.into_iter().for_each(Waker::wake);
        self.0.read.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn all_bytes_arrive_in_order_and_then_the_end() {
        let (mut writer, mut reader) = memory_pipe();
        let sent: Vec<u8> = (0..3 * CAPACITY).map(|number| (number % 251) as u8).collect();
        let expected = sent.clone();
        let writing = async move { writer.write_all(&sent).await };
        let mut received = Vec::new();
        let (written, read) = tokio::join!(writing, reader.read_to_end(&mut received));
        assert!(written.is_ok() && read.is_ok() && received == expected);
    }

    #[tokio::test]
    async fn a_writer_learns_that_nobody_reads() {
        let (writer, reader) = memory_pipe();
        assert_eq!(writer.try_write(&vec![0; CAPACITY + 1]), Ok(CAPACITY));
        assert_eq!((writer.try_write(b"x"), writer.unread()), (Err(Errno::AGAIN), CAPACITY as u64));
        let gone = async move {
            tokio::task::yield_now().await;
            drop(reader);
        };
        tokio::join!(writer.closed(), writer.room(), gone);
        assert_eq!(writer.try_write(b"x"), Err(Errno::PIPE));
    }
}

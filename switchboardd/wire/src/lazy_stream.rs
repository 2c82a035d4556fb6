//! A unix connection that wakes its owner only when there is something to read.
//!
//! The kernel reports a connection as writable each time the peer has read from it, so registering for both
//! directions wakes the loop once more per message, for nothing: a third of all wake-ups of a call, on both
//! ends of the hop. Here a write is tried at once, which nearly always succeeds. Only if the socket is full
//! does it register for writability, with a second descriptor that is closed afterwards.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::Shutdown;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Bytes per read if the caller's buffer is large: more than a socket holds.
const LARGE_READ: usize = 256 * 1024;

/// Bytes per read otherwise.
const SMALL_READ: usize = 16 * 1024;

/// Pause before a write is retried if its socket cannot be registered.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

thread_local! {
    /// Every connection reads into this buffer first, then copies the few bytes that came. Reading into the
    /// caller's larger buffer would require zeroing it, which costs more.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
pub struct LazyUnixStream {
    stream: AsyncFd<OwnedFd>,
    /// Set while a write waits for room.
    write_wait: Option<WriteWait>,
}

#[derive(Debug)]
enum WriteWait {
    Watched(AsyncFd<OwnedFd>),
    /// No descriptor was available to register: retried after a pause.
    Unwatched(Pin<Box<Sleep>>),
}

impl LazyUnixStream {
    /// Takes over a connection from the runtime.
    pub fn new(stream: tokio::net::UnixStream) -> io::Result<Self> {
        let stream = watch(stream.into_std()?.into(), Interest::READABLE)?;
        Ok(Self { stream, write_wait: None })
    }

    /// Whether the peer has hung up or sent something unexpected, as far as the runtime knows. This may
    /// consume a byte, so the connection is unusable if it returns true.
    pub fn became_readable(&mut self) -> bool {
        let mut nobody = Context::from_waker(std::task::Waker::noop());
        let Poll::Ready(Ok(mut ready)) = self.stream.poll_read_ready(&mut nobody) else { return false };
        // The reported data may have been read already.
        let stirred = rustix::io::read(ready.get_inner(), &mut [0; 1]) != Err(Errno::AGAIN);
        if !stirred {
            ready.clear_ready();
        }
        stirred
    }

    /// Reads into the spare capacity of `buffer`, which must not be empty; returns the number of bytes.
    /// For a body of known length: neither does it clear the buffer, nor copy what came.
    pub async fn read_into(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        loop {
            let mut ready = self.stream.readable().await?;
            let room = buffer.capacity() - buffer.len();
            match rustix::io::read(ready.get_inner(), spare_capacity(buffer)) {
                Ok(count) => {
                    if 0 < count && count < room {
                        ready.clear_ready();
                    }
                    return Ok(count);
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// `length`: how many bytes `send` would like to write.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        length: usize,
        send: impl Fn(&OwnedFd) -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match send(self.stream.get_ref()) {
                Err(Errno::AGAIN) => {}
                Err(Errno::INTR) => continue,
                sent => {
                    // After a partial write the socket is full, so the next one waits, too.
                    if sent.is_ok_and(|count| count == length) {
                        self.write_wait = None;
                    }
                    return Poll::Ready(Ok(sent?));
                }
            }
            let stream = &self.stream;
            let room = self.write_wait.get_or_insert_with(|| {
                let other = stream.get_ref().try_clone().and_then(|other| watch(other, Interest::WRITABLE));
                other.map_or_else(|_| WriteWait::Unwatched(Box::pin(sleep(RETRY_PAUSE))), WriteWait::Watched)
            });
            match room {
                WriteWait::Watched(room) => ready!(room.poll_write_ready(cx))?.clear_ready(),
                WriteWait::Unwatched(pause) => {
                    ready!(pause.as_mut().poll(cx));
                    self.write_wait = None;
                }
            }
        }
    }
}

/// Registers a descriptor, which must stay the same while the value lives.
#[expect(
    deprecated,
    reason = "what replaces it is unsafe, for the sake of values that change their descriptor"
)]
pub fn watch<T: AsFd + AsRawFd>(fd: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(fd, interest)
}

impl AsyncRead for LazyUnixStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.stream.poll_read_ready(cx))?;
            let size =
                buffer.remaining().min(if buffer.remaining() > SMALL_READ { LARGE_READ } else { SMALL_READ });
            let read = if size > SMALL_READ {
                // A caller with this much room expects it to be filled.
                let read = rustix::io::read(ready.get_inner(), buffer.initialize_unfilled_to(size));
                read.inspect(|count| buffer.advance(*count))
            } else {
                READ_BUFFER.with_borrow_mut(|landing| {
                    if landing.is_empty() {
                        // Untouched zero pages take no memory.
                        *landing = vec![0; SMALL_READ];
                    }
                    let count = rustix::io::read(ready.get_inner(), &mut landing[..size])?;
                    buffer.put_slice(&landing[..count]);
                    Ok(count)
                })
            };
            match read {
                Ok(count) => {
                    // Everything was read, so wait for the next event. An end of stream stays ready.
                    if 0 < count && count < size {
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

impl AsyncWrite for LazyUnixStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(cx, bytes.len(), |stream| rustix::io::write(stream, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        self.poll_send(cx, length, |stream| rustix::io::writev(stream, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(rustix::net::shutdown(self.stream.get_ref(), Shutdown::Write)?))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn pair() -> (LazyUnixStream, LazyUnixStream) {
        let (one, other) = tokio::net::UnixStream::pair().unwrap();
        (LazyUnixStream::new(one).unwrap(), LazyUnixStream::new(other).unwrap())
    }

    #[tokio::test]
    async fn a_large_write_completes_when_there_is_room() {
        let (mut here, mut there) = pair();
        let sent: Vec<u8> = (0..4_000_000_u32).map(|number| (number % 251) as u8).collect();
        let expected = sent.clone();
        let writer = tokio::spawn(async move {
            here.write_all(&sent).await.unwrap();
            assert!(here.write_wait.is_none());
        });
        let mut received = Vec::new();
        there.read_to_end(&mut received).await.unwrap();
        writer.await.unwrap();
        assert!(received == expected);
    }

    #[tokio::test]
    async fn the_end_after_the_last_bytes_is_seen() {
        let (mut here, mut there) = pair();
        here.write_all(b"last words").await.unwrap();
        drop(here);
        let mut received = [0; 64];
        assert_eq!(there.read(&mut received).await.unwrap(), 10);
        assert_eq!(there.read(&mut received).await.unwrap(), 0);
        assert!(there.became_readable());
    }

    #[tokio::test]
    async fn an_idle_connection_is_not_readable() {
        let (mut here, mut there) = pair();
        assert!(!here.became_readable());
        there.write_all(b"x").await.unwrap();
        tokio::task::yield_now().await;
        let mut received = [0; 64];
        assert_eq!(here.read(&mut received).await.unwrap(), 1);
        assert!(!here.became_readable());
    }
}

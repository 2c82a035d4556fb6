//! Accepts connections from a unix socket, a TCP port or a channel in this process, with what each knows
//! about its peer.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use switchboard_wire::lazy_stream::LazyUnixStream;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::mpsc;

/// Bytes that an in-memory connection holds in each direction, as a unix socket does.
const MEMORY_BUFFER: usize = 208 * 1024;
/// In-memory connections that wait to be accepted.
const MEMORY_BACKLOG: usize = 128;

#[derive(Debug)]
pub enum Listener {
    Socket(UnixListener),
    Tcp(TcpListener),
    InMemory(MemoryListener),
}

/// Where a connection came from.
#[derive(Debug, Clone)]
pub enum PeerAddress {
    Unix,
    /// Our own address, as the peer reached it.
    Tcp(SocketAddr),
}

/// The peer of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    pub address: PeerAddress,
    /// The peer's user and process, known only on the unix socket.
    pub uid: Option<u32>,
    pub pid: Option<u32>,
}

impl Peer {
    /// A process of user `uid`, on the unix socket.
    pub fn process(uid: u32, pid: Option<u32>) -> Self {
        Self { address: PeerAddress::Unix, uid: Some(uid), pid }
    }

    /// A client that connected to the TCP address `local`.
    pub fn tcp(local: SocketAddr) -> Self {
        Self { address: PeerAddress::Tcp(local), uid: None, pid: None }
    }
}

/// The end of an in-memory listener that a server accepts from.
#[derive(Debug)]
pub struct MemoryListener(mpsc::Receiver<(DuplexStream, Peer)>);

/// Opens connections to an in-memory listener.
#[derive(Debug, Clone)]
pub struct MemoryConnector(mpsc::Sender<(DuplexStream, Peer)>);

impl MemoryListener {
    pub fn new() -> (MemoryConnector, Self) {
        let (connector, listener) = mpsc::channel(MEMORY_BACKLOG);
        (MemoryConnector(connector), Self(listener))
    }
}

impl MemoryConnector {
    /// Connects as `peer` once the backlog has room. Fails if the listener was dropped.
    pub async fn connect(&self, peer: Peer) -> io::Result<DuplexStream> {
        let (ours, theirs) = tokio::io::duplex(MEMORY_BUFFER);
        let refused = |_| io::Error::from(io::ErrorKind::ConnectionRefused);
        self.0.send((theirs, peer)).await.map_err(refused)?;
        Ok(ours)
    }
}

impl Listener {
    pub(super) async fn accept(&mut self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Socket(listener) => {
                let (stream, _) = listener.accept().await?;
                let credentials = stream.peer_cred().ok();
                let peer = Peer {
                    address: PeerAddress::Unix,
                    uid: credentials.map(|peer| peer.uid()),
                    pid: credentials.and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok()),
                };
                Ok((Stream::Unix(LazyUnixStream::new(stream)?), peer))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                let local = listener.local_addr()?;
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Peer::tcp(local)))
            }
            Self::InMemory(MemoryListener(connections)) => match connections.recv().await {
                Some((stream, peer)) => Ok((Stream::Memory(stream), peer)),
                // All connectors were dropped.
                None => std::future::pending().await,
            },
        }
    }

    /// Whether only local processes can connect. Such connections take a permit before they are accepted.
    pub(super) fn is_socket(&self) -> bool {
        !matches!(self, Self::Tcp(_))
    }
}

/// An accepted connection. One type for all, so that the HTTP server is compiled once.
pub(super) enum Stream {
    Unix(LazyUnixStream),
    Tcp(TcpStream),
    Memory(DuplexStream),
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Memory(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Memory(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Memory(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    #[inline]
    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Unix(stream) => stream.is_write_vectored(),
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Memory(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Memory(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Memory(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

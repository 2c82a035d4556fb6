//! One HTTP/1.1 exchange on a unix socket, and a small pool of idle connections.
//!
//! Knows heads, lengths and the hop's headers. Does not retry an exchange that may have reached the daemon,
//! and does not parse bodies.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use switchboard_wire::hop::{self, Draining};
use switchboard_wire::lazy_stream::LazyUnixStream;
use switchboard_wire::peer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

/// Idle connections kept for the life of the session: few enough to cost nothing.
const MIN_IDLE_CONNECTIONS: usize = 4;

/// Further idle connections are kept this long, because a host with many calls in flight often sends more
/// soon.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Longer bodies are read into memory of their own.
const LONG_BODY: usize = 64 * 1024;

/// A longer head cannot come from the daemon.
const MAX_HEAD: usize = 16 * 1024;

/// Nor can one with more headers.
const MAX_HEADERS: usize = 32;

#[derive(Debug, Clone)]
pub(crate) struct DaemonRequest {
    pub(crate) path: &'static str,
    pub(crate) session: Option<Arc<str>>,
    pub(crate) seq: Option<u64>,
    pub(crate) body: Bytes,
    /// Longer answers are not read, see [`AnswerBody::TooLong`].
    pub(crate) limit: usize,
}

#[derive(Debug)]
pub(crate) struct DaemonAnswer {
    pub(crate) status: u16,
    /// The mailbox message up to which the relay must write to the host before this answer.
    pub(crate) mailbox: u64,
    pub(crate) draining: Option<Draining>,
    /// The token of a list of tools, for the next daemon.
    pub(crate) shown: Option<Box<str>>,
    pub(crate) body: AnswerBody,
}

#[derive(Debug)]
pub(crate) enum AnswerBody {
    Whole(Bytes),
    TooLong { bytes: u64 },
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum PostError {
    /// The connection could not be opened.
    NoConnection(io::Error),
    /// The request was not fully written, so the daemon cannot have acted on it.
    Unsent(io::Error),
    /// The request was written, then the connection ended without an answer.
    Lost(io::Error),
}

impl std::fmt::Display for PostError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::NoConnection(error) | Self::Unsent(error) | Self::Lost(error)) = self;
        error.fmt(f)
    }
}

impl PostError {
    /// This process, or the machine, has no descriptor left. Says nothing about the daemon.
    pub(crate) fn is_shortage(&self) -> bool {
        matches!(self, Self::NoConnection(error) if is_shortage(error))
    }
}

pub(crate) fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: LazyUnixStream,
    buffer: BytesMut,
}

impl Connection {
    /// Connects, and checks that the peer runs as our own user.
    pub(crate) async fn open(socket: &Path) -> io::Result<Self> {
        Ok(Self { stream: LazyUnixStream::new(peer::connect(socket).await?)?, buffer: BytesMut::new() })
    }

    /// Sends one request and reads its answer. The second value says whether the connection can be reused.
    pub(crate) async fn exchange(
        &mut self,
        request: &DaemonRequest,
    ) -> Result<(DaemonAnswer, bool), PostError> {
        self.send(request).await.map_err(PostError::Unsent)?;
        self.receive(request.limit).await.map_err(PostError::Lost)
    }

    async fn send(&mut self, request: &DaemonRequest) -> io::Result<()> {
        // Chained buffers are sent with one `writev`.
        let mut bytes = head(request).chain(request.body.clone());
        self.stream.write_all_buf(&mut bytes).await
    }

    async fn receive(&mut self, limit: usize) -> io::Result<(DaemonAnswer, bool)> {
        let head = loop {
            if self.buffer.is_empty() {
                self.fill().await?;
            }
            match Head::parse(&self.buffer)? {
                Some(head) if head.status < 200 => self.buffer.advance(head.bytes),
                Some(head) => break head,
                None => self.fill().await?,
            }
        };
        self.buffer.advance(head.bytes);
        if head.length > limit {
            // The daemon has done its work, so closing costs only the connection.
            let body = AnswerBody::TooLong { bytes: head.length as u64 };
            return Ok((head.answer(body), false));
        }
        if head.length > LONG_BODY {
            let body = self.receive_long(head.length).await?;
            let reusable = head.keep_alive && self.buffer.is_empty() && body.len() == head.length;
            return Ok((head.answer(AnswerBody::Whole(body.slice(..head.length))), reusable));
        }
        self.buffer.reserve(head.length.saturating_sub(self.buffer.len()));
        while self.buffer.len() < head.length {
            self.fill().await?;
        }
        let body = AnswerBody::Whole(self.buffer.split_to(head.length).freeze());
        let reusable = head.keep_alive && self.buffer.is_empty();
        Ok((head.answer(body), reusable))
    }

    /// Reads a body of at least `length` bytes into memory of its own, which is freed with it.
    async fn receive_long(&mut self, length: usize) -> io::Result<Bytes> {
        let mut body = Vec::with_capacity(length);
        let here = self.buffer.len().min(length);
        body.extend_from_slice(&self.buffer.split_to(here));
        while body.len() < length {
            if self.stream.read_into(&mut body).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(body.into())
    }

    async fn fill(&mut self) -> io::Result<()> {
        if self.buffer.capacity() == self.buffer.len() {
            self.buffer.reserve(4096);
        }
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Whether the daemon closed the idle connection, as far as the runtime knows.
    fn is_closed(&mut self) -> bool {
        self.stream.became_readable()
    }
}

/// One exchange, on an idle connection if given. Returns the connection if it can be reused.
pub(crate) async fn post(
    idle: Option<Connection>,
    socket: &Path,
    request: &DaemonRequest,
) -> (Option<Connection>, Result<DaemonAnswer, PostError>) {
    let mut fresh = idle.is_none();
    let mut next = idle;
    loop {
        let mut connection = match next.take() {
            Some(connection) => connection,
            None => match Connection::open(socket).await {
                Ok(connection) => connection,
                Err(error) => return (None, Err(PostError::NoConnection(error))),
            },
        };
        match connection.exchange(request).await {
            Ok((answer, reusable)) => return (reusable.then_some(connection), Ok(answer)),
            // The daemon closed it while it was idle, so it did not read a whole request.
            Err(PostError::Unsent(_)) if !fresh => fresh = true,
            Err(error) => return (None, Err(error)),
        }
    }
}

/// Idle connections; the most recently used is on top.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections {
    connections: Vec<Connection>,
    /// The lowest count since the last [`IdleConnections::trim`]: that many were never needed.
    fewest: usize,
    /// When to trim next.
    due: Option<Instant>,
}

impl IdleConnections {
    pub(crate) fn take(&mut self) -> Option<Connection> {
        while let Some(mut connection) = self.connections.pop() {
            self.fewest = self.fewest.min(self.connections.len());
            if !connection.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    pub(crate) fn put(&mut self, connection: Connection) {
        self.connections.push(connection);
        if self.connections.len() > MIN_IDLE_CONNECTIONS && self.due.is_none() {
            self.due = Some(Instant::now() + IDLE_TIMEOUT);
        }
    }

    /// When [`IdleConnections::trim`] is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Closes the connections that were not needed for a while.
    pub(crate) fn trim(&mut self, now: Instant) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        let unused = self.fewest.min(self.connections.len().saturating_sub(MIN_IDLE_CONNECTIONS));
        self.connections.drain(..unused);
        self.fewest = self.connections.len();
        self.due = (self.fewest > MIN_IDLE_CONNECTIONS).then_some(now + IDLE_TIMEOUT);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

fn head(request: &DaemonRequest) -> Bytes {
    let mut head = String::with_capacity(192);
    let DaemonRequest { path, session, seq, body, .. } = request;
    let mut add = |parts: &[&str]| parts.iter().for_each(|part| head.push_str(part));
    let length = body.len().to_string();
    add(&["POST ", path, " HTTP/1.1\r\nhost: localhost\r\ncontent-length: ", &length, "\r\n"]);
    if let Some(session) = session {
        add(&[hop::SESSION_HEADER, ": ", session, "\r\n"]);
    }
    if let Some(seq) = seq {
        add(&[hop::SEQ_HEADER, ": ", &seq.to_string(), "\r\n"]);
    }
    add(&["\r\n"]);
    head.into()
}

/// The head of an answer.
#[derive(Debug)]
struct Head {
    bytes: usize,
    status: u16,
    length: usize,
    keep_alive: bool,
    mailbox: u64,
    draining: Option<Draining>,
    shown: Option<Box<str>>,
}

impl Head {
    fn parse(buffer: &[u8]) -> io::Result<Option<Self>> {
        let garbled = |why: String| io::Error::new(ErrorKind::InvalidData, why);
        let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            buffer,
            &mut headers,
        );
        let bytes = match parsed {
            Ok(httparse::Status::Complete(bytes)) => bytes,
            Ok(httparse::Status::Partial) if buffer.len() <= MAX_HEAD => return Ok(None),
            Ok(httparse::Status::Partial) => return Err(garbled("the answer's head has no end".to_owned())),
            Err(error) => return Err(garbled(format!("the answer is not HTTP: {error}"))),
        };
        let status = response.code.unwrap_or_default();
        let (mut length, mut keep, mut mailbox, mut draining, mut shown) = (None, true, 0, None, None);
        for header in &*response.headers {
            let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let number = value.parse().map_err(|_| garbled(format!("bad length `{value}`")))?;
                length = Some(number);
            } else if is("transfer-encoding") {
                return Err(garbled(format!(
                    "transfer encoding `{value}` is not supported between shim and daemon"
                )));
            } else if is("connection") {
                keep = !value.eq_ignore_ascii_case("close");
            } else if is(hop::MAILBOX_HEADER) {
                mailbox = value.parse().unwrap_or_default();
            } else if is(hop::DRAINING_HEADER) {
                draining = Some(Draining::parse(value));
            } else if is(hop::SHOWN_HEADER) {
                shown = Some(value.into());
            }
        }
        let bodiless = status < 200 || matches!(status, 202 | 204 | 304);
        let length = match length {
            Some(length) => length,
            None if bodiless => 0,
            None => return Err(garbled("the answer does not say how long it is".to_owned())),
        };
        Ok(Some(Self { bytes, status, length, keep_alive: keep, mailbox, draining, shown }))
    }

    fn answer(&self, body: AnswerBody) -> DaemonAnswer {
        let Self { status, mailbox, draining, .. } = *self;
        DaemonAnswer { status, mailbox, draining, shown: self.shown.clone(), body }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixStream;

    use super::*;

    #[test]
    fn a_partial_head_is_not_parsed() {
        let text = b"HTTP/1.1 503 Busy\r\nContent-Length: 3\r\nSwitchboard-Draining: stop\r\nSwitchboard-Mailbox: 17\r\n\r\nabc";
        for end in 0..text.len() - 3 {
            assert!(Head::parse(&text[..end]).unwrap().is_none(), "{end}");
        }
        let head = Head::parse(text).unwrap().unwrap();
        assert_eq!((head.status, head.length, head.mailbox, head.keep_alive), (503, 3, 17, true));
        assert_eq!((head.draining, head.bytes), (Some(Draining::Stop), text.len() - 3));
    }

    #[tokio::test]
    async fn unused_idle_connections_are_closed() {
        let mut others = Vec::new();
        let mut idle = IdleConnections::default();
        for _ in 0..10 {
            let (one, other) = UnixStream::pair().unwrap();
            others.push(other);
            idle.put(Connection { stream: LazyUnixStream::new(one).unwrap(), buffer: BytesMut::new() });
        }
        // Three of them are in constant use.
        let trimmed = |idle: &mut IdleConnections| {
            let used: Vec<_> = (0..3).map_while(|_| idle.take()).collect();
            used.into_iter().for_each(|connection| idle.put(connection));
            if let Some(due) = idle.due() {
                idle.trim(due);
            }
            idle.connections.len()
        };
        assert_eq!(trimmed(&mut idle), 10);
        assert_eq!(trimmed(&mut idle), MIN_IDLE_CONNECTIONS);
        assert_eq!((trimmed(&mut idle), idle.due()), (MIN_IDLE_CONNECTIONS, None));
    }

    #[test]
    fn a_body_of_unknown_length_is_refused() {
        assert!(Head::parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(Head::parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
        assert_eq!(Head::parse(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().unwrap().length, 0);
    }
}

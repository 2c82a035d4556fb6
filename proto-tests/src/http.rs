//! A small HTTP client that can also send what no proper client would: raw bytes in; status, headers and body
//! out, over the unix socket or TCP.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::wait::TEST_TIMEOUT;

/// An address that the daemon listens on.
#[derive(Debug, Clone)]
pub enum Endpoint {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A connection that stays open between requests.
pub struct Connection {
    stream: BufReader<Stream>,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// One request as a proper client would send it; every part can be replaced.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Endpoint {
    pub fn unix(path: &Path) -> Self {
        Self::Unix(path.to_owned())
    }

    pub fn connect(&self) -> io::Result<Connection> {
        let stream = match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(TEST_TIMEOUT))?;
                Stream::Unix(stream)
            }
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(TEST_TIMEOUT))?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
        };
        Ok(Connection { stream: BufReader::new(stream) })
    }

    /// The Host header for this address.
    pub fn host(&self) -> String {
        match self {
            Self::Unix(_) => "localhost".into(),
            Self::Tcp(address) => address.to_string(),
        }
    }

    #[track_caller]
    pub fn send(&self, request: &Request) -> Response {
        self.raw(&request.bytes(&self.host()), request.method == "HEAD")
    }

    /// Sends raw bytes and reads one response.
    #[track_caller]
    pub fn raw(&self, bytes: &[u8], head: bool) -> Response {
        let mut connection = self.connect().expect("a connection to the daemon");
        connection.write(bytes);
        connection.response(head).expect("a response")
    }

    /// Sends a GET to a daemon that may be ending; `None` on failure.
    pub fn try_get(&self, target: &str) -> Option<Response> {
        let mut connection = self.connect().ok()?;
        connection.write(&Request::new("GET", target).bytes(&self.host()));
        connection.response(false).ok()
    }

    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        self.send(&Request::new("GET", target))
    }

    #[track_caller]
    pub fn post(&self, target: &str, body: &str) -> Response {
        self.send(&Request::new("POST", target).body(body))
    }
}

impl Connection {
    /// Ignores errors: if the daemon closed early, reading its response fails.
    pub fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// Writes what there is room for, without waiting.
    pub fn write_some(&mut self, bytes: &[u8]) {
        match self.stream.get_mut() {
            Stream::Unix(stream) => {
                let _ = stream.set_nonblocking(true);
                let _ = stream.write(bytes);
                let _ = stream.set_nonblocking(false);
            }
            Stream::Tcp(stream) => {
                let _ = stream.set_nonblocking(true);
                let _ = stream.write(bytes);
                let _ = stream.set_nonblocking(false);
            }
        }
    }

    pub fn set_timeout(&mut self, timeout: Duration) {
        match self.stream.get_mut() {
            Stream::Unix(stream) => stream.set_read_timeout(Some(timeout)),
            Stream::Tcp(stream) => stream.set_read_timeout(Some(timeout)),
        }
        .unwrap();
    }

    /// Reads one response and leaves the connection open.
    pub fn response(&mut self, head: bool) -> io::Result<Response> {
        let mut response = self.head()?;
        if !head && response.status != 204 && response.status != 304 && response.status >= 200 {
            self.body(&mut response)?;
        }
        Ok(response)
    }

    /// Reads status and headers of a response, not its body.
    pub fn head(&mut self) -> io::Result<Response> {
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("not a status line: {status_line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Response { status, headers, body: Vec::new() })
    }

    /// The next chunk of a chunked body; empty at its end.
    pub fn chunk(&mut self) -> io::Result<Vec<u8>> {
        let size = self.line()?;
        let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; size];
        self.stream.read_exact(&mut chunk)?;
        self.line()?;
        Ok(chunk)
    }

    /// Reads the body of a response after its head.
    pub fn rest(&mut self, response: &mut Response) -> io::Result<()> {
        self.body(response)
    }

    fn body(&mut self, response: &mut Response) -> io::Result<()> {
        if let Some(length) = response.header("content-length").and_then(|length| length.parse().ok()) {
            response.body.resize(length, 0);
            return self.stream.read_exact(&mut response.body);
        }
        if response.header("transfer-encoding") != Some("chunked") {
            self.stream.read_to_end(&mut response.body)?;
            return Ok(());
        }
        loop {
            let chunk = self.chunk()?;
            if chunk.is_empty() {
                return Ok(());
            }
            response.body.extend_from_slice(&chunk);
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        if self.stream.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Request {
    pub fn new(method: &str, target: &str) -> Self {
        Self { method: method.into(), target: target.into(), headers: Vec::new(), body: Vec::new() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn bearer(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_owned();
        self
    }

    /// The bytes to send; adds `Host` and `Content-Length` if they are missing.
    pub fn bytes(&self, host: &str) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        let given = |name: &str| self.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        if !given("host") {
            head += &format!("Host: {host}\r\n");
        }
        if !given("content-length")
            && !given("transfer-encoding")
            && (!self.body.is_empty() || self.method == "POST")
        {
            head += &format!("Content-Length: {}\r\n", self.body.len());
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        [head.as_bytes(), &self.body].concat()
    }
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.text()))
    }
}

//! The timed loops. They do as little as a host can: whole writes, whole reads, no parsing.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;

/// A call without its id, which comes first in the message.
#[derive(Debug, Clone)]
pub struct Call {
    rest: String,
}

impl Call {
    /// A call directly to the child.
    pub fn direct(tool: &str, arguments: &str) -> Self {
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
        Self::method("tools/call", &params)
    }

    /// A call to the suite of child `name`.
    pub fn suite(name: &str, tool: &str, arguments: &str) -> Self {
        Self::method("tools/call", &crate::shim::call_params(name, tool, arguments))
    }

    pub fn method(method: &str, params: &str) -> Self {
        Self { rest: format!(r#","method":"{method}","params":{params}}}"#) }
    }

    pub fn push(&self, id: u64, out: &mut Vec<u8>) {
        use std::io::Write;
        write!(out, r#"{{"jsonrpc":"2.0","id":{id}{}"#, self.rest).unwrap();
    }

    fn push_line(&self, id: u64, out: &mut Vec<u8>) {
        self.push(id, out);
        out.push(b'\n');
    }
}

/// One end of a conversation over a pair of pipes.
pub struct Wire {
    pub input: OwnedFd,
    pub output: OwnedFd,
    buffer: Vec<u8>,
    line: Vec<u8>,
    next_id: u64,
}

/// A host hears this when a server runs for the first time: its suite's description changed.
const NEWS: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";

impl Wire {
    pub fn new(input: OwnedFd, output: OwnedFd) -> Self {
        Self { input, output, buffer: vec![0; 256 * 1024], line: Vec::new(), next_id: 1 }
    }

    /// Performs the handshake; returns the answer to `initialize`.
    pub fn initialize(&mut self) -> String {
        let answer = self.ask(&Call::method("initialize", crate::shim::INITIALIZE));
        self.send(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        answer
    }

    /// Makes one call and returns its answer line, which must be a successful result.
    pub fn ask(&mut self, call: &Call) -> String {
        self.line.clear();
        call.push_line(self.next_id, &mut self.line);
        self.next_id += 1;
        write_all(&self.input, &self.line);
        let length = self.receive();
        let answer = String::from_utf8(self.buffer[..length].to_vec()).unwrap();
        assert!(answer.contains("\"result\"") && !answer.contains("\"isError\":true"), "{answer}");
        answer
    }

    fn send(&self, bytes: &[u8]) {
        write_all(&self.input, bytes);
    }

    /// Reads one line into the buffer; returns its length.
    fn receive(&mut self) -> usize {
        let mut filled = 0;
        loop {
            if filled == self.buffer.len() {
                self.buffer.resize(2 * filled, 0);
            }
            let count = rustix::io::read(&self.output, &mut self.buffer[filled..]).unwrap();
            assert!(count > 0, "the other side hung up");
            filled += count;
            if self.buffer[filled - 1] == b'\n' {
                // It may come before the answer or with it.
                if self.buffer[..filled].starts_with(NEWS) {
                    self.buffer.copy_within(NEWS.len()..filled, 0);
                    filled -= NEWS.len();
                } else if self.buffer[..filled].ends_with(NEWS) {
                    filled -= NEWS.len();
                }
                if filled == 0 {
                    continue;
                }
                return filled;
            }
        }
    }

    /// Makes one call after the other; appends how long each took.
    pub fn sequential(&mut self, call: &Call, times: usize, out: &mut Vec<Duration>) {
        for _ in 0..times {
            self.line.clear();
            call.push_line(self.next_id, &mut self.line);
            self.next_id += 1;
            let start = Instant::now();
            write_all(&self.input, &self.line);
            let length = self.receive();
            out.push(start.elapsed());
            assert!(holds_result(&self.buffer[..length.min(256)]), "not a result");
        }
    }

    /// Keeps `window` calls in flight for `time`; returns calls per second.
    pub fn pipelined(&mut self, call: &Call, window: usize, time: Duration) -> f64 {
        let mut sent = 0;
        self.line.clear();
        for _ in 0..window {
            call.push_line(self.next_id, &mut self.line);
            self.next_id += 1;
            sent += 1;
        }
        let start = Instant::now();
        write_all(&self.input, &self.line);
        let mut done = 0;
        let mut at_end = (0, Duration::ZERO);
        while done < sent {
            let count = rustix::io::read(&self.output, &mut self.buffer).unwrap();
            assert!(count > 0, "the other side hung up");
            let answers = memchr::memchr_iter(b'\n', &self.buffer[..count]).count();
            done += answers;
            let elapsed = start.elapsed();
            if elapsed >= time {
                // The loop waits for calls still in flight but does not count them.
                if at_end.0 == 0 {
                    at_end = (done, elapsed);
                }
                continue;
            }
            self.line.clear();
            for _ in 0..answers {
                call.push_line(self.next_id, &mut self.line);
                self.next_id += 1;
            }
            sent += answers;
            if answers > 0 {
                write_all(&self.input, &self.line);
            }
        }
        at_end.0 as f64 / at_end.1.as_secs_f64()
    }
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let count = rustix::io::write(fd, bytes).unwrap();
        bytes = &bytes[count..];
    }
}

fn holds_result(answer: &[u8]) -> bool {
    memchr::memmem::find(answer, b"\"result\"").is_some()
}

/// A keep-alive connection to an HTTP server.
pub struct Http<S> {
    stream: S,
    request: Vec<u8>,
    buffer: Vec<u8>,
}

impl<S: Read + Write> Http<S> {
    /// Every exchange posts `body` to `path`.
    pub fn new(stream: S, path: &str, headers: &str, body: &[u8]) -> Self {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        Self { stream, request, buffer: vec![0; 64 * 1024] }
    }

    pub fn sequential(&mut self, times: usize, out: &mut Vec<Duration>) {
        for _ in 0..times {
            let start = Instant::now();
            let body = self.exchange().unwrap();
            out.push(start.elapsed());
            assert!(holds_result(&self.buffer[body..]), "not a result");
        }
    }

    /// One exchange; returns where the body begins in the buffer.
    fn exchange(&mut self) -> io::Result<usize> {
        self.stream.write_all(&self.request)?;
        let mut filled = 0;
        loop {
            let count = self.stream.read(&mut self.buffer[filled..])?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += count;
            let Some(head) = memchr::memmem::find(&self.buffer[..filled], b"\r\n\r\n") else { continue };
            let mut headers = [httparse::EMPTY_HEADER; 16];
            let mut response = httparse::Response::new(&mut headers);
            response.parse(&self.buffer[..head + 4]).map_err(io::Error::other)?;
            let length = response
                .headers
                .iter()
                .find(|header| header.name.eq_ignore_ascii_case("content-length"))
                .and_then(|header| std::str::from_utf8(header.value).ok()?.parse::<usize>().ok())
                .ok_or_else(|| io::Error::other("no length"))?;
            if filled == head + 4 + length {
                return Ok(head + 4);
            }
        }
    }
}

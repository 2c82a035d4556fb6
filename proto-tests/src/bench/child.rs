//! The benchmark's child: answers as quickly as a child can, so that what is measured is the way to it.
//!
//! One read takes whatever there is; each message gets a write of its own, as real servers do it. It looks for
//! what it needs in the bytes of a message and parses nothing.

use std::io;

use memchr::memmem;
use rustix::io::{read, write};
use rustix::stdio::{stdin, stdout};

use super::catalog;

const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}"#;

/// Serves until its input ends. `ballast`: MiB that it holds, as a server of that size would.
pub fn run(ballast: usize) {
    let held = vec![1_u8; ballast << 20];
    let mut child = Child { list: catalog::list(), filling: Vec::new(), out: Vec::new() };
    let _ = child.serve();
    drop(std::hint::black_box(held));
}

/// Gives back what it gets.
pub fn pong() {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = read(stdin(), &mut buffer) {
        if write(stdout(), &buffer[..count]).is_err() {
            return;
        }
    }
}

struct Child {
    list: String,
    /// What `big` answers with, as long as the longest that was asked for.
    filling: Vec<u8>,
    out: Vec<u8>,
}

impl Child {
    fn serve(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 256 * 1024];
        let mut filled = 0;
        loop {
            let count = read(stdin(), &mut buffer[filled..])?;
            if count == 0 {
                return Ok(());
            }
            filled += count;
            let mut begin = 0;
            while let Some(at) = memchr::memchr(b'\n', &buffer[begin..filled]) {
                self.answer(&buffer[begin..begin + at]);
                begin += at + 1;
                let mut rest = &self.out[..];
                while !rest.is_empty() {
                    rest = &rest[write(stdout(), rest)?..];
                }
                self.out.clear();
            }
            buffer.copy_within(begin..filled, 0);
            filled -= begin;
            if filled == buffer.len() {
                buffer.resize(2 * filled, 0);
            }
        }
    }

    fn answer(&mut self, line: &[u8]) {
        // The id comes before anything that could hold these bytes too, from a host as from Switchboard.
        let Some(id) = value(line, b"\"id\":") else { return };
        self.out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        self.out.extend_from_slice(id);
        self.out.extend_from_slice(br#","result":"#);
        let has = |text: &[u8]| memmem::find(line, text).is_some();
        if has(br#""tools/call""#) {
            self.out.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
            match value(line, b"\"bytes\":").and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok()) {
                Some(bytes) => {
                    if self.filling.len() < bytes {
                        self.filling.resize(bytes, b'x');
                    }
                    self.out.push(b'"');
                    self.out.extend_from_slice(&self.filling[..bytes]);
                    self.out.push(b'"');
                }
                None => self.out.extend_from_slice(value(line, b"\"text\":").unwrap_or(b"\"\"")),
            }
            self.out.extend_from_slice(br#"}],"isError":false}"#);
        } else if has(br#""initialize""#) {
            self.out.extend_from_slice(INITIALIZED.as_bytes());
        } else if has(br#""tools/list""#) {
            self.out.extend_from_slice(self.list.as_bytes());
        } else {
            self.out.extend_from_slice(b"{}");
        }
        self.out.extend_from_slice(b"}\n");
    }
}

/// The plain value behind `key`, up to the comma or bracket that ends it.
fn value<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let rest = &line[memmem::find(line, key)? + key.len()..];
    Some(&rest[..memchr::memchr2(b',', b'}', rest)?])
}

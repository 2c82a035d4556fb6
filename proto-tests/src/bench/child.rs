//! The benchmark's child: a minimal server. One read takes all available input; each message is parsed and
//! gets its own write, as in real servers.

use std::io;

use rustix::io::{read, write};
use rustix::stdio::{stdin, stdout};
use serde_json::{Value, json};

use super::catalog;

const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}"#;

/// What a modern server says about itself.
const DISCOVERED: &str = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#;

/// Serves until its input ends. `ballast`: MiB to allocate, to simulate a server of that size.
pub fn run(ballast: usize, is_modern: bool) {
    let held = vec![1_u8; ballast << 20];
    let mut child = Child { list: catalog::list(), is_modern, filling: Vec::new(), out: Vec::new() };
    let _ = child.serve();
    drop(std::hint::black_box(held));
}

/// Echoes its input.
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
    is_modern: bool,
    /// The text of `big` results, as long as the longest requested so far.
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
        let Ok(message) = serde_json::from_slice::<Value>(line) else { return };
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else { return };
        self.out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        self.out.extend_from_slice(id.to_string().as_bytes());
        self.out.extend_from_slice(br#","result":"#);
        match method {
            "tools/call" => self.call(&message["params"]["arguments"]),
            "server/discover" if self.is_modern => self.out.extend_from_slice(DISCOVERED.as_bytes()),
            "initialize" => self.out.extend_from_slice(INITIALIZED.as_bytes()),
            "tools/list" => self.out.extend_from_slice(self.list.as_bytes()),
            _ => self.out.extend_from_slice(b"{}"),
        }
        self.out.extend_from_slice(b"}\n");
    }

    fn call(&mut self, arguments: &Value) {
        let Some(bytes) = arguments["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok()) else {
            let content = json!([{"type": "text", "text": arguments["text"]}]);
            let result = json!({"content": content, "isError": false});
            return self.out.extend_from_slice(result.to_string().as_bytes());
        };
        if self.filling.len() < bytes {
            self.filling.resize(bytes, b'x');
        }
        self.out.extend_from_slice(br#"{"content":[{"type":"text","text":""#);
        self.out.extend_from_slice(&self.filling[..bytes]);
        self.out.extend_from_slice(br#""}],"isError":false}"#);
    }
}

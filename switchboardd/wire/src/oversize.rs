//! Finds the top-level `id` of a message that is too long or malformed while its bytes stream by, so that the
//! call it answers can fail at once instead of at its deadline. Also finds where a value ends.

use crate::envelope::unquoted;

/// Longer ids are not collected.
const MAX_ID: usize = 256;

#[derive(Debug, Default)]
pub struct IdScan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    position: ScanPosition,
    /// The key or value being collected.
    text: Vec<u8>,
    found: ScannedMessage,
}

/// What was found of a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ScannedMessage {
    /// As written, with its quotes.
    pub id: Option<Box<str>>,
    /// It has a `method`, so it is not a response.
    pub asks: bool,
    /// Its `method` is `tools/call`.
    pub is_call: bool,
    /// It has a `result` or an `error`.
    pub answers: bool,
    /// It has a `jsonrpc` member, of any version.
    pub is_rpc: bool,
    /// It has a key that no response has.
    pub has_more: bool,
}

impl ScannedMessage {
    /// Whether it is meant as a response. A line of a log may have an `id` and an `error`, too.
    pub fn is_answer(&self) -> bool {
        !self.asks && (self.is_rpc || (self.answers && !self.has_more))
    }
}

/// The id of a body that is JSON but not a JSON-RPC message, if an answer can carry that id.
pub fn readable_id(body: &[u8]) -> Option<Box<str>> {
    let mut scan = IdScan::default();
    if body.starts_with(b"{") {
        scan.feed(body);
    }
    scan.finish().id.filter(|id| is_answerable(id))
}

/// Whether an answer can carry this id.
pub fn is_answerable(id: &str) -> bool {
    id.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum ScanPosition {
    /// Before or in a key of the outermost object.
    #[default]
    Key,
    /// After the key `id`: the value up to the next comma is collected.
    Id,
    /// After the key `method`: the value is collected.
    Method,
    /// After any other key.
    Other,
}

impl IdScan {
    pub fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            let ScannedMessage { id, asks, answers, is_rpc, has_more, .. } = &self.found;
            let asks = *asks && self.position != ScanPosition::Method;
            // Without `jsonrpc`, a message with another key is not a response.
            if id.is_some() && (asks || (*answers && (*is_rpc || *has_more))) {
                return;
            }
            self.step(byte);
        }
    }

    pub fn finish(self) -> ScannedMessage {
        self.found
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.collect(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.collect(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth > 1 {
                    self.collect(byte);
                }
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.value_ends();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 && self.position == ScanPosition::Key => {
                self.position = ScanPosition::Other;
                match self.text.as_slice() {
                    b"\"id\"" => self.position = ScanPosition::Id,
                    b"\"method\"" => {
                        self.position = ScanPosition::Method;
                        self.found.asks = true;
                    }
                    b"\"result\"" | b"\"error\"" => self.found.answers = true,
                    b"\"jsonrpc\"" => self.found.is_rpc = true,
                    _ => self.found.has_more = true,
                }
                self.text.clear();
            }
            b',' if self.depth == 1 => self.value_ends(),
            byte if byte.is_ascii_whitespace() => {}
            byte => self.collect(byte),
        }
    }

    fn collect(&mut self, byte: u8) {
        if self.depth == 1 && self.position != ScanPosition::Other && self.text.len() <= MAX_ID {
            self.text.push(byte);
        }
    }

    fn value_ends(&mut self) {
        if self.position == ScanPosition::Id && self.text.len() <= MAX_ID && self.found.id.is_none() {
            self.found.id = String::from_utf8(std::mem::take(&mut self.text)).ok().map(Into::into);
        }
        if self.position == ScanPosition::Method {
            // Some hosts write the slash as `\/`.
            let method = std::str::from_utf8(&self.text).ok().and_then(unquoted);
            self.found.is_call = method.as_deref() == Some("tools/call");
        }
        self.text.clear();
        self.position = ScanPosition::Key;
    }
}

/// Finds the end of an object or array while its bytes stream by. Other values have no end.
#[derive(Debug, Default)]
pub(crate) struct NestingScanner {
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The value is neither an object nor an array.
    other: bool,
}

impl NestingScanner {
    /// The index after the closing byte, if it is among these.
    pub(crate) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                _ if self.other => return None,
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' if self.in_string => self.in_string = false,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth == 1 => return Some(at + 1),
                b'}' | b']' if self.depth > 1 => self.depth -= 1,
                b'"' if self.depth > 0 => self.in_string = true,
                byte => self.other = self.depth == 0 && !byte.is_ascii_whitespace(),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, id: Option<&str>) {
        let mut scan = IdScan::default();
        for byte in message.as_bytes() {
            scan.feed(std::slice::from_ref(byte));
        }
        assert_eq!(scan.finish().id.as_deref(), id, "{message}");
    }

    #[test]
    fn the_outer_id_is_found_wherever_it_stands() {
        check(r#"{"jsonrpc":"2.0","id":5,"result":{"id":9}}"#, Some("5"));
        check(r#"{"result":{"id":9,"x":[{"id":1}]}, "id" : "a\"b" }"#, Some(r#""a\"b""#));
        check(r#"{"result":"\"id\":3,","id":4}"#, Some("4"));
        check(r#"{"result":{"id":9}}"#, None);
        check("no json at all", None);
    }

    #[test]
    fn requests_and_responses_are_distinguished() {
        let found = |message: &str| {
            let mut scan = IdScan::default();
            scan.feed(message.as_bytes());
            let found = scan.finish();
            (found.asks, found.answers, found.is_rpc)
        };
        assert_eq!(
            found(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"result":1}}"#),
            (true, false, true)
        );
        assert_eq!(found(r#"{"id":1,"result":{"method":"a"}}"#), (false, true, false));
        assert_eq!(found(r#"{"params":{"error":1},"id":1,"method":"a"}"#), (true, false, false));
        assert_eq!(found(r#"{"level":"info","id":1}"#), (false, false, false));
    }

    #[test]
    fn a_call_is_distinguished_from_other_requests() {
        let is_call = |message: &str| {
            let mut scan = IdScan::default();
            for byte in message.as_bytes() {
                scan.feed(std::slice::from_ref(byte));
            }
            let found = scan.finish();
            assert_eq!((found.id.as_deref(), found.asks), (Some("1"), true), "{message}");
            found.is_call
        };
        assert!(is_call(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"method":"x"}}"#));
        assert!(is_call(r#"{"params":{"method":"x"}, "method" : "tools\/call" , "id":1}"#));
        assert!(is_call(r#"{"method":"tools/call","id":1}"#));
        assert!(!is_call(r#"{"id":1,"method":"prompts/get","params":{"method":"tools/call"}}"#));
        assert!(!is_call(r#"{"id":1,"method":["tools/call"]}"#));
        assert!(!is_call(r#"{"id":1,"method":"tools/call/x"}"#));
    }

    #[test]
    fn a_line_of_a_log_is_no_answer() {
        let is_answer = |message: &str| {
            let mut scan = IdScan::default();
            scan.feed(message.as_bytes());
            let found = scan.finish();
            assert_eq!(found.id.as_deref(), Some("3"), "{message}");
            found.is_answer()
        };
        assert!(!is_answer(r#"{"level":"warn","id":3,"error":"retrying"}"#));
        assert!(!is_answer(r#"{"id":3,"error":"retrying","level":"warn"}"#));
        assert!(!is_answer(r#"{"level":"warn","id":3}"#));
        assert!(is_answer(r#"{"id":3,"error":"no"}"#));
        assert!(is_answer(r#"{"result":{"level":1},"id":3}"#));
        assert!(is_answer(r#"{"id":3,"result":{"level":1},"jsonrpc":"1.0"}"#));
        assert!(is_answer(r#"{"jsonrpc":"2.0","id":3,"answer":1}"#));
    }

    #[test]
    fn a_value_ends_where_it_is_closed() {
        let end = |text: &str| NestingScanner::default().end(text.as_bytes());
        assert_eq!(end(r#" {"a":["}\"]"]} {}"#), Some(15));
        assert_eq!(end("[]"), Some(2));
        assert_eq!(end(r#"{"a":1"#), None);
        assert_eq!(end(r#"text {}"#), None);
    }
}

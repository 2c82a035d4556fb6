//! Splits bytes into frames and writes frames.
//!
//! Reads newline-delimited JSON and `Content-Length` frames, distinguished message by message, in fragments
//! of any size. Does not parse JSON: a line that starts like JSON is a message here, and its parser decides
//! what a broken one means.

use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};

use crate::oversize::{IdScan, NestingScanner};
use crate::single_line::push_single_line;

/// The longest message that is accepted from a child or a host.
pub const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// A longer header block is not treated as headers.
const MAX_HEADERS: usize = 8 * 1024;

/// How a message is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Line,
    ContentLength,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// Something that looks like a JSON message, without its delimiter.
    Message { body: Bytes, framing: Framing },
    /// A line that is not a message: log output, a banner, half a header.
    Noise(Bytes),
    /// A message over the limit. Its bytes are dropped, but its `id` was collected. `asks`: it has a
    /// `method`; `is_call`: the method is `tools/call`.
    Oversize { id: Option<Box<str>>, asks: bool, is_call: bool, bytes: u64 },
}

#[derive(Debug)]
enum DecoderState {
    Line,
    Headers {
        length: Option<usize>,
        seen: usize,
    },
    /// Ends at `length` or at the end of its value: a wrong length is more common than an unclosed value.
    Body {
        length: usize,
        scanned: usize,
        nest: NestingScanner,
    },
    Skip {
        rest: SkipUntil,
        seen: u64,
        scan: IdScan,
    },
}

#[derive(Debug)]
enum SkipUntil {
    ToNewline,
    Bytes(usize, NestingScanner),
}

/// Feed [`Decoder::buffer`], then take frames until there are none.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    /// Bytes of `buffer` that are known to contain no newline.
    scanned: usize,
    state: DecoderState,
    limit: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(MAX_MESSAGE)
    }
}

impl Decoder {
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, state: DecoderState::Line, limit }
    }

    /// The buffer to append newly read bytes to.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next complete frame, or `None` if more bytes are needed.
    pub fn next_frame(&mut self) -> Option<Frame> {
        loop {
            match &mut self.state {
                DecoderState::Line => {
                    let Some(line) = self.take_line() else {
                        // One byte more may still be the `\r` of a line's end.
                        if self.buffer.len() > self.limit + 1 {
                            self.skip(SkipUntil::ToNewline);
                            continue;
                        }
                        return None;
                    };
                    if content(&line) > self.limit {
                        return Some(oversize(&line));
                    }
                    if let Some(frame) = self.on_line(&line) {
                        return Some(frame);
                    }
                }
                DecoderState::Headers { length, seen } => {
                    let (length, seen) = (*length, *seen);
                    let Some(line) = self.take_line() else {
                        if seen + self.buffer.len() > MAX_HEADERS {
                            self.state = DecoderState::Line;
                            continue;
                        }
                        return None;
                    };
                    if let Some(frame) = self.on_header(&line, length, seen) {
                        return Some(frame);
                    }
                }
                DecoderState::Body { length, scanned, nest } => {
                    let (length, here) = (*length, self.buffer.len().min(*length));
                    let end = nest.end(&self.buffer[*scanned..here]).map(|end| *scanned + end);
                    *scanned = here;
                    let Some(end) = end.or((here == length).then_some(length)) else {
                        if here > self.limit {
                            self.skip(SkipUntil::Bytes(length, NestingScanner::default()));
                            continue;
                        }
                        return None;
                    };
                    self.state = DecoderState::Line;
                    self.scanned = 0;
                    let body = self.buffer.split_to(end).freeze();
                    if body.len() > self.limit {
                        return Some(oversize(&body));
                    }
                    return Some(Frame::Message { body, framing: Framing::ContentLength });
                }
                DecoderState::Skip { .. } => return self.on_skip(),
            }
        }
    }

    /// The last frame at end of input: an unterminated last line still counts.
    pub fn finish(&mut self) -> Option<Frame> {
        let rest = self.buffer.split().freeze();
        self.scanned = 0;
        match std::mem::replace(&mut self.state, DecoderState::Line) {
            DecoderState::Line if content(&rest) > self.limit => Some(oversize(&rest)),
            DecoderState::Line => self.on_line(&rest),
            DecoderState::Headers { .. } | DecoderState::Body { .. } => {
                (!rest.is_empty()).then_some(Frame::Noise(rest))
            }
            DecoderState::Skip { seen, scan, .. } => Some(skipped(scan, seen)),
        }
    }

    fn take_line(&mut self) -> Option<Bytes> {
        let found = memchr::memchr(b'\n', &self.buffer[self.scanned..]);
        let Some(at) = found else {
            self.scanned = self.buffer.len();
            return None;
        };
        let end = self.scanned + at + 1;
        self.scanned = 0;
        Some(self.buffer.split_to(end).freeze())
    }

    fn on_line(&mut self, line: &Bytes) -> Option<Frame> {
        let text = trimmed(line);
        match line.get(text.start) {
            _ if text.is_empty() => None,
            Some(b'{' | b'[') => Some(Frame::Message { body: line.slice(text), framing: Framing::Line }),
            _ => match header(&line[text.clone()]) {
                Some(length) => {
                    self.state = DecoderState::Headers { length, seen: line.len() };
                    None
                }
                None => Some(Frame::Noise(line.slice(text))),
            },
        }
    }

    fn on_header(&mut self, line: &Bytes, length: Option<usize>, seen: usize) -> Option<Frame> {
        let text = trimmed(line);
        if text.is_empty() {
            match length {
                Some(length) => {
                    self.state = DecoderState::Body { length, scanned: 0, nest: NestingScanner::default() }
                }
                None => self.state = DecoderState::Line,
            }
            return None;
        }
        if let Some(value) = header(&line[text.clone()]) {
            let seen = seen + line.len();
            if seen <= MAX_HEADERS {
                self.state = DecoderState::Headers { length: value.or(length), seen };
                return None;
            }
        }
        // It only looked like headers (a log line that starts with such a name): continue with lines.
        self.state = DecoderState::Line;
        if content(line) > self.limit { Some(oversize(line)) } else { self.on_line(line) }
    }

    fn skip(&mut self, rest: SkipUntil) {
        self.scanned = 0;
        self.state = DecoderState::Skip { rest, seen: 0, scan: IdScan::default() };
    }

    fn on_skip(&mut self) -> Option<Frame> {
        let DecoderState::Skip { rest, seen, scan } = &mut self.state else {
            unreachable!("BUG: on_skip outside of a skip");
        };
        let (take, done) = match rest {
            SkipUntil::ToNewline => match memchr::memchr(b'\n', &self.buffer) {
                Some(at) => (at + 1, true),
                None => (self.buffer.len(), false),
            },
            SkipUntil::Bytes(left, nest) => {
                let here = (*left).min(self.buffer.len());
                let end = nest.end(&self.buffer[..here]);
                let take = end.unwrap_or(here);
                *left -= take;
                (take, end.is_some() || *left == 0)
            }
        };
        scan.feed(&self.buffer[..take]);
        *seen += take as u64;
        self.buffer.advance(take);
        if !done {
            return None;
        }
        match std::mem::replace(&mut self.state, DecoderState::Line) {
            DecoderState::Skip { seen, scan, .. } => Some(skipped(scan, seen)),
            _ => unreachable!("BUG: the state was a skip a moment ago"),
        }
    }
}

fn oversize(line: &[u8]) -> Frame {
    let mut scan = IdScan::default();
    scan.feed(line);
    skipped(scan, line.len() as u64)
}

fn skipped(scan: IdScan, bytes: u64) -> Frame {
    let found = scan.finish();
    Frame::Oversize { id: found.id, asks: found.asks, is_call: found.is_call, bytes }
}

/// The length of a line without its line break.
fn content(line: &[u8]) -> usize {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line).len()
}

/// The part of a line between white space; a byte order mark counts as white space.
fn trimmed(line: &[u8]) -> Range<usize> {
    let bom = if line.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let body = &line[bom..];
    let start = bom + (body.len() - body.trim_ascii_start().len());
    let end = start + body.trim_ascii().len();
    start..end
}

/// `Some` for a header line that such a frame can begin with; its length if it is `Content-Length`.
fn header(line: &[u8]) -> Option<Option<usize>> {
    let colon = line.iter().take(32).position(|&byte| byte == b':')?;
    let name = line[..colon].trim_ascii();
    if name.eq_ignore_ascii_case(b"content-length") {
        let digits = std::str::from_utf8(line[colon + 1..].trim_ascii()).ok()?;
        return digits.parse().ok().map(Some);
    }
    name.eq_ignore_ascii_case(b"content-type").then_some(None)
}

/// Appends one message, ready to be written at once. Line breaks between tokens are dropped in line framing
/// (JSON strings cannot contain raw ones), so that a message stays on one line.
pub fn encode(framing: Framing, body: &[u8], out: &mut Vec<u8>) {
    match framing {
        Framing::Line => {
            out.reserve(body.len() + 1);
            push_single_line(body, out);
            out.push(b'\n');
        }
        Framing::ContentLength => {
            out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            out.extend_from_slice(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames(input: &[u8], piece: usize) -> Vec<Frame> {
        let mut decoder = Decoder::new(64);
        let mut out = Vec::new();
        for chunk in input.chunks(piece.max(1)) {
            decoder.buffer().extend_from_slice(chunk);
            while let Some(frame) = decoder.next_frame() {
                out.push(frame);
            }
        }
        out.extend(decoder.finish());
        out
    }

    fn line(body: &'static str) -> Frame {
        Frame::Message { body: Bytes::from_static(body.as_bytes()), framing: Framing::Line }
    }

    fn framed(body: &'static str) -> Frame {
        Frame::Message { body: Bytes::from_static(body.as_bytes()), framing: Framing::ContentLength }
    }

    fn noise(text: &'static str) -> Frame {
        Frame::Noise(Bytes::from_static(text.as_bytes()))
    }

    #[track_caller]
    fn check(input: &str, expect: &[Frame]) {
        for piece in 1..=input.len() {
            assert_eq!(frames(input.as_bytes(), piece), expect, "in pieces of {piece}");
        }
    }

    #[test]
    fn lines_and_length_frames_mix_at_any_split() {
        check(
            "{\"a\":1}\nContent-Length: 7\r\n\r\n{\"b\":2}{\"c\":3}\n",
            &[line("{\"a\":1}"), framed("{\"b\":2}"), line("{\"c\":3}")],
        );
    }

    #[test]
    fn header_names_are_case_insensitive() {
        check(
            "content-type: application/json\r\nCONTENT-LENGTH:2\r\n\r\n{}\r\n[]\r\n",
            &[framed("{}"), line("[]")],
        );
    }

    #[test]
    fn log_lines_blank_lines_and_crlf_are_told_from_messages() {
        check(
            "starting\r\n\r\n\n\x1b[32mok\x1b[0m\n  {\"a\":1}\r\n",
            &[noise("starting"), noise("\x1b[32mok\x1b[0m"), line("{\"a\":1}")],
        );
    }

    #[test]
    fn a_log_line_that_looks_like_a_header_costs_nothing() {
        check("Content-Length: 5\n{\"a\":1}\n", &[line("{\"a\":1}")]);
        check("content-type: html\n\n{\"a\":1}\n", &[line("{\"a\":1}")]);
        check("Content-Length: many\n{}\n", &[noise("Content-Length: many"), line("{}")]);
    }

    #[test]
    fn an_unterminated_last_line_counts() {
        check("{\"a\":1}", &[line("{\"a\":1}")]);
        check("Content-Length: 9\r\n\r\n{\"a\"", &[noise("{\"a\"")]);
    }

    #[test]
    fn a_length_that_is_too_long_costs_nothing() {
        for length in [8, 9, 60, 500] {
            check(
                &format!("Content-Length: {length}\r\n\r\n{{\"b\":2}}\n{{\"c\":3}}\n"),
                &[framed("{\"b\":2}"), line("{\"c\":3}")],
            );
        }
        // A length that is too short leaves a body that the parser rejects.
        check("Content-Length: 4\r\n\r\n{\"b\":2}\n", &[framed("{\"b\""), noise(":2}")]);
    }

    #[test]
    fn a_byte_order_mark_is_no_noise() {
        check("\u{feff}{\"a\":1}\n", &[line("{\"a\":1}")]);
    }

    #[test]
    fn a_message_over_the_limit_is_skipped_and_leaves_its_id() {
        let long = format!("{{\"result\":\"{}\",\"id\":17}}", "x".repeat(100));
        let oversize = |bytes| Frame::Oversize { id: Some("17".into()), asks: false, is_call: false, bytes };
        let expect = [oversize(long.len() as u64 + 1), line("{}")];
        check(&format!("{long}\n{{}}\n"), &expect);
        let expect = [oversize(long.len() as u64), line("{}")];
        check(&format!("Content-Length: {}\r\n\r\n{long}{{}}\n", long.len()), &expect);
    }

    #[test]
    fn the_limit_holds_after_what_looked_like_a_header() {
        let mut decoder = Decoder::new(200);
        decoder.buffer().extend_from_slice(
            format!("Content-Type: x\r\n{{\"id\":7,\"x\":\"{}\"}}\n", "y".repeat(300)).as_bytes(),
        );
        assert!(matches!(decoder.next_frame(), Some(Frame::Oversize { .. })));
    }

    #[test]
    fn the_limit_is_the_same_however_a_line_arrives() {
        for (length, fits) in [(64, true), (65, false)] {
            for end in ["\n", "\r\n", ""] {
                let text = format!("{}{end}", "x".repeat(length));
                for piece in 1..=text.len() {
                    let frames = frames(text.as_bytes(), piece);
                    assert_eq!(
                        matches!(frames.as_slice(), [Frame::Noise(_)]),
                        fits,
                        "{length} {end:?} {piece}: {frames:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn encoding_never_breaks_a_line() {
        let mut out = Vec::new();
        encode(Framing::Line, b"{\r\n  \"a\": \"x\\ny\"\n}", &mut out);
        assert_eq!(out, b"{  \"a\": \"x\\ny\"}\n");
        out.clear();
        encode(Framing::ContentLength, b"{}", &mut out);
        assert_eq!(out, b"Content-Length: 2\r\n\r\n{}");
    }

    proptest! {
        #[test]
        fn any_bytes_at_any_split_give_the_same_frames(
            input in proptest::collection::vec(any::<u8>(), 0..300),
            piece in 1usize..40,
        ) {
            prop_assert_eq!(frames(&input, piece), frames(&input, input.len()));
        }
    }
}

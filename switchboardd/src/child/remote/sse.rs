//! Parses server-sent events from chunks of any size. Pure.
//!
//! Lines end with CR, LF or both. A byte order mark at the start, comments and unknown fields are skipped. An
//! event that the end of the stream cuts off is dropped. The size of an event is bounded: a longer one is
//! skipped to its end and reported as too long.

use std::time::Duration;

use bytes::Bytes;
use memchr::{memchr, memchr2};

/// Longer pauses are cut to this (ms).
const LONGEST_RETRY: u64 = 60_000;
/// A server cannot ask for an immediate reconnect: shorter pauses are raised to this (ms).
const SHORTEST_RETRY: u64 = 100;

/// Limits for the id, which is sent back to the server in a header, and for the event name.
const LONGEST_ID: usize = 1024;
const LONGEST_NAME: usize = 128;

#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// `name` is empty if the stream did not give one.
    Message { name: Box<str>, data: Bytes },
    /// Its bytes were dropped.
    TooLong { bytes: u64 },
}

#[derive(Debug)]
pub struct Parser {
    limit: usize,
    /// The current, incomplete line.
    line: Vec<u8>,
    /// All bytes of the event so far, stored or dropped.
    seen: u64,
    /// The event is over the limit, and its bytes were dropped.
    over: bool,
    after_cr: bool,
    /// How many bytes of a byte order mark have been seen; `None` once the start is past.
    mark: Option<usize>,
    name: String,
    data: Option<Vec<u8>>,
    id: Option<String>,
    last_id: Option<Box<str>>,
    retry: Option<Duration>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Parser {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            seen: 0,
            over: false,
            after_cr: false,
            mark: Some(0),
            name: String::new(),
            data: None,
            id: None,
            last_id: None,
            retry: None,
        }
    }

    /// Returns the events that these bytes complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut rest = self.without_mark(bytes);
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            match memchr2(b'\n', b'\r', rest) {
                Some(end) => {
                    self.keep(&rest[..end]);
                    self.after_cr = rest[end] == b'\r';
                    rest = &rest[end + 1..];
                    events.extend(self.end_line());
                }
                None => {
                    self.keep(rest);
                    break;
                }
            }
        }
        events
    }

    /// The event id from which a broken stream can be resumed.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The size of the current event so far, if it is already over the limit.
    pub fn too_much(&self) -> Option<u64> {
        self.over.then_some(self.seen)
    }

    /// The pause before a reconnect, if the server has set one.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn without_mark<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(seen) = self.mark else { return bytes };
        let expected = &BYTE_ORDER_MARK[seen..];
        let same = bytes.iter().zip(expected).take_while(|(byte, mark)| byte == mark).count();
        if same == expected.len() || same < bytes.len() {
            self.mark = None;
        } else {
            self.mark = Some(seen + same);
        }
        if same < expected.len() && same < bytes.len() && seen + same > 0 {
            // It was no byte order mark after all.
            self.keep(&BYTE_ORDER_MARK[..seen]);
            return bytes;
        }
        &bytes[same..]
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        if self.over {
            // An empty line would end the event.
            if self.line.is_empty() && !bytes.is_empty() {
                self.line.push(b':');
            }
            return;
        }
        let is_comment = self.line.first().or(bytes.first()) == Some(&b':');
        if is_comment && !self.line.is_empty() {
            return;
        }
        let kept = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
        if is_comment {
            self.line.extend_from_slice(&bytes[..bytes.len().min(1)]);
        } else if kept + bytes.len() > self.limit {
            self.over = true;
            (self.line, self.data) = (vec![b':'], None);
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = match memchr(b':', &line) {
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (&line[..], &b""[..]),
        };
        let text = || String::from_utf8_lossy(value).into_owned();
        match field {
            b"data" if !self.over => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"event" if value.len() <= LONGEST_NAME => self.name = text(),
            b"id" if !value.contains(&0) && value.len() <= LONGEST_ID => self.id = Some(text()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let ms = text().parse().unwrap_or(LONGEST_RETRY).clamp(SHORTEST_RETRY, LONGEST_RETRY);
                self.retry = Some(Duration::from_millis(ms));
            }
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<Event> {
        if let Some(id) = self.id.take() {
            self.last_id = Some(id.into());
        }
        let (name, data) = (std::mem::take(&mut self.name), self.data.take());
        let (seen, over) = (std::mem::take(&mut self.seen), std::mem::take(&mut self.over));
        if over {
            return Some(Event::TooLong { bytes: seen });
        }
        // An event without data only sets the id.
        let data = data.filter(|data| !data.is_empty())?;
        Some(Event::Message { name: name.into(), data: data.into() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(name: &str, data: &str) -> Event {
        Event::Message { name: name.into(), data: Bytes::copy_from_slice(data.as_bytes()) }
    }

    fn parse(text: &str) -> (Vec<Event>, Parser) {
        let mut parser = Parser::new(64);
        (parser.feed(text.as_bytes()), parser)
    }

    #[test]
    fn all_line_ends_and_fields_are_parsed() {
        for end in ["\n", "\r", "\r\n"] {
            let text = [
                "\u{feff}: a comment",
                "event: x",
                "data: 1",
                "data:2",
                "data:  3",
                "data",
                "other: y",
                "id: 7",
                "retry: 250",
                "",
                "",
                "data: z",
                "",
                "id: 8",
                "data:",
                "",
                "data: cut off",
            ]
            .join(end);
            let (events, parser) = parse(&text);
            assert_eq!(events, [message("x", "1\n2\n 3\n"), message("", "z")], "{end:?}");
            assert_eq!(parser.last_id(), Some("8"));
            assert_eq!(parser.retry(), Some(Duration::from_millis(250)));
        }
    }

    #[test]
    fn an_event_over_the_limit_is_skipped_to_its_end() {
        let long = "x".repeat(100);
        let (events, _) = parse(&format!("data: {long}\ndata: y\n\n:{long}{long}\ndata: ok\n\n"));
        assert_eq!(events, [Event::TooLong { bytes: 113 }, message("", "ok")]);
        let many = "data: 0123456789\n".repeat(9);
        assert!(matches!(parse(&format!("{many}\n")).0[..], [Event::TooLong { .. }]));
    }

    #[test]
    fn a_retry_that_is_no_number_and_an_id_with_nul_are_ignored() {
        let (_, parser) = parse("retry: 1x\nid: a\0b\n\nretry: 99999999999999999999\n\n");
        assert_eq!(parser.last_id(), None);
        assert_eq!(parser.retry(), Some(Duration::from_secs(60)));
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(
            text in "(\u{feff})?((data|event|id|retry|: c|x)(:| |: )?[a-z0-9é]{0,40}(\r|\n|\r\n){1,3}){0,12}",
            cuts in proptest::collection::vec(0usize..400, 0..8),
        ) {
            let (whole, first) = parse(&text);
            let mut parser = Parser::new(64);
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            cuts.push(bytes.len());
            let (mut at, mut events) = (0, Vec::new());
            for cut in cuts {
                events.extend(parser.feed(&bytes[at..cut]));
                at = cut;
            }
            prop_assert_eq!(events, whole);
            prop_assert_eq!((parser.last_id(), parser.retry()), (first.last_id(), first.retry()));
        }
    }
}

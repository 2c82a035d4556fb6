//! The JSON-RPC 2.0 envelope, parsed without touching its payload.
//!
//! The payload stays a borrowed slice of the frame, so key order, `1.0`, thirty-digit integers and unknown
//! members pass through as written. Ids and tokens are replaced by splicing bytes, never by serialising
//! again.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::check;
use crate::raw::Raw;
use crate::single_line::push_single_line;

pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;

/// One JSON-RPC message; the slices point into the frame it was parsed from.
#[derive(Debug, Clone, Copy)]
pub enum Message<'a> {
    Request {
        id: Raw<'a>,
        method: Method<'a>,
        params: Option<Raw<'a>>,
    },
    Notification {
        method: Method<'a>,
        params: Option<Raw<'a>>,
    },
    /// A result or an error. The id may be `null` if the request could not be read.
    Response {
        id: Raw<'a>,
        outcome: Outcome<'a>,
        /// The other outcome is also present, as `null`.
        both: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub enum Outcome<'a> {
    Result(Raw<'a>),
    Error(Raw<'a>),
}

/// A method name as written in the message.
#[derive(Debug, Clone, Copy)]
pub struct Method<'a>(Raw<'a>);

impl<'a> Method<'a> {
    pub fn name(self) -> Cow<'a, str> {
        string(self.0).expect("BUG: `Message::parse` lets only strings be methods")
    }
}

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Malformed {
    /// Not JSON at all.
    NotJson,
    /// JSON, but not a JSON-RPC message; says what is wrong with it.
    NotMessage(&'static str),
}

impl Malformed {
    pub fn code(&self) -> i64 {
        match self {
            Self::NotJson => PARSE_ERROR,
            Self::NotMessage(_) => INVALID_REQUEST,
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson => f.write_str("Parse error"),
            Self::NotMessage(why) => write!(f, "Invalid Request: {why}"),
        }
    }
}

impl std::error::Error for Malformed {}

/// The members of an envelope.
#[derive(Default)]
struct EnvelopeMembers<'a> {
    jsonrpc: Option<Raw<'a>>,
    id: Option<Raw<'a>>,
    method: Option<Raw<'a>>,
    params: Option<Raw<'a>>,
    result: Option<Raw<'a>>,
    error: Option<Raw<'a>>,
    /// One of them appears twice or a name is no text, so that two readers could see different messages.
    is_ambiguous: bool,
}

impl<'a> EnvelopeMembers<'a> {
    fn add(&mut self, key: Option<&str>, value: Raw<'a>) {
        let Some(key) = key else {
            self.is_ambiguous = true;
            return;
        };
        let member = match key {
            "jsonrpc" => &mut self.jsonrpc,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "params" => &mut self.params,
            "result" => &mut self.result,
            "error" => &mut self.error,
            _ => return,
        };
        self.is_ambiguous |= member.replace(value).is_some();
    }
}

impl<'a> Message<'a> {
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let text = std::str::from_utf8(body).map_err(|_| Malformed::NotJson)?;
        let raw = Raw::unchecked(text);
        if !raw.get().starts_with('{') {
            return Self::of(raw.is_json().then_some(raw).ok_or(Malformed::NotJson)?);
        }
        let mut flat = EnvelopeMembers::default();
        let is_json = check::is_object(raw.get(), |key, value| {
            flat.add(unquoted(key).as_deref(), Raw::unchecked(value))
        });
        if is_json { Self::of_members(&flat) } else { Err(Malformed::NotJson) }
    }

    /// Reads the envelope without checking that the rest is JSON, for a message that is passed on to a peer
    /// that parses it. What does not look like a message is parsed in full.
    pub fn peek(body: &'a [u8]) -> Result<Self, Malformed> {
        let text = std::str::from_utf8(body).map_err(|_| Malformed::NotJson)?;
        match Self::of(Raw::unchecked(text)) {
            // The id is echoed in the answer, so it must be valid.
            Ok(Self::Request { id, .. } | Self::Response { id, .. }) if !id.is_json() => Self::parse(body),
            Ok(message) => Ok(message),
            Err(_) => Self::parse(body),
        }
    }

    fn of(raw: Raw<'a>) -> Result<Self, Malformed> {
        match raw.get().as_bytes().first() {
            Some(b'{') => {
                let mut flat = EnvelopeMembers::default();
                raw.entries().for_each(|(key, value)| flat.add(key.text().as_deref(), value));
                Self::of_members(&flat)
            }
            Some(b'[') => Err(Malformed::NotMessage("batches are not part of this protocol revision")),
            _ => Err(Malformed::NotMessage("not an object")),
        }
    }

    fn of_members(flat: &EnvelopeMembers<'a>) -> Result<Self, Malformed> {
        let wrong = |why| Err(Malformed::NotMessage(why));
        if flat.is_ambiguous {
            return wrong("a member of the envelope appears twice");
        }
        if flat.jsonrpc.is_none_or(|version| version.get() != "\"2.0\"") {
            return wrong("`jsonrpc` must be \"2.0\"");
        }
        let params = flat.params.filter(|params| !params.is_null());
        if params.is_some_and(|params| !params.get().starts_with(['{', '['])) {
            return wrong("`params` must be an object or an array");
        }
        if let Some(method) = flat.method {
            if string(method).is_none() {
                return wrong("`method` must be a string");
            }
            let method = Method(method);
            return match flat.id {
                Some(id) if is_id(id) => Ok(Self::Request { id, method, params }),
                Some(_) => wrong("`id` must be a string or a number"),
                None => Ok(Self::Notification { method, params }),
            };
        }
        let both = flat.result.is_some() && flat.error.is_some();
        let outcome = match (flat.result, flat.error) {
            (Some(result), None) => Outcome::Result(result),
            (None, Some(error)) => Outcome::Error(error),
            // Some programs write both members, one as `null`.
            (Some(result), Some(error)) if error.is_null() => Outcome::Result(result),
            (Some(result), Some(error)) if result.is_null() => Outcome::Error(error),
            (Some(_), Some(_)) => return wrong("both `result` and `error`"),
            (None, None) => return wrong("neither `method`, `result` nor `error`"),
        };
        match flat.id {
            Some(id) if is_id(id) || id.is_null() => Ok(Self::Response { id, outcome, both }),
            Some(_) => wrong("`id` must be a string or a number"),
            None => wrong("an answer without `id`"),
        }
    }
}

fn is_id(id: Raw<'_>) -> bool {
    id.get().starts_with(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
}

/// The text of a JSON string, borrowed if it has no escapes.
pub fn string<'a>(raw: impl Into<Raw<'a>>) -> Option<Cow<'a, str>> {
    unquoted(raw.into().get())
}

pub(crate) fn unquoted(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if crate::raw::has_backslash(inner.as_bytes()) {
        return serde_json::from_str(text).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// `text` as a JSON string.
pub fn quoted(text: &str) -> String {
    if check::is_plain(text.as_bytes()) {
        return ["\"", text, "\""].concat();
    }
    serde_json::to_string(text).expect("BUG: a string always serialises")
}

/// Appends `text` as a JSON string.
pub fn push_quoted(text: &str, out: &mut Vec<u8>) {
    if !check::is_plain(text.as_bytes()) {
        return serde_json::to_writer(out, text).expect("BUG: a string always serialises");
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// The range of `inner`, a slice of `outer`, in it.
pub fn range_of(outer: &[u8], inner: &str) -> Range<usize> {
    let start = (inner.as_ptr() as usize).wrapping_sub(outer.as_ptr() as usize);
    let range = start..start.wrapping_add(inner.len());
    assert!(range.start <= range.end && range.end <= outer.len(), "BUG: not a slice of this message");
    range
}

/// `body` on one line, with the bytes of `range` replaced.
pub fn splice(body: &[u8], range: Range<usize>, with: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() - range.len() + with.len() + 1);
    splice_into(body, range, with, &mut out);
    out
}

/// Like [`splice`], appended to `out`.
pub fn splice_into(body: &[u8], range: Range<usize>, with: &[u8], out: &mut Vec<u8>) {
    push_single_line(&body[..range.start], out);
    out.extend_from_slice(with);
    push_single_line(&body[range.end..], out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn malformed(body: &str, expect: i64) {
        let error = Message::parse(body.as_bytes()).expect_err(body);
        assert_eq!(error.code(), expect, "{body}: {error}");
    }

    #[test]
    fn requests_notifications_and_responses_are_distinguished() {
        let parse = |body: &'static str| Message::parse(body.as_bytes()).unwrap();
        assert!(matches!(parse(r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#), Message::Request { .. }));
        assert!(matches!(parse(r#"{"jsonrpc":"2.0","method":"a"}"#), Message::Notification { .. }));
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","id":1,"error":{}}"#),
            Message::Response { outcome: Outcome::Error(_), .. }
        ));
    }

    #[test]
    fn a_null_result_is_a_result() {
        let message = Message::parse(br#"{"jsonrpc":"2.0","id":1,"result":null}"#).unwrap();
        let Message::Response { outcome: Outcome::Result(result), .. } = message else {
            panic!("{message:?}");
        };
        assert_eq!(result.get(), "null");
    }

    #[test]
    fn a_null_outcome_is_ignored_if_the_other_is_present() {
        let outcome = |members: &str| {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,{members}}}"#);
            match Message::parse(body.as_bytes()) {
                Ok(Message::Response { outcome: Outcome::Result(it), both, .. }) => {
                    Some((true, it.get().to_owned(), both))
                }
                Ok(Message::Response { outcome: Outcome::Error(it), both, .. }) => {
                    Some((false, it.get().to_owned(), both))
                }
                _ => None,
            }
        };
        assert_eq!(outcome(r#""result":{},"error":null"#), Some((true, "{}".to_owned(), true)));
        assert_eq!(outcome(r#""result":null,"error":{}"#), Some((false, "{}".to_owned(), true)));
        assert_eq!(outcome(r#""error":null"#), Some((false, "null".to_owned(), false)));
        assert_eq!(outcome(r#""result":{},"error":{}"#), None);
    }

    #[test]
    fn ids_keep_their_json_type() {
        for id in ["1", "\"1\"", "1.0", "-7", "123456789012345678901234567890"] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
            let Ok(Message::Request { id: parsed, .. }) = Message::parse(body.as_bytes()) else {
                panic!("{body}");
            };
            assert_eq!(parsed.get(), id);
        }
    }

    #[test]
    fn malformed_messages_are_rejected() {
        malformed("{\"incomplete\": json", PARSE_ERROR);
        malformed("", PARSE_ERROR);
        malformed("[1,", PARSE_ERROR);
        malformed("[]", INVALID_REQUEST);
        malformed("[{\"jsonrpc\":\"2.0\",\"method\":\"a\"}]", INVALID_REQUEST);
        malformed(r#"["2.0",1,"a"]"#, INVALID_REQUEST);
        malformed("3", INVALID_REQUEST);
        malformed("{}", INVALID_REQUEST);
        malformed(r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#, INVALID_REQUEST);
        malformed(r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, INVALID_REQUEST);
        malformed(r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#, INVALID_REQUEST);
        malformed(r#"{"jsonrpc":"2.0","id":1,"method":7}"#, INVALID_REQUEST);
        malformed(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":7}"#, INVALID_REQUEST);
        malformed(r#"{"jsonrpc":"2.0","id":1}"#, INVALID_REQUEST);
        malformed(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#, INVALID_REQUEST);
        malformed(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a""#, PARSE_ERROR);
        malformed(r#"{"jsonrpc":"2.0","id":1,"\ud800":2,"method":"a"}"#, INVALID_REQUEST);
    }

    #[test]
    fn peek_agrees_with_parse() {
        for body in [
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":[1,{"y":"}"}]}}"#,
            r#" {"jsonrpc":"2.0","method":"a\"b"} "#,
            r#"{"jsonrpc":"2.0","id":"x","result":null}"#,
            "{}",
            "[]",
            "",
            "{\"incomplete\": json",
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#,
        ] {
            let parsed = format!("{:?}", Message::parse(body.as_bytes()));
            assert_eq!(format!("{:?}", Message::peek(body.as_bytes())), parsed, "{body}");
        }
        // Errors further inside are for the receiver to find.
        let body = br#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":nonsense}}"#;
        assert!(Message::parse(body).is_err() && Message::peek(body).is_ok());
        for id in ["1abc", "1:2", "-", "\"\\q\"", "01"] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
            assert_eq!(Message::peek(body.as_bytes()).err(), Some(Malformed::NotJson), "{id}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_not_fatal() {
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}", "[".repeat(1_000_000));
        malformed(&body, PARSE_ERROR);
    }

    #[test]
    fn splicing_changes_nothing_but_the_hole() {
        let body = br#"{"jsonrpc":"2.0", "x":1.0,"id":7,"result":{"n":123456789012345678901234567890}}"#;
        let Ok(Message::Response { id, .. }) = Message::parse(body) else { panic!() };
        let out = splice(body, range_of(body, id.get()), b"\"host-1\"");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"jsonrpc":"2.0", "x":1.0,"id":"host-1","result":{"n":123456789012345678901234567890}}"#
        );
    }
}

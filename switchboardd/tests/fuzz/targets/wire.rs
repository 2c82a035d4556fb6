//! What hosts and servers send: frames, envelopes, values.

use serde_json::value::RawValue;
use switchboard_wire::envelope::{Message, Outcome, range_of, splice};
use switchboard_wire::framing::{Decoder, Frame};
use switchboard_wire::members::{Members, remove_members};
use switchboard_wire::raw::Raw;

use super::{Target, no_seeds};

const LIMIT: usize = 200;
/// Limit for the headers of a message, and for a line that only looks like a header.
const HEADERS: usize = 8 * 1024;

pub(crate) const FRAMING: Target = Target {
    name: "framing",
    parts: &[
        "{\"id\":1}",
        "{",
        "[",
        "}",
        "\"id\":",
        "\"x\"",
        "\\",
        "\"",
        "7",
        "\n",
        "\r\n",
        "\r\n\r\n",
        "Content-Length: ",
        "content-length:12\r\n\r\n",
        "Content-Type: x\r\n",
        "99999999999999999999",
        "150\r\n\r\n",
        "\u{feff}",
        " ",
    ],
    most: 60,
    seeds: no_seeds,
    run: |input| {
        // The first byte decides into which pieces the rest is split.
        let Some((split, input)) = input.split_first() else { return };
        let whole = frames(input, usize::MAX);
        assert_eq!(frames(input, 1 + usize::from(*split) % 40), whole);
    },
};

/// The frames of an input that arrives in pieces.
fn frames(input: &[u8], most: usize) -> Vec<Frame> {
    let mut decoder = Decoder::new(LIMIT);
    let (mut rest, mut all, mut bytes) = (input, Vec::new(), 0);
    while !rest.is_empty() {
        // Pieces of different lengths.
        let piece = if most == usize::MAX { rest.len() } else { rest.len().min(1 + rest.len() * 7 % most) };
        decoder.buffer().extend_from_slice(&rest[..piece]);
        rest = &rest[piece..];
        while let Some(frame) = decoder.next_frame() {
            all.push(frame);
        }
        assert!(decoder.buffer().len() <= LIMIT + HEADERS + piece);
    }
    all.extend(decoder.finish());
    for frame in &all {
        bytes += match frame {
            Frame::Message { body, .. } => {
                assert!(body.len() <= LIMIT);
                body.len()
            }
            Frame::Noise(line) => line.len(),
            Frame::Oversize { id, .. } => id.as_ref().map_or(0, |id| id.len()),
        };
    }
    assert!(bytes <= input.len());
    all
}

const JSON: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "null",
    "1",
    "-",
    "1e999",
    "\"2.0\"",
    "\"jsonrpc\"",
    "\"id\"",
    "\"method\"",
    "\"params\"",
    "\"result\"",
    "\"error\"",
    "\\ud800",
    "\n",
    "[[[[[[[[[[[[[[[[[[[[",
];

fn messages() -> Vec<String> {
    [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1.0,null]}}}"#,
        r#"{"jsonrpc":"2.0","id":"\u00e4","result":{"content":[{"type":"text","text":"\ud83d\ude00"}]}}"#,
        r#"{"jsonrpc":"2.0","id":-1.5e3,"error":{"code":-32000,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7}}"#,
        "{ \"jsonrpc\" : \"2.0\" ,\n \"id\" : null,\r\n \"result\" : null }",
    ]
    .map(str::to_owned)
    .into()
}

pub(crate) const ENVELOPE: Target = Target {
    name: "envelope",
    parts: JSON,
    most: 40,
    seeds: messages,
    run: |body| {
        let Ok(message) = Message::parse(body) else { return };
        let id = match message {
            Message::Request { id, method, .. } => {
                assert!(method.name().len() <= body.len());
                Some(id)
            }
            Message::Notification { method, .. } => {
                assert!(method.name().len() <= body.len());
                None
            }
            Message::Response { id, outcome: Outcome::Result(_) | Outcome::Error(_), .. } => Some(id),
        };
        if let Some(id) = id {
            let other = splice(body, range_of(body, id.get()), b"\"other\"");
            assert!(other.len() <= body.len() + 7 && !other.contains(&b'\n'));
            Message::parse(&other).unwrap();
        }
    },
};

pub(crate) const VALUES: Target = Target {
    name: "values",
    parts: JSON,
    most: 40,
    seeds: messages,
    run: |input| {
        let raw = Raw::parse(input);
        // Another parser agrees on what is JSON.
        let other = serde_json::from_slice::<&RawValue>(input);
        assert_eq!(raw.map(Raw::get), other.as_deref().ok().map(RawValue::get));
        if let Some(raw) = raw {
            walk(raw, 0);
        }
        // What is not checked leads to no panic either.
        if let Ok(text) = std::str::from_utf8(input) {
            walk(Raw::unchecked(text), 0);
        }
    },
};

/// Looks at every member of every object within.
fn walk(value: Raw<'_>, depth: u32) {
    let is_json = Raw::parse(value.get().as_bytes()).is_some();
    let Some(members) = Members::of(value).filter(|_| depth < 8) else { return };
    for (name, member) in &members.0 {
        assert!(members.get(name).is_some());
        let _ = members.text(name);
        walk(*member, depth + 1);
    }
    if let Some((name, _)) = members.0.first() {
        let rest = remove_members(value, |key| key == name);
        assert!(rest.len() <= value.get().len());
        assert!(!is_json || Raw::parse(rest.as_bytes()).is_some(), "{rest}");
    }
}

//! The text of one JSON value that is known to be valid, and can be searched without parsing it again.
//!
//! A message is validated once, when it arrives (`check.rs`). Later lookups of members walk over text that is known to be
//! correct, which takes a fifth of the instructions of a parse; otherwise each level of a call would parse
//! the same bytes again.

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

use crate::check::{holds, is_json};

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a>(&'a str);

impl<'a> Raw<'a> {
    /// `None` if this is not JSON.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.trim_matches(is_space);
        is_json(text).then_some(Self(text))
    }

    /// Treats an unchecked text as JSON. Walking over it is always safe, but the results are meaningful only
    /// if it is JSON, which the caller must leave to someone else to check.
    pub fn unchecked(text: &'a str) -> Self {
        Self(text.trim_matches(is_space))
    }

    pub fn get(self) -> &'a str {
        self.0
    }

    /// Whether it is valid JSON, for a value from [`Raw::unchecked`].
    pub(crate) fn is_json(self) -> bool {
        is_json(self.0)
    }

    pub fn is_null(self) -> bool {
        self.0 == "null"
    }

    /// The members of an object, keys and values as written; none for any other value.
    pub(crate) fn entries(self) -> MemberIter<'a> {
        let at = if self.0.starts_with('{') { 1 } else { self.0.len() };
        MemberIter { text: self.0, at }
    }
}

impl<'a> From<&'a RawValue> for Raw<'a> {
    fn from(raw: &'a RawValue) -> Self {
        Self(raw.get())
    }
}

impl fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

pub(crate) struct MemberIter<'a> {
    text: &'a str,
    at: usize,
}

/// A key as it is written.
#[derive(Clone, Copy)]
pub(crate) struct MemberKey<'a> {
    quoted: &'a str,
    has_escape: bool,
}

impl<'a> MemberKey<'a> {
    /// Its text, borrowed if it has no escapes; `None` if it is no string.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        if self.has_escape {
            return serde_json::from_str(self.quoted).ok().map(Cow::Owned);
        }
        Some(Cow::Borrowed(self.quoted.strip_prefix('"')?.strip_suffix('"')?))
    }
}

impl<'a> Iterator for MemberIter<'a> {
    type Item = (MemberKey<'a>, Raw<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        let key = behind_space(bytes, self.at);
        if bytes.get(key) != Some(&b'"') {
            return None;
        }
        let (key_end, has_escape) = walk_string(bytes, key);
        let value = behind_space(bytes, key_end);
        self.at = end_of_value(bytes, value);
        let key = MemberKey { quoted: &self.text[key..key_end], has_escape };
        Some((key, Raw(&self.text[value..self.at])))
    }
}

/// Skips commas, colons and white space.
fn behind_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b',' | b':' | b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\n' | '\r' | '\t')
}

/// The index after the value that begins at `at`.
fn end_of_value(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'"') => end_of_string(bytes, at),
        Some(b'{' | b'[') => end_of_nest(bytes, at),
        // A number or literal ends before the next delimiter.
        _ => find(bytes, at, BREAK),
    }
}

/// The index after the object or array that begins at `at`.
fn end_of_nest(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    loop {
        at = find(bytes, at, NEST);
        match bytes.get(at) {
            Some(b'"') => {
                at = end_of_string(bytes, at);
                continue;
            }
            Some(b'{' | b'[') => depth += 1,
            Some(_) => depth -= 1,
            None => return at,
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
}

/// From this length on, a vectorised search is worth its call.
const SHORT_STRING: usize = 64;

/// The index after the string whose opening quote is at `at`.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    walk_string(bytes, at).0
}

/// The index after the string whose opening quote is at `at`, and whether there is an escape in it.
fn walk_string(bytes: &[u8], at: usize) -> (usize, bool) {
    let (mut at, mut has_escape) = (at + 1, false);
    loop {
        at = quote_or_backslash(bytes, at);
        match bytes.get(at) {
            Some(b'"') => return (at + 1, has_escape),
            Some(_) => (at, has_escape) = (at + 2, true),
            None => return (bytes.len(), has_escape),
        }
    }
}

/// The index of the next quote or backslash from `at` on, or the length if there is none.
fn quote_or_backslash(bytes: &[u8], at: usize) -> usize {
    let Some(mut rest) = bytes.get(at..) else { return bytes.len() };
    // Eight bytes at a time, for most strings are short.
    for _ in 0..SHORT_STRING / 8 {
        let Some((word, behind)) = rest.split_first_chunk() else { break };
        let word = u64::from_le_bytes(*word);
        let found = holds(word, b'"') | holds(word, b'\\');
        if found != 0 {
            return bytes.len() - rest.len() + found.trailing_zeros() as usize / 8;
        }
        rest = behind;
    }
    let at = bytes.len() - rest.len();
    if rest.len() < 8 {
        return find(bytes, at, STRING);
    }
    memchr::memchr2(b'"', b'\\', rest).map_or(bytes.len(), |found| at + found)
}

/// Whether there is an escape; quicker than a vectorised search for the few bytes of a name.
pub(crate) fn has_backslash(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks();
    words.iter().any(|word| holds(u64::from_le_bytes(*word), b'\\') != 0) || rest.contains(&b'\\')
}

/// The index of the next byte of this kind from `at` on, or the length if there is none.
fn find(bytes: &[u8], at: usize, kind: u8) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter().position(|byte| KINDS[usize::from(*byte)] & kind != 0).map_or(bytes.len(), |found| at + found)
}

/// Kinds of bytes: those that end a number or literal, those that open or close something in an object or
/// array, and those that end a string or escape its end. A table, because it is used for nearly every byte.
const BREAK: u8 = 1;
const NEST: u8 = 2;
const STRING: u8 = 4;
static KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let all: [(&[u8], u8); 3] = [(b",}] \n\r\t", BREAK), (b"\"{}[]", NEST), (b"\"\\", STRING)];
    let mut kind = 0;
    while kind < all.len() {
        let (bytes, flag) = all[kind];
        let mut at = 0;
        while at < bytes.len() {
            kinds[bytes[at] as usize] |= flag;
            at += 1;
        }
        kind += 1;
    }
    kinds
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Any JSON, with white space and escapes wherever they are allowed.
    fn text() -> impl Strategy<Value = String> {
        let space = || prop_oneof![Just(""), Just(" "), Just("\n\t"), Just("\r\n ")];
        let string = "([a-z,:{}\\[\\]é😀 ]|\\\\\"|\\\\\\\\|\\\\u00e9|\\\\n){0,8}"
            .prop_map(|text| format!("\"{text}\""));
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            Just("-1.50e+30".to_owned()),
            Just("123456789012345678901234567890".to_owned()),
            string.clone(),
        ];
        leaf.prop_recursive(4, 64, 5, move |inner| {
            let list = (proptest::collection::vec(inner.clone(), 0..5), space(), space()).prop_map(
                |(items, one, other)| format!("[{one}{}{other}]", items.join(&format!("{one},{other}"))),
            );
            let members = proptest::collection::vec((string.clone(), inner), 0..5);
            let object = (members, space(), space()).prop_map(|(members, one, other)| {
                let members: Vec<String> =
                    members.iter().map(|(key, value)| format!("{key}{one}:{other}{value}")).collect();
                format!("{{{other}{}{one}}}", members.join(&format!("{one},{other}")))
            });
            prop_oneof![list, object]
        })
    }

    /// What a real parser finds in an object, in order.
    fn parsed(text: &str) -> Option<Vec<(String, Value)>> {
        struct All(Vec<(String, Value)>);
        impl<'de> serde_core::Deserialize<'de> for All {
            fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Collect;
                impl<'de> serde_core::de::Visitor<'de> for Collect {
                    type Value = All;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: serde_core::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<All, A::Error> {
                        let mut all = Vec::new();
                        while let Some(entry) = map.next_entry()? {
                            all.push(entry);
                        }
                        Ok(All(all))
                    }
                }
                deserializer.deserialize_map(Collect)
            }
        }
        serde_json::from_str::<All>(text).ok().map(|all| all.0)
    }

    proptest! {
        #[test]
        fn the_walk_finds_what_a_parser_finds(text in text(), around in "[ \n]{0,2}") {
            let whole = format!("{around}{text}{around}");
            let raw = Raw::parse(whole.as_bytes()).expect("it is JSON");
            prop_assert_eq!(raw.get(), text.trim());
            let found: Vec<(String, Value)> = raw
                .entries()
                .map(|(key, value)| {
                    (key.text().unwrap().into_owned(), serde_json::from_str(value.get()).unwrap())
                })
                .collect();
            prop_assert_eq!(found, parsed(&text).unwrap_or_default());
        }

        #[test]
        fn nothing_makes_the_walk_panic(text in r#"[{}\[\]"\\:, aé😀]{0,40}"#) {
            let text = format!("{{{text}");
            prop_assert!(Raw::unchecked(&text).entries().count() <= text.len());
        }
    }

    #[test]
    fn invalid_json_is_rejected() {
        for text in ["", "{", "{\"a\":}", "[1,", "tru", "\"\n\"", "{} {}", "{\"a\" 1}"] {
            assert!(Raw::parse(text.as_bytes()).is_none(), "{text}");
        }
        assert!(Raw::parse(b"\"\xff\"").is_none());
        assert!(Raw::parse(b" [ ] ").is_some());
    }
}

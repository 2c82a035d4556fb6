//! The text of one JSON value, known to be valid: what travels, and what may be looked into without being
//! parsed again.
//!
//! A message is checked once, when it comes in. Whoever wants a member of it afterwards walks over text that
//! cannot be wrong, which takes a fifth of the instructions of another parse; with every level of a call that is
//! looked into, the same bytes would be parsed once more.

use std::fmt;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a>(&'a str);

impl<'a> Raw<'a> {
    /// `None` if this is no JSON text.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        // Strings that are skipped are not checked for being text.
        let text = std::str::from_utf8(bytes).ok()?;
        serde_json::from_str::<IgnoredAny>(text).ok()?;
        Some(Self(text.trim_matches(is_space)))
    }

    pub fn get(self) -> &'a str {
        self.0
    }

    pub fn is_null(self) -> bool {
        self.0 == "null"
    }

    /// The members of an object, keys and values as they stand there; of anything else, none.
    pub(crate) fn entries(self) -> Entries<'a> {
        let at = if self.0.starts_with('{') { 1 } else { self.0.len() };
        Entries { text: self.0, at }
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

pub(crate) struct Entries<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Entries<'a> {
    /// The key with its quotes, and the value.
    type Item = (&'a str, Raw<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        let between = |byte: u8| byte == b',' || byte == b':' || is_space(char::from(byte));
        let skip = |at: usize| at + bytes[at..].iter().take_while(|byte| between(**byte)).count();
        let key = skip(self.at);
        if bytes.get(key) != Some(&b'"') {
            return None;
        }
        let key_end = end_of_string(bytes, key);
        let value = skip(key_end);
        self.at = end_of_value(bytes, value);
        Some((&self.text[key..key_end], Raw(&self.text[value..self.at])))
    }
}

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\n' | '\r' | '\t')
}

/// Behind the value that begins at `at`.
fn end_of_value(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = end_of_string(bytes, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            // The end of whatever holds a number or a word.
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' | b' ' | b'\n' | b'\r' | b'\t' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Behind the string whose first quote is at `at`.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Any JSON, written with white space and escapes wherever they may stand.
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

    /// What a real parser finds in an object, in its order.
    fn parsed(text: &str) -> Option<Vec<(String, Value)>> {
        struct All(Vec<(String, Value)>);
        impl<'de> serde::Deserialize<'de> for All {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Collect;
                impl<'de> serde::de::Visitor<'de> for Collect {
                    type Value = All;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<All, A::Error> {
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
                    (serde_json::from_str(key).unwrap(), serde_json::from_str(value.get()).unwrap())
                })
                .collect();
            prop_assert_eq!(found, parsed(&text).unwrap_or_default());
        }

        #[test]
        fn nothing_makes_the_walk_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(text) = std::str::from_utf8(&bytes) {
                let walked = std::panic::catch_unwind(|| Raw(text).entries().take(100).count());
                // Text that was never checked may end anywhere; only letters cut in half are worth a panic.
                prop_assert!(walked.is_ok() || !text.is_ascii());
            }
        }
    }

    #[test]
    fn what_is_no_json_is_none() {
        for text in ["", "{", "{\"a\":}", "[1,", "tru", "\"\n\"", "{} {}", "{\"a\" 1}"] {
            assert!(Raw::parse(text.as_bytes()).is_none(), "{text}");
        }
        assert!(Raw::parse(b"\"\xff\"").is_none());
        assert!(Raw::parse(b" [ ] ").is_some());
    }
}

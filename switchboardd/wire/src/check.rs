//! Checks that a text is JSON, in one pass that builds nothing. It accepts what serde_json accepts, at a third of the
//! instructions; an object's members are found on the way.

/// Whether the text is one JSON value with nothing but white space around it.
pub(crate) fn is_json(text: &str) -> bool {
    let bytes = text.as_bytes();
    end_of_value(bytes, behind_space(bytes, 0)).is_some_and(|end| behind_space(bytes, end) == bytes.len())
}

/// Whether the text, without white space around it, is a JSON object. `each` gets its members, keys as written, until
/// something is found that is not JSON.
pub(crate) fn is_object<'a>(text: &'a str, mut each: impl FnMut(&'a str, &'a str)) -> bool {
    let bytes = text.as_bytes();
    members(bytes, |key, key_end, value, end| each(&text[key..key_end], &text[value..end]))
        == Some(bytes.len())
}

/// The index after the object, which begins with the text.
fn members(bytes: &[u8], mut each: impl FnMut(usize, usize, usize, usize)) -> Option<usize> {
    if bytes.first() != Some(&b'{') {
        return None;
    }
    let mut at = behind_space(bytes, 1);
    if bytes.get(at) == Some(&b'}') {
        return Some(at + 1);
    }
    loop {
        let key = at;
        let key_end = end_of_key(bytes, at)?;
        let value = behind_colon(bytes, key_end)?;
        let end = end_of_value(bytes, value)?;
        each(key, key_end, value, end);
        at = behind_space(bytes, end);
        match bytes.get(at)? {
            b',' => at = behind_space(bytes, at + 1),
            b'}' => return Some(at + 1),
            _ => return None,
        }
    }
}

/// The objects and arrays that are open, the innermost first. It takes no memory for those that people write.
#[derive(Default)]
struct Nesting {
    depth: usize,
    /// The innermost up to 64, one bit each: set for an object.
    inner: u64,
    outer: Vec<u64>,
}

impl Nesting {
    fn push(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.inner);
        }
        self.depth += 1;
        self.inner = self.inner << 1 | u64::from(is_object);
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.inner >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.inner = self.outer.pop().unwrap_or_default();
        }
    }

    fn is_in_object(&self) -> bool {
        self.inner & 1 == 1
    }
}

/// The index after the value that begins at `at`; `None` if none does.
fn end_of_value(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut nesting = Nesting::default();
    loop {
        match *bytes.get(at)? {
            b'"' => at = end_of_string(bytes, at)?,
            open @ (b'{' | b'[') => {
                let (is_object, close) = (open == b'{', open + 2);
                at = behind_space(bytes, at + 1);
                if *bytes.get(at)? != close {
                    nesting.push(is_object);
                    if is_object {
                        at = behind_colon(bytes, end_of_key(bytes, at)?)?;
                    }
                    continue;
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => at = end_of_number(bytes, at)?,
            b't' => at = end_of_word(bytes, at, b"true")?,
            b'f' => at = end_of_word(bytes, at, b"false")?,
            b'n' => at = end_of_word(bytes, at, b"null")?,
            _ => return None,
        }
        // A value has ended, and perhaps what it is in.
        loop {
            if nesting.depth == 0 {
                return Some(at);
            }
            at = behind_space(bytes, at);
            match (*bytes.get(at)?, nesting.is_in_object()) {
                (b',', is_object) => {
                    at = behind_space(bytes, at + 1);
                    if is_object {
                        at = behind_colon(bytes, end_of_key(bytes, at)?)?;
                    }
                    break;
                }
                (b'}', true) | (b']', false) => {
                    nesting.pop();
                    at += 1;
                }
                _ => return None,
            }
        }
    }
}

fn end_of_key(bytes: &[u8], at: usize) -> Option<usize> {
    if *bytes.get(at)? == b'"' { end_of_string(bytes, at) } else { None }
}

/// The index of the value whose key ends at `at`.
fn behind_colon(bytes: &[u8], at: usize) -> Option<usize> {
    let at = behind_space(bytes, at);
    (*bytes.get(at)? == b':').then(|| behind_space(bytes, at + 1))
}

#[inline]
fn behind_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

/// The index after the string whose opening quote is at `at`.
fn end_of_string(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        // Eight bytes at a time.
        let mut rest = bytes.get(at..)?;
        while let Some((word, behind)) = rest.split_first_chunk() {
            let word = u64::from_le_bytes(*word);
            let found = holds(word, b'"') | holds(word, b'\\') | holds_control(word);
            if found != 0 {
                at += found.trailing_zeros() as usize / 8;
                break;
            }
            at += 8;
            rest = behind;
        }
        match *bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at = end_of_escape(bytes, at)?,
            0..0x20 => return None,
            _ => at += 1,
        }
    }
}

fn end_of_escape(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at + 1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 2),
        // Half of a pair passes: who reads the text decides about it.
        b'u' => bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit).then_some(at + 6),
        _ => None,
    }
}

/// Nonzero if one of the eight bytes equals `byte`; the lowest set bit is in the first such byte.
pub(crate) fn holds(word: u64, byte: u8) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let other = word ^ (ONES * u64::from(byte));
    other.wrapping_sub(ONES) & !other & (ONES << 7)
}

/// Nonzero if one of the eight bytes is a control character; the lowest set bit is in the first such byte.
fn holds_control(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    word.wrapping_sub(ONES * 0x20) & !word & (ONES << 7)
}

/// Whether these bytes stand for themselves in a JSON string.
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks();
    let is_plain = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        holds(word, b'"') | holds(word, b'\\') | holds_control(word) == 0
    };
    words.iter().all(is_plain) && rest.iter().all(|byte| !matches!(byte, 0..0x20 | b'"' | b'\\'))
}

fn end_of_number(bytes: &[u8], mut at: usize) -> Option<usize> {
    at += usize::from(bytes[at] == b'-');
    at = match bytes.get(at)? {
        b'0' => at + 1,
        _ => end_of_digits(bytes, at)?,
    };
    if bytes.get(at) == Some(&b'.') {
        at = end_of_digits(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
        at = end_of_digits(bytes, at)?;
    }
    Some(at)
}

/// The index after one digit or more.
fn end_of_digits(bytes: &[u8], at: usize) -> Option<usize> {
    let count = bytes.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then_some(at + count)
}

fn end_of_word(bytes: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    bytes[at..].starts_with(word).then_some(at + word.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_core::de::IgnoredAny;

    use super::*;

    fn parses(text: &str) -> bool {
        serde_json::from_str::<IgnoredAny>(text).is_ok()
    }

    #[track_caller]
    fn agrees(text: &str) {
        assert_eq!(is_json(text), parses(text), "{text}");
        let trimmed = text.trim_matches([' ', '\n', '\r', '\t']);
        let is_object_for_parser = parses(text) && trimmed.starts_with('{');
        assert_eq!(is_object(trimmed, |_, _| {}), is_object_for_parser, "{text}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn it_agrees_with_the_parser(text in r#"([{}\[\]",:]|[-+.eE0-9 \n\t]|true|false|null|\\[u"nx]|00e9|é|"[a\\]"|\PC){0,12}"#) {
            agrees(&text);
        }

        #[test]
        fn it_agrees_about_texts_with_one_mistake(
            at in 0_usize..200,
            letter in r#"[{}\[\]",:\\0-9a-z.eE\-+ \x01\x1f]"#,
            removes in any::<bool>(),
        ) {
            let text = r#" {"jsonrpc":"2.0","id":-12.5e+3,"params":{"a":[1,0,-0.0,1E5,{}, [] ,true,false,null],"é\u00e9\"\\\/\b":"0123456789abcdef \n","b":{"c":{"d":[[["x"]]]}}}} "#;
            let mut letters: Vec<char> = text.chars().collect();
            let at = at % letters.len();
            if removes {
                letters.remove(at);
            } else {
                letters.insert(at, letter.chars().next().unwrap());
            }
            agrees(&letters.into_iter().collect::<String>());
        }
    }

    #[test]
    fn numbers_strings_and_words_are_those_of_json() {
        for text in [
            "0",
            "-0",
            "01",
            "-",
            "-a",
            "1.",
            ".1",
            "1.e5",
            "1e",
            "1e+",
            "1E-07",
            "0e0",
            "0.0",
            "00",
            "+1",
            "1a",
            "nul",
            "nulll",
            "null",
            "tru",
            "falsee",
            "\"\\u12\"",
            "\"\\u12zz\"",
            "\"\\ud800\"",
            "\"\\q\"",
            "\"\u{7f}\"",
            "\"\t\"",
            "\"a\nb\"",
            "\"12345678\"",
            "\"1234567\\\"",
            "\"12345678\\",
            "",
            " ",
            "{",
            "{}",
            "{ }",
            "[ ]",
            "[,]",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\":1 \"b\":2}",
            "{1:2}",
            "{\"a\"}",
            "{\"a\" : 1 }",
            "[1 2]",
            "[}",
            "{]",
            "[1}",
            "{\"a\":1]",
            "{} {}",
            "[[[]]]",
            "\u{feff}{}",
        ] {
            agrees(text);
        }
    }

    #[test]
    fn plain_is_what_a_writer_leaves_as_it_is() {
        for text in [
            "",
            "a",
            "12345678",
            "é😀\u{7f}",
            "1234567\"",
            "1234567\\x",
            "\n2345678",
            "12345678\u{1f}",
            "\u{20}/",
        ] {
            let written = serde_json::to_string(text).unwrap();
            assert_eq!(is_plain(text.as_bytes()), written.len() == text.len() + 2, "{text}");
        }
    }

    #[test]
    fn depth_has_no_limit() {
        for depth in [1, 63, 64, 65, 127, 128, 129, 200, 1000] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
                let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
                assert!(is_json(&text) && parses(&text), "{depth} {open}");
                let turned = text.replacen(']', "}", 1);
                assert_eq!(is_json(&turned), turned == text, "{depth} {open}");
                assert!(!is_json(&text[..text.len() - 1]) && !is_json(&format!("{text}]")), "{depth} {open}");
            }
        }
    }

    #[test]
    fn members_are_found_as_they_are_written() {
        let mut found = Vec::new();
        assert!(is_object(r#"{"a": 1 , "b\n":{"c":[2]},"a":"x"}"#, |key, value| found.push((key, value))));
        assert_eq!(found, [("\"a\"", "1"), (r#""b\n""#, r#"{"c":[2]}"#), ("\"a\"", "\"x\"")]);
    }
}

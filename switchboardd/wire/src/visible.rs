//! Makes untrusted text fully visible: characters that would hide, reorder or colour the rest are escaped.
//! `Printable` is the only text that a command writes to a terminal.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::{self, Display, Write};

/// The text with every hidden character written as `\u{…}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            push_number(&mut shown, c);
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Makes foreign text fit for a message: one line, at most `max_bytes` bytes (`…` marks a cut), hidden
/// characters escaped.
pub fn clipped(text: &str, max_bytes: usize) -> String {
    clip(text, max_bytes, is_hidden)
}

/// Like [`clipped`], but keeps line breaks and tabs.
pub fn clipped_lines(text: &str, max_bytes: usize) -> String {
    clip(text, max_bytes, |c| !matches!(c, '\n' | '\t') && is_hidden(c))
}

fn clip(text: &str, max_bytes: usize, hides: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len().min(max_bytes));
    for c in text.chars() {
        let before = shown.len();
        if hides(c) {
            push_number(&mut shown, c);
        } else {
            shown.push(c);
        }
        if shown.len() > max_bytes {
            shown.truncate(before);
            shown.push('…');
            break;
        }
    }
    shown
}

/// Removes hidden characters. White space stays, and so do the joiners between emoji.
pub fn without_hidden(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    let (mut before, mut rest) = (None, text.chars());
    while let Some(c) = rest.next() {
        if c.is_whitespace() || !is_hidden(c) || joins_emoji(before, c, rest.clone().next()) {
            seen.push(c);
        }
        before = Some(c);
    }
    seen
}

fn push_number(shown: &mut String, c: char) {
    let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
}

/// Control characters, bidi marks, zero-width and unusual spaces, and other invisible characters.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0xA0 | 0x1680 | 0x2000..=0x200A | 0x202F | 0x205F | 0x2800 | 0x3000
            | 0xAD | 0x34F | 0x61C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
            | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F
            | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF
            // Format characters of rare scripts, private use characters and noncharacters.
            | 0x70F | 0x13430..=0x1343F | 0x1BCA0..=0x1BCA3 | 0x1D159 | 0xE000..=0xF8FF | 0xFDD0..=0xFDEF
            | 0xF0000..=0x10FFFF)
        || u32::from(c) & 0xFFFE == 0xFFFE
}

/// Text that is safe to write to a terminal. It has no control characters except line breaks, tabs and the
/// colours that `coloured` adds, and nothing that hides or reorders: all input is escaped, unless it is a
/// `Printable` itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printable(String);

/// The available colours and weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

/// A `Printable` from a format string, on one line.
#[macro_export]
macro_rules! printable {
    ($($arg:tt)*) => { $crate::visible::Printable::line(::core::format_args!($($arg)*)) };
}

impl Printable {
    /// On one line: line breaks are escaped, too.
    pub fn line(text: impl Display) -> Self {
        Self::escaped(text, false)
    }

    /// Keeps line breaks and tabs.
    pub fn text(text: impl Display) -> Self {
        Self::escaped(text, true)
    }

    /// Joins lines.
    pub fn lines(lines: impl IntoIterator<Item = Self>) -> Self {
        let mut all = String::new();
        for (at, line) in lines.into_iter().enumerate() {
            if at > 0 {
                all.push('\n');
            }
            all.push_str(&line.0);
        }
        Self(all)
    }

    #[must_use]
    pub fn coloured(self, colour: Colour) -> Self {
        let code = match colour {
            Colour::Bold => "1",
            Colour::Dim => "2",
            Colour::Red => "31",
            Colour::Green => "32",
            Colour::Yellow => "33",
        };
        Self(format!("\x1b[{code}m{}\x1b[0m", self.0))
    }

    #[must_use]
    pub fn trim_end(self) -> Self {
        Self(self.0.trim_end().to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn escaped(text: impl Display, several_lines: bool) -> Self {
        let mut into = Escaping { done: String::new(), outside: String::new(), several_lines };
        // If `Display` fails, the text ends there.
        let _ = write!(into, "{text}");
        into.flush();
        Self(into.done)
    }
}

thread_local! {
    /// Nesting depth of `Printable`s that are being formatted.
    static PRINT_DEPTH: Cell<u32> = const { Cell::new(0) };
}

impl Display for Printable {
    /// Inserted unchanged into another `Printable`; in a `String` it is ordinary text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PRINT_DEPTH.set(PRINT_DEPTH.get() + 1);
        let written = f.pad(&self.0);
        PRINT_DEPTH.set(PRINT_DEPTH.get() - 1);
        written
    }
}

impl From<&'static str> for Printable {
    /// For constant text.
    fn from(constant: &'static str) -> Self {
        Self::text(constant)
    }
}

impl PartialEq<&str> for Printable {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

struct Escaping {
    done: String,
    /// Not escaped yet: whether a character is hidden depends on its neighbours.
    outside: String,
    several_lines: bool,
}

impl Write for Escaping {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if PRINT_DEPTH.get() > 0 {
            self.flush();
            self.done.push_str(part);
        } else {
            self.outside.push_str(part);
        }
        Ok(())
    }
}

impl Escaping {
    fn flush(&mut self) {
        let outside = std::mem::take(&mut self.outside);
        if !outside.chars().any(is_hidden) {
            self.done.push_str(&outside);
            return;
        }
        let mut before = None;
        let mut rest = outside.chars();
        while let Some(c) = rest.next() {
            let next = rest.clone().next();
            match c {
                '\n' | '\t' if self.several_lines => self.done.push(c),
                '\r' if self.several_lines && next == Some('\n') => {}
                _ if !is_hidden(c) || joins_emoji(before, c, next) => self.done.push(c),
                _ => push_number(&mut self.done, c),
            }
            before = Some(c);
        }
    }
}

/// Whether this is the joiner of a composed emoji, or the variation selector of one.
fn joins_emoji(before: Option<char>, c: char, next: Option<char>) -> bool {
    const JOINER: char = '\u{200d}';
    const AS_PICTURE: char = '\u{fe0f}';
    const KEYCAP: char = '\u{20e3}';
    match c {
        JOINER => before.is_some_and(|c| c == AS_PICTURE || is_emoji(c)) && next.is_some_and(is_emoji),
        AS_PICTURE => before.is_some_and(|before| {
            is_emoji(before) || (matches!(before, '#' | '*' | '0'..='9') && next == Some(KEYCAP))
        }),
        _ => false,
    }
}

fn is_emoji(c: char) -> bool {
    matches!(u32::from(c),
        0xA9 | 0xAE | 0x203C | 0x2049 | 0x2122 | 0x2139 | 0x2190..=0x21FF | 0x2300..=0x23FF | 0x24C2
        | 0x25A0..=0x27BF | 0x2900..=0x297F | 0x2B00..=0x2BFF | 0x3030 | 0x303D | 0x3297 | 0x3299
        | 0x1F000..=0x1FAFF)
}

/// JSON text in which hidden characters are written as `\uXXXX`, which means the same.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    let hides = |c: char| is_hidden(c) && c != '\n';
    if !json.contains(hides) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if hides(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIL: &str = "a\u{202e}b\u{200b}c\x1b[31m\u{9b}2J\r\u{e0041}";

    #[test]
    fn hidden_characters_are_escaped() {
        assert_eq!(visible("npx -y größe 日本 ✓"), "npx -y größe 日本 ✓");
        assert_eq!(
            visible("a\u{202e}b\u{200b}c\x1b[31m\u{e0041}"),
            r"a\u{202e}b\u{200b}c\u{1b}[31m\u{e0041}"
        );
        assert_eq!(visible("two\nlines\r"), r"two\u{a}lines\u{d}");
    }

    #[test]
    fn what_is_clipped_hides_nothing_and_is_cut_between_characters() {
        assert_eq!(clipped("größe", 7), "größe");
        assert_eq!(clipped("größe", 5), "grö…");
        assert_eq!(clipped("größe", 3), "gr…");
        assert_eq!(clipped("a\n\u{202e}b\u{200b}", 15), r"a\u{a}\u{202e}b…");
        assert_eq!(clipped("\u{202e}", 7), "…");
        assert_eq!(clipped("", 0), "");
        assert_eq!(clipped_lines("a\n\u{202e}b\r\nc", 16), "a\n\\u{202e}b\\u{d}…");
    }

    #[test]
    fn text_in_a_printable_is_escaped_once() {
        let shown = r"a\u{202e}b\u{200b}c\u{1b}[31m\u{9b}2J\u{d}\u{e0041}";
        assert_eq!(printable!("{EVIL}"), shown);
        assert_eq!(printable!("{}", visible(EVIL)), shown);
        let word = printable!("{EVIL}").coloured(Colour::Red);
        assert_eq!(printable!("<{word}> {EVIL}"), format!("<\x1b[31m{shown}\x1b[0m> {shown}").as_str());
        // As a plain string it is escaped.
        let text = word.to_string();
        assert_eq!(printable!("{text}"), format!(r"\u{{1b}}[31m{shown}\u{{1b}}[0m").as_str());
        assert_eq!(printable!("{:>5}|{:<3}|", printable!("ab"), "c"), "   ab|c  |");
    }

    #[test]
    fn text_keeps_its_line_breaks() {
        assert_eq!(printable!("a\nb"), r"a\u{a}b");
        assert_eq!(Printable::text("a\r\n\tb\rc\x1b"), "a\n\tb\\u{d}c\\u{1b}");
        assert_eq!(Printable::lines([printable!("a"), printable!("b")]), "a\nb");
    }

    #[test]
    fn composed_emoji_are_not_escaped() {
        for picture in ["👩‍💻", "❤️‍🔥", "1️⃣", "🏳️‍🌈", "⚠️"] {
            assert_eq!(printable!("x {picture} y"), format!("x {picture} y").as_str());
        }
        assert_eq!(printable!("a\u{200d}b \u{fe0f}👩\u{200d}"), r"a\u{200d}b \u{fe0f}👩\u{200d}");
        assert_eq!(printable!("1\u{fe0f}2"), r"1\u{fe0f}2");
    }

    #[test]
    fn what_hides_is_left_out_and_pictures_stay_whole() {
        assert_eq!(without_hidden(EVIL), "abc[31m2J\r");
        let pictures = "👩‍💻 ❤️‍🔥 1️⃣\t🏳️‍🌈\n⚠️";
        assert_eq!(without_hidden(pictures), pictures);
        // No byte can be hidden behind a picture.
        assert_eq!(without_hidden("👩\u{200d}💻❤\u{fe0f}\u{fe0f}\u{fe01}\u{e0101}"), "👩\u{200d}💻❤\u{fe0f}");
    }

    #[test]
    fn visible_json_means_the_same() {
        let json = format!("{:#}", serde_json::json!({ "k\u{9b}": EVIL, "plain": "größe\n" }));
        let shown = visible_json(&json);
        assert!(!shown.contains(|c| is_hidden(c) && c != '\n'), "{shown}");
        let (one, other): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(&json).unwrap(), serde_json::from_str(&shown).unwrap());
        assert_eq!(one, other);
    }
}

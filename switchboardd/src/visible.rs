//! Text from elsewhere, made so that a person sees all of it: what would hide, reorder or colour the rest
//! is shown by its number.

use std::borrow::Cow;

/// The text with every character that cannot be seen written as `\u{…}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            shown.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Control characters, marks of writing direction, spaces without width, and other ways to hide.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0xA0 | 0x1680 | 0x2000..=0x200A | 0x202F | 0x205F | 0x2800 | 0x3000
            | 0xAD | 0x34F | 0x61C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
            | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F
            | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hides() {
        assert_eq!(visible("npx -y größe 日本 ✓"), "npx -y größe 日本 ✓");
        assert_eq!(
            visible("a\u{202e}b\u{200b}c\x1b[31m\u{e0041}"),
            r"a\u{202e}b\u{200b}c\u{1b}[31m\u{e0041}"
        );
        assert_eq!(visible("two\nlines\r"), r"two\u{a}lines\u{d}");
    }
}

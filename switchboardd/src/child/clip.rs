//! Limits a child's own text in our messages.
//!
//! The text is cut but not changed: the child's values are redacted in it later, and only text as the child wrote it can
//! be compared with them. Whoever redacts it makes hidden characters visible afterwards.

const MAX_BYTES: usize = 1024;

pub(super) fn clip(text: &str) -> &str {
    cut(text, MAX_BYTES)
}

/// At most `max_bytes` of a text, without a mark where it was cut.
pub(super) fn cut(text: &str, max_bytes: usize) -> &str {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

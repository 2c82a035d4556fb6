//! Types and values as they are written in a signature.

use switchboard_wire::raw::Raw;
use switchboard_wire::visible::without_hidden;

/// The longest single value, in bytes.
const MAX_VALUE: usize = 80;

/// Types as a union, each once.
pub(super) fn joined(texts: Vec<String>) -> String {
    let mut all: Vec<String> = Vec::with_capacity(texts.len());
    for text in texts {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    if all.is_empty() { "any".to_owned() } else { all.join("|") }
}

/// A value as JSON, on one line; `None` if it is too long, or has characters that nobody sees.
pub(super) fn value_text(value: Raw<'_>) -> Option<String> {
    let text = value.get();
    let text = (text.len() <= MAX_VALUE).then(|| text.replace(['\n', '\r', '\t'], " "))?;
    (without_hidden(&text) == text).then_some(text)
}

/// Whether a text of a type begins with a value: `"left"`, `1`, `null`.
pub(super) fn is_value(text: &str) -> bool {
    text.starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
        || ["true", "false", "null"].contains(&text)
}

/// Whether a text of a type has a `|` outside of brackets and strings.
pub(super) fn is_union(text: &str) -> bool {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for c in text.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if in_string => is_escaped = true,
            '"' => in_string = !in_string,
            _ if in_string => {}
            '{' | '[' | '<' | '(' => depth += 1,
            '}' | ']' | '>' | ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

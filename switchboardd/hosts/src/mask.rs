//! Shows a host's file without the secrets in it.

use serde_json::Value;
use switchboard_definitions::mask::{MASK, is_harmless, is_secret_name, looks_secret, without_passwords};

use super::Host;

/// A host's file with its secrets masked and its lines unchanged.
pub fn masked(host: &Host, text: &str) -> String {
    let mut hidden: Vec<String> = Vec::new();
    if let Ok(contents) = host.format.read(text) {
        for entry in &contents.entries {
            for part in ["env", "environment", "headers", "http_headers"] {
                collect(&entry.value[part], &mut hidden);
                collect(&entry.value["transport"][part], &mut hidden);
                collect(&entry.value["requestOptions"][part], &mut hidden);
            }
        }
    }
    hidden.sort_by_key(|value| std::cmp::Reverse(value.len()));
    let mut text = by_looks(&without_passwords(text));
    for value in hidden {
        // As it is, and as JSON escapes it.
        let escaped = Value::from(value.as_str()).to_string();
        text = text.replace(escaped.trim_matches('"'), MASK).replace(&value, MASK);
    }
    text
}

/// Collects all values except placeholders. Masking short values would damage the rest of the text.
fn collect(values: &Value, hidden: &mut Vec<String>) {
    let texts = values.as_object().into_iter().flat_map(|values| values.values()).filter_map(Value::as_str);
    hidden.extend(
        texts
            .filter(|text| text.len() > 3 && !text.contains("${") && !text.contains("{env:"))
            .map(ToOwned::to_owned),
    );
}

/// Masks values after a secret's name, and text that looks like a secret.
fn by_looks(text: &str) -> String {
    let (mut shown, mut is_next) = (String::with_capacity(text.len()), false);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (token, is_quoted) = match first {
            '"' | '\'' => (quoted(rest, first), true),
            c if is_word(c) => (&rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())], false),
            c => (&rest[..c.len_utf8()], false),
        };
        rest = &rest[token.len()..];
        let bare = token.trim_matches(['"', '\'']);
        if bare.is_empty() || !(is_quoted || is_word(first)) {
            // A separator between name and value: the value is still to come.
            is_next &= matches!(first, ':' | '=' | ',' | '"' | '\'') || first.is_whitespace();
            shown.push_str(token);
            continue;
        }
        let last = bare.rsplit([' ', '=']).next().unwrap_or(bare);
        if (is_next && !is_harmless(bare)) || looks_secret(bare) || looks_secret(last) {
            shown.push_str(&token.replace(bare, MASK));
            // An authorization scheme is followed by its credentials.
            is_next = is_next && matches!(bare.to_ascii_lowercase().as_str(), "bearer" | "basic" | "token");
        } else {
            shown.push_str(token);
            is_next = is_secret_name(bare) && bare.len() < 64;
        }
    }
    shown
}

fn quoted(text: &str, quote: char) -> &str {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return &text[..1],
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return &text[..=at],
            _ => {}
        }
    }
    &text[..1]
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || "_-./+@$%&*~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::super::table::by_id;
    use super::*;

    #[test]
    fn a_file_is_shown_without_its_secrets() {
        let text = "{\n  \"apiKey\":\n    \"hunter2\",\n  \"mcpServers\": {\n    \"a\": { \"env\": { \"PLAIN\": \"hunter3\" }, \"args\": [\"--token\", \"hunter4\", \"sk-0123456789abcdefgh\"] }\n  },\n  \"headers\": { \"Authorization\": \"Bearer hunter5\" }, \"theme\": \"dark\"\n}\n";
        let shown = masked(by_id("cursor").unwrap(), text);
        assert!(!shown.contains("hunter") && !shown.contains("0123456789"), "{shown}");
        assert!(
            shown.contains("\"theme\": \"dark\"") && shown.lines().count() == text.lines().count(),
            "{shown}"
        );
        let shown =
            masked(by_id("continue").unwrap(), "models:\n  - apiKey: hunter2 # mine\n    model: gpt\n");
        assert_eq!(shown, "models:\n  - apiKey: ••• # mine\n    model: gpt\n");
        let shown = masked(by_id("continue").unwrap(), "a: postgres://u:hunter2@h/d # http://x:hunter3@h\n");
        assert_eq!(shown, "a: postgres://u:•••@h/d # http://x:•••@h\n");
    }
}

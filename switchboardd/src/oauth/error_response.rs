//! The text of an error response of an authorization server, as messages show it.

use serde::Deserialize;
use switchboard_wire::visible::clipped;

/// Foreign error messages are clipped to this many characters.
const MAX_ERROR_CHARS: usize = 200;

/// The error in a response, as the end of a sentence.
pub fn said(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct ErrorBody {
        error: String,
        error_description: Option<String>,
    }
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(ErrorBody { error, error_description: Some(why) }) => {
            format!(": {}", shortened(&format!("{error}: {why}")))
        }
        Ok(ErrorBody { error, .. }) => format!(": {}", shortened(&error)),
        Err(_) => String::new(),
    }
}

/// Clips a foreign message and makes its hidden characters visible.
pub fn shortened(words: &str) -> String {
    clipped(words, MAX_ERROR_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_messages_are_clipped() {
        assert_eq!(shortened("a\nb"), r"a\u{a}b");
        assert_eq!(shortened(&"x".repeat(300)).chars().count(), MAX_ERROR_CHARS + 1);
        assert_eq!(said(br#"{"error":"x","error_description":"y"}"#), ": x: y");
        assert_eq!(said(b"<html>"), "");
    }
}

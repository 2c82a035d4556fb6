//! Result contents: a minimal example of each kind.

use serde_json::{Value, json};

/// One red pixel.
pub(super) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";
/// Four samples of silence.
const WAV: &str = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA";

pub(super) fn text(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

pub(super) fn image() -> Value {
    json!({"type": "image", "data": PNG, "mimeType": "image/png"})
}

pub(super) fn audio() -> Value {
    json!({"type": "audio", "data": WAV, "mimeType": "audio/wav"})
}

pub(super) fn resource(uri: &str, mime: &str, text: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": text}})
}

/// A tool result with one text.
pub(super) fn says(words: impl Into<String>) -> Value {
    json!({"content": [text(words)]})
}

/// A tool result that reports an error.
pub(super) fn failed(words: impl Into<String>) -> Value {
    json!({"content": [text(words)], "isError": true})
}

pub(super) fn user(content: &Value) -> Value {
    json!({"role": "user", "content": content})
}

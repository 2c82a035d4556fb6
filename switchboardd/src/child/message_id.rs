//! Reads the id in a message of a child.

use serde::de::IgnoredAny;

use super::calls::ChildId;

/// Parses one of our ids, in any spelling that children send: `7`, `"7"`, `7.0`.
pub(super) fn our_id(raw: &str) -> Option<ChildId> {
    let text = raw.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(raw);
    let text = text.strip_suffix(".0").unwrap_or(text);
    text.parse().ok().map(ChildId)
}

/// Whether an answer may have this id, which was found in text that may not be JSON.
pub(super) fn is_id(id: &str) -> bool {
    !id.starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(id).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_ids_are_known_in_every_spelling() {
        for spelling in ["7", "\"7\"", "7.0"] {
            assert_eq!(our_id(spelling), Some(ChildId(7)), "{spelling}");
        }
        for other in ["null", "\"\"", "-7", "7.5", "{}", "\"x\""] {
            assert_eq!(our_id(other), None, "{other}");
        }
    }
}

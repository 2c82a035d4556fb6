//! What a tool says about its effects. A server may be wrong about it, and need not say anything.

use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

/// The hints of a tool; `None` where the server says nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Annotations {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

impl Annotations {
    /// Reads the `annotations` of a tool. A value that is no boolean says nothing.
    pub fn of(annotations: Raw<'_>) -> Self {
        let Some(members) = Members::of(annotations) else { return Self::default() };
        let hint = |name| match members.get(name)?.get() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        Self {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        }
    }

    /// Whether it says that it destroys nothing. What only reads destroys nothing, unless it says otherwise.
    pub fn is_harmless(self) -> bool {
        self.destructive.map_or(self.read_only == Some(true), |destructive| !destructive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_booleans_count() {
        let of = |text: &str| Annotations::of(Raw::parse(text.as_bytes()).unwrap());
        let read = Annotations { read_only: Some(true), open_world: Some(false), ..Annotations::default() };
        assert_eq!(of(r#"{"title":"x","readOnlyHint":true,"openWorldHint": false}"#), read);
        for nothing in ["{}", "null", "[]", r#"{"readOnlyHint":"true","destructiveHint":1}"#] {
            assert_eq!(of(nothing), Annotations::default(), "{nothing}");
        }
    }

    #[test]
    fn silence_is_not_harmless() {
        let says = |read_only, destructive| Annotations { read_only, destructive, ..Annotations::default() };
        for harmless in [says(Some(true), None), says(None, Some(false)), says(Some(false), Some(false))] {
            assert!(harmless.is_harmless(), "{harmless:?}");
        }
        for harmful in
            [says(None, None), says(Some(false), None), says(None, Some(true)), says(Some(true), Some(true))]
        {
            assert!(!harmful.is_harmless(), "{harmful:?}");
        }
    }
}

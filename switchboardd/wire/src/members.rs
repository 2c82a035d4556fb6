//! The members of a JSON object in the order they were written, values untouched.

use std::borrow::Cow;

use crate::envelope::unquoted;
use crate::raw::Raw;

/// An object's members; for small objects (`params`, `_meta`, `arguments`) whose values pass through.
#[derive(Debug, Default, Clone)]
pub struct Members<'a>(pub Vec<(Cow<'a, str>, Raw<'a>)>);

impl<'a> Members<'a> {
    /// `None` if `raw` is no object.
    pub fn of(raw: impl Into<Raw<'a>>) -> Option<Self> {
        let raw = raw.into();
        if !raw.get().starts_with('{') {
            return None;
        }
        let mut members = Vec::with_capacity(4);
        for (key, value) in raw.entries() {
            members.push((unquoted(key)?, value));
        }
        Some(Self(members))
    }

    pub fn get(&self, name: &str) -> Option<Raw<'a>> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// The member's text, if it is there and a string.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(crate::envelope::string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_bytes_survive() {
        let raw = Raw::parse(br#"{"z": 1.0, "a\n":[ 1],"z2":null}"#).unwrap();
        let members = Members::of(raw).unwrap();
        let seen: Vec<_> = members.0.iter().map(|(key, value)| (key.as_ref(), value.get())).collect();
        assert_eq!(seen, [("z", "1.0"), ("a\n", "[ 1]"), ("z2", "null")]);
        assert!(Raw::parse(b"[]").and_then(Members::of).is_none());
    }
}

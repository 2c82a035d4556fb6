//! The members of a JSON object in the order they were written, values untouched.

use std::borrow::Cow;

use crate::raw::Raw;

/// The members of a small object (`params`, `_meta`, `arguments`) whose values pass through.
#[derive(Debug, Default, Clone)]
pub struct Members<'a>(pub Vec<(Cow<'a, str>, Raw<'a>)>);

impl<'a> Members<'a> {
    /// `None` if `raw` is not an object.
    pub fn of(raw: impl Into<Raw<'a>>) -> Option<Self> {
        let raw = raw.into();
        if !raw.get().starts_with('{') {
            return None;
        }
        let mut members = Vec::with_capacity(4);
        for (key, value) in raw.entries() {
            members.push((key.text()?, value));
        }
        Some(Self(members))
    }

    pub fn get(&self, name: &str) -> Option<Raw<'a>> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// The member's text, if it exists and is a string.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(crate::envelope::string)
    }
}

/// An object's text without the members whose keys are `unwanted`; every other byte stays.
pub fn remove_members(object: Raw<'_>, unwanted: impl Fn(&str) -> bool) -> String {
    let text = object.get();
    let mut out = String::with_capacity(text.len());
    let mut end = usize::from(text.starts_with('{'));
    out.push_str(&text[..end]);
    for (key, value) in object.entries() {
        let begin = end;
        end = value.get().as_ptr() as usize - text.as_ptr() as usize + value.get().len();
        if key.text().is_some_and(|key| unwanted(&key)) {
            continue;
        }
        // With the comma before it, unless it is now the first member.
        let member = &text[begin..end];
        out.push_str(if out.len() > 1 { member } else { without_comma(member) });
    }
    out.push_str(&text[end..]);
    out
}

/// A member without the comma before it.
fn without_comma(member: &str) -> &str {
    let space = member.trim_start();
    space.strip_prefix(',').unwrap_or(member)
}

/// An object's text with `members`, written as `"key":value,…`, appended.
pub fn insert_members(object: &str, members: &str) -> String {
    let Some(open) = object.strip_suffix('}').filter(|_| !members.is_empty()) else {
        return object.to_owned();
    };
    let comma = if open.trim_end().ends_with('{') { "" } else { "," };
    [open, comma, members, "}"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_removed_and_inserted_without_touching_the_others() {
        let check = |object: &str, expect: &str| {
            let object = Raw::parse(object.as_bytes()).unwrap();
            assert_eq!(remove_members(object, |key| key.starts_with('x')), expect);
        };
        check("{}", "{}");
        check(r#"{"x":1}"#, "{}");
        check(r#"{"x":1, "a": 1.0 }"#, r#"{ "a": 1.0 }"#);
        check(r#"{ "a": 1.0, "x":{"a":[",}"]} ,"b":2, "x2":3}"#, r#"{ "a": 1.0 ,"b":2}"#);
        assert_eq!(insert_members("{}", r#""b":1"#), r#"{"b":1}"#);
        assert_eq!(insert_members(r#"{"a":1.0}"#, r#""b":1"#), r#"{"a":1.0,"b":1}"#);
        assert_eq!(insert_members(r#"{"a":1.0}"#, ""), r#"{"a":1.0}"#);
    }

    #[test]
    fn order_and_bytes_survive() {
        let raw = Raw::parse(br#"{"z": 1.0, "a\n":[ 1],"z2":null}"#).unwrap();
        let members = Members::of(raw).unwrap();
        let seen: Vec<_> = members.0.iter().map(|(key, value)| (key.as_ref(), value.get())).collect();
        assert_eq!(seen, [("z", "1.0"), ("a\n", "[ 1]"), ("z2", "null")]);
        assert!(Raw::parse(b"[]").and_then(Members::of).is_none());
    }
}

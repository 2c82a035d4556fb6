//! Leaves out of a schema what a model does not need: shared definitions that nothing refers to, and `$schema`.
//! Every other byte stays.

use std::borrow::Cow;
use std::collections::BTreeSet;

use switchboard_wire::envelope::{quoted, string};
use switchboard_wire::members::{Members, remove_members};
use switchboard_wire::raw::Raw;

use super::pointer::pointer;

/// The members that hold shared definitions.
const SHARED: [&str; 2] = ["$defs", "definitions"];
/// Other ways to refer to a definition. With one of them, all definitions stay.
const OTHER_REFERENCES: [&str; 6] =
    ["\"$dynamicRef\"", "\"$recursiveRef\"", "\"$anchor\"", "\"$dynamicAnchor\"", "\"$id\"", "\\u0024"];

/// The schema without shared definitions that nothing refers to.
pub fn without_unused(schema: Raw<'_>) -> Cow<'_, str> {
    let text = schema.get();
    let has_shared = SHARED.iter().any(|key| text.contains(&quoted(key)));
    if !has_shared || OTHER_REFERENCES.iter().any(|other| text.contains(other)) {
        return Cow::Borrowed(text);
    }
    let Some(members) = Members::of(schema) else { return Cow::Borrowed(text) };
    let shared: Vec<(&str, Members<'_>)> =
        SHARED.into_iter().filter_map(|key| Some((key, Members::of(members.get(key)?)?))).collect();
    let root = remove_members(schema, |key| SHARED.contains(&key));
    let mut used = BTreeSet::new();
    let mut unread = vec![root.as_str()];
    while let Some(part) = unread.pop() {
        for reference in references(part) {
            if reference == "#" {
                continue;
            }
            // It may point into a definition in a way that is not understood here, such as an anchor.
            let Some(steps) = pointer(&reference) else { return Cow::Borrowed(text) };
            let Some(key) = SHARED.into_iter().find(|key| steps.first().is_some_and(|step| step == key))
            else {
                match steps.first().is_some_and(|step| step == "properties") {
                    true => continue,
                    false => return Cow::Borrowed(text),
                }
            };
            let name = steps.into_iter().nth(1).unwrap_or_default();
            let of_key = shared.iter().find(|(of, _)| *of == key);
            let Some(target) = of_key.and_then(|(_, all)| all.get(&name)) else { return Cow::Borrowed(text) };
            if used.insert((key, name)) {
                unread.push(target.get());
            }
        }
    }
    let mut out = text.to_owned();
    for (key, all) in shared {
        let is_used = |name: &str| used.contains(&(key, name.to_owned()));
        if all.0.iter().all(|(name, _)| is_used(name)) {
            continue;
        }
        let Some(raw) = Raw::parse(out.as_bytes()) else { return Cow::Borrowed(text) };
        out = if all.0.iter().any(|(name, _)| is_used(name)) {
            let Some(value) = Members::of(raw).and_then(|members| members.get(key)) else { continue };
            let kept = remove_members(value, |name| !is_used(name));
            let at = value.get().as_ptr() as usize - out.as_ptr() as usize;
            [&out[..at], &kept, &out[at + value.get().len()..]].concat()
        } else {
            remove_members(raw, |name| name == key)
        };
    }
    Cow::Owned(out)
}

/// The schema for a model: also without `$schema`.
pub fn for_model(schema: Raw<'_>) -> Cow<'_, str> {
    let pruned = without_unused(schema);
    if !pruned.contains("\"$schema\"") {
        return pruned;
    }
    match Raw::parse(pruned.as_bytes()) {
        Some(raw) => Cow::Owned(remove_members(raw, |key| key == "$schema")),
        None => pruned,
    }
}

/// A tool's definition without the shared definitions of its schemas that nothing refers to.
pub fn definition(tool: Raw<'_>) -> Cow<'_, str> {
    let mut out = Cow::Borrowed(tool.get());
    for key in ["inputSchema", "outputSchema"] {
        let Some(raw) = Raw::parse(out.as_bytes()) else { break };
        let Some(schema) = Members::of(raw).and_then(|members| members.get(key)) else { continue };
        let pruned = without_unused(schema);
        if pruned.len() == schema.get().len() {
            continue;
        }
        let at = schema.get().as_ptr() as usize - out.as_ptr() as usize;
        out = Cow::Owned([&out[..at], &pruned, &out[at + schema.get().len()..]].concat());
    }
    out
}

/// Every `$ref` in a text. May find some that are not references; that only keeps more.
fn references(text: &str) -> Vec<String> {
    let found = text.match_indices("\"$ref\"").filter_map(|(at, key)| {
        let rest = text[at + key.len()..].trim_start().strip_prefix(':')?.trim_start();
        let end = rest.get(1..)?.find('"')? + 2;
        string(Raw::unchecked(rest.get(..end)?)).map(Cow::into_owned)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &str, expect: &str) {
        assert_eq!(without_unused(Raw::parse(schema.as_bytes()).unwrap()), expect);
    }

    #[test]
    fn only_definitions_that_nothing_refers_to_go() {
        check(r#"{"a":1.0,"$defs":{"x":{}},"b":2}"#, r#"{"a":1.0,"b":2}"#);
        check(
            r##"{"p":{"$ref":"#/$defs/x"},"$defs":{"x":{"$ref" : "#/$defs/y"},"z":{},"y":{"n":1.50}}}"##,
            r##"{"p":{"$ref":"#/$defs/x"},"$defs":{"x":{"$ref" : "#/$defs/y"},"y":{"n":1.50}}}"##,
        );
        check(
            r##"{"$ref":"#/definitions/a~1b","definitions":{"a/b":{},"c":{"$ref":"#/definitions/c"}},"$defs":{"d":{}}}"##,
            r##"{"$ref":"#/definitions/a~1b","definitions":{"a/b":{}}}"##,
        );
    }

    #[test]
    fn names_of_definitions_are_decoded() {
        for (reference, name) in [
            ("#/definitions/Partial%3CFoo%3E", "Partial<Foo>"),
            ("#/definitions/My%20Type", "My Type"),
            ("#/definitions/a~1b~0c", "a/b~c"),
            ("#/definitions/a%7E1b", "a/b"),
            ("#/%64efinitions/%C3%BC", "ü"),
            ("#/definitions/%zz", "%zz"),
            ("#/definitions/100%", "100%"),
        ] {
            check(
                &format!(r#"{{"$ref":"{reference}","definitions":{{"{name}":{{"a":1.0}},"other":{{}}}}}}"#),
                &format!(r#"{{"$ref":"{reference}","definitions":{{"{name}":{{"a":1.0}}}}}}"#),
            );
        }
    }

    #[test]
    fn what_is_not_understood_stays() {
        for schema in [
            r##"{"$ref":"#anchor","$defs":{"x":{"$anchor":"anchor"}}}"##,
            r##"{"$dynamicRef":"#x","$defs":{"x":{}}}"##,
            r##"{"$ref":"other.json","$defs":{"x":{}}}"##,
            r#"{"$defs":[1],"a":2}"#,
            r##"{"$ref":"#/$defs/x","$defs":{"x":{}}}"##,
            r##"{"$ref":"#/$defs/missing","$defs":{"x":{}}}"##,
            r##"{"$ref":"#/definitions/x","$defs":{"x":{}}}"##,
            r##"{"\u0024ref":"#/$defs/x","$defs":{"x":{},"y":{}}}"##,
            "true",
        ] {
            check(schema, schema);
        }
    }

    #[test]
    fn a_whole_definition_keeps_every_other_byte() {
        let tool = r#"{"name":"t","inputSchema":{"$schema":"s","$defs":{"x":{}},"a":1.0} ,"outputSchema":{"$defs":{"y":1},"b":2}, "z":1}"#;
        let raw = Raw::parse(tool.as_bytes()).unwrap();
        assert_eq!(
            definition(raw),
            r#"{"name":"t","inputSchema":{"$schema":"s","a":1.0} ,"outputSchema":{"b":2}, "z":1}"#
        );
        let schema = Raw::parse(br#"{"$schema":"s","$defs":{"x":{}},"a":1.0}"#).unwrap();
        assert_eq!(for_model(schema), r#"{"a":1.0}"#);
    }
}

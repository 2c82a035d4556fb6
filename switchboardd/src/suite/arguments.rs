//! Checks a call's arguments without a schema engine: required names, and unknown names if the schema forbids
//! them. Everything else is left to the child.

use std::collections::HashSet;

use switchboard_definitions::document::nearest;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::visible::clipped;

use crate::child::ArgumentNames;
use crate::signature::Signature;

/// How many names of arguments one sentence has.
const MAX_NAMES: usize = 20;
/// The longest type that it shows, in bytes.
const MAX_TYPE: usize = 400;
/// With how many names an unknown one is compared.
const MAX_COMPARED: usize = 200;
/// The longest name that it shows, in bytes.
const MAX_NAME: usize = 100;

/// What is wrong with the arguments of a call.
#[derive(Debug)]
pub(super) enum ArgumentMistake {
    /// The first missing ones, and how many more there are.
    Missing(Vec<Box<str>>, usize),
    Unknown {
        name: String,
        near: Option<Box<str>>,
        known: Vec<Box<str>>,
        more: usize,
    },
}

/// `None` if they are acceptable.
pub(super) fn mistake(names: &ArgumentNames, args: Option<Raw<'_>>) -> Option<ArgumentMistake> {
    if names.required.is_empty() && names.only.is_none() {
        return None;
    }
    let given = args.and_then(Members::of).unwrap_or_default();
    let given_names: HashSet<&str> = given.0.iter().map(|(name, _)| &**name).collect();
    let mut missing = names.required.iter().filter(|name| !given_names.contains(&***name));
    let first: Vec<Box<str>> = missing.by_ref().take(MAX_NAMES).cloned().collect();
    if !first.is_empty() {
        return Some(ArgumentMistake::Missing(first, missing.count()));
    }
    let known: HashSet<&str> = names.only.as_ref()?.iter().map(|name| &**name).collect();
    let (unknown, _) = given.0.iter().find(|(name, _)| !known.contains(&**name))?;
    let in_order = || names.only.iter().flatten();
    let unknown = clipped(unknown, MAX_NAME);
    let compared = in_order().map(|name| &**name).filter(|name| name.len() <= MAX_NAME).take(MAX_COMPARED);
    let near = nearest(&unknown, compared).map(Into::into);
    Some(ArgumentMistake::Unknown {
        name: unknown,
        near,
        known: in_order().take(MAX_NAMES).cloned().collect(),
        more: known.len().saturating_sub(MAX_NAMES),
    })
}

impl ArgumentMistake {
    /// A sentence that tells the model how to fix them.
    pub(super) fn sentence(&self, signature: &Signature) -> String {
        match self {
            Self::Missing(names, more) => {
                let typed = |name: &str| match signature.type_of(name) {
                    Some(of) if of.len() <= MAX_TYPE => format!("{} ({of})", shown(name)),
                    _ => shown(name),
                };
                let names: Vec<String> = names.iter().map(|name| typed(name)).collect();
                format!("missing argument {}{} in `args`", names.join(", "), and_more(*more))
            }
            Self::Unknown { name, near: Some(near), .. } => {
                format!("unknown argument `{name}` in `args`; did you mean {}?", shown(near))
            }
            Self::Unknown { name, known, more, .. } => {
                let known: Vec<String> = known.iter().map(|name| shown(name)).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                format!("unknown argument `{name}` in `args`; it takes {known}{}", and_more(*more))
            }
        }
    }
}

fn shown(name: &str) -> String {
    format!("`{}`", clipped(name, MAX_NAME))
}

fn and_more(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" and {count} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &str, args: &str, expect: Option<&str>) {
        let raw = |text| Raw::parse(str::as_bytes(text)).unwrap();
        let (names, signature) = (ArgumentNames::of(raw(schema)), Signature::of("t", Some(raw(schema))));
        let mistake = mistake(&names, Some(raw(args)));
        assert_eq!(mistake.map(|mistake| mistake.sentence(&signature)).as_deref(), expect);
    }

    const OPEN: &str = r#"{"type":"object","properties":{"a":{},"b":{}},"required":["a"]}"#;
    const CLOSED: &str = r#"{"properties":{"path":{}},"additionalProperties":false}"#;

    #[test]
    fn required_names_must_be_there() {
        check(OPEN, r#"{"a":null}"#, None);
        check(OPEN, r#"{"a":1,"z":2}"#, None);
        check(OPEN, r#"{"b":1}"#, Some("missing argument `a` (any) in `args`"));
    }

    #[test]
    fn a_sentence_has_few_names() {
        let names = |count: usize| (0..count).map(|n| format!("n{n:05}{}", "é".repeat(300)));
        let properties: Vec<String> =
            names(3000).map(|name| format!(r#""{name}":{{"type":"string"}}"#)).collect();
        let all: Vec<String> = names(3000).map(|name| format!(r#""{name}""#)).collect();
        let (properties, all) = (properties.join(","), all.join(","));
        let said = |schema: &str, args: &str| {
            let raw = |text| Raw::parse(str::as_bytes(text)).unwrap();
            let names = ArgumentNames::of(raw(schema));
            let mistake = mistake(&names, Some(raw(args))).unwrap();
            mistake.sentence(&Signature::of("t", Some(raw(schema))))
        };
        let missing = said(&format!(r#"{{"properties":{{{properties}}},"required":[{all}]}}"#), "{}");
        assert!(missing.len() < 3000 && missing.contains("`n00000"), "{missing}");
        assert!(missing.ends_with(" and 2980 more in `args`"), "{missing}");
        let closed = format!(r#"{{"properties":{{{properties}}},"additionalProperties":false}}"#);
        let unknown = said(&closed, &format!(r#"{{"{}":1}}"#, "z".repeat(5000)));
        assert!(unknown.len() < 3000 && unknown.ends_with(" and 2980 more"), "{unknown}");
    }

    #[test]
    fn unknown_names_are_refused_where_the_schema_forbids_them() {
        check(CLOSED, r#"{"path":1}"#, None);
        check(CLOSED, r#"{"pth":1}"#, Some("unknown argument `pth` in `args`; did you mean `path`?"));
        check(CLOSED, r#"{"zzzzzzz":1}"#, Some("unknown argument `zzzzzzz` in `args`; it takes `path`"));
    }

    #[test]
    fn arguments_that_may_have_a_default_are_not_required() {
        let schema = |of: &str| {
            format!(r#"{{"type":"object","properties":{{"a":{{}},"b":{of}}},"required":["a","b"]}}"#)
        };
        for of in [
            r#"{"type":"string","default":"css"}"#,
            r#"{"default":null}"#,
            r##"{"$ref":"#/$defs/level"}"##,
            r#"{"anyOf":[{"type":"string","default":"x"},{"type":"null"}]}"#,
            "true",
        ] {
            check(&schema(of), r#"{"a":1}"#, None);
            check(&schema(of), "{}", Some("missing argument `a` (any) in `args`"));
        }
        check(&schema(r#"{"type":"string"}"#), r#"{"a":1}"#, Some("missing argument `b` (string) in `args`"));
        // The schema lists it as required but does not define it.
        check(r#"{"required":["a"]}"#, "{}", None);
    }

    #[test]
    fn values_are_not_checked() {
        let schema =
            r#"{"properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}"#;
        for value in [r#""7""#, "null", "[]", "1e9"] {
            check(schema, &format!(r#"{{"n":{value}}}"#), None);
        }
    }

    #[test]
    fn an_unusable_schema_forbids_nothing() {
        for more in [
            r##""$ref":"#/$defs/x""##,
            r#""allOf":[{}]"#,
            r#""anyOf":[{}]"#,
            r#""oneOf":[{}]"#,
            r#""not":{}"#,
            r#""if":{},"then":{}"#,
            r#""patternProperties":{"^x":{}}"#,
            r#""dependentSchemas":{}"#,
            r#""type":["object","null"]"#,
            r#""type":"array""#,
        ] {
            let schema = format!(
                r#"{{"properties":{{"a":{{}}}},"required":["a"],"additionalProperties":false,{more}}}"#
            );
            check(&schema, r#"{"b":1}"#, None);
        }
        for open in ["true", "{}", r#"{"type":"string"}"#, "null"] {
            check(&format!(r#"{{"properties":{{}},"additionalProperties":{open}}}"#), r#"{"b":1}"#, None);
        }
        check("true", "{}", None);
        check(r#"{"required":"a"}"#, "{}", None);
        check(r#"{"patternProperties":{"^x":{}},"additionalProperties":false}"#, r#"{"x1":1}"#, None);
    }
}

//! Checks a call's arguments without a schema engine: required names, and unknown names if the schema forbids
//! them. Everything else is left to the child.

use switchboard_definitions::document::nearest;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use crate::child::ArgumentNames;
use crate::signature::Signature;

/// A sentence that tells the model how to fix the arguments; `None` if they are acceptable.
pub(super) fn complaint(
    names: &ArgumentNames,
    args: Option<Raw<'_>>,
    signature: impl FnOnce() -> Signature,
) -> Option<String> {
    if names.required.is_empty() && names.only.is_none() {
        return None;
    }
    let given = args.and_then(Members::of).unwrap_or_default();
    let missing: Vec<&str> =
        names.required.iter().map(|name| &**name).filter(|name| given.get(name).is_none()).collect();
    if !missing.is_empty() {
        let signature = signature();
        let typed = |name: &&str| match signature.type_of(name) {
            Some(of) => format!("`{name}` ({of})"),
            None => format!("`{name}`"),
        };
        let missing: Vec<String> = missing.iter().map(typed).collect();
        return Some(format!("missing argument {} in `args`", missing.join(", ")));
    }
    let known: Vec<&str> = names.only.as_ref()?.iter().map(|name| &**name).collect();
    let (unknown, _) = given.0.iter().find(|(name, _)| !known.contains(&&**name))?;
    let hint = nearest(unknown, known.iter().copied())
        .map_or_else(|| format!("; it takes {}", listed(&known)), |near| format!("; did you mean `{near}`?"));
    Some(format!("unknown argument `{unknown}` in `args`{hint}"))
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &str, args: &str, expect: Option<&str>) {
        let raw = |text| Raw::parse(str::as_bytes(text)).unwrap();
        let signature = || Signature::of("t", Some(raw(schema)));
        assert_eq!(complaint(&ArgumentNames::of(raw(schema)), Some(raw(args)), signature).as_deref(), expect);
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

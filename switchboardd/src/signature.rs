//! A tool on one line, as `click(ref: string, button?: "left"|"right" = "left")`: names, types and enum values of its
//! arguments, in the notation that models know from TypeScript. Pure: a schema in, a text out.
//!
//! Any schema gives a signature. What cannot be said in one line is shown as `object` or `any`, and [`Omissions`] says
//! what kind of thing that was.

mod pointer;
pub mod prune;
mod shape;
mod types;
mod written;

use std::collections::HashSet;
use std::fmt::Write;

use switchboard_wire::envelope::quoted;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::visible::is_hidden;

use types::TypeWriter;

/// How many arguments are shown. The required ones come first, and all of them are shown.
const MAX_ARGUMENTS: usize = 100;
/// The longest default value that is shown, in bytes.
const MAX_DEFAULT: usize = 40;

/// How much of the arguments is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Everything, inner objects included.
    Whole,
    /// Inner objects as `object`.
    Flat,
    /// Optional arguments as a count.
    Required,
    /// The names of the required arguments.
    Names,
}

/// A tool's name and arguments.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Signature {
    name: Box<str>,
    arguments: Vec<Argument>,
    /// How many optional arguments are not among `arguments`.
    more: usize,
    /// Whether the schema says more than a list of arguments can.
    is_partial: bool,
    omissions: Omissions,
}

/// What a signature leaves out of its schema even in whole detail, beside the descriptions of arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Omissions {
    /// What is in some objects.
    pub objects: bool,
    /// Some values of enums, or some types of a union.
    pub values: bool,
    /// Some default values.
    pub defaults: bool,
    /// Limits, patterns and formats of values.
    pub limits: bool,
    /// Rules about several arguments, such as `anyOf`; a signature shows them as `…`.
    pub rules: bool,
}

impl Omissions {
    pub fn and(self, other: Self) -> Self {
        Self {
            objects: self.objects | other.objects,
            values: self.values | other.values,
            defaults: self.defaults | other.defaults,
            limits: self.limits | other.limits,
            rules: self.rules | other.rules,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Argument {
    name: Box<str>,
    is_required: bool,
    whole: Box<str>,
    /// `None` if it is the same as `whole`.
    flat: Option<Box<str>>,
    default: Option<Box<str>>,
}

impl Signature {
    pub fn of(name: &str, schema: Option<Raw<'_>>) -> Self {
        let mut signature = Self { name: written_name(name).into(), ..Self::default() };
        let Some(schema) = schema else { return signature };
        let mut types = TypeWriter::new(schema);
        let shape = types.root_shape();
        signature.is_partial = shape.is_partial;
        signature.omissions.rules = shape.is_partial;
        let required: HashSet<&str> = shape.required.iter().map(String::as_str).collect();
        let mut properties = shape.properties;
        // A stable sort: the server's order is kept among the required and among the optional ones.
        properties.sort_by_cached_key(|(name, _)| !required.contains(&**name));
        let shown =
            properties.iter().filter(|(name, _)| required.contains(&**name)).count().max(MAX_ARGUMENTS);
        signature.more = properties.len().saturating_sub(shown);
        for (name, property) in properties.into_iter().take(shown) {
            let (whole, mut left_out) = types.write(&property, true);
            let (flat, _) = types.write(&property, false);
            let default = property.schemas().find_map(|schema| Members::of(schema)?.get("default"));
            let default = default
                .map(Raw::get)
                .filter(|default| default.len() <= MAX_DEFAULT && *default != "null")
                .filter(|default| !default.chars().any(is_hidden));
            left_out.defaults = left_out.defaults.saturating_sub(usize::from(default.is_some()));
            signature.omissions = signature.omissions.and(left_out.omissions());
            signature.arguments.push(Argument {
                is_required: required.contains(&*name),
                name: written_name(&name).into(),
                flat: (flat != whole).then(|| flat.into()),
                whole: whole.into(),
                default: default.map(Into::into),
            });
        }
        signature
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it leaves out in whole detail.
    pub fn omissions(&self) -> Omissions {
        self.omissions
    }

    pub fn write(&self, detail: Detail, out: &mut String) {
        out.push_str(&self.name);
        out.push('(');
        let (mut left_out, mut is_first) = (self.more, true);
        for argument in &self.arguments {
            if detail >= Detail::Required && !argument.is_required {
                left_out += 1;
                continue;
            }
            if !std::mem::take(&mut is_first) {
                out.push_str(", ");
            }
            argument.write(detail, out);
        }
        let mut separator = if is_first { "" } else { ", " };
        if left_out > 0 {
            let _ = write!(out, "{separator}…{left_out} optional");
            separator = ", ";
        }
        if self.is_partial {
            let _ = write!(out, "{separator}…");
        }
        out.push(')');
    }

    pub fn to_text(&self, detail: Detail) -> String {
        let mut out = String::new();
        self.write(detail, &mut out);
        out
    }

    /// The type of an argument, for a message about it.
    pub fn type_of(&self, argument: &str) -> Option<&str> {
        let written = written_name(argument);
        let argument = self.arguments.iter().find(|known| *known.name == *written)?;
        Some(argument.flat.as_deref().unwrap_or(&argument.whole))
    }
}

impl Argument {
    fn write(&self, detail: Detail, out: &mut String) {
        out.push_str(&self.name);
        if !self.is_required {
            out.push('?');
        }
        if detail == Detail::Names {
            return;
        }
        out.push_str(": ");
        match &self.flat {
            Some(flat) if detail >= Detail::Flat => out.push_str(flat),
            _ => out.push_str(&self.whole),
        }
        if let Some(default) = &self.default {
            let _ = write!(out, " = {default}");
        }
    }
}

/// A name as it is, or as a JSON string if it could be misread. Characters that nobody sees are escaped.
pub fn written_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$' | '@' | '/');
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    let mut written = String::new();
    for c in quoted(name).chars() {
        if is_hidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(written, "\\u{unit:04x}");
            }
        } else {
            written.push(c);
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn signature(schema: &Value) -> Signature {
        let text = schema.to_string();
        Signature::of("t", Raw::parse(text.as_bytes()))
    }

    #[track_caller]
    fn check(properties: &str, whole: &str) {
        let text = format!(r#"{{"type":"object","properties":{properties},"required":["a"]}}"#);
        let signature = Signature::of("t", Raw::parse(text.as_bytes()));
        assert_eq!(signature.to_text(Detail::Whole), format!("t({whole})"));
    }

    #[test]
    fn types_are_written_as_models_know_them() {
        check(r#"{"b":{"type":"integer"},"a":{"type":"string"}}"#, "a: string, b?: integer");
        check(r#"{"a":{"enum":["left","right"]}}"#, r#"a: "left"|"right""#);
        check(r#"{"a":{"type":"number","enum":[1,2.5]}}"#, "a: 1|2.5");
        check(r#"{"a":{"const":"x"}}"#, r#"a: "x""#);
        check(r#"{"a":{"type":"array","items":{"type":"string"}}}"#, "a: string[]");
        check(r#"{"a":{"type":"array"}}"#, "a: array");
        check(r#"{"a":{"type":"array","items":{"enum":["x","y"]}}}"#, r#"a: ("x"|"y")[]"#);
        check(r#"{"a":{"type":["string","null"]}}"#, "a: string|null");
        check(r#"{"a":{"type":"string","nullable":true}}"#, "a: string|null");
        check(r#"{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}}"#, "a: string|null");
        check(r#"{"a":{"type":"boolean","default":false}}"#, "a: boolean = false");
        check(r#"{"a":true,"b":false,"c":{}}"#, "a: any, b?: never, c?: any");
        check(
            r#"{"a":{"type":"object","properties":{"x":{"type":"string"},"y":{}},"required":["x"]}}"#,
            "a: {x: string, y?: any}",
        );
        check(
            r#"{"a":{"type":"object","additionalProperties":{"type":"string"}}}"#,
            "a: Record<string, string>",
        );
        check(r#"{"a":{"type":"object"}}"#, "a: object");
        check(
            r#"{"a":{"oneOf":[{"type":"string"},{"type":"string"},{"type":"integer"}]}}"#,
            "a: string|integer",
        );
        check(r#"{"a":{"allOf":[{"type":"string"}]}}"#, "a: string");
        check(
            r#"{"a":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}]}}"#,
            "a: [string, integer]",
        );
    }

    #[test]
    fn references_are_followed_and_circles_end() {
        let schema = json!({"type": "object", "$defs": {
            "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "id": {"$ref": "#/$defs/Id"}}},
            "Id": {"type": "string"}, "Self": {"$ref": "#/$defs/Self"},
        }, "properties": {"n": {"$ref": "#/$defs/Node"}, "s": {"$ref": "#/$defs/Self"}, "x": {"$ref": "http://x/y"},
            "r": {"$ref": "#"}}});
        let text = signature(&schema).to_text(Detail::Whole);
        assert!(text.contains("n?: {id?: string, next?: object}"), "{text}");
        assert!(text.contains("s?: any") && text.contains("x?: any"), "{text}");
    }

    #[test]
    fn names_that_could_be_misread_are_quoted() {
        let schema = json!({"properties": {"a b": {}, "x?: string, y": {}, "\u{202e}z": {}, "ok-1": {}}});
        let text = signature(&schema).to_text(Detail::Whole);
        assert_eq!(text, r#"t("a b"?: any, ok-1?: any, "x?: string, y"?: any, "\u202ez"?: any)"#);
        assert_eq!(Signature::of("", None).to_text(Detail::Whole), r#"""()"#);
    }

    #[test]
    fn composed_schemas_show_what_can_be_shown() {
        let all = json!({"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {}}}]});
        assert_eq!(signature(&all).to_text(Detail::Whole), "t(a: string, b?: any)");
        let any = json!({"properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {}]});
        assert_eq!(signature(&any).to_text(Detail::Whole), "t(a?: any, …)");
        assert_eq!(signature(&any).to_text(Detail::Required), "t(…1 optional, …)");
        assert!(signature(&any).omissions().rules);
        for odd in
            [json!(true), json!(false), json!([]), json!("x"), json!({"properties": 1, "required": {}})]
        {
            assert_eq!(signature(&odd).to_text(Detail::Whole), "t()", "{odd}");
        }
    }

    #[test]
    fn rules_about_arguments_are_not_silently_left_out() {
        for rule in [
            json!({"dependentRequired": {"a": ["b"]}}),
            json!({"dependencies": {"a": ["b"]}}),
            json!({"propertyNames": {"pattern": "^x"}}),
            json!({"additionalProperties": {"type": "string"}}),
        ] {
            let mut schema = rule;
            schema["properties"] = json!({"a": {}});
            assert_eq!(signature(&schema).to_text(Detail::Whole), "t(a?: any, …)", "{schema}");
            assert!(signature(&schema).omissions().rules, "{schema}");
        }
        let closed = json!({"properties": {"a": {}}, "additionalProperties": false});
        assert_eq!(signature(&closed).to_text(Detail::Whole), "t(a?: any)");
    }

    #[test]
    fn what_stands_beside_a_union_is_shown() {
        let shown = |schema: Value| {
            let schema = json!({"properties": {"a": schema}});
            let signature = signature(&schema);
            let Omissions { objects, limits, .. } = signature.omissions();
            (signature.to_text(Detail::Whole), objects, limits)
        };
        let one_of = json!({"type": "object", "properties": {"x": {"type": "string"}, "y": {}},
            "anyOf": [{"required": ["x"]}, {"required": ["y"]}]});
        assert_eq!(shown(one_of), ("t(a?: {x?: string, y?: any})".to_owned(), true, false));
        let tagged = json!({"type": "object", "required": ["kind"],
            "oneOf": [{"properties": {"kind": {"const": "a"}}}, {"properties": {"kind": {"const": "b"}, "x": {}}}]});
        assert_eq!(shown(tagged), (r#"t(a?: {kind?: "a"}|{kind?: "b", x?: any})"#.to_owned(), true, false));
        let formats = json!({"type": "string", "anyOf": [{"format": "date"}, {"format": "time"}]});
        assert_eq!(shown(formats), ("t(a?: string)".to_owned(), false, true));
        let items = json!({"type": "array", "items": {"type": "string"}, "oneOf": [{"maxItems": 1}, {"maxItems": 3}]});
        assert_eq!(shown(items), ("t(a?: string[])".to_owned(), true, false));
        let patterns = json!({"type": "object", "patternProperties": {"^x": {"type": "string"}}});
        assert_eq!(shown(patterns), ("t(a?: object)".to_owned(), true, false));
        let referenced = json!({"$ref": "#/properties/b", "required": ["c"]});
        assert!(shown(referenced).1);
        let typed =
            json!({"type": "object", "properties": {"x": {}}, "additionalProperties": {"type": "string"}});
        assert_eq!(shown(typed), ("t(a?: {x?: any})".to_owned(), true, false));
        // Nothing is left out of these.
        let plain = json!({"anyOf": [{"type": "string"}, {"type": "null"}], "type": ["string", "null"]});
        assert_eq!(shown(plain), ("t(a?: string|null)".to_owned(), false, false));
    }

    #[test]
    fn a_long_union_keeps_its_type_and_counts_what_it_leaves_out() {
        let values: Vec<String> = (0..300).map(|n| format!("value-{n}")).collect();
        let shown = |schema: Value| signature(&json!({"properties": {"a": schema}})).to_text(Detail::Whole);
        // `Optional[Literal[…]]` of Python.
        let optional = shown(json!({"anyOf": [{"type": "string", "enum": values}, {"type": "null"}]}));
        assert!(optional.starts_with(r#"t(a?: "value-0"|"value-1"|"#), "{optional}");
        assert!(optional.ends_with(" more|null)") && optional.len() < 1200, "{optional}");
        let each: Vec<Value> = values.iter().map(|value| json!({"const": value})).collect();
        let each = shown(json!({"oneOf": each}));
        assert!(each.contains(r#""value-50""#) && each.ends_with(" more)") && each.len() < 1200, "{each}");
        let count = |text: &str| -> usize {
            let left = text.split_once('…').unwrap().1.split(' ').next().unwrap().parse::<usize>().unwrap();
            left + text.matches("value-").count()
        };
        assert_eq!((count(&optional), count(&each)), (300, 300));
        let long = json!({"enum": ["x".repeat(200), "y", "z".repeat(100)]});
        assert_eq!(shown(long), r#"t(a?: "y"|…2 more)"#);
        assert_eq!(shown(json!({"const": "x".repeat(200)})), "t(a?: …1 values)");
        let types: Vec<Value> =
            (0..20).map(|n| json!({"type": "object", "properties": {format!("p{n}"): {}}})).collect();
        assert!(shown(json!({"anyOf": types})).ends_with("{p11?: any}|…8 more)"));
        let wide = json!({"type": "object", "properties": {"long".repeat(70): {}}});
        let objects: Vec<Value> = (0..4)
            .map(|n| {
                let mut one = wide.clone();
                one["properties"][format!("p{n}")] = json!({});
                one
            })
            .collect();
        assert_eq!(shown(json!({"anyOf": objects})), "t(a?: object)");
        let items = json!({"type": "array", "items": {"anyOf": [{"type": "object", "properties": {"x": {}}}, {"type": "object", "properties": {"y": {}}}]}});
        assert_eq!(shown(items), "t(a?: ({x?: any}|{y?: any})[])");
    }

    #[test]
    fn what_is_left_out_is_known() {
        let check = |schema: Value, expect: Omissions| {
            assert_eq!(signature(&json!({"properties": {"a": schema}})).omissions(), expect, "{schema}");
        };
        let none = Omissions::default();
        check(json!({"type": "string", "default": "x", "description": "A."}), none);
        check(json!({"type": "string", "default": null}), none);
        check(json!({"enum": ["x", "y"]}), none);
        check(json!({"type": "object", "properties": {"x": {"type": "string"}}}), none);
        let limits = Omissions { limits: true, ..none };
        for limit in [
            json!({"minimum": 1}),
            json!({"pattern": "^a"}),
            json!({"format": "uri"}),
            json!({"maxItems": 3}),
        ] {
            check(limit, limits);
        }
        check(json!({"type": "object", "properties": {"x": {"maxLength": 3}}}), limits);
        let defaults = Omissions { defaults: true, ..none };
        check(json!({"type": "string", "default": "x".repeat(50)}), defaults);
        check(json!({"type": "object", "properties": {"x": {"type": "string", "default": "y"}}}), defaults);
        let values = Omissions { values: true, ..none };
        check(json!({"enum": ["x".repeat(100)]}), values);
        check(json!({"enum": (0..2000).collect::<Vec<_>>()}), values);
        let objects = Omissions { objects: true, ..none };
        let wide: Map<String, Value> = (0..200).map(|n| (format!("p{n}"), json!({}))).collect();
        check(json!({"type": "object", "properties": wide}), objects);
        check(json!({"allOf": [{"type": "object"}, {"type": "object"}]}), objects);
        check(json!({"$ref": "http://x/y"}), objects);
    }

    #[test]
    fn arguments_are_found_wherever_a_schema_describes_them() {
        let check = |schema: Value, expect: &str| {
            assert_eq!(signature(&schema).to_text(Detail::Whole), expect, "{schema}");
            let is_partial = expect.contains('…');
            assert_eq!(signature(&schema).omissions().rules, is_partial, "{schema}");
        };
        check(
            json!({"properties": {"a": {"type": "string"}}, "allOf": [{"properties": {"a": {"enum": ["x", "y"]}}}]}),
            r#"t(a?: "x"|"y")"#,
        );
        check(
            json!({"$ref": "#/definitions/My%20Type", "definitions": {
                "My Type": {"properties": {"a": {"type": "string"}}, "required": ["a"]}}}),
            "t(a: string)",
        );
        check(json!({"$ref": "#/definitions/gone"}), "t(…)");
        check(json!({"$ref": "https://x.example/y"}), "t(…)");
        check(json!({"$dynamicRef": "#x"}), "t(…)");
        check(json!({"properties": {"a": {}}, "minProperties": 1}), "t(a?: any, …)");
        check(
            json!({"oneOf": [
                {"properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]}),
            "t(a?: string, b?: integer, …)",
        );
        check(
            json!({"anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}], "$defs": {
                "x": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
                "y": {"properties": {"kind": {"const": "b"}, "z": {"type": "number"}}, "required": ["z", "kind"]}}}),
            r#"t(kind: "a"|"b", z?: number, …)"#,
        );
        // One alternative limits nothing that another allows.
        check(
            json!({"properties": {"a": {"type": "string"}}, "oneOf": [
                {"properties": {"a": {"const": "x"}}}, {"properties": {"b": {}}}]}),
            "t(a?: string, b?: any, …)",
        );
        check(
            json!({"properties": {"a": {"type": "string"}}, "if": {"properties": {"a": {"const": "x"}}},
                "then": {"properties": {"a": {"const": "x"}, "b": {"type": "integer"}}, "required": ["b"]}}),
            "t(a?: string, b?: integer, …)",
        );
    }

    #[test]
    fn nothing_about_one_argument_is_silently_left_out() {
        let check = |schema: Value, expect: &str, (objects, limits): (bool, bool)| {
            let signature = signature(&json!({"properties": {"a": schema}}));
            assert_eq!(signature.to_text(Detail::Whole), format!("t(a?: {expect})"), "{schema}");
            let found = signature.omissions();
            assert_eq!((found.objects, found.limits), (objects, limits), "{schema}");
        };
        let (nothing, objects, limits) = ((false, false), (true, false), (false, true));
        check(
            json!({"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}),
            "[string, integer]",
            nothing,
        );
        check(json!({"prefixItems": [{"type": "string"}]}), "[string]", nothing);
        check(json!({"type": "array", "contains": {"const": 1}}), "array", limits);
        check(json!({"type": "string", "contentEncoding": "base64"}), "string", limits);
        check(json!({"enum": ["x", "y"], "not": {"const": "y"}}), r#""x"|"y""#, limits);
        check(json!({"const": "x", "allOf": [{"minLength": 1}]}), r#""x""#, limits);
        check(json!({"allOf": [{"type": "string"}, {"enum": ["x"]}]}), r#""x""#, objects);
        check(json!({"type": "string", "allOf": [{"enum": ["x"]}]}), r#""x""#, nothing);
        check(
            json!({"allOf": [{"type": "object", "properties": {"x": {"type": "string"}}},
                {"type": "object", "properties": {"y": {}}, "required": ["y"]}]}),
            "{x?: string, y: any}",
            objects,
        );
        check(json!({"type": "object", "required": ["x"]}), "object", objects);
        check(json!({"anyOf": [{"type": "string"}], "not": {"const": "y"}}), "string", objects);
        check(json!({"$dynamicRef": "#x"}), "any", objects);
    }

    #[test]
    fn required_arguments_are_never_counted_as_optional() {
        let only_required = json!({"type": "object", "required": ["path"]});
        assert_eq!(signature(&only_required).to_text(Detail::Whole), "t(path: any)");
        let wide: Map<String, Value> =
            (0..300).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
        let names: Vec<String> = (0..150).map(|n| format!("p{n}")).collect();
        let text = signature(&json!({"properties": wide, "required": names})).to_text(Detail::Whole);
        assert!(names.iter().all(|name| text.contains(&format!("{name}: string"))), "{text}");
        assert!(text.ends_with(", …150 optional)"), "{text}");
    }

    #[test]
    fn less_detail_leaves_out_the_inner_things_first() {
        let schema = json!({"properties": {
            "o": {"type": "object", "properties": {"x": {"enum": [1, 2]}}}, "a": {"type": "array", "items": {"type": "object",
            "properties": {"y": {}}}}, "e": {"enum": ["p", "q"]}}, "required": ["o", "e"]});
        let signature = signature(&schema);
        assert_eq!(signature.to_text(Detail::Whole), r#"t(e: "p"|"q", o: {x?: 1|2}, a?: {y?: any}[])"#);
        assert_eq!(signature.to_text(Detail::Flat), r#"t(e: "p"|"q", o: object, a?: object[])"#);
        assert_eq!(signature.to_text(Detail::Required), r#"t(e: "p"|"q", o: object, …1 optional)"#);
        assert_eq!(signature.to_text(Detail::Names), "t(e, o, …1 optional)");
    }

    #[test]
    fn huge_and_deep_schemas_are_short_and_quick() {
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"type": "object", "properties": {"x": deep}});
        }
        assert!(signature(&deep).to_text(Detail::Whole).len() < 200);
        let wide: Map<String, Value> =
            (0..20_000).map(|n| (format!("p{n}"), json!({"enum": ["a", "b"]}))).collect();
        let text = signature(&json!({"properties": wide, "required": ["p19999"]})).to_text(Detail::Whole);
        assert!(text.starts_with("t(p19999: ") && text.contains("…19900 optional"), "{text}");
        let values: Vec<String> = (0..50_000).map(|n| format!("value {n}")).collect();
        let text = signature(&json!({"properties": {"a": {"enum": values}}})).to_text(Detail::Whole);
        assert!(text.len() < 1500 && text.contains("|…"), "{}", text.len());
        // Each level refers to the next one twice.
        let defs: Map<String, Value> = (0..60)
            .map(|n| {
                let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
                (format!("d{n}"), json!({"type": "object", "properties": {"a": next, "b": next}}))
            })
            .collect();
        let schema = json!({"$defs": defs, "properties": {"a": {"$ref": "#/$defs/d0"}}});
        assert!(signature(&schema).to_text(Detail::Whole).len() < 2000);
    }

    /// The type of a property, as a test writes it, and how a signature must show it.
    fn property() -> impl Strategy<Value = (Value, String)> {
        let kinds = ["string", "number", "integer", "boolean", "null"];
        prop_oneof![
            proptest::sample::select(kinds.to_vec())
                .prop_map(|kind| (json!({"type": kind}), kind.to_owned())),
            proptest::collection::vec("[a-z \"\\\\|]{0,6}", 1..5).prop_map(|mut values| {
                values.sort();
                values.dedup();
                let text: Vec<String> = values.iter().map(|value| quoted(value)).collect();
                (json!({"type": "string", "enum": values}), text.join("|"))
            }),
            proptest::collection::vec(-9i64..9, 1..5).prop_map(|mut values| {
                values.sort();
                values.dedup();
                let text: Vec<String> = values.iter().map(ToString::to_string).collect();
                (json!({"enum": values}), text.join("|"))
            }),
            Just((json!({"type": "array", "items": {"type": "string"}}), "string[]".to_owned())),
            Just((json!({"type": "array", "items": [{"type": "string"}, {}]}), "array".to_owned())),
            Just((json!({"$ref": "#/$defs/Of%3CX%3E"}), "integer".to_owned())),
            Just((json!({"allOf": [{"type": "string"}, {"enum": ["p", "q"]}]}), r#""p"|"q""#.to_owned())),
            Just((json!({"type": "string", "allOf": [{"const": "p"}]}), r#""p""#.to_owned())),
            Just((
                json!({"type": "object", "properties": {"deep": {"type": "object"}}}),
                "object".to_owned()
            )),
            // What tools in Python write for a choice that may be left out.
            proptest::collection::btree_set("[a-z]{1,6}", 1..8).prop_map(|values| {
                let text: Vec<String> = values.iter().map(|value| quoted(value).to_string()).collect();
                let schema = json!({"anyOf": [{"type": "string", "enum": values}, {"type": "null"}]});
                (schema, format!("{}|null", text.join("|")))
            }),
            proptest::collection::btree_set("[a-z]{1,6}", 1..20).prop_map(|values| {
                let text: Vec<String> = values.iter().map(|value| quoted(value).to_string()).collect();
                let each: Vec<Value> = values.iter().map(|value| json!({"const": value})).collect();
                (json!({"oneOf": each}), text.join("|"))
            }),
            (200usize..400).prop_map(|count| {
                let values: Vec<String> = (0..count).map(|n| format!("v{n:03}")).collect();
                // As many as fit into 1,000 bytes.
                let text: Vec<String> =
                    values.iter().take(144).map(|value| quoted(value).to_string()).collect();
                (json!({"enum": values}), format!("{}|…{} more", text.join("|"), count - 144))
            }),
        ]
    }

    proptest! {
        /// Names, types and enum values of the top level are in the signature, whatever else must be left out.
        #[test]
        fn a_signature_says_what_the_schema_says(
            all in proptest::collection::btree_map("[a-zA-Z_ ,:?()-]{1,10}", (property(), any::<bool>()), 0..12),
            unnamed in proptest::collection::btree_set("[0-9]{1,5}", 0..4),
            place in proptest::sample::select(vec!["", "allOf", "$ref", "oneOf", "anyOf"]),
        ) {
            let properties: Map<String, Value> =
                all.iter().map(|(name, ((schema, _), _))| (name.clone(), schema.clone())).collect();
            let needed = all.iter().filter(|(_, (_, needed))| *needed).map(|(name, _)| name);
            // Some names are required and have no property.
            let required: Vec<&String> = needed.chain(&unnamed).collect();
            let inner = json!({"type": "object", "properties": properties, "required": required});
            let mut schema = match place {
                "" => inner,
                "$ref" => json!({"$ref": "#/definitions/all%20of~0it", "definitions": {"all of~it": inner}}),
                "allOf" => json!({"allOf": [inner]}),
                // The same arguments twice.
                key => json!({"type": "object", key: [inner, inner]}),
            };
            schema["$defs"] = json!({"Of<X>": {"type": "integer"}});
            let signature = signature(&schema);
            let rule = place.ends_with("Of") && place != "allOf";
            prop_assert_eq!(signature.omissions().rules, rule);
            let shown = |needed: bool| all.iter().filter(move |(_, (_, is))| *is == needed).map(move |(name, ((_, kind), _))| {
                format!("{}{}: {kind}", written_name(name), if needed { "" } else { "?" })
            });
            let unnamed = || unnamed.iter().map(|name| format!("{}: any", written_name(name)));
            let rule = rule.then(|| "…".to_owned());
            let every: Vec<String> =
                shown(true).chain(unnamed()).chain(shown(false)).chain(rule.clone()).collect();
            prop_assert_eq!(signature.to_text(Detail::Flat), format!("t({})", every.join(", ")));
            let mut some: Vec<String> = shown(true).chain(unnamed()).collect();
            let optional = shown(false).count();
            if optional > 0 {
                some.push(format!("…{optional} optional"));
            }
            some.extend(rule);
            prop_assert_eq!(signature.to_text(Detail::Required), format!("t({})", some.join(", ")));
        }

        /// However many arguments there are, and whatever is left out, each required name stays, and the others are
        /// shown or counted.
        #[test]
        fn required_names_survive_in_every_detail(
            properties in proptest::collection::btree_set("[a-z]{1,3}", 0..220),
            required in proptest::collection::btree_set("[a-z]{1,3}", 0..220),
            has_rule: bool,
        ) {
            let all: Map<String, Value> = properties.iter().map(|name| (name.clone(), json!({}))).collect();
            let mut schema = json!({"type": "object", "properties": all, "required": required});
            if has_rule {
                schema["oneOf"] = json!([]);
            }
            let signature = signature(&schema);
            let optional = properties.difference(&required).count();
            for detail in [Detail::Whole, Detail::Flat, Detail::Required, Detail::Names] {
                let text = signature.to_text(detail);
                let arguments = text.strip_prefix("t(").and_then(|text| text.strip_suffix(')')).unwrap();
                let parts: Vec<&str> = arguments.split(", ").filter(|part| !part.is_empty()).collect();
                let name = |part: &str| part.split(':').next().unwrap().to_owned();
                let said: std::collections::BTreeSet<String> =
                    parts.iter().map(|part| name(part)).filter(|name| !name.contains(['?', '…'])).collect();
                prop_assert_eq!(&said, &required);
                let shown = parts.iter().filter(|part| name(part).ends_with('?')).count();
                let counted = parts.iter().find_map(|part| part.strip_prefix('…')?.strip_suffix(" optional"));
                let counted = counted.map_or(0, |count| count.parse::<usize>().unwrap());
                prop_assert_eq!(shown + counted, optional);
                prop_assert_eq!(parts.contains(&"…"), has_rule);
            }
        }

        #[test]
        fn no_schema_makes_it_panic_or_grow(text in r#"[\[\]{}",:a-z$#/ 0-9]{0,120}"#) {
            let all = format!(r#"{{"properties":{{"a":{{"type":{text}}},"$ref":"{text}""#);
            let signature = Signature::of("t", Some(Raw::unchecked(&all)));
            prop_assert!(signature.to_text(Detail::Whole).len() < 4000);
        }
    }
}

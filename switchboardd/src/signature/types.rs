//! The types of a signature's arguments.

use std::borrow::Cow;
use std::collections::HashSet;

use switchboard_wire::envelope::string;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use super::pointer::pointer;
use super::written::{is_union, is_value, joined, value_text};
use super::{Omissions, written_name};

/// How deep inner objects and arrays are shown.
const MAX_DEPTH: usize = 3;
/// How many references are followed in a row.
pub(super) const MAX_REFERENCES: usize = 8;
/// The longest text of one inner object, in bytes; a longer one is `object`.
const MAX_INNER: usize = 400;
/// How long the values of an enum, or the types of a union, may be in all, in bytes.
const MAX_VALUES: usize = 1000;
/// How many types of a union are shown. Single values are limited by their bytes only.
const MAX_UNION: usize = 12;
/// Names of types. A union always shows them.
const TYPES: [&str; 9] =
    ["string", "number", "integer", "boolean", "null", "object", "array", "any", "never"];
/// Members that limit a value without naming its type.
const LIMITS: [&str; 21] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedItems",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
];

/// Members of an object's schema that say which properties go together, or what those without a name are like.
pub(super) const RULES: [&str; 9] = [
    "anyOf",
    "oneOf",
    "not",
    "if",
    "patternProperties",
    "propertyNames",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
];
/// Members that say more about an object or an array than its type does.
const PARTS: [&str; 4] = ["properties", "required", "items", "prefixItems"];
const OTHER_PARTS: [&str; 4] = ["additionalProperties", "additionalItems", "$dynamicRef", "$recursiveRef"];

/// What is said of one argument.
#[derive(Default)]
pub(super) struct ArgumentSchemas<'a> {
    /// All of these hold.
    pub(super) all: Vec<Raw<'a>>,
    /// One of these holds.
    pub(super) any: Vec<Raw<'a>>,
}

impl<'a> ArgumentSchemas<'a> {
    pub(super) fn schemas(&self) -> impl Iterator<Item = Raw<'a>> {
        self.all.iter().chain(&self.any).copied()
    }
}

pub(super) struct TypeWriter<'a> {
    pub(super) root: Raw<'a>,
    /// `$defs` and `definitions`.
    shared: [Members<'a>; 2],
    /// How many more bytes may be read. References could otherwise make a small schema endless.
    budget: usize,
    /// The references that are being followed.
    path: Vec<String>,
    left_out: PropertyOmissions,
}

/// What the text of one property leaves out.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PropertyOmissions {
    objects: bool,
    values: bool,
    limits: bool,
    /// How many defaults its schema has. A type shows none of them.
    pub(super) defaults: usize,
}

impl PropertyOmissions {
    pub(super) fn omissions(self) -> Omissions {
        let Self { objects, values, limits, defaults } = self;
        Omissions { objects, values, limits, defaults: defaults > 0, rules: false }
    }
}

impl<'a> TypeWriter<'a> {
    pub(super) fn new(root: Raw<'a>) -> Self {
        let members = Members::of(root).unwrap_or_default();
        let shared =
            ["$defs", "definitions"].map(|key| members.get(key).and_then(Members::of).unwrap_or_default());
        Self {
            root,
            shared,
            budget: 12 * root.get().len() + 16 * 1024,
            path: Vec::new(),
            left_out: Default::default(),
        }
    }

    /// The text of an argument's type, with inner objects if `is_whole`; and what that leaves out.
    pub(super) fn write(
        &mut self,
        said: &ArgumentSchemas<'a>,
        is_whole: bool,
    ) -> (String, PropertyOmissions) {
        let depth = if is_whole { MAX_DEPTH } else { 0 };
        self.left_out = PropertyOmissions::default();
        let mut text: Option<String> = None;
        for schema in &said.all {
            let next = self.text(*schema, depth, 0);
            text = Some(self.both(text, next));
        }
        if !said.any.is_empty() {
            let union = self.union(&said.any, depth, 0);
            text = Some(self.both(text, union));
        }
        (text.unwrap_or_else(|| "any".to_owned()), self.left_out)
    }

    /// The text of a value for which both hold, as far as that can be said.
    fn both(&mut self, one: Option<String>, other: String) -> String {
        let Some(one) = one else { return other };
        let is_general = |text: &str| text.split('|').all(|part| TYPES.contains(&part));
        if one == other || other == "any" {
            return one;
        }
        if one == "any" {
            return other;
        }
        let inner = |text: &str| -> Option<String> {
            Some(text.strip_prefix('{')?.strip_suffix('}')?.to_owned()).filter(|_| !is_union(text))
        };
        match (is_general(&one), is_general(&other)) {
            (true, false) => other,
            (false, true) => one,
            _ => {
                self.left_out.objects = true;
                match (inner(&one), inner(&other)) {
                    (Some(one), Some(other)) if one.len() + other.len() <= MAX_INNER => {
                        format!("{{{one}, {other}}}")
                    }
                    _ => one,
                }
            }
        }
    }

    fn text(&mut self, schema: Raw<'a>, depth: usize, references: usize) -> String {
        match schema.get() {
            "true" => return "any".to_owned(),
            "false" => return "never".to_owned(),
            _ => {}
        }
        let Some(members) = self.members(schema) else {
            self.left_out.objects = true;
            return "any".to_owned();
        };
        self.left_out.limits |= LIMITS.iter().any(|key| members.get(key).is_some());
        self.left_out.defaults +=
            usize::from(members.get("default").is_some_and(|default| default.get() != "null"));
        let mut text = self.text_of(&members, depth, references);
        let has_null = text.split('|').any(|part| part == "null");
        if members.get("nullable").is_some_and(|it| it.get() == "true") && !has_null {
            text.push_str("|null");
        }
        text
    }

    fn text_of(&mut self, members: &Members<'a>, depth: usize, references: usize) -> String {
        let values = members.get("enum").filter(|values| values.get().starts_with('['));
        if members.get("const").is_some() || values.is_some() {
            self.left_out.limits |= has_any(members, &RULES) || has_any(members, &["$ref", "allOf"]);
        }
        if let Some(value) = members.get("const") {
            return self.values(vec![value_text(value)]);
        }
        if let Some(values) = values {
            return self.values(items(values).into_iter().map(value_text).collect());
        }
        if let Some(reference) = members.text("$ref") {
            self.left_out.objects |=
                has_any(members, &PARTS) || has_any(members, &RULES) || members.get("allOf").is_some();
            let target = self.referenced(members).filter(|_| references < MAX_REFERENCES);
            let Some(target) = target else {
                self.left_out.objects = true;
                return "any".to_owned();
            };
            // In a circle only the outer type is shown.
            let depth = if self.path.iter().any(|known| *known == reference) { 0 } else { depth };
            self.path.push(reference.into_owned());
            let text = self.text(target, depth, references + 1);
            self.path.pop();
            return text;
        }
        // Beside properties or items, a union only says more about them.
        let has_parts = has_any(members, &PARTS);
        let is_union = !has_any(members, &["properties", "items", "prefixItems"]);
        for key in ["anyOf", "oneOf"].into_iter().filter(|_| is_union) {
            if let Some(all) = members.get(key) {
                self.left_out.objects |= has_parts
                    || members.get("allOf").is_some()
                    || RULES.iter().any(|rule| *rule != key && members.get(rule).is_some());
                let union = self.union(&items(all), depth, references);
                // As in `{"type":"string","anyOf":[{"format":"date"},{"format":"time"}]}`.
                let Some(kind) = members.get("type").filter(|_| union == "any") else { return union };
                self.left_out.limits = true;
                return self.kinds(kind, members, depth, references);
            }
        }
        self.left_out.objects |= has_any(members, &RULES);
        let own = self.own_text(members, depth, references);
        let Some(all) = members.get("allOf") else { return own };
        let all = items(all);
        self.left_out.objects |= has_parts || all.len() > 1;
        let mut text = Some(own).filter(|own| own != "any");
        for part in all.into_iter().take(MAX_UNION) {
            let next = self.text(part, depth, references + 1);
            text = Some(self.both(text, next));
        }
        text.unwrap_or_else(|| "any".to_owned())
    }

    /// The text of what a schema says itself, without what it refers to.
    fn own_text(&mut self, members: &Members<'a>, depth: usize, references: usize) -> String {
        match members.get("type") {
            Some(kind) => self.kinds(kind, members, depth, references),
            None if members.get("properties").is_some() => self.object(members, depth, references),
            None if members.get("items").is_some() => self.array(members, depth, references),
            None if members.get("prefixItems").is_some() => self.array(members, depth, references),
            None => {
                self.left_out.objects |= has_any(members, &PARTS) || has_any(members, &OTHER_PARTS);
                "any".to_owned()
            }
        }
    }

    /// The text of what `type` says: one name, or several.
    fn kinds(&mut self, kind: Raw<'a>, members: &Members<'a>, depth: usize, references: usize) -> String {
        if let Some(kind) = string(kind) {
            return self.of_kind(&kind, members, depth, references);
        }
        if !kind.get().starts_with('[') {
            return "any".to_owned();
        }
        let kinds = items(kind).into_iter().filter_map(string).take(MAX_UNION);
        let texts = kinds.map(|kind| self.of_kind(&kind, members, depth, references)).collect();
        joined(texts)
    }

    fn of_kind(&mut self, kind: &str, members: &Members<'a>, depth: usize, references: usize) -> String {
        match kind {
            "object" => self.object(members, depth, references),
            "array" => self.array(members, depth, references),
            "string" | "number" | "integer" | "boolean" | "null" => kind.to_owned(),
            _ => "any".to_owned(),
        }
    }

    fn array(&mut self, members: &Members<'a>, depth: usize, references: usize) -> String {
        let is_list = |items: &Raw<'a>| items.get().starts_with('[');
        // `items` with a list is how older schemas write it.
        let tuple = members.get("prefixItems").or_else(|| members.get("items").filter(is_list));
        self.left_out.objects |= tuple.is_some() && depth == 0;
        if let Some(all) = tuple.filter(|_| depth > 0) {
            let all = items(all);
            let more = all.len().saturating_sub(MAX_UNION);
            let mut texts: Vec<String> =
                all.into_iter().take(MAX_UNION).map(|item| self.text(item, depth - 1, references)).collect();
            if more > 0 {
                self.left_out.values = true;
                texts.push(format!("…{more} more"));
            }
            // The items after these.
            self.left_out.objects |= members.get("items").is_some_and(|items| items.get().starts_with('{'))
                || has_any(members, &["additionalItems"]);
            return format!("[{}]", texts.join(", "));
        }
        let Some(item) = members.get("items").filter(|items| items.get().starts_with('{')) else {
            return "array".to_owned();
        };
        let item = self.text(item, depth, references + 1);
        match &*item {
            "any" => "array".to_owned(),
            _ if is_union(&item) => format!("({item})[]"),
            _ => format!("{item}[]"),
        }
    }

    fn object(&mut self, members: &Members<'a>, depth: usize, references: usize) -> String {
        const OBJECT: &str = "object";
        let values = members.get("additionalProperties").filter(|more| more.get().starts_with('{'));
        if depth == 0 || references >= MAX_REFERENCES {
            self.left_out.objects |= members.get("properties").is_some_and(|all| all.get() != "{}")
                || !required(members).is_empty()
                || values.is_some_and(|values| values.get() != "{}");
            return OBJECT.to_owned();
        }
        let properties = members.get("properties").and_then(|it| self.members(it)).unwrap_or_default();
        let required: Vec<String> = required(members);
        if properties.0.is_empty() {
            self.left_out.objects |= !required.is_empty();
            return match values {
                Some(values) => match self.text(values, depth - 1, references) {
                    values if values == "any" => OBJECT.to_owned(),
                    values => format!("Record<string, {values}>"),
                },
                None => OBJECT.to_owned(),
            };
        }
        // What the properties without a name are like.
        self.left_out.objects |= takes_typed_names(members);
        let is_described = |name: &String| properties.0.iter().any(|(known, _)| known == name);
        self.left_out.objects |= !required.iter().all(is_described);
        let mut text = String::from("{");
        for (name, property) in properties.0 {
            if text.len() > 1 {
                text.push_str(", ");
            }
            text.push_str(&written_name(&name));
            text.push_str(if required.iter().any(|required| *required == name) { ": " } else { "?: " });
            text.push_str(&self.text(property, depth - 1, references));
            if text.len() > MAX_INNER {
                self.left_out.objects = true;
                return OBJECT.to_owned();
            }
        }
        text.push('}');
        text
    }

    /// A union of types; where that is long, inner objects are only `object`.
    fn union(&mut self, all: &[Raw<'a>], depth: usize, references: usize) -> String {
        let before = self.left_out;
        let (mut texts, mut more) = self.alternatives(all, depth, references);
        let bytes = texts.iter().map(|text| text.len() + 1).sum::<usize>();
        if depth > 0 && bytes > 2 * MAX_INNER {
            self.left_out = before;
            (texts, more) = self.alternatives(all, 0, references);
        }
        self.shortened(texts, more)
    }

    /// The different types of a union, and how many more there are.
    fn alternatives(&mut self, all: &[Raw<'a>], depth: usize, references: usize) -> (Vec<String>, usize) {
        let (mut texts, mut types, mut more) = (Vec::<String>::new(), 0, 0);
        let mut known = HashSet::new();
        for one in all {
            let text = self.text(*one, depth, references + 1);
            if known.contains(&text) {
                continue;
            }
            types += usize::from(!is_value(&text));
            if types > MAX_UNION && !is_value(&text) {
                more += 1;
                continue;
            }
            known.insert(text.clone());
            texts.push(text);
        }
        (texts, more)
    }

    /// The values of an enum. `None` stands for one that cannot be shown.
    fn values(&mut self, values: Vec<Option<String>>) -> String {
        if values.is_empty() {
            return "never".to_owned();
        }
        let (mut seen, all) = (HashSet::new(), values.len());
        let shown: Vec<String> = values.into_iter().flatten().collect();
        let more = all - shown.len();
        self.shortened(shown.into_iter().filter(|text| seen.insert(text.clone())).collect(), more)
    }

    /// `texts` as a union of at most [`MAX_VALUES`], with the number of those that are left out. Names of types always
    /// stay.
    fn shortened(&mut self, texts: Vec<String>, mut more: usize) -> String {
        let mut out = String::new();
        for text in texts {
            if out.len() > MAX_VALUES && !TYPES.contains(&text.as_str()) {
                more += 1;
                continue;
            }
            if !out.is_empty() {
                out.push('|');
            }
            out.push_str(&text);
        }
        if more > 0 {
            self.left_out.values = true;
            out.push_str(&if out.is_empty() {
                format!("…{more} values")
            } else {
                format!("|…{more} more")
            });
        }
        if out.is_empty() { "any".to_owned() } else { out }
    }

    /// What a schema's `$ref` points to, if that is in the same document.
    pub(super) fn referenced(&mut self, members: &Members<'a>) -> Option<Raw<'a>> {
        let reference = members.text("$ref")?;
        if reference == "#" {
            return Some(self.root);
        }
        let steps = pointer(&reference).filter(|steps| steps.len() <= MAX_REFERENCES)?;
        match &steps[..] {
            [key, name] if key == "$defs" => self.shared[0].get(name),
            [key, name] if key == "definitions" => self.shared[1].get(name),
            _ => steps.iter().try_fold(self.root, |node, name| self.members(node)?.get(name)),
        }
    }

    /// The members of an object, while there is budget.
    pub(super) fn members(&mut self, raw: Raw<'a>) -> Option<Members<'a>> {
        self.budget = self.budget.checked_sub(raw.get().len())?;
        Members::of(raw)
    }
}

pub(super) fn has_any(members: &Members<'_>, keys: &[&str]) -> bool {
    keys.iter().any(|key| members.get(key).is_some())
}

/// Whether it describes values of properties that it does not name.
pub(super) fn takes_typed_names(members: &Members<'_>) -> bool {
    let others =
        ["additionalProperties", "unevaluatedProperties"].into_iter().filter_map(|key| members.get(key));
    others.into_iter().any(|others| others.get().starts_with('{') && others.get() != "{}")
}

pub(super) fn required(members: &Members<'_>) -> Vec<String> {
    let names = members.get("required").map(items).unwrap_or_default();
    names.into_iter().filter_map(string).map(Cow::into_owned).collect()
}

/// The items of an array; none for any other value.
pub(super) fn items(raw: Raw<'_>) -> Vec<Raw<'_>> {
    let items: Option<Vec<&serde_json::value::RawValue>> = serde_json::from_str(raw.get()).ok();
    items.unwrap_or_default().into_iter().map(Into::into).collect()
}

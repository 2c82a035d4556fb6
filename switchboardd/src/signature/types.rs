//! The types of a signature's arguments.

use std::borrow::Cow;

use switchboard_wire::envelope::string;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::visible::without_hidden;

use super::written_name;

/// How deep inner objects and arrays are shown.
const MAX_DEPTH: usize = 3;
/// How many references are followed in a row.
const MAX_REFERENCES: usize = 8;
/// The longest text of one inner object, in bytes; a longer one is `object`.
const MAX_INNER: usize = 400;
/// How long the values of an enum may be in all, in bytes.
const MAX_VALUES: usize = 1000;
/// The longest single value, in bytes.
const MAX_VALUE: usize = 80;
/// How many alternatives of a union are shown.
const MAX_UNION: usize = 12;

/// The arguments that a schema describes.
#[derive(Default)]
pub(super) struct RootShape<'a> {
    pub(super) properties: Vec<(Cow<'a, str>, Raw<'a>)>,
    pub(super) required: Vec<String>,
    /// Whether it describes more than properties.
    pub(super) is_partial: bool,
}

pub(super) struct TypeWriter<'a> {
    root: Raw<'a>,
    /// `$defs` and `definitions`.
    shared: [Members<'a>; 2],
    /// How many more bytes may be read. References could otherwise make a small schema endless.
    budget: usize,
    /// The references that are being followed.
    path: Vec<String>,
}

impl<'a> TypeWriter<'a> {
    pub(super) fn new(root: Raw<'a>) -> Self {
        let members = Members::of(root).unwrap_or_default();
        let shared =
            ["$defs", "definitions"].map(|key| members.get(key).and_then(Members::of).unwrap_or_default());
        Self { root, shared, budget: 12 * root.get().len() + 16 * 1024, path: Vec::new() }
    }

    pub(super) fn root_shape(&mut self) -> RootShape<'a> {
        let mut shape = RootShape::default();
        self.collect(self.root, 0, &mut shape);
        shape
    }

    fn collect(&mut self, schema: Raw<'a>, depth: usize, shape: &mut RootShape<'a>) {
        let Some(members) = self.members(schema) else { return };
        for (name, property) in
            members.get("properties").and_then(|it| self.members(it)).unwrap_or_default().0
        {
            if !shape.properties.iter().any(|(known, _)| *known == name) {
                shape.properties.push((name, property));
            }
        }
        shape.required.extend(required(&members));
        shape.is_partial |= ["anyOf", "oneOf", "not", "if", "patternProperties", "dependentSchemas"]
            .iter()
            .any(|key| members.get(key).is_some());
        if depth > MAX_REFERENCES {
            shape.is_partial = true;
            return;
        }
        if let Some(target) = self.referenced(&members) {
            self.collect(target, depth + 1, shape);
        }
        for part in members.get("allOf").map(items).unwrap_or_default() {
            self.collect(part, depth + 1, shape);
        }
    }

    /// The text of a type; with inner objects if `is_whole`.
    pub(super) fn write(&mut self, schema: Raw<'a>, is_whole: bool) -> String {
        let depth = if is_whole { MAX_DEPTH } else { 0 };
        self.text(schema, depth, 0)
    }

    fn text(&mut self, schema: Raw<'a>, depth: usize, references: usize) -> String {
        match schema.get() {
            "true" => return "any".to_owned(),
            "false" => return "never".to_owned(),
            _ => {}
        }
        let Some(members) = self.members(schema) else { return "any".to_owned() };
        let mut text = self.text_of(&members, depth, references);
        if members.get("nullable").is_some_and(|it| it.get() == "true") && !text.contains("null") {
            text.push_str("|null");
        }
        text
    }

    fn text_of(&mut self, members: &Members<'a>, depth: usize, references: usize) -> String {
        if let Some(value) = members.get("const") {
            return value_text(value);
        }
        if let Some(values) = members.get("enum").filter(|values| values.get().starts_with('[')) {
            return enum_text(values);
        }
        if let Some(reference) = members.text("$ref") {
            if references >= MAX_REFERENCES {
                return "any".to_owned();
            }
            let Some(target) = self.referenced(members) else { return "any".to_owned() };
            // In a circle only the outer type is shown.
            let depth = if self.path.iter().any(|known| *known == reference) { 0 } else { depth };
            self.path.push(reference.into_owned());
            let text = self.text(target, depth, references + 1);
            self.path.pop();
            return text;
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(all) = members.get(key) {
                return self.union(items(all), depth, references);
            }
        }
        if let Some(all) = members.get("allOf") {
            let all = items(all);
            return match all[..] {
                [one] if members.get("properties").is_none() => self.text(one, depth, references),
                _ => "object".to_owned(),
            };
        }
        let kind = members.get("type");
        match kind.and_then(string) {
            Some(kind) => self.of_kind(&kind, members, depth, references),
            None => match kind.filter(|kind| kind.get().starts_with('[')) {
                Some(kinds) => {
                    let kinds = items(kinds).into_iter().filter_map(string).take(MAX_UNION);
                    let texts = kinds.map(|kind| self.of_kind(&kind, members, depth, references)).collect();
                    joined(texts)
                }
                None if members.get("properties").is_some() => self.object(members, depth, references),
                None if members.get("items").is_some() => self.array(members, depth, references),
                None => "any".to_owned(),
            },
        }
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
        if let Some(all) = members.get("prefixItems").filter(|_| depth > 0) {
            let all: Vec<String> = items(all)
                .into_iter()
                .take(MAX_UNION)
                .map(|item| self.text(item, depth - 1, references))
                .collect();
            return format!("[{}]", all.join(", "));
        }
        let Some(item) = members.get("items").filter(|items| items.get().starts_with('{')) else {
            return "array".to_owned();
        };
        let item = self.text(item, depth, references + 1);
        match &*item {
            "any" => "array".to_owned(),
            _ if item.contains(['|', '&']) && !item.starts_with('{') => format!("({item})[]"),
            _ => format!("{item}[]"),
        }
    }

    fn object(&mut self, members: &Members<'a>, depth: usize, references: usize) -> String {
        const OBJECT: &str = "object";
        if depth == 0 || references >= MAX_REFERENCES {
            return OBJECT.to_owned();
        }
        let properties = members.get("properties").and_then(|it| self.members(it)).unwrap_or_default();
        if properties.0.is_empty() {
            return match members.get("additionalProperties").filter(|more| more.get().starts_with('{')) {
                Some(values) => match self.text(values, depth - 1, references) {
                    values if values == "any" => OBJECT.to_owned(),
                    values => format!("Record<string, {values}>"),
                },
                None => OBJECT.to_owned(),
            };
        }
        let required: Vec<String> = required(members);
        let mut text = String::from("{");
        for (name, property) in properties.0 {
            if text.len() > 1 {
                text.push_str(", ");
            }
            text.push_str(&written_name(&name));
            text.push_str(if required.iter().any(|required| *required == name) { ": " } else { "?: " });
            text.push_str(&self.text(property, depth - 1, references));
            if text.len() > MAX_INNER {
                return OBJECT.to_owned();
            }
        }
        text.push('}');
        text
    }

    fn union(&mut self, all: Vec<Raw<'a>>, depth: usize, references: usize) -> String {
        let more = all.len() > MAX_UNION;
        let mut texts: Vec<String> =
            all.into_iter().take(MAX_UNION).map(|one| self.text(one, depth, references + 1)).collect();
        if more {
            texts.push("…".to_owned());
        }
        let text = joined(texts);
        if text.len() > 2 * MAX_INNER && depth > 0 { "object".to_owned() } else { text }
    }

    /// What a schema's `$ref` points to, if that is in the same document.
    fn referenced(&mut self, members: &Members<'a>) -> Option<Raw<'a>> {
        let reference = members.text("$ref")?;
        if reference == "#" {
            return Some(self.root);
        }
        let path = reference.strip_prefix("#/")?;
        let unescaped = |name: &str| name.replace("~1", "/").replace("~0", "~");
        match path.split_once('/') {
            Some(("$defs", name)) if !name.contains('/') => self.shared[0].get(&unescaped(name)),
            Some(("definitions", name)) if !name.contains('/') => self.shared[1].get(&unescaped(name)),
            _ => path
                .split('/')
                .take(MAX_REFERENCES)
                .try_fold(self.root, |node, name| self.members(node)?.get(&unescaped(name))),
        }
    }

    /// The members of an object, while there is budget.
    fn members(&mut self, raw: Raw<'a>) -> Option<Members<'a>> {
        self.budget = self.budget.checked_sub(raw.get().len())?;
        Members::of(raw)
    }
}

fn required(members: &Members<'_>) -> Vec<String> {
    let names = members.get("required").map(items).unwrap_or_default();
    names.into_iter().filter_map(string).map(Cow::into_owned).collect()
}

/// The items of an array; none for any other value.
fn items(raw: Raw<'_>) -> Vec<Raw<'_>> {
    let items: Option<Vec<&serde_json::value::RawValue>> = serde_json::from_str(raw.get()).ok();
    items.unwrap_or_default().into_iter().map(Into::into).collect()
}

/// Types as a union, each once.
fn joined(texts: Vec<String>) -> String {
    let mut all: Vec<String> = Vec::with_capacity(texts.len());
    for text in texts {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    if all.is_empty() { "any".to_owned() } else { all.join("|") }
}

fn enum_text(values: Raw<'_>) -> String {
    let values = items(values);
    let mut text = String::new();
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            text.push('|');
        }
        if text.len() > MAX_VALUES {
            text.push_str(&format!("…{} more", values.len() - at));
            break;
        }
        text.push_str(&value_text(*value));
    }
    if text.is_empty() { "never".to_owned() } else { text }
}

/// A value as JSON, on one line.
fn value_text(value: Raw<'_>) -> String {
    let text = value.get();
    if text.len() > MAX_VALUE {
        return if text.starts_with('"') { "string" } else { "any" }.to_owned();
    }
    without_hidden(text).replace(['\n', '\r', '\t'], " ")
}

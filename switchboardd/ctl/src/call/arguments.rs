//! The arguments of `switchboard call`: one JSON object, or `key=value` words, which the tool's schema gives their types.

use std::io::Read;

use serde_json::{Map, Value, json};
use switchboard_definitions::document::nearest;

use crate::shell_word::shell_word;

const EXAMPLE: &str = "write `key=value …` or '{\"key\": \"value\"}'";

/// A schema that refers to itself is followed this far.
const MAX_REFERENCES: usize = 8;

/// What the user typed behind the tool's name.
#[derive(Debug, PartialEq)]
pub(super) enum TypedArguments {
    /// A whole object: as it was typed, from a file, or from standard input.
    Object(Value),
    Pairs(Vec<Pair>),
}

/// One `key=value`, `key=@FILE` or `key:=JSON`.
#[derive(Debug, PartialEq)]
pub(super) struct Pair {
    key: String,
    value: PairValue,
}

#[derive(Debug, PartialEq)]
enum PairValue {
    /// The schema decides what it is.
    Text(String),
    Json(Value),
}

impl TypedArguments {
    pub(super) fn read(words: &[String]) -> Result<Self, String> {
        match words {
            [] => Ok(Self::Object(json!({}))),
            [one] if one == "-" => object(&standard_input()?).map(Self::Object),
            [one] if one.starts_with('@') => object(&file(&one[1..])?).map(Self::Object),
            [one] if one.trim_start().starts_with(['{', '[']) => object(one).map(Self::Object),
            several => several.iter().map(|word| Pair::read(word)).collect::<Result<_, _>>().map(Self::Pairs),
        }
    }

    /// Whether the tool's schema is needed to make an object of them.
    pub(super) fn need_schema(&self) -> bool {
        matches!(self, Self::Pairs(pairs) if !pairs.is_empty())
    }

    /// The object that is sent. `schema` is the tool's `inputSchema`, or null if it is not known.
    pub(super) fn into_object(self, schema: &Value) -> Result<Value, String> {
        let pairs = match self {
            Self::Object(object) => return Ok(object),
            Self::Pairs(pairs) => pairs,
        };
        let mut all = Map::new();
        for Pair { key, value } in pairs {
            let path = path(&key, schema);
            let about = property(schema, &path, &key)?;
            let value = match value {
                PairValue::Json(value) => value,
                PairValue::Text(text) => typed(&key, &text, &about, schema)?,
            };
            insert(&mut all, &path, &key, value, allows(&about, "array"))?;
        }
        Ok(Value::Object(all))
    }
}

impl Pair {
    fn read(word: &str) -> Result<Self, String> {
        let (key, text) = word
            .split_once('=')
            .ok_or_else(|| format!("`{word}` is neither `key=value` nor a JSON object; {EXAMPLE}"))?;
        let (key, is_json) = key.strip_suffix(':').map_or((key, false), |key| (key, true));
        if key.is_empty() {
            return Err(format!("`{word}` has no key before `=`"));
        }
        let text = match text.strip_prefix('@') {
            Some("-") => standard_input()?,
            Some(name) => file(name).map_err(|why| {
                format!(
                    "`{word}` reads a file: {why}; if the text itself begins with `@`, write {}",
                    as_text(key, text)
                )
            })?,
            None => text.to_owned(),
        };
        let value = match is_json {
            true => {
                let value = serde_json::from_str(&text);
                PairValue::Json(value.map_err(|error| format!("`{key}:=` needs JSON: {error}"))?)
            }
            false => PairValue::Text(text),
        };
        Ok(Self { key: key.to_owned(), value })
    }
}

/// The word that sends a text as it is.
fn as_text(key: &str, text: &str) -> String {
    shell_word(&format!("{key}:={}", Value::from(text)))
}

fn standard_input() -> Result<String, String> {
    let mut text = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut text);
    read.map_err(|error| format!("standard input cannot be read: {error}"))?;
    Ok(text)
}

fn file(name: &str) -> Result<String, String> {
    std::fs::read_to_string(name).map_err(|error| format!("`{name}` cannot be read: {error}"))
}

fn object(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(_) => Err(format!("the arguments are not a JSON object; {EXAMPLE}")),
        Err(error) => Err(format!("the arguments are not valid JSON: {error}; {EXAMPLE}")),
    }
}

/// The names from the top of the object: `a.b` is `b` in `a`, unless the tool has an argument `a.b`.
fn path(key: &str, schema: &Value) -> Vec<String> {
    if schema["properties"].get(key).is_some() {
        return vec![key.to_owned()];
    }
    match key.split('.').map(ToOwned::to_owned).collect::<Vec<_>>() {
        parts if parts.iter().any(String::is_empty) => vec![key.to_owned()],
        parts => parts,
    }
}

/// What the schema says about the value there; null if it says nothing. An argument that the tool refuses is an error.
fn property(schema: &Value, path: &[String], key: &str) -> Result<Value, String> {
    let mut about = resolved(schema, schema);
    for name in path {
        let Some(next) = about["properties"].get(name) else {
            if about["additionalProperties"] == false {
                let known: Vec<&str> = about["properties"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| name.as_str())
                    .collect();
                let hint = nearest(name, known.iter().copied()).map_or_else(
                    || format!("it takes {}", known.join(", ")),
                    |near| format!("did you mean `{near}`?"),
                );
                return Err(format!("the tool has no argument `{key}`; {hint}"));
            }
            return Ok(Value::Null);
        };
        about = resolved(next, schema);
    }
    Ok(about)
}

/// Follows references within the schema.
fn resolved(about: &Value, schema: &Value) -> Value {
    let mut about = about.clone();
    for _ in 0..MAX_REFERENCES {
        let Some(place) = about["$ref"].as_str().and_then(|place| place.strip_prefix('#')) else { break };
        let Some(next) = schema.pointer(place) else { break };
        about = next.clone();
    }
    about
}

/// The types that a value may have; none if the schema does not say.
fn types(about: &Value) -> Vec<&str> {
    let mut types: Vec<&str> = match &about["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let choices = about["enum"].as_array().into_iter().flatten().chain(about.get("const"));
    if types.is_empty() {
        types.extend(choices.map(|choice| -> &str { type_of(choice) }));
    }
    for key in ["anyOf", "oneOf"] {
        types.extend(about[key].as_array().into_iter().flatten().flat_map(types_of_part));
    }
    types
}

fn types_of_part(part: &Value) -> Vec<&str> {
    // A part that says nothing of types allows all of them.
    let types = types(part);
    if types.is_empty() { vec!["string", "number", "boolean", "object", "array", "null"] } else { types }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn allows(about: &Value, kind: &str) -> bool {
    types(about).contains(&kind)
}

/// Whether a value of this type is what the schema allows.
fn fits(value: &Value, types: &[&str]) -> bool {
    match type_of(value) {
        "integer" => types.contains(&"integer") || types.contains(&"number"),
        "number" => {
            types.contains(&"number")
                || types.contains(&"integer") && value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        other => types.contains(&other),
    }
}

/// Text as a value of the type that the schema asks for; JSON if it reads as JSON and the schema does not say.
fn typed(key: &str, text: &str, about: &Value, schema: &Value) -> Result<Value, String> {
    let types = types(about);
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    if types.is_empty() {
        return Ok(parsed.unwrap_or_else(|| json!(text)));
    }
    let is_text = types.contains(&"string");
    if is_text && types.iter().all(|kind| matches!(*kind, "string" | "null")) {
        return Ok(json!(text));
    }
    match parsed {
        Some(value) if !value.is_string() && fits(&value, &types) => Ok(value),
        _ if is_text => Ok(json!(text)),
        // One item of a list, which may be given several times.
        _ if types.contains(&"array") => {
            typed(key, text, &resolved(&about["items"], schema), schema).map(|item| json!([item]))
        }
        _ => Err(format!(
            "`{key}` takes {}, not `{text}`; `{key}:=JSON` sends it as you write it",
            types.iter().map(|kind| with_article(kind)).collect::<Vec<_>>().join(" or ")
        )),
    }
}

fn with_article(kind: &str) -> String {
    match kind {
        "integer" => "a whole number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "null" => "null".to_owned(),
        "array" => "a list".to_owned(),
        "object" => "an object".to_owned(),
        other => format!("a {other}"),
    }
}

/// Puts a value in its place. A list grows when its key is given again.
fn insert(
    all: &mut Map<String, Value>,
    path: &[String],
    key: &str,
    value: Value,
    is_list: bool,
) -> Result<(), String> {
    let [name, rest @ ..] = path else { return Ok(()) };
    if !rest.is_empty() {
        let inner = all.entry(name.clone()).or_insert_with(|| json!({}));
        let inner =
            inner.as_object_mut().ok_or_else(|| format!("`{key}`: `{name}` is given as a value, too"))?;
        return insert(inner, rest, key, value, is_list);
    }
    match (all.get_mut(name), value) {
        (None, value) => {
            all.insert(name.clone(), value);
            Ok(())
        }
        (Some(Value::Array(items)), Value::Array(more)) if is_list => {
            items.extend(more);
            Ok(())
        }
        (Some(_), _) => Err(format!("`{key}` is given twice")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(words: &[&str], schema: &Value) -> Result<Value, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        TypedArguments::read(&words)?.into_object(schema)
    }

    #[test]
    fn an_object_is_taken_wherever_it_comes_from() {
        assert_eq!(made(&[], &Value::Null), Ok(json!({})));
        assert_eq!(made(&[r#"{"a": 1}"#], &Value::Null), Ok(json!({ "a": 1 })));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), r#"{"b": 2}"#).unwrap();
        let from_file = format!("@{}", file.path().display());
        assert_eq!(made(&[&from_file], &Value::Null), Ok(json!({ "b": 2 })));
        for wrong in ["[1]", "nonsense", "", "@/nonexistent/file", "=x"] {
            assert!(made(&[wrong], &Value::Null).is_err(), "{wrong}");
        }
        let said = made(&["a=1", "b"], &Value::Null).unwrap_err();
        assert!(said.starts_with("`b` is neither"), "{said}");
        for word in ["time", "false", "5"] {
            let said = made(&[word], &Value::Null).unwrap_err();
            assert!(said.contains("is neither `key=value` nor a JSON object; write `key=value …`"), "{said}");
        }
    }

    #[test]
    fn the_schema_decides_the_type_of_a_value() {
        let schema = json!({
            "properties": {
                "time": { "type": "string" },
                "count": { "type": "integer" },
                "rate": { "type": ["number", "null"] },
                "on": { "type": "boolean" },
                "tags": { "type": "array", "items": { "type": "string" } },
                "either": { "anyOf": [{ "type": "string" }, { "type": "integer" }] },
                "where": { "$ref": "#/$defs/place" },
                "a.b": { "type": "string" },
                "level": { "enum": ["1", "2"] },
            },
            "additionalProperties": false,
            "$defs": { "place": { "type": "object", "properties": { "line": { "type": "integer" } } } },
        });
        for (words, object) in [
            (&["time=12:00"][..], json!({ "time": "12:00" })),
            (&["time=5", "count=5"], json!({ "time": "5", "count": 5 })),
            (&["time=null", "rate=null"], json!({ "time": "null", "rate": null })),
            (&["rate=1.5", "on=true"], json!({ "rate": 1.5, "on": true })),
            (&["tags=a"], json!({ "tags": ["a"] })),
            (&["tags=1", "tags=b=c"], json!({ "tags": ["1", "b=c"] })),
            (&[r#"tags=["x","y"]"#], json!({ "tags": ["x", "y"] })),
            (&["either=5"], json!({ "either": 5 })),
            (&["either=five"], json!({ "either": "five" })),
            (&["where.line=3"], json!({ "where": { "line": 3 } })),
            (&["a.b=x"], json!({ "a.b": "x" })),
            (&["level=1"], json!({ "level": "1" })),
            (&["time:=[1]"], json!({ "time": [1] })),
            (&["time="], json!({ "time": "" })),
        ] {
            assert_eq!(made(words, &schema), Ok(object), "{words:?}");
        }
        for (words, said) in [
            (&["count=abc"][..], "`count` takes a whole number, not `abc`"),
            (&["count=1.5"], "`count` takes a whole number"),
            (&["on=maybe"], "`on` takes true or false"),
            (&["tme=1"], "no argument `tme`; did you mean `time`?"),
            (&["where.line=x"], "`where.line` takes a whole number"),
            (&["time=a", "time=b"], "`time` is given twice"),
            (&["count:=x"], "`count:=` needs JSON"),
        ] {
            let why = made(words, &schema).unwrap_err();
            assert!(why.contains(said), "{words:?}: {why}");
        }
    }

    #[test]
    fn without_a_schema_a_value_is_json_if_it_reads_as_json() {
        let words = ["n=5", "s=five", "o={\"a\": [1]}", "b=true", "x.y=1"];
        let object = json!({ "n": 5, "s": "five", "o": { "a": [1] }, "b": true, "x": { "y": 1 } });
        assert_eq!(made(&words, &Value::Null), Ok(object));
    }
}

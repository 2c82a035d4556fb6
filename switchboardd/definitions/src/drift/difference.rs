//! The difference between two definitions of a tool, in words. Every text of the server is clipped and made visible.

use serde_json::{Map, Value};
use switchboard_wire::visible::visible;

/// How much of a text is shown, in characters, on each side of the arrow.
const MAX_TEXT: usize = 160;
/// How much of the unchanged text around a change is shown.
const AROUND: usize = 24;
/// How many differences of one tool are shown.
const MAX_LINES: usize = 12;
/// How deep schemas are compared; below that, values are shown as a whole.
const MAX_DEPTH: usize = 12;

/// What differs between two definitions in their compared form.
pub(super) fn difference(before: &Value, after: &Value) -> Vec<String> {
    let mut lines = Lines(Vec::new(), 0);
    let empty = Map::new();
    let (before, after) = (before.as_object().unwrap_or(&empty), after.as_object().unwrap_or(&empty));
    for (key, was, is) in differing(before, after) {
        match key {
            "inputSchema" => schema(was, is, "argument", &mut lines),
            "outputSchema" => schema(was, is, "result member", &mut lines),
            "annotations" => {
                let (was, is) = (object(was, &empty), object(is, &empty));
                for (key, was, is) in differing(was, is) {
                    lines.add(format!("{}: {} → {}", name(key), said(was), said(is)));
                }
            }
            _ => lines.add(format!("{}: {}", name(key), change(was, is))),
        }
    }
    lines.finish()
}

/// A bounded list of lines; the others are counted.
struct Lines(Vec<String>, usize);

impl Lines {
    fn add(&mut self, line: String) {
        if self.0.len() < MAX_LINES {
            self.0.push(line);
        } else {
            self.1 += 1;
        }
    }

    fn finish(mut self) -> Vec<String> {
        if self.1 > 0 {
            self.0.push(format!("and {} more differences", self.1));
        }
        self.0
    }
}

/// Keys with different values, sorted.
fn differing<'a>(
    before: &'a Map<String, Value>,
    after: &'a Map<String, Value>,
) -> Vec<(&'a str, Option<&'a Value>, Option<&'a Value>)> {
    let mut keys: Vec<&str> = before.keys().chain(after.keys()).map(String::as_str).collect();
    keys.sort_unstable();
    keys.dedup();
    let both = keys.into_iter().map(|key| (key, before.get(key), after.get(key)));
    both.filter(|(_, was, is)| was != is).collect()
}

fn object<'a>(value: Option<&'a Value>, empty: &'a Map<String, Value>) -> &'a Map<String, Value> {
    value.and_then(Value::as_object).unwrap_or(empty)
}

/// The arguments first, each by its name; then the rest of the schema by its path.
fn schema(before: Option<&Value>, after: Option<&Value>, what: &str, lines: &mut Lines) {
    let empty = Map::new();
    let (before, after) = (object(before, &empty), object(after, &empty));
    let required = |schema: &Map<String, Value>, name: &str| {
        let names = schema.get("required").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|one| one == name))
    };
    let (was, is) = (object(before.get("properties"), &empty), object(after.get("properties"), &empty));
    for (key, was, is) in differing(was, is) {
        let shown = name(key);
        match (was, is) {
            (None, _) if required(after, key) => lines.add(format!("new {what} {shown}, required")),
            (None, _) => lines.add(format!("new {what} {shown}")),
            (_, None) => lines.add(format!("no more {what} {shown}")),
            (Some(was), Some(is)) => values(was, is, &format!("{what} {shown}"), 0, lines),
        }
    }
    let mut names: Vec<&str> = [before, after]
        .iter()
        .filter_map(|schema| schema.get("required")?.as_array())
        .flat_map(|names| names.iter().filter_map(Value::as_str))
        .collect();
    names.sort_unstable();
    names.dedup();
    for key in names.into_iter().filter(|key| required(before, key) != required(after, key)) {
        let is_new = !was.contains_key(key) && is.contains_key(key);
        if required(after, key) && !is_new {
            lines.add(format!("{what} {} is now required", name(key)));
        } else if is.contains_key(key) && !is_new {
            lines.add(format!("{what} {} is no longer required", name(key)));
        }
    }
    for (key, was, is) in differing(before, after) {
        if key != "properties" && key != "required" {
            let of = if what == "argument" { "schema" } else { "result schema" };
            nested(was, is, &format!("{of} {}", name(key)), 0, lines);
        }
    }
}

/// Two values under a name.
fn values(before: &Value, after: &Value, place: &str, depth: usize, lines: &mut Lines) {
    match (before, after) {
        (Value::Object(was), Value::Object(is)) if depth < MAX_DEPTH => {
            for (key, was, is) in differing(was, is) {
                let place = match key {
                    "enum" => format!("values of {place}"),
                    "properties" | "items" => place.to_owned(),
                    key => format!("{} of {place}", name(key)),
                };
                nested(was, is, &place, depth + 1, lines);
            }
        }
        _ => lines.add(format!("{place}: {}", change(Some(before), Some(after)))),
    }
}

fn nested(was: Option<&Value>, is: Option<&Value>, place: &str, depth: usize, lines: &mut Lines) {
    match (was, is) {
        (Some(was), Some(is)) => values(was, is, place, depth, lines),
        _ => lines.add(format!("{place}: {}", change(was, is))),
    }
}

/// A name that a server chose.
pub(super) fn name(name: &str) -> String {
    format!("`{}`", clipped(name, 64))
}

fn said(value: Option<&Value>) -> String {
    value.map_or_else(|| "not said".to_owned(), |value| clipped(&value.to_string(), MAX_TEXT))
}

/// Old → new.
fn change(was: Option<&Value>, is: Option<&Value>) -> String {
    let text = |value: Option<&Value>| match value {
        None => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Array(items)) => Some(items.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")),
        Some(other) => Some(other.to_string()),
    };
    match (text(was), text(is)) {
        (Some(was), Some(is)) => {
            let (was, is) = text_change(&was, &is);
            format!("{was} → {is}")
        }
        (None, Some(is)) => format!("nothing → {}", quoted(&is)),
        (Some(was), None) => format!("{} → nothing", quoted(&was)),
        (None, None) => String::new(),
    }
}

/// The parts of two texts that differ, with a little of what is around them.
fn text_change(was: &str, is: &str) -> (String, String) {
    let (old, new): (Vec<char>, Vec<char>) = (was.chars().collect(), is.chars().collect());
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let from = start.saturating_sub(AROUND);
    let part = |text: &[char]| {
        let to = (text.len() - end + AROUND.min(end)).max(from);
        let middle: String = text[from..to].iter().collect();
        let shown = clipped(&middle, MAX_TEXT);
        let (before, after) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
        format!("\"{before}{shown}{after}\"")
    };
    (part(&old), part(&new))
}

pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", clipped(text, MAX_TEXT))
}

/// At most so many characters, on one line, none of them hidden.
pub(super) fn clipped(text: &str, most: usize) -> String {
    let mut shown: String = text.chars().take(most).collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    visible(&shown).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(before: &Value, after: &Value, expected: &[&str]) {
        assert_eq!(difference(before, after), expected);
    }

    #[test]
    fn a_difference_names_what_changed() {
        check(
            &json!({"description": "Reads a file"}),
            &json!({"description": "Reads a secret file"}),
            &[r#"`description`: "Reads a file" → "Reads a secret file""#],
        );
        let schema = |properties: Value, required: Value| json!({"inputSchema": {"properties": properties, "required": required}});
        let a = json!({"type": "string"});
        check(
            &schema(json!({"a": a}), json!([])),
            &schema(json!({"a": a, "b": a}), json!([])),
            &["new argument `b`"],
        );
        check(
            &schema(json!({"a": a}), json!([])),
            &schema(json!({"a": a, "b": a}), json!(["b"])),
            &["new argument `b`, required"],
        );
        check(
            &schema(json!({"a": a}), json!([])),
            &schema(json!({"a": a}), json!(["a"])),
            &["argument `a` is now required"],
        );
        check(
            &schema(json!({"a": a}), json!(["a"])),
            &schema(json!({"a": a}), json!([])),
            &["argument `a` is no longer required"],
        );
        check(
            &schema(json!({"a": a}), json!(["a"])),
            &schema(json!({}), json!([])),
            &["no more argument `a`"],
        );
        check(
            &schema(json!({"a": {"enum": ["x", "y"]}}), json!([])),
            &schema(json!({"a": {"enum": ["x", "y", "z"]}}), json!([])),
            &[r#"values of argument `a`: ""x", "y"" → ""x", "y", "z"""#],
        );
        check(
            &schema(json!({"a": {"type": "string", "description": "one"}}), json!([])),
            &schema(json!({"a": {"type": "number", "description": "two"}}), json!([])),
            &[
                r#"`description` of argument `a`: "one" → "two""#,
                r#"`type` of argument `a`: "string" → "number""#,
            ],
        );
        check(
            &json!({}),
            &json!({"annotations": {"destructiveHint": true}}),
            &["`destructiveHint`: not said → true"],
        );
        check(
            &json!({"annotations": {"readOnlyHint": false}}),
            &json!({"annotations": {"readOnlyHint": true}}),
            &["`readOnlyHint`: false → true"],
        );
        check(&json!({}), &json!({"_meta": {"x": 1}}), &[r#"`_meta`: nothing → "{"x":1}""#]);
    }

    #[test]
    fn long_and_hidden_texts_are_bounded() {
        let long = "x".repeat(1_000_000);
        let told = difference(
            &json!({"description": format!("{long}old{long}")}),
            &json!({"description": format!("{long}new\u{1b}[2J{long}")}),
        );
        assert_eq!(told.len(), 1);
        assert!(told[0].len() < 400 && told[0].contains(r"new\u{1b}[2J"), "{}", told[0]);
        let many: Map<String, Value> =
            (0..10_000).map(|at| (format!("a{at}"), json!({"type": "string"}))).collect();
        let told = difference(&json!({}), &json!({"inputSchema": {"properties": many}}));
        assert_eq!(told.len(), MAX_LINES + 1);
        assert_eq!(told[MAX_LINES], format!("and {} more differences", 10_000 - MAX_LINES));
    }
}

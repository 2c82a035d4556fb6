//! Writes the reference part of `docs/configuration.md` from the schema, and fails if the page differs.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use switchboard_wire::event_loop::may_block;

use super::read::PERSONAL_ONLY_KEYS;
use crate::document::{Document, Fields};

const SCHEMA: &str = include_str!("../../../../switchboard.config.schema.json");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
const BEGIN: &str = "<!-- generated from switchboard.config.schema.json: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

/// What a placeholder for names of the user's choice is called.
const ANY_NAME: &str = "NAME";

#[test]
fn the_configuration_page_follows_the_schema() {
    may_block();
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("docs/configuration.md has a generated part");
    let (_, after) = rest.split_once(END).expect("docs/configuration.md has a generated part");
    let wanted = format!("{before}{BEGIN}\n{}{END}{after}", reference());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &wanted).unwrap();
    } else {
        assert!(
            page == wanted,
            "docs/configuration.md differs from the schema; renew it with `UPDATE_DOCS=1 cargo test -p switchboard-definitions reference`"
        );
    }
}

fn reference() -> String {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let mut text = String::new();
    // `serde_json` sorts keys; the document has them in the order of the file.
    let document = Document::from_text(Path::new("schema.json"), SCHEMA);
    let visited = document.visit(|fields| section(fields, &schema, &[], &mut text));
    assert!(visited.problems.is_empty(), "{:?}", visited.problems);
    text
}

/// One object: a heading, what it is for, a table of its keys, and then the objects inside.
fn section(fields: &Fields<'_>, schema: &Value, path: &[&str], text: &mut String) {
    if let [first, ..] = path {
        let mut what = schema["description"].as_str().unwrap_or_default().to_owned();
        if path.len() == 1 && PERSONAL_ONLY_KEYS.contains(first) && !what.contains("Personal") {
            what.push_str(" Personal config only.");
        }
        write!(text, "### `{}`\n\n", path.join(".")).unwrap();
        if !what.is_empty() {
            write!(text, "{}\n\n", what.trim()).unwrap();
        }
    } else {
        text.push_str("### Top level\n\n");
    }
    let node = fields.get("properties").and_then(|node| node.object()).expect("an object has properties");
    text.push_str("| key | values | default | meaning |\n|---|---|---|---|\n");
    let mut inner = Vec::new();
    for (key, node) in node.entries() {
        let value = &schema["properties"][key];
        let here = [path, &[key]].concat();
        let object = node.object().expect("a schema is an object");
        if value["properties"].is_object() {
            inner.push((here.clone(), object, value));
        } else if value["additionalProperties"].is_object() {
            let named = object.get("additionalProperties").and_then(|node| node.object());
            inner.push((
                [&here[..], &[ANY_NAME]].concat(),
                named.expect("an object"),
                &value["additionalProperties"],
            ));
        }
        let link = inner.last().filter(|(path, ..)| path.starts_with(&here)).map(|(path, ..)| path.join("."));
        writeln!(
            text,
            "| `{key}` | {} | {} | {} |",
            link.map_or_else(|| values(value), |path| format!("[an object](#{})", anchor(&path))),
            default(value),
            meaning(value, path.is_empty() && PERSONAL_ONLY_KEYS.contains(&key)),
        )
        .unwrap();
    }
    text.push('\n');
    for (path, fields, schema) in inner {
        section(&fields, schema, &path, text);
    }
}

/// The anchor that GitHub and mdBook give to a heading.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace('.', "")
}

fn meaning(schema: &Value, personal: bool) -> String {
    let text = schema["description"].as_str().unwrap_or_default().replace('|', "\\|");
    if personal && !text.contains("Personal") { format!("{text} Personal config only.") } else { text }
}

fn default(schema: &Value) -> String {
    schema.get("default").map_or("–".to_owned(), |value| format!("`{value}`"))
}

fn values(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    if let Some(ways) = schema["oneOf"].as_array() {
        return ways.iter().map(values).collect::<Vec<_>>().join(" or ");
    }
    match schema["type"].as_str().expect("a key has a type") {
        "integer" => {
            let bound =
                |name: &str| schema[name].as_i64().map_or("…".to_owned(), |bound| bound.to_string());
            format!("{}–{}", bound("minimum"), bound("maximum"))
        }
        "boolean" => "`true`, `false`".to_owned(),
        "array" => format!("a list of {}s", schema["items"]["type"].as_str().unwrap_or("value")),
        "string" => "a string".to_owned(),
        other => other.to_owned(),
    }
}

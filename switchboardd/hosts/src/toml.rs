//! Reads TOML, the format of Codex: `[mcp_servers.NAME]`.

pub(super) mod edit;

use serde_json::{Map, Value, json};
use switchboard_definitions::document::parse_toml;
use toml_edit::{Document, Item, TableLike};

use super::{HostFileContents, HostFileError, json};

pub(super) const SERVERS: &str = "mcp_servers";

pub(super) fn read(text: &str) -> Result<HostFileContents, HostFileError> {
    let root = parse_toml(text).map_err(|(offset, why)| HostFileError::at(text, offset, why))?;
    json::read_root(text, &root, SERVERS, false)
}

pub(super) fn parse(text: &str) -> Result<Document<&str>, HostFileError> {
    // Limits the depth of the whole file. `Document` limits that of each key, and recurses through all of them.
    parse_toml(text).map_err(|(offset, why)| HostFileError::at(text, offset, why))?;
    Document::parse(text).map_err(|error| {
        let why = format!("not valid TOML: {}", error.message().lines().next().unwrap_or_default());
        match error.span() {
            Some(span) => HostFileError::at(text, span.start, why),
            None => HostFileError::new(why),
        }
    })
}

pub(super) fn to_value(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => plain_value(value),
        Item::Table(table) => members(table),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| members(table)).collect(),
    }
}

fn plain_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => json!(text.value()),
        toml_edit::Value::Integer(number) => json!(number.value()),
        toml_edit::Value::Float(number) => json!(number.value()),
        toml_edit::Value::Boolean(flag) => json!(flag.value()),
        toml_edit::Value::Datetime(time) => json!(time.value().to_string()),
        toml_edit::Value::Array(items) => items.iter().map(plain_value).collect(),
        toml_edit::Value::InlineTable(table) => members(table),
    }
}

fn members(table: &dyn TableLike) -> Value {
    Value::Object(table.iter().map(|(name, item)| (name.to_owned(), to_value(item))).collect::<Map<_, _>>())
}

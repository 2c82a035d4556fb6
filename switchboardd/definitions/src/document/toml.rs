//! Reads TOML into the same tree as JSON, with the positions of the file.

use std::borrow::Cow;
use std::ops::Range as Span;

use jsonc_parser::ast::{Array, BooleanLit, NumberLit, Object, ObjectProp, ObjectPropName, StringLit, Value};
use jsonc_parser::common::Range;
use toml_edit::{Item, TableLike};

/// The root table; else the offset of the mistake, and what it is.
pub fn parse(text: &str) -> Result<Value<'_>, (usize, String)> {
    let document = toml_edit::Document::parse(text).map_err(|error| {
        let why = error.message().lines().next().unwrap_or_default();
        (error.span().map_or(0, |span| span.start), format!("not valid TOML: {why}"))
    })?;
    Ok(object(text, document.as_table(), Some(0..text.len())))
}

fn range(span: Option<Span<usize>>) -> Range {
    let span = span.unwrap_or_default();
    Range::new(span.start, span.end)
}

fn object<'t>(text: &'t str, table: &dyn TableLike, span: Option<Span<usize>>) -> Value<'t> {
    let member = |(name, item): (&str, &Item)| {
        let key = table.key(name).and_then(toml_edit::Key::span);
        let value = value(text, item)?;
        let name = StringLit { range: range(key.clone()), value: Cow::Owned(name.to_owned()) };
        Some(ObjectProp { range: range(key), name: ObjectPropName::String(name), value })
    };
    Value::Object(Object { range: range(span), properties: table.iter().filter_map(member).collect() })
}

fn value<'t>(text: &'t str, item: &Item) -> Option<Value<'t>> {
    Some(match item {
        Item::None => return None,
        Item::Value(value) => plain(text, value),
        Item::Table(table) => object(text, table, item.span()),
        Item::ArrayOfTables(tables) => Value::Array(Array {
            range: range(item.span()),
            elements: tables.iter().map(|table| object(text, table, table.span())).collect(),
        }),
    })
}

fn plain<'t>(text: &'t str, value: &toml_edit::Value) -> Value<'t> {
    let range = range(value.span());
    let string = |value: String| Value::StringLit(StringLit { range, value: Cow::Owned(value) });
    match value {
        toml_edit::Value::String(value) => string(value.value().clone()),
        toml_edit::Value::Integer(_) | toml_edit::Value::Float(_) => {
            Value::NumberLit(NumberLit { range, value: text.get(range.start..range.end).unwrap_or_default() })
        }
        toml_edit::Value::Boolean(flag) => Value::BooleanLit(BooleanLit { range, value: *flag.value() }),
        toml_edit::Value::Datetime(time) => string(time.value().to_string()),
        toml_edit::Value::Array(items) => {
            Value::Array(Array { range, elements: items.iter().map(|item| plain(text, item)).collect() })
        }
        toml_edit::Value::InlineTable(table) => object(text, table, value.span()),
    }
}

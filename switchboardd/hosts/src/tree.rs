//! Values to write into a host's file, before they get that file's format.

use super::EntryValue;

/// A value to write; members keep their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree {
    Object(Vec<(String, Tree)>),
    List(Vec<String>),
    Text(String),
    Flag(bool),
    /// Text taken from a file of the same format.
    Raw(String),
}

impl Tree {
    /// The entry that starts the shim.
    pub(super) fn entry(parts: &[(&str, EntryValue)], shim: &str) -> Self {
        let tree = |part: &EntryValue| match part {
            EntryValue::Shim => Self::Text(shim.to_owned()),
            EntryValue::Argv => Self::List(vec![shim.to_owned()]),
            EntryValue::Text(text) => Self::Text((*text).to_owned()),
            EntryValue::True => Self::Flag(true),
            EntryValue::NoArgs => Self::List(Vec::new()),
            EntryValue::List(text) => Self::List(vec![(*text).to_owned()]),
        };
        Self::Object(parts.iter().map(|(name, part)| ((*name).to_owned(), tree(part))).collect())
    }
}

/// A quoted string that is valid in JSON, TOML and YAML.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

//! What is written into a host's file, before it has that file's format.

use super::Part;

/// A value to be written, its members in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree {
    Object(Vec<(String, Tree)>),
    List(Vec<String>),
    Text(String),
    Flag(bool),
    /// As it stood in a file of the same format.
    Raw(String),
}

impl Tree {
    /// The entry that leads to the shim.
    pub(super) fn entry(parts: &[(&str, Part)], shim: &str) -> Self {
        let tree = |part: &Part| match part {
            Part::Shim => Self::Text(shim.to_owned()),
            Part::Argv => Self::List(vec![shim.to_owned()]),
            Part::Text(text) => Self::Text((*text).to_owned()),
            Part::True => Self::Flag(true),
            Part::NoArgs => Self::List(Vec::new()),
            Part::List(text) => Self::List(vec![(*text).to_owned()]),
        };
        Self::Object(parts.iter().map(|(name, part)| ((*name).to_owned(), tree(part))).collect())
    }
}

/// A text in quotes, which JSON, TOML and YAML all read alike.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

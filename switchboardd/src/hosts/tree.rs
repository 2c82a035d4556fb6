//! Values to write into a host's file, before they get that file's format.

use super::Part;

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

/// A quoted string that is valid in JSON, TOML and YAML.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

//! Checks that apply to every document: nesting depth and duplicate members.

use std::collections::HashSet;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::join;

/// No file that a user writes is nested deeper.
pub(super) const MAX_DEPTH: usize = 64;

/// Says that a document is.
pub(super) fn deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

/// The offset of the first value that is nested too deeply.
pub(super) fn too_deep(value: &Value<'_>, depth: usize) -> Option<usize> {
    if depth > MAX_DEPTH {
        return Some(value.range().start);
    }
    match value {
        Value::Object(object) => {
            object.properties.iter().find_map(|property| too_deep(&property.value, depth + 1))
        }
        Value::Array(array) => array.elements.iter().find_map(|value| too_deep(value, depth + 1)),
        _ => None,
    }
}

/// The offset and path of the first duplicate member.
pub(super) fn duplicate(value: &Value<'_>, path: &str) -> Option<(usize, String)> {
    match value {
        Value::Object(object) => {
            let mut names = HashSet::new();
            object.properties.iter().find_map(|property| {
                let name = property.name.as_str();
                let path = join(path, name);
                if names.insert(name) {
                    duplicate(&property.value, &path)
                } else {
                    Some((property.name.range().start, path))
                }
            })
        }
        Value::Array(array) => array
            .elements
            .iter()
            .enumerate()
            .find_map(|(at, value)| duplicate(value, &format!("{path}[{at}]"))),
        _ => None,
    }
}

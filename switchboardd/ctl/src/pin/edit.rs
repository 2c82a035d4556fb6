//! Replaces one word in the arguments of one server; everything else in the file stays as it is, byte for byte.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstObject, CstRootNode};
use serde_json::json;
use switchboard_definitions::discover::shapes::SERVER_MAPS;

/// The text with the argument `before` of the server replaced by `after`.
pub(super) fn with_word(text: &str, server: &str, before: &str, after: &str) -> Result<String, String> {
    let body = text.trim_start_matches('\u{feff}');
    let root = CstRootNode::parse(body, &ParseOptions::default()).map_err(|error| error.to_string())?;
    let object = root.object_value().ok_or("it is not a JSON object")?;
    let lists = argument_lists(&entry(&object, server));
    let words = lists.iter().flat_map(CstArray::elements).filter_map(|word| word.as_string_lit());
    let meant: Vec<_> = words.filter(|word| word.decoded_value().is_ok_and(|word| word == before)).collect();
    match meant.as_slice() {
        [word] => word.set_raw_value(json!(after).to_string()),
        [] => return Err(format!("`{before}` was not found in its arguments")),
        _ => return Err(format!("`{before}` is among its arguments more than once")),
    }
    Ok(format!("{}{root}", &text[..text.len() - body.len()]))
}

/// The object that defines the server: a member of a map of servers, or the whole file.
fn entry(object: &CstObject, server: &str) -> CstObject {
    let map = SERVER_MAPS.into_iter().find_map(|key| object.object_value(key));
    let member = map.as_ref().unwrap_or(object).object_value(server);
    member.unwrap_or_else(|| object.clone())
}

/// `args`, `command.args`, or `command` if it is a list.
fn argument_lists(entry: &CstObject) -> Vec<CstArray> {
    let within = entry.object_value("command").and_then(|command| command.array_value("args"));
    [entry.array_value("args"), within, entry.array_value("command")].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_changes() {
        let check = |text: &str| {
            let after = with_word(text, "time", "pkg", "pkg@1.2.3").unwrap();
            assert_eq!(after, text.replacen("\"pkg\"", "\"pkg@1.2.3\"", 1), "{text}");
        };
        check(r#"{"name": "time", "command": {"cmd": "npx", "args": ["-y",  "pkg"]}} "#);
        check(
            "{\n\t// mine\n\t\"mcpServers\": { \"time\": {\"command\":\"npx\",\"args\":[\"-y\",\"pkg\",],} , \"b\": {\"args\": [\"pkg\"]}}}\r\n",
        );
        check("\u{feff}{\"time\": {\"command\": [\"npx\", \"pkg\"]}}");
        assert!(with_word(r#"{"time": {"args": ["pkg", "pkg"]}}"#, "time", "pkg", "x").is_err());
        assert!(with_word(r#"{"time": {"args": ["other"]}}"#, "time", "pkg", "x").is_err());
        assert!(with_word("{", "time", "pkg", "x").is_err());
    }
}

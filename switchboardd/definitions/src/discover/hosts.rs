//! What other hosts would make of a file: for users who share one file between hosts.

use super::shapes::Shape;
use crate::definition::{Definition, Launch};
use crate::document::Document;

/// Texts that may occur in a file (white space removed), and which hosts would read them differently.
const PARTS: [(&str, &str); 14] = [
    ("\"cwd\":", "Claude Code ignores `cwd`"),
    ("\"envFile\":", "only Cursor and VS Code read `envFile`"),
    ("\"passEnv\":", "only Switchboard reads `passEnv`"),
    ("\"env_vars\":", "only Codex reads `env_vars`"),
    ("\"serverUrl\":", "only Windsurf reads `serverUrl`"),
    ("\"httpUrl\":", "only Gemini CLI and Qwen Code read `httpUrl`"),
    ("\"transport\":{", "only Cline reads a nested `transport`"),
    ("\"type\":\"http\"", "for `http` Cline has `streamableHttp` and Roo `streamable-http`"),
    ("\"type\":\"streamableHttp\"", "only Cline reads the type `streamableHttp`"),
    ("${env:", "Claude Code, Gemini CLI, Codex, and VS Code in a `.mcp.json` do not fill in `${env:…}`"),
    ("${input:", "only VS Code and Visual Studio fill in `${input:…}`"),
    ("${workspaceFolder}", "only VS Code, Cursor and Roo fill in `${workspaceFolder}`"),
    ("${userHome}", "only VS Code and Cursor fill in `${userHome}`"),
    ("${CLAUDE_P", "only Claude Code fills in `${CLAUDE_…}`, and in plugins only"),
];

/// Notes for the user.
pub fn notes(document: &Document, shape: Option<Shape>, definitions: &[Definition]) -> Vec<String> {
    let Some(shape) = shape else { return Vec::new() };
    let text = document.text();
    let wants = match shape {
        Shape::McpServers => {
            "`mcpServers` is not read by Zed (`context_servers`), OpenCode (`mcp`) and Visual Studio (`servers`), \
             by VS Code in a `.mcp.json` only, and by Codex in plugins only"
        }
        Shape::Servers => {
            "only VS Code, in its `mcp.json`, and Visual Studio read `servers`; most others look for `mcpServers`"
        }
        Shape::OneChild => "only Switchboard reads a file with one server",
        Shape::Flat => "a flat map is read by Claude Code and Codex in plugins only, and by no other host",
        Shape::Plugin => "Agent Plugins are read by hosts that know plugins",
        Shape::Zed => "only Zed reads `context_servers`",
        Shape::OpenCode => "only OpenCode reads `mcp`",
    };
    let mut notes = vec![wants.to_owned()];
    // Other hosts do not read these files at all, so the notes below do not apply.
    if matches!(shape, Shape::OneChild | Shape::Zed | Shape::OpenCode) {
        return notes;
    }
    if shape != Shape::Servers && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        notes.push(
            "Claude Code refuses the file: it takes strict JSON, without comments, trailing commas or a byte order mark"
                .to_owned(),
        );
    }
    if definitions.iter().any(|definition| matches!(definition.launch, Ok(Launch::Remote(_)))) {
        notes.push("Claude Desktop and Junie start servers only; they do not take a URL".to_owned());
    }
    let compact: String = text.split_whitespace().collect();
    notes.extend(PARTS.iter().filter(|(part, _)| compact.contains(part)).map(|(_, note)| (*note).to_owned()));
    if shape != Shape::Plugin && has_plain_placeholder(text) {
        let note = "Cursor, Windsurf, Cline, Roo, Codex, and VS Code outside of a `.mcp.json` do not fill in `${NAME}`";
        notes.push(note.to_owned());
    }
    notes
}

/// Finds `${NAME}` or `${NAME:-default}`, except the names that hosts reserve for paths.
fn has_plain_placeholder(text: &str) -> bool {
    text.split("${").skip(1).any(|behind| {
        let end = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(behind.len());
        let (name, rest) = behind.split_at(end);
        let is_place = name.starts_with("CLAUDE_P")
            || [
                "workspaceFolder",
                "workspaceFolderBasename",
                "userHome",
                "pathSeparator",
                "PLUGIN_ROOT",
                "PLUGIN_DATA",
            ]
            .contains(&name);
        !name.is_empty() && !is_place && (rest.starts_with('}') || rest.starts_with(":-"))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::super::{entry::EntryLocation, shapes};
    use super::*;
    use crate::expand::ExpansionContext;

    fn note_text(text: &str) -> String {
        let file = Path::new("/d/.mcp.json");
        let document = Document::from_text(file, text);
        let location =
            EntryLocation { file, context: ExpansionContext::default(), variables: &|_| Ok(BTreeMap::new()) };
        let read = shapes::read(&document, &location);
        notes(&document, read.shape, &read.definitions).join("\n")
    }

    #[track_caller]
    fn check(text: &str, says: &[&str], not: &[&str]) {
        let told = note_text(text);
        assert!(says.iter().all(|part| told.contains(part)), "{text}: {told}");
        assert!(!not.iter().any(|part| told.contains(part)), "{text}: {told}");
    }

    #[test]
    fn each_shape_names_the_hosts_that_read_it() {
        let entry = r#"{"x": {"command": "c"}}"#;
        check(&format!(r#"{{"mcpServers": {entry}}}"#), &["Zed", "Visual Studio"], &["refuses", "${"]);
        check(&format!(r#"{{"mcpServers": {entry},}}"#), &["Claude Code refuses"], &[]);
        check(&format!(r#"{{"servers": {entry},}}"#), &["only VS Code"], &["refuses"]);
        check(entry, &["flat map"], &["refuses"]);
        check(&format!(r#"{{"context_servers": {entry},}}"#), &["only Zed"], &["Claude"]);
        check(r#"{"mcp": {"x": {"command": ["c"], "cwd": "/"}}}"#, &["only OpenCode"], &["Claude"]);
        check(r#"{"name": "x", "command": {"cmd": "c", "cwd": "/"}}"#, &["only Switchboard"], &["Claude"]);
    }

    #[test]
    fn unsupported_keys_of_hosts_are_noted() {
        let check = |entry: &str, says: &[&str], not: &[&str]| {
            check(&format!(r#"{{"mcpServers": {{"x": {entry}}}}}"#), says, not);
        };
        check(r#"{"command": "c", "cwd" : "d"}"#, &["ignores `cwd`"], &["`envFile`"]);
        check(r#"{"command": "c", "args": ["cwd"]}"#, &[], &["ignores `cwd`"]);
        check(r#"{"command": "c", "args": ["${env:A}"]}"#, &["${env:…}"], &["${NAME}"]);
        check(r#"{"command": "c", "args": ["${A:-b}", "${env:A}"]}"#, &["${env:…}", "${NAME}"], &[]);
        check(r#"{"command": "${workspaceFolder}/c"}"#, &["Roo fill in `${workspaceFolder}`"], &["${NAME}"]);
        check(r#"{"command": "c", "passEnv": ["A"]}"#, &["`passEnv`"], &["${NAME}"]);
        check(
            r#"{"type": "http", "url": "https://h", "headers": {"A": "${B}"}}"#,
            &["Junie", "Cline", "${NAME}"],
            &[],
        );
    }
}

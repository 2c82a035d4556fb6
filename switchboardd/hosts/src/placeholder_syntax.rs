//! Converts hosts' placeholders to those of definitions: `${NAME}`.

use std::path::Path;

use serde_json::Value;
use switchboard_definitions::env_file::is_name;

use super::{Host, PlaceholderSyntax};

/// Converts the texts of one entry.
#[derive(Debug)]
pub(super) struct PlaceholderReader<'a> {
    pub(super) host: &'a Host,
    /// Values that VS Code asks its user for.
    inputs: &'a Value,
    /// The project that the entry is for; its folder is known.
    pub(super) project: Option<&'a Path>,
    /// Whether something in the entry stands for the project that is open.
    pub(super) names_workspace: bool,
    pub(super) notes: Vec<String>,
}

/// Placeholders for the open project.
const PROJECT: [&str; 5] = [
    "workspaceFolder",
    "workspaceFolderBasename",
    "workspaceRoot",
    "CLAUDE_PROJECT_DIR",
    "fileWorkspaceFolder",
];

/// Placeholders for folders of a plugin, which a user's own definition does not have.
const PLUGIN: [&str; 4] = ["CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA", "PLUGIN_ROOT", "PLUGIN_DATA"];

/// The open project, in the user's own definition with scope `workspace`.
pub(super) const WORKSPACE: &str = "${workspaceFolder}";

impl<'a> PlaceholderReader<'a> {
    pub(super) fn new(host: &'a Host, inputs: &'a Value) -> Self {
        Self { host, inputs, project: None, names_workspace: false, notes: Vec::new() }
    }

    /// Converts one text. `Err` says why that is impossible.
    pub(super) fn text(&mut self, text: &str) -> Result<String, String> {
        match self.host.placeholders {
            PlaceholderSyntax::Secrets => secrets(text),
            PlaceholderSyntax::Braces => braces(text),
            PlaceholderSyntax::Dollar => self.braced(&dollars(text)),
            PlaceholderSyntax::None | PlaceholderSyntax::Plain | PlaceholderSyntax::Env => self.braced(text),
        }
    }

    /// `${…}` in all its spellings.
    fn braced(&mut self, text: &str) -> Result<String, String> {
        let (mut made, mut rest) = (String::new(), text);
        while let Some(at) = rest.find("${") {
            made.push_str(&rest[..at]);
            let Some(end) = rest[at..].find('}') else { break };
            let whole = &rest[at..=at + end];
            made.push_str(&self.placeholder(whole, &whole[2..whole.len() - 1])?);
            rest = &rest[at + end + 1..];
        }
        made.push_str(rest);
        Ok(made)
    }

    fn placeholder(&mut self, whole: &str, inner: &str) -> Result<String, String> {
        let name = inner.split(':').next().unwrap_or(inner);
        let is_filled = match self.host.placeholders {
            PlaceholderSyntax::Plain | PlaceholderSyntax::Dollar => !inner.starts_with("env:"),
            PlaceholderSyntax::Env => {
                inner.contains(':')
                    || !is_name(inner)
                    || PROJECT.contains(&inner)
                    || PLUGIN.contains(&inner)
                    || inner == "userHome"
            }
            _ => false,
        };
        if PLUGIN.contains(&name) && is_filled {
            return Err(format!("`{whole}` stands for a folder of a plugin"));
        }
        if PROJECT.contains(&inner) && is_filled {
            let is_name = inner == "workspaceFolderBasename";
            return Ok(match self.project {
                Some(project) if is_name => {
                    project.file_name().unwrap_or_default().to_string_lossy().into_owned()
                }
                Some(project) => project.display().to_string(),
                None => {
                    self.names_workspace = true;
                    if is_name { "${workspaceFolderBasename}" } else { WORKSPACE }.to_owned()
                }
            });
        }
        if PROJECT.contains(&name) && is_filled {
            return Err(format!("`{whole}` stands for one of several open projects"));
        }
        if !is_filled {
            if is_name(name) || inner.starts_with("env:") {
                self.note(format!("`{whole}` is plain text to {}; here it is filled in", self.host.name));
            }
            return Ok(whole.to_owned());
        }
        if let Some(variable) = inner.strip_prefix("env:") {
            return Ok(format!("${{{variable}}}"));
        }
        if let Some(id) = inner.strip_prefix("input:") {
            return Ok(self.input(id));
        }
        if name != inner && self.host.placeholders == PlaceholderSyntax::Env {
            return Err(format!("only {} can fill in `{whole}`", self.host.name));
        }
        Ok(whole.to_owned())
    }

    fn input(&mut self, id: &str) -> String {
        let known = self.inputs.as_array().into_iter().flatten().find(|input| input["id"] == id);
        match known.and_then(|input| input["default"].as_str()) {
            Some(default) if !default.contains('}') => format!("${{input:{id}:-{default}}}"),
            _ => {
                self.note(format!(
                    "`switchboard secret set {id}` gives it the value that {} asks for",
                    self.host.name
                ));
                format!("${{input:{id}}}")
            }
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// `$NAME` as `${NAME}`.
fn dollars(text: &str) -> String {
    let (mut made, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        let (before, behind) = rest.split_at(at);
        made.push_str(before);
        let behind = &behind[1..];
        let length = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(behind.len());
        if is_name(&behind[..length]) {
            made.push_str(&format!("${{{}}}", &behind[..length]));
            rest = &behind[length..];
        } else if behind.starts_with('{') {
            let end = behind.find('}').map_or(behind.len(), |end| end + 1);
            made.push_str(&format!("${}", &behind[..end]));
            rest = &behind[end..];
        } else {
            made.push('$');
            rest = behind;
        }
    }
    made + rest
}

/// `{env:NAME}` as `${NAME}`.
fn braces(text: &str) -> Result<String, String> {
    if text.contains("{file:") {
        return Err(
            "`{file:…}` is a file that only OpenCode reads; `switchboard secret set` keeps such a value"
                .to_owned(),
        );
    }
    Ok(text.replace("{env:", "${"))
}

/// `${{ secrets.NAME }}` as `${NAME}`.
fn secrets(text: &str) -> Result<String, String> {
    let (mut made, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${{") {
        made.push_str(&rest[..at]);
        let end = rest[at..].find("}}").ok_or("`${{` has no end")?;
        let inner = rest[at + 3..at + end].trim();
        let name = inner.rsplit('.').next().unwrap_or(inner);
        if !is_name(name) {
            return Err(format!("only Continue can fill in `${{{{ {inner} }}}}`"));
        }
        made.push_str(&format!("${{{name}}}"));
        rest = &rest[at + end + 2..];
    }
    Ok(made + rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::table::by_id;
    use super::*;

    #[track_caller]
    fn check(host: &str, text: &str, expect: Result<&str, &str>) {
        let inputs = json!([{"id": "region", "default": "eu"}]);
        let mut reader = PlaceholderReader::new(by_id(host).unwrap(), &inputs);
        match (reader.text(text), expect) {
            (Ok(found), Ok(expect)) => assert_eq!(found, expect, "{host}: {text}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{host}: {text}: {why}"),
            (found, _) => panic!("{host}: {text}: {found:?}"),
        }
    }

    #[test]
    fn every_spelling_becomes_the_one_of_definitions() {
        check("claude-code", "${A} ${A:-b} $A", Ok("${A} ${A:-b} $A"));
        check("cursor", "a${env:A}b ${userHome}${/}", Ok("a${A}b ${userHome}${/}"));
        check("vscode", "${input:region} ${input:key}", Ok("${input:region:-eu} ${input:key}"));
        check("gemini", "$A-${B} $ $1 ${C:-d}", Ok("${A}-${B} $ $1 ${C:-d}"));
        check("opencode", "Bearer {env:A} {x}", Ok("Bearer ${A} {x}"));
        check("continue", "${{ secrets.A }} ${{secrets.o/p/B}}", Err("only Continue"));
        check("continue", "x ${{ secrets.A }}", Ok("x ${A}"));
    }

    #[test]
    fn placeholders_that_only_a_host_can_fill_are_refused() {
        check("cursor", "${workspaceFolder}/x", Ok("${workspaceFolder}/x"));
        check("claude-code", "${CLAUDE_PROJECT_DIR}", Ok("${workspaceFolder}"));
        check("vscode", "${workspaceFolder:api}/x", Err("one of several open projects"));
        check("claude-code", "${CLAUDE_PLUGIN_ROOT}/x", Err("a folder of a plugin"));
        check("vscode", "${command:x.y}", Err("only VS Code can fill in"));
        check("windsurf", "${file:/x}", Err("only Windsurf can fill in"));
        check("opencode", "{file:~/.key}", Err("`{file:…}`"));
        let inputs = Value::Null;
        let mut reader = PlaceholderReader::new(by_id("codex").unwrap(), &inputs);
        assert_eq!(reader.text("${HOME}").as_deref(), Ok("${HOME}"));
        assert_eq!(reader.notes, ["`${HOME}` is plain text to Codex; here it is filled in"]);
    }
}

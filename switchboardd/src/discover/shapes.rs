//! The shapes of a `.mcp.json`: one child per file (`name`, `description`, `command: {cmd, args,
//! env}`), or `mcpServers` with many.

use std::collections::BTreeMap;
use std::path::Path;

use crate::definition::{Definition, Launch};
use crate::document::{Document, Fields, Node, Problem};

const ONE_CHILD: [&str; 4] = ["$schema", "name", "description", "command"];
const COMMAND: [&str; 4] = ["cmd", "args", "env", "cwd"];
const ENTRY: [&str; 8] = ["type", "command", "args", "env", "cwd", "description", "disabled", "enabled"];

pub(super) fn definitions(document: &Document) -> (Vec<Definition>, Vec<Problem>) {
    let (found, problems) = document.visit(|fields| match fields.get("mcpServers") {
        Some(servers) => many(&servers, &document.file),
        None => one(fields, &document.file).into_iter().collect(),
    });
    (found.unwrap_or_default(), problems)
}

fn one(fields: &Fields<'_>, file: &Path) -> Option<Definition> {
    fields.only(&ONE_CHILD);
    let Some(name) = fields.get("name") else {
        fields.complain("neither `name` (one server) nor `mcpServers` (many)");
        return None;
    };
    let name = valid_name(&name, name.text()?)?;
    let launch = match fields.get("command") {
        None => Err("no command".to_owned()),
        Some(command) => {
            let command = command.object()?;
            command.only(&COMMAND);
            launch(&command, "cmd", file)
        }
    };
    Some(Definition { name, description: description(fields), launch, file: file.to_owned() })
}

fn many(servers: &Node<'_>, file: &Path) -> Vec<Definition> {
    let Some(servers) = servers.object() else { return Vec::new() };
    servers
        .entries()
        .filter_map(|(name, node)| {
            let name = valid_name(&node, name.to_owned())?;
            let fields = node.object()?;
            fields.only(&ENTRY);
            // Other hosts write either; whoever wrote it does not want the server.
            let flag = |name| fields.get(name).and_then(|node| node.flag());
            if flag("disabled") == Some(true) || flag("enabled") == Some(false) {
                return None;
            }
            let kind = fields.get("type").and_then(|kind| kind.text());
            let launch = match kind.as_deref() {
                None | Some("stdio") => launch(&fields, "command", file),
                Some(kind) => Err(format!("servers of type `{kind}` are not supported")),
            };
            Some(Definition { name, description: description(&fields), launch, file: file.to_owned() })
        })
        .collect()
}

fn description(fields: &Fields<'_>) -> Option<String> {
    fields.get("description").and_then(|node| node.text())
}

/// Names appear in routes, tool names and messages: printable and short.
fn valid_name(node: &Node<'_>, name: String) -> Option<String> {
    if name.is_empty() || name.chars().count() > 64 || name.chars().any(char::is_control) {
        node.complain("a server's name has 1 to 64 printable characters");
        return None;
    }
    Some(name)
}

fn launch(fields: &Fields<'_>, key: &str, file: &Path) -> Result<Launch, String> {
    let missing = || "no command".to_owned();
    let wrong = |what: &str| format!("`{what}` is not valid");
    let cmd = fields.get(key).ok_or_else(missing)?.text().ok_or_else(|| wrong(key))?;
    if cmd.is_empty() {
        return Err(missing());
    }
    let args = match fields.get("args") {
        Some(args) => args.texts().ok_or_else(|| wrong("args"))?,
        None => Vec::new(),
    };
    let env = match fields.get("env") {
        Some(env) => variables(&env).ok_or_else(|| wrong("env"))?,
        None => BTreeMap::new(),
    };
    let folder = std::path::absolute(file.parent().unwrap_or(Path::new(".")))
        .map_err(|error| format!("its folder cannot be found: {error}"))?;
    let cwd = match fields.get("cwd") {
        Some(cwd) => folder.join(cwd.text().ok_or_else(|| wrong("cwd"))?),
        None => folder,
    };
    let hidden_end = |text: &String| text.contains('\0');
    if hidden_end(&cmd)
        || args.iter().any(hidden_end)
        || env.iter().any(|(k, v)| hidden_end(k) || hidden_end(v))
    {
        return Err("a NUL character in what would be run".to_owned());
    }
    Ok(Launch { cmd, args, env, cwd })
}

fn variables(node: &Node<'_>) -> Option<BTreeMap<String, String>> {
    let fields = node.object()?;
    let mut variables = BTreeMap::new();
    for (name, value) in fields.entries() {
        if name.is_empty() || name.contains('=') {
            value.complain(format!("`{name}` cannot name a variable"));
            return None;
        }
        variables.insert(name.to_owned(), value.text()?);
    }
    Some(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Definition>, Vec<String>) {
        let (definitions, problems) = definitions(&Document::from_text(Path::new("/d/.mcp.json"), text));
        (definitions, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn both_shapes_give_the_same_definition() {
        let (one, no_problems) = read(
            r#"{"name": "x", "description": "d", "command": {"cmd": "c", "args": ["a"], "env": {"K": "v"}}}"#,
        );
        assert_eq!(no_problems, [""; 0]);
        let (many, no_problems) = read(
            r#"{"mcpServers": {"x": {"type": "stdio", "description": "d", "command": "c", "args": ["a"], "env": {"K": "v"}}}}"#,
        );
        assert_eq!(no_problems, [""; 0]);
        assert_eq!(one, many);
        assert_eq!(one[0].launch.as_ref().unwrap().cwd, Path::new("/d"));
    }

    #[test]
    fn a_child_without_a_command_is_misconfigured_not_missing() {
        let (found, problems) = read(r#"{"name": "x"}"#);
        assert_eq!(found[0].launch, Err("no command".to_owned()));
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn a_disabled_server_is_left_out() {
        let (found, problems) = read(
            r#"{"mcpServers": {"a": {"command": "c", "disabled": true}, "b": {"command": "c", "enabled": false}, "d": {"command": "c", "disabled": false}}}"#,
        );
        assert_eq!(found.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(), ["d"]);
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn a_bad_entry_leaves_its_neighbours() {
        let (found, problems) =
            read(r#"{"mcpServers": {"bad": 7, "worse": {"comand": "x"}, "good": {"command": "c"}}}"#);
        let names: Vec<_> = found.iter().map(|found| (found.name.as_str(), found.launch.is_ok())).collect();
        assert_eq!(names, [("worse", false), ("good", true)]);
        assert_eq!(
            problems,
            [
                "/d/.mcp.json:1:24: `mcpServers.bad` must be an object",
                "/d/.mcp.json:1:37: unknown key `mcpServers.worse.comand`; did you mean `command`?",
            ]
        );
    }
}

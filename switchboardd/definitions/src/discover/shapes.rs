//! The shapes of a `.mcp.json`: one server per file, `mcpServers`, `servers` with `inputs`, the flat map,
//! Agent Plugins, and the formats of Zed and OpenCode.

use std::collections::BTreeMap;

use super::entry::{self, EntryLocation};
use super::host_files::HostProjectFile;
use crate::definition::Definition;
use crate::document::{Document, Fields, Node, Problem, VisitResult};
use crate::expand::Dialect;

const ONE_CHILD: [&str; 12] = [
    "$schema",
    "name",
    "description",
    "command",
    "type",
    "url",
    "headers",
    "timeout",
    "cwd",
    "disabled",
    "enabled",
    "version",
];
/// The keys that hold a map of servers, each used by different hosts.
pub const SERVER_MAPS: [&str; 4] = ["mcpServers", "servers", "context_servers", "mcp"];
/// Not allowed as names of servers in a flat map: such a file was meant to have another shape.
const RESERVED: [&str; 8] =
    ["mcpServers", "servers", "inputs", "context_servers", "mcp", "sandbox", "command", "url"];
const PLUGIN_SCHEMA: &str = "https://agent-plugins.org/schemas/1.";
const MAX_SERVERS: usize = 256;
/// In bytes. Each use of an input repeats its default, so a long one would make a small file a huge
/// definition.
const MAX_DEFAULT: usize = 256;

/// The contents of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileContents {
    pub definitions: Vec<Definition>,
    pub problems: Vec<Problem>,
    pub notes: Vec<Problem>,
    /// Whether the file is unusable as a whole; then there are no definitions, and the last good version may
    /// stay.
    pub broken: bool,
    pub shape: Option<Shape>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    OneChild,
    McpServers,
    Servers,
    Flat,
    Plugin,
    Zed,
    OpenCode,
}

pub fn read(document: &Document, location: &EntryLocation<'_>) -> FileContents {
    let VisitResult { made, problems, notes } = document.visit(|fields| root(fields, location));
    match made.flatten() {
        Some((shape, definitions)) => {
            FileContents { definitions, problems, notes, broken: false, shape: Some(shape) }
        }
        None => FileContents { problems, notes, broken: true, ..FileContents::default() },
    }
}

/// The servers in a file of a host, which may hold other settings. Switchboard's own entry is left out.
pub fn read_host_file(
    document: &Document,
    known: &HostProjectFile,
    location: &EntryLocation<'_>,
) -> FileContents {
    let VisitResult { made, problems, notes } = document.visit(|fields| {
        let Some(node) = fields.get(known.key) else { return Some(Vec::new()) };
        let mut location = location.clone();
        if known.key == "servers" {
            location.context.inputs = inputs(fields);
        }
        let mut definitions = many(&node.object()?, &location, true);
        for definition in &mut definitions {
            let rules = match known.key {
                "mcp" => entry::limits::add_rules(&mut definition.limits, fields, &definition.name),
                _ => Ok(()),
            };
            if let Err(why) = rules {
                definition.launch = Err(why);
            } else if definition.limits.is_closed() {
                definition.launch = Err("its file forbids all of its tools".to_owned());
            }
        }
        Some(definitions)
    });
    let definitions = made.flatten();
    FileContents {
        broken: definitions.is_none(),
        definitions: definitions.unwrap_or_default(),
        problems,
        notes,
        shape: None,
    }
}

fn root(fields: &Fields<'_>, location: &EntryLocation<'_>) -> Option<(Shape, Vec<Definition>)> {
    let present: Vec<&str> = SERVER_MAPS.into_iter().filter(|name| fields.get(name).is_some()).collect();
    if let [one, other, ..] = present[..] {
        fields.complain(format!("has both `{one}` and `{other}`; nobody can tell which is meant"));
        return None;
    }
    // A key of `SERVER_MAPS` always holds the map of servers, never a server of that name.
    if let Some(key) = present.first()
        && let Some(node) = fields.get(key)
    {
        let mut location = location.clone();
        let shape = match *key {
            "mcpServers" if is_plugin(fields) => {
                location.context.dialect = Dialect::Plugin;
                Shape::Plugin
            }
            "mcpServers" => Shape::McpServers,
            "servers" => {
                location.context.inputs = inputs(fields);
                Shape::Servers
            }
            "context_servers" => Shape::Zed,
            _ => {
                location.context.dialect = Dialect::OpenCode;
                Shape::OpenCode
            }
        };
        return Some((shape, many(&node.object()?, &location, false)));
    }
    if fields.get("name").is_some_and(|name| name.is_text()) {
        return Some((Shape::OneChild, one(fields, location)?.into_iter().collect()));
    }
    if is_flat(fields) {
        return Some((Shape::Flat, many(fields, location, false)));
    }
    if fields.get("discoverGlobs").is_some() || fields.get("suites").is_some() {
        fields.complain("is a config, not a definition of servers");
        return None;
    }
    let known: Vec<&str> = SERVER_MAPS.into_iter().chain(["name"]).collect();
    let near = fields.entries().find_map(|(name, _)| crate::document::nearest(name, known.iter().copied()));
    let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    fields.complain(format!("neither `name` (one server) nor `mcpServers` (many){hint}"));
    None
}

fn is_plugin(fields: &Fields<'_>) -> bool {
    let schema = fields.get("$schema").filter(Node::is_text).and_then(|schema| schema.text());
    schema.is_some_and(|schema| schema.starts_with(PLUGIN_SCHEMA) && schema.ends_with("/mcp.schema.json"))
}

/// Whether every value describes a server, and no key is reserved.
fn is_flat(fields: &Fields<'_>) -> bool {
    let mut any = false;
    let all = fields.entries().filter(|(name, _)| *name != "$schema").all(|(name, node)| {
        any = true;
        !RESERVED.contains(&name) && node.has_any(&["command", "url", "httpUrl", "serverUrl"])
    });
    any && all
}

/// The defaults of the inputs that have one.
fn inputs(fields: &Fields<'_>) -> BTreeMap<String, String> {
    let Some(items) = fields.get("inputs").and_then(|inputs| inputs.items()) else { return BTreeMap::new() };
    let known = items.iter().filter_map(|item| {
        let input = item.object()?;
        let id = input.get("id")?.text()?;
        let default = input.get("default").filter(Node::is_text)?;
        let text = default.text()?;
        if text.len() > MAX_DEFAULT {
            default.complain(format!("the default of input `{id}` is over {MAX_DEFAULT} bytes"));
            return None;
        }
        Some((id, text))
    });
    known.collect()
}

/// `Some(None)` for a server that is turned off.
fn one(fields: &Fields<'_>, location: &EntryLocation<'_>) -> Option<Option<Definition>> {
    fields.reject_unknown(&ONE_CHILD);
    let node = fields.get("name")?;
    let name = entry::valid_name(&node, node.text()?)?;
    if entry::is_off(fields) {
        node.note(format!("`{name}` is turned off, and left out"));
        return Some(None);
    }
    let launch = match fields.get("command") {
        Some(command) if !command.is_text() => {
            let command = command.object()?;
            entry::process(&command, "cmd", &entry::COMMAND, location)
        }
        _ => entry::launch(fields, location),
    };
    Some(Some(Definition { at: node.at(), ..entry::definition(fields, name, launch, location) }))
}

/// `of_host`: in a host's file of a project. Switchboard's own entry is then left out, and not refused.
fn many(servers: &Fields<'_>, location: &EntryLocation<'_>, of_host: bool) -> Vec<Definition> {
    let entries: Vec<_> = servers.entries().filter(|(name, _)| *name != "$schema").collect();
    if entries.len() > MAX_SERVERS {
        servers.complain(format!("more than {MAX_SERVERS} servers; the rest is left out"));
    }
    let entries = entries.into_iter().take(MAX_SERVERS);
    let entries = entries.filter(|(_, node)| !(of_host && entry::is_switchboard(node)));
    entries.filter_map(|(name, node)| entry::read(name, &node, location, of_host)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::definition::{Launch, LaunchCommand, Transport};
    use crate::expand::{ExpansionContext, Template};

    fn read(text: &str) -> (Vec<Definition>, Vec<String>) {
        let read = super::read(&Document::from_text(Path::new("/d/.mcp.json"), text), &location());
        (read.definitions, read.problems.iter().map(ToString::to_string).collect())
    }

    fn location() -> EntryLocation<'static> {
        let places = ExpansionContext {
            folder: "/d".into(),
            root: "/w".into(),
            home: "/h".into(),
            ..ExpansionContext::default()
        };
        EntryLocation {
            file: Path::new("/d/.mcp.json"),
            context: places,
            variables: &|file| Err(format!("no {}", file.display())),
        }
    }

    fn only(text: &str) -> Definition {
        let (mut found, problems) = read(text);
        assert_eq!(problems, [""; 0], "{text}");
        assert_eq!(found.len(), 1, "{text}");
        found.remove(0)
    }

    #[test]
    fn every_shape_gives_the_same_definition() {
        let one = only(
            r#"{"name": "x", "description": "d", "command": {"cmd": "c", "args": ["a"], "env": {"K": "v"}}}"#,
        );
        let entry =
            r#"{"type": "stdio", "description": "d", "command": "c", "args": ["a"], "env": {"K": "v"}}"#;
        let shapes = [
            format!(r#"{{"mcpServers": {{"x": {entry}}}}}"#),
            format!(r#"{{"servers": {{"x": {entry}}}, "inputs": []}}"#),
            format!(r#"{{"context_servers": {{"x": {entry}}}}}"#),
            format!(r#"{{"x": {entry}}}"#),
            r#"{"mcp": {"x": {"type": "local", "description": "d", "command": ["c", "a"], "environment": {"K": "v"}}}}"#.to_owned(),
            r#"{"mcpServers": {"x": {"description": "d", "transport": {"type": "stdio", "command": "c", "args": ["a"], "env": {"K": "v"}}}}}"#.to_owned(),
            r#"// note
               {"mcpServers": {"x": {"description": "d", "command": "c", "args": ["a",], "env": {"K": "v"},},},}"#.to_owned(),
        ];
        for shape in shapes {
            let found = only(&shape);
            assert_eq!(Definition { at: one.at, ..found }, one, "{shape}");
        }
        let launch = one.command().unwrap();
        assert_eq!((launch.cwd.to_string(), launch.cmd.to_string()), ("/d".to_owned(), "c".to_owned()));
    }

    #[test]
    fn plugins_are_read_strictly() {
        let plugin = |entry: &str| {
            read(&format!(
                r#"{{"$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json", "mcpServers": {{"x": {entry}}}}}"#
            ))
        };
        let (found, problems) =
            plugin(r#"{"type": "stdio", "command": "./bin/x", "args": ["${PLUGIN_ROOT}", "${HOME}"]}"#);
        assert_eq!(problems, [""; 0]);
        let args: Vec<_> = found[0].command().unwrap().args.iter().map(ToString::to_string).collect();
        assert_eq!(args, ["/d", "${HOME}"]);
        for (wrong, why) in [
            (r#"{"command": "c"}"#, "`type`"),
            (r#"{"type": "stdio", "command": "/bin/sh"}"#, "command"),
            (r#"{"type": "stdio", "command": "./../x"}"#, "command"),
            (r#"{"type": "stdio", "command": "c", "cwd": "../.."}"#, "cwd"),
            (r#"{"type": "stdio", "command": "c", "env": {"PLUGIN_ROOT": "x"}}"#, "PLUGIN_ROOT"),
            (r#"{"type": "stdio", "command": "c", "url": "https://x"}"#, "url"),
        ] {
            let (found, problems) = plugin(wrong);
            let told = format!("{:?} {problems:?}", found[0].launch.as_ref().err());
            assert!(found[0].launch.is_err() && told.contains(why), "{wrong}: {told}");
        }
    }

    #[test]
    fn urls_come_in_many_spellings() {
        let http = |entry: &str| match only(&format!(r#"{{"mcpServers": {{"x": {entry}}}}}"#)).launch {
            Ok(Launch::Remote(remote)) => (remote.transport, remote.url.to_string()),
            other => panic!("{other:?}"),
        };
        let wrong = only(r#"{"mcpServers": {"x": {"type": "http", "url": "localhost:8080"}}}"#).launch;
        assert!(wrong.is_err_and(|why| why.contains("http://")));
        for kind in ["http", "streamable-http", "streamableHttp", "remote"] {
            let entry = format!(r#"{{"type": "{kind}", "url": "https://u"}}"#);
            assert_eq!(http(&entry), (Transport::Http, "https://u".to_owned()));
        }
        assert_eq!(http(r#"{"url": "https://u"}"#).0, Transport::Http);
        assert_eq!(http(r#"{"httpUrl": "https://u"}"#).0, Transport::Http);
        assert_eq!(http(r#"{"serverUrl": "https://u"}"#).0, Transport::Http);
        assert_eq!(http(r#"{"type": "sse", "url": "https://u"}"#).0, Transport::Sse);
    }

    #[test]
    fn inputs_have_defaults() {
        let found = only(
            r#"{"inputs": [{"id": "region", "type": "promptString", "default": "eu"}, {"id": "key", "password": true}],
                "servers": {"x": {"command": "c", "args": ["${input:region}", "${input:key}"]}}}"#,
        );
        let args: Vec<_> = found.command().unwrap().args.iter().map(ToString::to_string).collect();
        assert_eq!(args, ["${input:region:-eu}", "${input:key}"]);
    }

    #[test]
    fn a_child_without_a_command_is_misconfigured_not_missing() {
        let found = only(r#"{"name": "x"}"#);
        assert_eq!(found.launch, Err("no command".to_owned()));
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
        assert_eq!(names, [("bad", false), ("worse", false), ("good", true)]);
        assert_eq!(
            problems,
            [
                "/d/.mcp.json:1:24: `mcpServers.bad` must be an object",
                "/d/.mcp.json:1:37: unknown key `mcpServers.worse.comand`; did you mean `command`?",
            ]
        );
    }

    #[test]
    fn a_small_file_makes_no_huge_definition() {
        let (default, gaps) = ("d".repeat(60_000), "${input:i}".repeat(6_000));
        let (found, problems) = read(&format!(
            r#"{{"inputs": [{{"id": "i", "default": "{default}"}}], "servers": {{"x": {{"command": "c", "args": ["{gaps}"]}}}}}}"#
        ));
        assert!(format!("{found:?}").len() < 1_000_000);
        assert!(problems[0].contains("over 256 bytes"), "{problems:?}");
    }

    #[test]
    fn codex_entries_are_understood() {
        let (found, problems) = read(
            r#"{"a": {"command": "c", "env_vars": ["P"], "startup_timeout_sec": 5},
                "b": {"url": "https://u", "bearer_token_env_var": "T", "http_headers": {"X-Y": "z"}}}"#,
        );
        assert_eq!(problems, [""; 0]);
        assert_eq!(found[0].command().unwrap().pass_env, ["P".to_owned()].into());
        let Ok(Launch::Remote(remote)) = &found[1].launch else { panic!("{found:?}") };
        let headers: Vec<_> = remote.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(headers, ["authorization: Bearer ${T}", "x-y: z"]);
    }

    #[test]
    fn a_nested_transport_is_read_as_strictly() {
        let (_, problems) = read(r#"{"mcpServers": {"x": {"transport": {"command": "c", "arg": []}}}}"#);
        assert_eq!(
            problems,
            ["/d/.mcp.json:1:53: unknown key `mcpServers.x.transport.arg`; did you mean `args`?"]
        );
    }

    #[test]
    fn a_file_without_a_known_shape_is_reported() {
        let told = |text: &str| read(text).1.join("; ");
        assert!(told(r#"{"mcpServers": {}, "servers": {}}"#).contains("both `mcpServers` and `servers`"));
        assert!(told(r#"{"mcpServer": {"x": {"command": "c"}}}"#).contains("did you mean `mcpServers`?"));
        assert!(told(r#"{"mcpServers": {"x": {"command": "c", "command": "d"}}}"#).contains("appears twice"));
        assert!(told(r#"{"x": {"command": "c"}, "y": 1}"#).contains("neither `name`"));
        assert!(told("{}").contains("neither `name`"));
    }

    #[test]
    fn switchboard_does_not_start_itself() {
        for entry in [
            r#"{"command": "switchboard"}"#,
            r#"{"command": "/usr/local/bin/switchboard", "args": ["--workspace", "/x"]}"#,
            r#"{"command": "switchboardd"}"#,
            r#"{"command": "sh", "args": ["-c", "exec switchboard"]}"#,
            r#"{"command": "env", "args": ["A=b", "/opt/switchboard"]}"#,
        ] {
            let found = only(&format!(r#"{{"mcpServers": {{"x": {entry}}}}}"#));
            assert!(
                found.launch.as_ref().is_err_and(|why| why.contains("Switchboard itself")),
                "{entry}: {found:?}"
            );
        }
        assert!(
            only(r#"{"mcpServers": {"x": {"command": "echo", "args": ["switchboard"]}}}"#).launch.is_ok()
        );
    }

    #[test]
    fn timeouts_have_units_by_their_size() {
        let timeout =
            |text: &str| only(&format!(r#"{{"x": {{"command": "c", "timeout": {text}}}}}"#)).timeout;
        let seconds = |seconds| Some(std::time::Duration::from_millis(seconds));
        assert_eq!(timeout("30"), seconds(30_000));
        assert_eq!(timeout("0.5"), seconds(500));
        assert_eq!(timeout("999"), seconds(999_000));
        assert_eq!(timeout("1000"), seconds(1000));
        assert_eq!(timeout("60000"), seconds(60_000));
    }

    #[test]
    fn variables_may_be_numbers_or_taken_away() {
        let found = only(r#"{"x": {"command": "c", "env": {"N": 8, "B": true, "GONE": null, "T": "${A}"}}}"#);
        let launch: &LaunchCommand = found.command().unwrap();
        assert_eq!(launch.env["N"], Some(Template::text("8")));
        assert_eq!(launch.env["B"], Some(Template::text("true")));
        assert_eq!(launch.env["GONE"], None);
        assert_eq!(launch.placeholders(), ["A".to_owned()].into());
    }
}

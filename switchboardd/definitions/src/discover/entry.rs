//! Turns one entry of a `.mcp.json`, in the spelling of any host, into a definition.

mod headers;
mod keys;
pub(super) mod limits;
mod own_program;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::definition::{Definition, Launch, LaunchCommand, Remote, Transport};
use crate::document::{Fields, Node};
use crate::expand::{Dialect, ExpansionContext, Template};
use crate::own_limits::OwnLimits;
use headers::headers;
pub(super) use keys::COMMAND;
pub use keys::ENTRY;
use keys::{OTHER_HOSTS_KEYS, PLUGIN};
pub(super) use own_program::is_switchboard;
use own_program::would_start_switchboard;

/// A `timeout` from here on is in milliseconds, a smaller one in seconds. Hosts do not agree on the unit.
const MILLISECONDS_FROM: f64 = 1000.0;

/// The variables in an env file, or why it cannot be used.
type EnvFileResult = Result<BTreeMap<String, String>, String>;

/// The file of an entry, and the context for `${…}` in it.
#[derive(Clone)]
pub struct EntryLocation<'a> {
    pub file: &'a Path,
    pub context: ExpansionContext,
    /// Reads an env file.
    pub variables: &'a dyn Fn(&Path) -> EnvFileResult,
}

/// `None` for an entry without a usable name, and for one that is turned off. `is_limited`: whether its limits on tools
/// count.
pub(super) fn read(
    name: &str,
    node: &Node<'_>,
    location: &EntryLocation<'_>,
    is_limited: bool,
) -> Option<Definition> {
    let name = valid_name(node, name.to_owned())?;
    let Some(fields) = node.object() else {
        let launch = Err("its entry is not an object".to_owned());
        let file = location.file.to_owned();
        let at = node.at();
        let (unclear_in, limits) = (None, OwnLimits::default());
        return Some(Definition {
            name,
            description: None,
            launch,
            timeout: None,
            file,
            at,
            unclear_in,
            limits,
        });
    };
    if is_off(&fields) {
        node.note(format!("`{name}` is turned off, and left out"));
        return None;
    }
    let is_plugin = location.context.dialect == Dialect::Plugin;
    if is_plugin {
        fields.reject_unknown(&PLUGIN);
    } else {
        fields.reject_unknown(&[&ENTRY[..], &OTHER_HOSTS_KEYS].concat());
        let foreign = OTHER_HOSTS_KEYS.into_iter().filter(|key| !(is_limited && limits::KEYS.contains(key)));
        fields.note_foreign(&foreign.collect::<Vec<_>>());
    }
    let launch = match fields.get("transport").and_then(|nested| nested.object()) {
        Some(nested) => {
            nested.reject_unknown(&ENTRY);
            launch(&nested, location)
        }
        None => launch(&fields, location),
    };
    let launch =
        launch.and_then(|launch| if is_plugin { contained(&fields, launch, location) } else { Ok(launch) });
    let mut definition = Definition { at: node.at(), ..definition(&fields, name, launch, location) };
    if is_limited {
        match limits::read(&fields) {
            Ok(limits) => definition.limits = limits,
            Err(why) => definition.launch = Err(why),
        }
    }
    Some(definition)
}

pub(super) fn definition(
    fields: &Fields<'_>,
    name: String,
    launch: Result<Launch, String>,
    location: &EntryLocation<'_>,
) -> Definition {
    let description = fields.get("description").and_then(|node| node.text());
    let (timeout, file) = (timeout(fields), location.file.to_owned());
    let limits = OwnLimits::default();
    Definition { name, description, launch, timeout, file, at: None, unclear_in: None, limits }
}

/// Names appear in routes, tool names and messages, so they must be printable and short.
pub(super) fn valid_name(node: &Node<'_>, name: String) -> Option<String> {
    if name.is_empty() || name.chars().count() > 64 || name.chars().any(switchboard_wire::visible::is_hidden)
    {
        node.complain("a server's name has 1 to 64 printable characters");
        return None;
    }
    Some(name)
}

/// Hosts write either `disabled` or `enabled`.
pub(super) fn is_off(fields: &Fields<'_>) -> bool {
    let flag = |name| fields.get(name).and_then(|node| node.flag());
    flag("disabled") == Some(true) || flag("enabled") == Some(false)
}

pub(super) fn launch(fields: &Fields<'_>, location: &EntryLocation<'_>) -> Result<Launch, String> {
    let kind = fields.get("type").map(|kind| kind.text().ok_or("`type` is not valid")).transpose()?;
    let url = ["url", "httpUrl", "serverUrl"].into_iter().find(|name| fields.get(name).is_some());
    if let (Some(url), true) = (url, fields.get("command").is_some()) {
        return Err(format!("has both `command` and `{url}`"));
    }
    match kind.as_deref() {
        Some("stdio" | "local") => process(fields, "command", &[], location),
        Some("http" | "streamable-http" | "streamableHttp" | "streamable_http" | "remote") => {
            remote(fields, url, Transport::Http, location)
        }
        Some("sse") => remote(fields, url, Transport::Sse, location),
        Some(other) => Err(format!("`{other}` is not a type of server: `stdio`, `http` or `sse` are")),
        None if location.context.dialect == Dialect::Plugin => {
            Err("no `type`: Agent Plugins say `stdio`, `streamable-http` or `sse`".to_owned())
        }
        // Gemini CLI means SSE by a bare `url`.
        None if url == Some("url") && location.context.dialect == Dialect::Gemini => {
            remote(fields, url, Transport::Sse, location)
        }
        None if url.is_some() => remote(fields, url, Transport::Http, location),
        None => process(fields, "command", &[], location),
    }
}

/// `known`: the keys that `fields` may have; empty if they were checked already.
pub(super) fn process(
    fields: &Fields<'_>,
    key: &str,
    known: &[&str],
    location: &EntryLocation<'_>,
) -> Result<Launch, String> {
    if !known.is_empty() {
        fields.reject_unknown(known);
    }
    let mut argv = match fields.get(key) {
        None => return Err("no command".to_owned()),
        Some(list) if list.is_array() => list.texts().ok_or_else(|| wrong(key))?,
        Some(command) => vec![command.text().ok_or_else(|| wrong(key))?],
    };
    if let Some(args) = fields.get("args") {
        argv.extend(args.texts().ok_or_else(|| wrong("args"))?);
    }
    if argv.first().is_none_or(String::is_empty) {
        return Err("no command".to_owned());
    }
    if would_start_switchboard(&argv) {
        return Err("it would start Switchboard itself".to_owned());
    }
    if argv[0].contains(' ')
        && !argv[0].contains('/')
        && let Some(node) = fields.get(key)
    {
        node.note(format!(
            "`{key}` is one program's name, spaces and all; arguments have their place in `args`"
        ));
    }
    argv[0] = from_home(&argv[0], &location.context);
    let mut env = BTreeMap::new();
    for name in ["env", "environment"] {
        if let Some(node) = fields.get(name) {
            env.extend(variables(&node, location)?);
        }
    }
    let (env_file, env_file_path) = match fields.get("envFile") {
        Some(file) => {
            let (path, variables) = env_file(&file.text().ok_or_else(|| wrong("envFile"))?, location)?;
            (variables, Some(path))
        }
        None => (BTreeMap::new(), None),
    };
    let mut pass_env = BTreeSet::new();
    for key in ["passEnv", "env_vars"] {
        if let Some(names) = fields.get(key) {
            pass_env.extend(names.texts().ok_or_else(|| wrong(key))?);
        }
    }
    let folder = location.context.folder.to_str().ok_or("its folder's name is not valid UTF-8")?.to_owned();
    let written_cwd = fields.get("cwd").map(|cwd| cwd.text().ok_or_else(|| wrong("cwd"))).transpose()?;
    let names_workspace =
        matches!(written_cwd.as_deref(), Some("${workspaceFolder}" | "${CLAUDE_PROJECT_DIR}"));
    let cwd_is_workspace = location.context.personal && names_workspace;
    let cwd = match written_cwd {
        Some(cwd) => {
            let cwd = Template::parse(&from_home(&cwd, &location.context), &location.context)?;
            if cwd_is_workspace { cwd.in_workspace(None) } else { cwd }
        }
        None => Template::text(folder),
    };
    // A literal directory is made absolute, so that equal commands compare equal wherever they are defined.
    let (cwd, base) = match cwd.literal().map(|cwd| tidy(&location.context.folder.join(cwd))) {
        Some(known) => (Template::text(known.to_string_lossy()), PathBuf::from("/")),
        None => (cwd, location.context.folder.clone()),
    };
    let templates = argv.iter().map(|arg| Template::parse(arg, &location.context));
    let mut templates = templates.collect::<Result<Vec<_>, _>>()?;
    // Plugins' commands are not expanded, by the plugin specification.
    let cmd = match location.context.dialect {
        Dialect::All | Dialect::OpenCode | Dialect::Gemini | Dialect::Literal => templates.remove(0),
        Dialect::Plugin => {
            templates.remove(0);
            Template::text(argv[0].clone())
        }
    };
    let mut launch = LaunchCommand {
        cmd,
        args: templates,
        env,
        env_file,
        env_file_path,
        pass_env,
        cwd,
        base,
        cwd_is_workspace,
        data: None,
        program: None,
    };
    let written = serde_json::to_string(&launch).map_err(|_| "a name in it is not valid UTF-8")?;
    if written.contains("\\u0000") {
        return Err("a NUL character in what would be run".to_owned());
    }
    let data = location.context.data.to_string_lossy();
    launch.data = (!data.is_empty() && written.contains(&*data)).then(|| location.context.data.clone());
    Ok(Launch::Process(launch))
}

fn remote(
    fields: &Fields<'_>,
    url: Option<&str>,
    transport: Transport,
    location: &EntryLocation<'_>,
) -> Result<Launch, String> {
    let Some(key) = url else { return Err("no url".to_owned()) };
    let url = fields.get(key).and_then(|url| url.text()).ok_or_else(|| wrong(key))?;
    if key == "url"
        && transport == Transport::Http
        && fields.get("type").is_none()
        && let Some(node) = fields.get(key)
    {
        node.note("`url` without `type` is taken as `http`; Claude Code refuses it, Cline and Gemini take it as `sse`");
    }
    let url = Template::parse(&url, &location.context)?;
    let known = ["http://", "https://"];
    if !url.begins_with_placeholder() && !known.iter().any(|scheme| url.to_string().starts_with(scheme)) {
        return Err(format!("`{key}` must begin with `http://` or `https://`"));
    }
    Ok(Launch::Remote(Remote { transport, url, headers: headers(fields, location)? }))
}

fn variables(
    node: &Node<'_>,
    location: &EntryLocation<'_>,
) -> Result<BTreeMap<String, Option<Template>>, String> {
    let mut variables = BTreeMap::new();
    for (name, value) in node.object().ok_or_else(|| wrong("env"))?.entries() {
        if name.is_empty() || name.contains('=') || name.contains('\0') {
            value.complain(format!("`{}` cannot name a variable", switchboard_wire::visible::visible(name)));
            return Err(wrong("env"));
        }
        let value = if value.is_null() {
            None
        } else {
            let text = value.scalar().ok_or_else(|| wrong("env"))?;
            let is_filled = location.context.dialect == Dialect::Gemini;
            if !is_filled && text.strip_prefix('$').is_some_and(crate::env_file::is_name) {
                value.note("`$NAME` is passed on as it is written; `${NAME}` would be filled in");
            }
            Some(Template::parse(&text, &location.context)?)
        };
        variables.insert(name.to_owned(), value);
    }
    Ok(variables)
}

fn env_file(
    written: &str,
    location: &EntryLocation<'_>,
) -> Result<(PathBuf, BTreeMap<String, String>), String> {
    let template = Template::parse(&from_home(written, &location.context), &location.context)?;
    let Some(path) = template.literal() else {
        return Err("`envFile` can only hold `${workspaceFolder}`, `${userHome}` and the like".to_owned());
    };
    let file = location.context.folder.join(path);
    let variables =
        (location.variables)(&file).map_err(|why| format!("`envFile` `{}` {why}", file.display()))?;
    Ok((file.canonicalize().unwrap_or(file), variables))
}

/// Expands a leading `~/`.
fn from_home(text: &str, places: &ExpansionContext) -> String {
    match text.strip_prefix("~/") {
        Some(rest) if places.dialect != Dialect::Plugin => {
            places.home.join(rest).to_string_lossy().into_owned()
        }
        _ => text.to_owned(),
    }
}

/// Removes `.` components.
fn tidy(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

/// Rejects what Agent Plugins may not do.
fn contained(fields: &Fields<'_>, launch: Launch, location: &EntryLocation<'_>) -> Result<Launch, String> {
    let stays = |path: &Path| {
        let path = location.context.folder.join(path);
        let mut depth = 0_i32;
        let below = path.strip_prefix(&location.context.folder).ok();
        let lexical = below.is_some_and(|below| {
            below.components().all(|part| {
                depth += match part {
                    Component::ParentDir => -1,
                    Component::Normal(_) => 1,
                    _ => 0,
                };
                depth >= 0
            })
        });
        let real = |path: &Path| path.canonicalize().ok();
        let inside = match (real(&path), real(&location.context.folder)) {
            (Some(path), Some(folder)) => path.starts_with(folder),
            // A path that does not exist leads nowhere.
            _ => true,
        };
        lexical && inside
    };
    if let Launch::Process(launch) = &launch {
        let command = launch.cmd.to_string();
        if command.contains('/') && !(command.starts_with("./") && stays(Path::new(&command))) {
            return Err("its `command` must be a bare name or `./` inside the plugin".to_owned());
        }
        let cwd = fields.get("cwd").and_then(|cwd| cwd.text());
        let cwd = cwd.map(|cwd| Template::parse(&cwd, &location.context)).transpose()?;
        if let Some(cwd) = cwd.as_ref().and_then(Template::literal)
            && !stays(Path::new(cwd))
            && (location.context.data.as_os_str().is_empty()
                || !Path::new(cwd).starts_with(&location.context.data))
        {
            return Err("its `cwd` must be inside the plugin".to_owned());
        }
        if let Some(name) =
            ["PLUGIN_ROOT", "PLUGIN_DATA"].into_iter().find(|name| launch.env.contains_key(*name))
        {
            return Err(format!("its `env` must not set `{name}`"));
        }
    }
    Ok(launch)
}

/// Guesses the unit by size, since hosts do not agree on one.
fn timeout(fields: &Fields<'_>) -> Option<Duration> {
    let node = fields.get("timeout")?;
    let amount = node.amount()?;
    let ms = if amount >= MILLISECONDS_FROM {
        amount
    } else {
        node.note(format!("`timeout` {amount} is taken as seconds; 1000 and more are milliseconds"));
        amount * 1000.0
    };
    Duration::try_from_secs_f64((ms / 1000.0).min(24.0 * 3600.0)).ok()
}

fn wrong(what: &str) -> String {
    format!("`{what}` is not valid")
}

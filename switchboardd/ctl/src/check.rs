//! `switchboard check FILE`: what is wrong with a file, where, and which hosts would reject it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};
use switchboard_definitions::config::{Config, ConfigOwner, FILE_NAME};
use switchboard_definitions::definition::{Definition, Launch, Remote, Transport};
use switchboard_definitions::discover::entry::EntryLocation;
use switchboard_definitions::discover::host_files::HostProjectFile;
use switchboard_definitions::discover::{SearchScope, expansion_context, hosts, read_variables, shapes};
use switchboard_definitions::document::{Document, Problem};
use switchboard_definitions::expand::PlaceholderValues;
use switchboard_definitions::trust::secrets_in_arguments;
use switchboard_definitions::trust::view::{mentioned, shown_url};
use switchboard_wire::visible::{Printable, visible};

use super::CliExit;
use super::local_config::LocalConfig;
use super::output::{indented, is_terminal, print, print_json, say};
use super::unused_settings::unused_settings;
use crate::args::Args;
use switchboardd::child::remote::address;
use switchboardd::daemon;

/// The result of checking one file.
#[derive(Default)]
struct FileCheck {
    problems: Vec<Problem>,
    notes: Vec<Problem>,
    /// Definitions that can be started or reached.
    servers: Vec<(Definition, Launch)>,
    hosts: Vec<String>,
}

pub(super) fn run(args: &Args, files: &[PathBuf]) -> CliExit {
    let mut exit = CliExit::Ok;
    let mut all = Vec::new();
    for file in files {
        let mut verdict = check_file(args, &resolved(file));
        verdict.problems.sort_by_key(|problem| problem.at);
        verdict.notes.sort_by_key(|note| note.at);
        // As typed: shorter, and still clickable.
        verdict.problems.iter_mut().chain(&mut verdict.notes).for_each(|said| said.file.clone_from(file));
        if !verdict.problems.is_empty() {
            exit = CliExit::Error;
        }
        if args.json {
            all.push(verdict.as_json(file));
        } else {
            print_check(file, &verdict);
        }
    }
    if args.json {
        print_json(&json!(all));
    }
    exit
}

impl FileCheck {
    fn as_json(&self, file: &Path) -> Value {
        let told = |said: &[Problem]| -> Vec<Value> {
            let one = |said: &Problem| {
                let (line, column) = said.at.unzip();
                json!({ "line": line, "column": column, "message": said.message })
            };
            said.iter().map(one).collect()
        };
        json!({
            "file": file.display().to_string(),
            "ok": self.problems.is_empty(),
            "problems": told(&self.problems),
            "notes": told(&self.notes),
            "servers": self.servers.iter().map(|(known, launch)| server(known, launch)).collect::<Vec<_>>(),
            "hosts": self.hosts,
        })
    }
}

/// Rejects a remote server whose literal URL cannot be reached.
pub(super) fn reachable(launch: Launch) -> Result<Launch, String> {
    if let Launch::Remote(remote) = &launch
        && remote.url.literal().is_some()
    {
        let plain = Remote { headers: BTreeMap::new(), ..remote.clone() };
        if let Ok(to) = plain.fill(&PlaceholderValues::new()) {
            address(&to)?;
        }
    }
    Ok(launch)
}

/// The whole definition, without the values of variables and headers.
fn server(definition: &Definition, launch: &Launch) -> Value {
    let timeout = definition.timeout.map(|timeout| timeout.as_millis());
    let mut server = match launch {
        Launch::Process(launch) => json!({
            "type": "stdio",
            "command": std::iter::once(&launch.cmd).chain(&launch.args).map(ToString::to_string).collect::<Vec<_>>(),
            "env": launch.env.keys().chain(launch.env_file.keys()).collect::<std::collections::BTreeSet<_>>(),
            "cwd": launch.base.join(launch.cwd.to_string()).display().to_string(),
            "fillsIn": launch.placeholders(),
        }),
        Launch::Remote(remote) => json!({
            "type": if remote.transport == Transport::Sse { "sse" } else { "http" },
            "url": shown_url(&remote.url),
            "headers": remote.headers.keys().collect::<Vec<_>>(),
        }),
    };
    if launch.runs_in_workspace() {
        server["sessionCwd"] = json!("${workspaceFolder}");
    }
    server["name"] = json!(definition.name);
    server["description"] = json!(definition.description);
    server["timeoutMs"] = json!(timeout);
    server
}

fn print_check(file: &Path, verdict: &FileCheck) {
    // Excerpts of the file are shown on a terminal only, in case a wrong file was named.
    let pictured = is_terminal();
    let shown = |problem: &Problem| if pictured { problem.pictured() } else { problem.to_string() };
    for problem in &verdict.problems {
        print(&Printable::text(shown(problem)));
    }
    // Notes show a position but no excerpt.
    for note in &verdict.notes {
        say!("note: {}", indented(note));
    }
    for host in &verdict.hosts {
        say!("note: {host}");
    }
    let count = verdict.problems.len();
    match count {
        0 => say!("{}: fine", file.display()),
        _ => say!("{}: {count} problem{}", file.display(), if count == 1 { "" } else { "s" }),
    }
    for (definition, launch) in &verdict.servers {
        let place = match launch {
            Launch::Process(launch) if launch.cwd_is_workspace => {
                format!("  (in {})", launch.shown_directory())
            }
            _ => String::new(),
        };
        say!("  {}: {}{place}", visible(&definition.name), mentioned(launch));
    }
}

/// Makes a path absolute and resolves its `..`. Symlinks after the last `..` stay: a file linked into the
/// user's config folder counts as the user's own.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let parts: Vec<Component<'_>> = path.components().collect();
    let Some(last) = parts.iter().rposition(|part| *part == Component::ParentDir) else { return path };
    let (start, rest) = parts.split_at(last + 1);
    match start.iter().collect::<PathBuf>().canonicalize() {
        Ok(start) => start.join(rest.iter().collect::<PathBuf>()),
        Err(_) => path,
    }
}

/// Compares the paths as written, then with symlinks resolved.
fn is_below(file: &Path, folder: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    file.starts_with(folder)
        || real(file).zip(real(folder)).is_some_and(|(file, folder)| file.starts_with(folder))
}

fn check_file(args: &Args, file: &Path) -> FileCheck {
    let document = match Document::read(file, None) {
        Ok(Some(document)) => document,
        Ok(None) => {
            return FileCheck { problems: vec![Problem::of(file, "does not exist")], ..FileCheck::default() };
        }
        Err(problem) => return FileCheck { problems: vec![problem], ..FileCheck::default() },
    };
    let folder = file.parent().unwrap_or(Path::new("/"));
    let home = daemon::home().unwrap_or_default();
    let own_config = resolved(&daemon::config_file(&args.of_daemon(), &home));
    let is_personal = own_config == file;
    let is_config = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b"switchboard.config.");
    if file.extension().is_some_and(|kind| kind != "json") && file.file_name().is_some_and(is_config) {
        return FileCheck { problems: Config::load(file).err().unwrap_or_default(), ..FileCheck::default() };
    }
    if is_personal || file.file_name().is_some_and(|name| name == FILE_NAME) {
        let extent = if is_personal { ConfigOwner::Personal } else { ConfigOwner::Workspace };
        let problems = Config::parse(&document, folder, extent).err().unwrap_or_default();
        let notes = if problems.is_empty() { unused(args, folder, extent) } else { Vec::new() };
        let mut hosts = Vec::new();
        if !is_personal && !problems.is_empty() {
            hosts.push("it was read as a project's config; `--config FILE` reads it as your own".to_owned());
        }
        return FileCheck { problems, notes, hosts, ..FileCheck::default() };
    }
    // In a file below the user's config folder, `${workspaceFolder}` is that folder; as a `cwd` it is the
    // session's project.
    let own = own_config.parent().unwrap_or(Path::new("/"));
    let is_own = is_below(file, own);
    // A `.mcp.json` may also be one that Switchboard's globs find: both are read alike.
    let host_file = HostProjectFile::at(file).filter(|(known, _)| known.path != ".mcp.json" && !is_own);
    let root = host_file.as_ref().map_or(folder, |(_, root)| root);
    let config = Config::defaults(if is_own { own } else { root });
    let search_scope = SearchScope { config: &config, confined: !is_own, home: &home, data: Path::new("") };
    let context = expansion_context(file, search_scope);
    let read = match &host_file {
        None => shapes::read(&document, &EntryLocation { file, context, variables: &read_variables }),
        Some((known, _)) => {
            let context = known.context(context);
            let location = EntryLocation { file, context, variables: &read_variables };
            shapes::read_host_file(&document, known, &location)
        }
    };
    let hosts = hosts::notes(&document, read.shape, &read.definitions);
    let mut verdict = FileCheck { problems: read.problems, notes: read.notes, hosts, ..FileCheck::default() };
    for definition in read.definitions {
        match definition.launch.clone().and_then(reachable) {
            Ok(launch) => {
                if let Launch::Process(launch) = &launch
                    && let Some(why) = secrets_in_arguments(launch)
                {
                    let message = format!("`{}` {}", visible(&definition.name), visible(&why));
                    verdict.notes.push(document.problem_at(definition.at, message));
                }
                verdict.servers.push((definition, launch));
            }
            Err(why) => {
                let message = format!("`{}` is misconfigured: {why}", definition.name);
                verdict.problems.push(document.problem_at(definition.at, message));
            }
        }
    }
    verdict
}

/// Settings in a config for servers that do not exist.
fn unused(args: &Args, folder: &Path, extent: ConfigOwner) -> Vec<Problem> {
    let Some(local) = LocalConfig::open_if_possible(args) else { return Vec::new() };
    match extent {
        ConfigOwner::Personal => {
            let project = local.here(args).map(|root| local.workspace(&root));
            unused_settings(&local.personal, project.as_ref())
        }
        ConfigOwner::Workspace => unused_settings(&local.workspace(folder), Some(&local.personal)),
    }
}

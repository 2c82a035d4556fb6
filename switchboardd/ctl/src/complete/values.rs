//! The values that arguments can have, from the user's files.

use clap_complete::engine::CompletionCandidate;
use serde_json::Value;
use switchboard_hosts::table::HOSTS;
use switchboardd::child::Tool;
use switchboardd::daemon;
use switchboardd::secrets::Secrets;

use crate::args::{self, Args};
use crate::dry_run::OfflineDaemon;

/// Where the values of an argument come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompletionSource {
    Servers,
    /// Tools of the server that stands before.
    Tools,
    /// Arguments of the tool that stands before, each with `=`.
    Keys,
    /// Editors; several are separated by commas.
    Hosts,
    Secrets,
    /// Commands, for their manual pages.
    Pages,
}

impl CompletionSource {
    /// The source for an argument of a command.
    pub(super) fn of(command: &str, arg: &str) -> Option<Self> {
        Some(match (command, arg) {
            ("secret set" | "secret rm", "name") => Self::Secrets,
            ("setup" | "import" | "undo", "host") => Self::Hosts,
            ("man", "page") => Self::Pages,
            ("remove", "name") | ("allow" | "deny" | "revoke", "what") | ("login" | "logout", "child") => {
                Self::Servers
            }
            ("call", "subtool") | ("introspect", "query") => Self::Tools,
            ("call", "arguments") => Self::Keys,
            (_, "suite") => Self::Servers,
            _ => return None,
        })
    }
}

/// A server, as a user names it, and its tools as far as they are known.
struct CompletableServer {
    name: String,
    suite: String,
    tools: Vec<(String, Option<String>, Value)>,
}

/// The values that begin with `current`. `typed`: all words of the command line after `switchboard`.
pub(super) fn candidates(
    source: CompletionSource,
    typed: &[String],
    current: &str,
) -> Vec<CompletionCandidate> {
    let all: Vec<(String, String)> = match source {
        CompletionSource::Servers => {
            servers(typed).into_iter().map(|server| (server.name, String::new())).collect()
        }
        CompletionSource::Tools => tools(typed)
            .into_iter()
            .map(|(name, description, _)| (name, description.unwrap_or_default()))
            .collect(),
        CompletionSource::Keys => keys(typed),
        CompletionSource::Hosts => return hosts(current),
        CompletionSource::Secrets => secrets().into_iter().map(|name| (name, String::new())).collect(),
        CompletionSource::Pages => args::command()
            .get_subcommands()
            .filter(|sub| !sub.is_hide_set())
            .map(|sub| {
                (sub.get_name().to_owned(), sub.get_about().map(ToString::to_string).unwrap_or_default())
            })
            .collect(),
    };
    let found = all.into_iter().filter(|(value, _)| value.starts_with(current));
    found.map(|(value, help)| candidate(value, &help)).collect()
}

fn candidate(value: String, help: &str) -> CompletionCandidate {
    let help = help.lines().next().unwrap_or_default().to_owned();
    CompletionCandidate::new(value).help((!help.is_empty()).then(|| help.into()))
}

/// What the user typed so far, with the flags that decide whose files are read.
fn parsed(typed: &[String]) -> Args {
    let mut command = args::command().ignore_errors(true);
    let words = std::iter::once("switchboard").chain(typed.iter().map(String::as_str));
    let matches = command.try_get_matches_from_mut(words);
    let parsed =
        matches.ok().and_then(|matches| <Args as clap::FromArgMatches>::from_arg_matches(&matches).ok());
    parsed.unwrap_or_else(Args::of_nothing)
}

fn servers(typed: &[String]) -> Vec<CompletableServer> {
    let args = parsed(typed);
    let Ok(runtime) = switchboardd::runtime() else { return Vec::new() };
    runtime.block_on(async {
        let Ok(OfflineDaemon { daemon, .. }) = OfflineDaemon::open(&args) else { return Vec::new() };
        let workspace = daemon.workspace_loader.workspace(crate::workspace(&args).as_deref()).await;
        let catalog = workspace.catalog();
        let tool = |tool: &Tool| {
            let schema =
                tool.input_schema.as_ref().and_then(|schema| serde_json::from_str(schema.get()).ok());
            (
                tool.name.to_string(),
                tool.description.as_deref().map(ToOwned::to_owned),
                schema.unwrap_or_default(),
            )
        };
        let server = |suite: &switchboardd::Suite| CompletableServer {
            name: suite.child_name().to_owned(),
            suite: suite.name.to_string(),
            tools: suite.tools_if_known().map_or_else(Vec::new, |list| {
                list.tools.iter().filter(|tool| suite.settings.expose.permits(&tool.name)).map(tool).collect()
            }),
        };
        catalog.suites.iter().map(server).collect()
    })
}

/// The words behind `call` or `introspect` that are no flags.
fn operands(typed: &[String]) -> Vec<&str> {
    let words = typed.iter().map(String::as_str).filter(|word| !word.starts_with('-'));
    words.skip_while(|word| !matches!(*word, "call" | "introspect")).skip(1).collect()
}

fn tools(typed: &[String]) -> Vec<(String, Option<String>, Value)> {
    let operands = operands(typed);
    let Some(named) = operands.first() else { return Vec::new() };
    let meant = servers(typed).into_iter().find(|server| server.name == *named || server.suite == *named);
    meant.map_or_else(Vec::new, |server| server.tools)
}

/// Arguments that are not typed yet.
fn keys(typed: &[String]) -> Vec<(String, String)> {
    let operands = operands(typed);
    let [_, tool, given @ ..] = operands.as_slice() else { return Vec::new() };
    let schema = tools(typed).into_iter().find(|(name, ..)| name == tool).map(|(.., schema)| schema);
    let schema = schema.unwrap_or_default();
    let is_given =
        |key: &str| given.iter().any(|word| word.split(['=', ':']).next() == Some(key) && word.contains('='));
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .filter(|(key, about)| !is_given(key) || about["type"] == "array")
        .map(|(key, about)| (format!("{key}="), about["description"].as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// `--host` takes several names; the last of them is completed.
fn hosts(current: &str) -> Vec<CompletionCandidate> {
    let (before, last) = current.rfind(',').map_or(("", current), |at| current.split_at(at + 1));
    let found = HOSTS.iter().filter(|host| host.id.starts_with(last));
    found.map(|host| candidate(format!("{before}{}", host.id), host.name)).collect()
}

fn secrets() -> Vec<String> {
    let args = Args::of_nothing();
    let Ok(home) = daemon::home() else { return Vec::new() };
    let secrets = Secrets::new(&daemon::files_in_use(&args.of_daemon(), &home).1);
    secrets.list().map_or_else(|_| Vec::new(), |all| all.into_keys().collect())
}

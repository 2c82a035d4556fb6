//! `switchboard explain`: everything about one server, except the values of secrets.
//!
//! The command reads the files itself, so it works without a daemon; a running daemon adds its state.

mod denied;
mod failures;
mod live;
mod variables;

pub(super) use denied::denied_or;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use switchboard_definitions::config::Scope;
use switchboard_definitions::definition::{Definition, Launch};
use switchboard_definitions::discover::host_files::HostSet;
use switchboard_definitions::document::nearest;
use switchboard_definitions::suite_name;
use switchboard_definitions::trust::view::{ShownValues, View};
use switchboard_definitions::trust::{
    DIRECTORY_OUTSIDE, Decision, JudgedSettings, TrustRecord, TrustStatus, project_files,
};
use switchboard_wire::visible::visible;

use super::CliExit;
use super::allow::drift;
use super::ask::{AskError, send_order};
use super::local_config::LocalConfig;
use super::local_time::with_local_time;
use super::output::{Paint, Tone, failed, print, print_json, say, tilde};
use super::shell_word::shell_word;
use crate::args::Args;
use switchboardd::Layer;
use switchboardd::RootsOf;
use switchboardd::child::Runners;
use switchboardd::child::value_resolver::Origin;
use variables::variables;

/// A definition and the layer it was found in.
struct FoundDefinition<'a> {
    definition: &'a Definition,
    trust_status: TrustStatus,
    why_held: Option<&'a str>,
    layer: &'a Layer,
    own: bool,
    /// The hosts that read it themselves, from a file of the project.
    read_by: HostSet,
    settings: JudgedSettings,
}

impl FoundDefinition<'_> {
    fn scope(&self) -> Option<Scope> {
        self.layer.config.suite(&self.definition.name).pool.scope
    }
}

/// One entry of the output: a label and its text.
type Fact = (&'static str, String);

pub(super) async fn run(args: &Args, suite: &str) -> CliExit {
    let local = match LocalConfig::open(args) {
        Ok(local) => local,
        Err(exit) => return exit,
    };
    let project = local.here(args).map(|root| local.workspace(&root));
    let live = match send_order(args, "explain", suite).await {
        Ok(live) => Some(live),
        Err(AskError::NoDaemon(_)) => None,
        Err(AskError::Refused(_)) => None,
        Err(unanswered) => return unanswered.print(),
    };
    // The daemon may have chosen a suite name that no file contains.
    let name = live.as_ref().and_then(|live| live["child"].as_str()).unwrap_or(suite);
    let layers =
        || std::iter::once((&local.personal, true)).chain(project.as_ref().map(|layer| (layer, false)));
    let Some(found) = layers().find_map(|(layer, own)| find(layer, own, name)) else {
        let names =
            layers().flat_map(|(layer, _)| layer.entries.iter().map(|entry| entry.definition.name.as_str()));
        let hint = match nearest(name, names) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => "; `switchboard ls` lists them".to_owned(),
        };
        return failed(&format!("there is no suite or server `{suite}` here{hint}"));
    };
    let here = project.as_ref().map(|layer| layer.config.folder.as_path());
    let mut facts = origin(&found);
    let rivals = layers().flat_map(|(layer, _)| &layer.problems);
    let quoted = format!("`{}`", found.definition.name);
    let rivals = rivals.filter(|problem| problem.message.starts_with(&quoted));
    facts.extend(rivals.map(|problem| ("problem", problem.to_string())));
    facts.extend(executed(&local, &found, here).await);
    facts.extend(trust(&local, &found));
    let mut next = Vec::new();
    if let Some(change) = drift::of(&local, found.definition) {
        facts.extend(change.drift.lines().into_iter().map(|line| ("tools", line)));
        let refused = if local.holds_changes() { ", which are refused until then" } else { "" };
        let name = shell_word(&found.definition.name);
        next.push(format!(
            "`switchboard allow {name}` shows the changes of its tools and accepts them{refused}"
        ));
    }
    facts.extend(live::facts(live.as_ref(), &found, &missing(&local, &found).await, &mut next));
    if args.json {
        print_json(&as_json(&found, &facts, &next, live.as_ref()));
        return CliExit::Ok;
    }
    let paint = Paint::for_stdout();
    print(&paint.on(Tone::Strong, &found.definition.name));
    for (what, text) in facts {
        for (at, line) in text.replace('\t', "    ").lines().enumerate() {
            say!("  {} {line}", paint.on(Tone::Quiet, format!("{:9}", if at == 0 { what } else { "" })));
        }
    }
    for step in next {
        say!("  {} {step}", paint.on(Tone::Warning, format!("{:9}", "next")));
    }
    CliExit::Ok
}

fn find<'a>(layer: &'a Layer, own: bool, name: &str) -> Option<FoundDefinition<'a>> {
    let named = |definition: &Definition| {
        definition.name == name
            || suite_name::derived(&definition.name) == name
            || layer.config.suite(&definition.name).suite_name.as_deref() == Some(name)
    };
    let entry = layer.entries.iter().find(|entry| named(&entry.definition)).map(|entry| FoundDefinition {
        definition: &entry.definition,
        trust_status: entry.trust_status.clone(),
        why_held: entry.why_held.as_deref(),
        layer,
        own,
        read_by: entry.read_by,
        // The user knows their own settings.
        settings: if own { JudgedSettings::default() } else { entry.settings.clone() },
    });
    let denied = || layer.denied.iter().find(|definition| named(definition));
    entry.or_else(|| {
        denied().map(|definition| FoundDefinition {
            definition,
            trust_status: TrustStatus::Denied,
            why_held: None,
            layer,
            own,
            read_by: HostSet::default(),
            settings: JudgedSettings::default(),
        })
    })
}

fn origin(found: &FoundDefinition<'_>) -> Vec<Fact> {
    let FoundDefinition { definition, layer, own, .. } = found;
    let file = tilde(&visible(&definition.file.display().to_string()));
    let place = definition.at.map_or(file.clone(), |(line, column)| format!("{file}:{line}:{column}"));
    let whose = match own {
        true => "your own".to_owned(),
        false => format!("of the project {}", tilde(&layer.config.folder.display().to_string())),
    };
    let mut facts = vec![("from", format!("{place}  ({whose})"))];
    if !found.read_by.is_empty() {
        facts.push((
            "editors",
            format!("{} not shown it: its file is read there already", are(found.read_by)),
        ));
    }
    if let Some(description) = &definition.description {
        facts.push(("for", description.clone()));
    }
    let settings = layer.config.suite(&definition.name);
    if let Some(folders) = settings.workspaces.as_ref().filter(|_| *own) {
        let folders: Vec<_> =
            folders.iter().map(|folder| tilde(&visible(&folder.display().to_string()))).collect();
        facts.push(("shown in", format!("sessions of {} only (`workspaces`)", folders.join(" and "))));
    }
    if !settings.expose.is_open() {
        facts.push(("expose", "only some tools; see `suites` in the config".to_owned()));
    }
    if let Ok(launch @ Launch::Process(_)) = &definition.launch {
        facts.push(("roots", roots(RootsOf::children(launch, settings.pool)).to_owned()));
    }
    facts
}

fn are(hosts: HostSet) -> String {
    format!("{hosts} {}", if hosts.iter().count() == 1 { "is" } else { "are" })
}

fn roots(of: RootsOf) -> &'static str {
    match of {
        RootsOf::Session => "those of its editor, or the folder of the project if the editor has none",
        RootsOf::Workspace => "the folder of the project, unless its arguments name folders",
        RootsOf::SessionOrArguments => {
            "those of its editor, or the folders in its arguments if the editor has none"
        }
        RootsOf::Nobody { .. } => {
            "none: editors share this server; `pool.scope` \"session\" gives each its own"
        }
    }
}

/// What would be run or reached, as `switchboard allow` shows it, and where its values come from.
async fn executed(local: &LocalConfig, found: &FoundDefinition<'_>, here: Option<&Path>) -> Vec<Fact> {
    let launch = match &found.definition.launch {
        Ok(launch) => launch,
        Err(why) => return vec![("wrong", why.clone())],
    };
    // One that runs once for each project is shown as it runs in this one.
    let is_of_projects = found.own && found.scope() == Some(Scope::Workspace);
    let bound = here.filter(|_| is_of_projects).map(|root| launch.in_workspace(root));
    let launch = bound.as_ref().unwrap_or(launch);
    let program = match launch {
        Launch::Process(launch) => Some(local.resolver.find_program(launch).await),
        Launch::Remote(_) => None,
    };
    let (waiting, before) = match &found.trust_status {
        TrustStatus::Outdated { pending: waiting, .. } => (Some(&**waiting), Some(launch)),
        _ => (None, None),
    };
    let limits = found.trust_status.pending_limits(found.definition);
    let given = local.resolver.given(launch).await;
    let files = match found.own {
        true => Vec::new(),
        false => {
            let program = program.as_ref().and_then(|found| found.as_deref().ok());
            project_files(launch, program, &found.layer.config.folder)
        }
    };
    let view = |launch, limits, before| View {
        definition: found.definition,
        launch,
        limits,
        program: program.as_ref().map(|found| found.as_ref().map(PathBuf::as_path).map_err(String::as_str)),
        before,
        root: &found.layer.config.folder,
        is_masked: true,
        // A project's file holds no secret of the user's; the user's own files may.
        values: if found.own { ShownValues::None } else { ShownValues::All },
        given: &given,
        project_files: &files,
        settings: &found.settings,
    };
    // One row for each variable, below.
    let is_below = |what: &str| match what {
        "gets" => true,
        "sets" | "headers" => found.own,
        _ => false,
    };
    let mut facts: Vec<Fact> = view(launch, &found.definition.limits, None).facts();
    if is_of_projects {
        facts.push((
            "runs",
            match here {
                Some(root) => {
                    format!("once for each project, here for {}", tilde(&root.display().to_string()))
                }
                None => "once for each project; `explain` in a project shows the command there".to_owned(),
            },
        ));
    }
    facts.retain(|(what, text)| !(is_below(what) || found.own && text == DIRECTORY_OUTSIDE));
    if let Launch::Process(launch) = launch {
        let runners = Runners::new(&local.locations.state, &local.personal.config.folder);
        let args: Vec<String> = launch.args.iter().map(ToString::to_string).collect();
        // The session's workspace is unknown here, and is never inside the user's config folder.
        let cwd = match launch.cwd_is_workspace {
            true => PathBuf::new(),
            false => launch.base.join(launch.cwd.to_string()),
        };
        let word = runners.start_note(&launch.cmd.to_string(), &args, &cwd);
        facts.extend(word.map(|word| ("package", tilde(&word))));
    }
    let origins = local.resolver.origins(launch).await;
    let mut told = BTreeSet::new();
    for (what, name, value, needed) in variables(launch).into_iter().filter(|_| found.own) {
        let mut row = format!("{name}{value}");
        for (needed, origin) in origins.iter().filter(|(name, _)| needed.contains(name)) {
            row.push_str(&format!("  ({needed} {})", origin_text(needed, origin)));
            told.insert(needed.clone());
        }
        facts.push((what, row));
    }
    for (name, origin) in origins.iter().filter(|(name, _)| !told.contains(name)) {
        facts.push(("needs", format!("{name} {}", origin_text(name, origin))));
    }
    if let Some(waiting) = waiting {
        let changes =
            view(waiting, limits, before).facts().into_iter().filter(|(what, _)| *what == "changed");
        facts.extend(changes.map(|(_, text)| ("waits", text)));
    }
    facts
}

/// The values that the definition needs and that are set nowhere.
async fn missing(local: &LocalConfig, found: &FoundDefinition<'_>) -> Vec<String> {
    let Ok(launch) = &found.definition.launch else { return Vec::new() };
    let origins = local.resolver.origins(launch).await;
    let is_missing = |(_, origin): &(String, Origin)| matches!(origin, Origin::Nowhere);
    origins.into_iter().filter(is_missing).map(|(name, _)| name).collect()
}

fn origin_text(name: &str, origin: &Origin) -> String {
    match origin {
        Origin::Keyring => "comes from the keyring".to_owned(),
        Origin::PrivateFile => "comes from Switchboard's private file".to_owned(),
        Origin::EnvFile(file) => format!("comes from {}", tilde(&file.display().to_string())),
        Origin::Shell => "comes from your login shell".to_owned(),
        Origin::Nowhere => format!("is not set; `switchboard secret set {}`", shell_word(name)),
        Origin::Unknown(why) => format!("cannot be looked up: {why}"),
    }
}

fn trust(local: &LocalConfig, found: &FoundDefinition<'_>) -> Vec<Fact> {
    let Definition { file, name, .. } = found.definition;
    let record = local.trust.records.get(file).and_then(|names| names.get(name));
    let root = local.trust.roots.iter().find(|root| file.starts_with(root));
    let said = |TrustRecord { at, by, .. }: &TrustRecord| format!("{} by {by}", with_local_time(at));
    let text = match (&found.trust_status, record) {
        (TrustStatus::Denied, record) => {
            format!("denied {}", record.map(said).unwrap_or_default())
        }
        (TrustStatus::Held, _) => match found.why_held {
            Some(why) => format!("held: {why}"),
            None => "held: you have not allowed it".to_owned(),
        },
        (TrustStatus::Outdated { .. }, record) => format!(
            "the version that was allowed {} keeps running; its file has changed since",
            record.map(said).unwrap_or_default()
        ),
        (TrustStatus::Allowed, Some(record @ TrustRecord { verdict: Decision::Allow(_), .. })) => {
            format!("allowed {}", said(record))
        }
        (TrustStatus::Allowed, _) => match root {
            Some(root) if !found.own => format!("allowed, like everything in {}", root.display()),
            _ => "your own; no approval needed".to_owned(),
        },
    };
    vec![("trust", text)]
}

fn as_json(found: &FoundDefinition<'_>, facts: &[Fact], next: &[String], live: Option<&Value>) -> Value {
    let trust_status = match found.trust_status {
        TrustStatus::Allowed => "allowed",
        TrustStatus::Outdated { .. } => "outdated",
        TrustStatus::Held => "held",
        TrustStatus::Denied => "denied",
    };
    let (line, column) = found.definition.at.unzip();
    json!({
        "server": found.definition.name,
        "file": found.definition.file,
        "line": line,
        "column": column,
        "layer": if found.own { "personal" } else { "workspace" },
        "standing": trust_status,
        "facts": facts.iter().map(|(what, text)| json!({ "what": what, "text": text })).collect::<Vec<_>>(),
        "next": next,
        "live": live,
    })
}

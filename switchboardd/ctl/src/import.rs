//! `switchboard import`: turns servers that hosts start themselves into the user's own definitions.

mod choose;
mod duplicates;
mod limits;
mod new_secrets;
mod removal;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use switchboard_definitions::definition::{Definition, Launch};
use switchboard_definitions::discover::entry::EntryLocation;
use switchboard_definitions::discover::{SearchScope, expansion_context, read_variables, shapes};
use switchboard_definitions::document::{Document, Problem};
use switchboard_definitions::files::text::read_text;
use switchboard_hosts::import::{ConvertedEntry, convert, folder_name, has_relative, hide_secrets};
use switchboard_hosts::limits::ToolLimits;
use switchboard_hosts::limits::rules::RuleFile;
use switchboard_hosts::machine::Machine;
use switchboard_hosts::table::HOSTS;
use switchboard_hosts::{Host, ServerEntry, survey, words};
use switchboard_wire::visible::visible;

use super::CliExit;
use super::add::PersonalConfig;
use super::ask::tell_daemon;
use super::check::reachable;
use super::learn::{LearnedServer, NewServer, learn_imported};
use super::output::{indented, print_json, remark, say};
use super::secret::own_variables;
use super::setup::{SetupRun, named, refuse_unasked};
use super::shell_word::shell_word;
use crate::args::{Args, Import};
use duplicates::KnownServers;
use new_secrets::NewSecrets;
use removal::Removal;
use switchboardd::daemon;
use switchboardd::secrets::{Secrets, SecretsError};

/// One server in a host's file.
struct HostEntry {
    host: &'static Host,
    file: PathBuf,
    entry: ServerEntry,
    inputs: Value,
    /// What the host forbids of its tools. `Err` says what cannot be carried over.
    limits: Result<ToolLimits, String>,
    /// Why it is off, apart from its own entry.
    off: Option<String>,
    /// The projects in which it is off.
    off_in: Vec<PathBuf>,
}

/// What became of one `HostEntry`.
struct ImportResult {
    host: &'static Host,
    file: PathBuf,
    entry: ServerEntry,
    limits: Result<ToolLimits, String>,
    outcome: ImportOutcome,
}

enum ImportOutcome {
    Taken {
        name: String,
        definition: Value,
        secrets: Vec<String>,
        notes: Vec<String>,
        /// Whether it runs once for each project.
        in_workspace: bool,
    },
    /// Launches the same server as this definition, which existed before or was imported from another host.
    Same {
        name: String,
        notes: Vec<String>,
    },
    Left {
        why: String,
    },
}

pub(super) async fn run(args: &Args, import: &Import) -> CliExit {
    let named = match named(&import.which.host) {
        Ok(named) => named,
        Err(exit) => return exit,
    };
    if import.remove
        && let Some(refused) = refuse_unasked(args, &import.which)
    {
        return refused;
    }
    match take(args, import, &named).await {
        Ok(exit) => exit,
        Err(complaints) => {
            complaints.iter().for_each(|complaint| remark!("switchboard: {complaint}"));
            CliExit::Error
        }
    }
}

async fn take(args: &Args, import: &Import, named: &[&'static Host]) -> Result<CliExit, Vec<String>> {
    let one = |error: &dyn std::fmt::Display| vec![error.to_string()];
    let own = PersonalConfig::open(args)?;
    let machine = Machine::here(&own.home);
    let state = daemon::files_in_use(&args.of_daemon(), &own.home).1;
    let secrets = Secrets::new(&state);
    let kept = stored_secrets(&secrets).await.map_err(|error| one(&error))?;
    let (entries, problems) = read(&machine, named);
    let entries = choose::only(entries, &import.only)?;
    let (mut import_results, new_secrets) = decide(&own, entries, &kept);
    let settings = limits::settle(&own.config.text, &mut import_results);
    let mut broken = !problems.is_empty();
    let mut failed = BTreeSet::new();
    let is_shown = choose::is_asked(args, &import.which) && choose::is_work(&import_results, &settings);
    if is_shown {
        report::print_all(&import_results, true);
        if !choose::agreed(&import_results) {
            say!("nothing was changed");
            return Ok(CliExit::Ok);
        }
    }
    if !import.which.dry_run {
        // Settings first: nothing is shown that a host forbids. Then secrets: a definition without them would not start.
        limits::write(&own, &settings).map_err(|problem| one(&problem))?;
        let is_used = |name: &String| import_results.iter().any(|result| result.uses_secret(name));
        for (name, value) in new_secrets.new.iter().filter(|(name, _)| is_used(name)) {
            secrets.set(name, value, &own_variables()).await.map_err(|error| one(&error))?;
        }
        for import_result in &import_results {
            if let ImportOutcome::Taken { name, definition, .. } = &import_result.outcome
                && let Err(why) = own.define(name, definition)
            {
                remark!(
                    "switchboard: {}: `{}` was not imported: {}",
                    import_result.host.name,
                    visible(name),
                    indented(why)
                );
                failed.insert(name.clone());
                broken = true;
            }
        }
    }
    let mut setup_run = SetupRun {
        as_json: args.json,
        dry_run: import.which.dry_run,
        yes: import.which.yes,
        reports: Vec::new(),
    };
    if !args.json {
        match is_shown {
            true => say!("{}", report::total(&import_results, false)),
            false => report::print_all(&import_results, import.which.dry_run),
        }
        if import_results.is_empty() && problems.is_empty() {
            say!("no editor on this machine has servers of its own");
        }
        report::project_files(args);
    }
    problems
        .iter()
        .for_each(|problem| remark!("switchboard: {}; the file was not changed", indented(problem)));
    let taken = import_results.iter().filter_map(|result| match &result.outcome {
        ImportOutcome::Taken { name, .. } if !import.which.dry_run && !failed.contains(name) => {
            Some(NewServer { name: name.clone(), shown_in: result.entry.project.clone() })
        }
        _ => None,
    });
    let taken: Vec<NewServer> = taken.collect();
    if !import.which.dry_run && (!settings.is_empty() || !taken.is_empty()) {
        tell_daemon(args).await;
    }
    let is_started = !import.which.dry_run && !import.no_start;
    let mut to_start = taken;
    if import.remove {
        let same = import_results.iter().filter_map(|result| match &result.outcome {
            ImportOutcome::Same { name, .. } => Some(name.clone()),
            _ => None,
        });
        let others: BTreeSet<String> =
            same.filter(|name| !to_start.iter().any(|server| server.name == *name)).collect();
        to_start.extend(NewServer::named(args, &others.into_iter().collect::<Vec<_>>()));
    }
    let learned = learn_imported(args, if is_started { &to_start } else { &[] }).await;
    let kept = match import.remove {
        true => {
            let learned = is_started.then_some(&learned[..]);
            Removal { machine: &machine, state: &state, failed: &failed, learned }
                .run(&mut setup_run, &import_results)
        }
        false => Vec::new(),
    };
    if args.json {
        let servers: Vec<_> = import_results.iter().map(ImportResult::as_json).collect();
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let files: Vec<_> = setup_run.reports.iter().map(super::setup::HostFileReport::as_json).collect();
        let starts: Vec<_> = learned.iter().map(LearnedServer::as_json).collect();
        let kept: Vec<_> = kept.iter().map(removal::KeptServer::as_json).collect();
        let told = json!({
            "dryRun": import.which.dry_run, "servers": servers, "problems": problems, "files": files, "starts": starts,
            "kept": kept,
        });
        print_json(&told);
    }
    let is_kept = !kept.is_empty() && !import.which.dry_run;
    Ok(if broken || is_kept { CliExit::Error } else { setup_run.exit() })
}

/// All servers of the selected hosts.
fn read(machine: &Machine, named: &[&'static Host]) -> (Vec<HostEntry>, Vec<Problem>) {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for host in HOSTS.iter().filter(|host| named.is_empty() || named.iter().any(|named| named.id == host.id))
    {
        let (mut found, mut own, mut projects) = (Vec::new(), Vec::new(), Vec::new());
        for file in machine.existing(host) {
            let text = match read_text(&file) {
                Ok(text) => text.unwrap_or_default(),
                Err(why) => {
                    problems.push(Problem::of(&file, why));
                    continue;
                }
            };
            match host.format.read(&text) {
                Ok(contents) => {
                    let inputs = contents.inputs;
                    found.extend(
                        contents.entries.into_iter().map(|entry| (file.clone(), entry, inputs.clone())),
                    );
                    projects.extend(contents.projects);
                    own.push(RuleFile { path: file, project: None, text });
                }
                Err(refusal) => problems.push(refusal.of(&file)),
            }
        }
        let rules = limits::rules(machine, host, &own, &projects);
        problems.extend(rules.as_ref().err().cloned().filter(|_| !found.is_empty()));
        entries.extend(found.into_iter().map(|(file, entry, inputs)| {
            let unread = |_: &Problem| format!("the rules of {} about tools cannot be read", host.name);
            let rules = rules.as_ref().map_err(unread);
            let limits = rules.clone().and_then(|rules| ToolLimits::read(host, &entry, rules));
            let off = rules.as_ref().ok().and_then(|rules| rules.off(host, &entry));
            let off_in = rules.iter().flat_map(|rules| rules.off_in(&entry)).cloned().collect();
            HostEntry { host, file, entry, inputs, limits, off, off_in }
        }));
    }
    (entries, problems)
}

/// The secrets that are already set: their values tell whether a server is a duplicate.
async fn stored_secrets(secrets: &Secrets) -> Result<BTreeMap<String, String>, SecretsError> {
    let names: Vec<String> = secrets.list()?.into_keys().collect();
    secrets.values(&names, &own_variables()).await
}

fn decide<'a>(
    own: &PersonalConfig,
    entries: Vec<HostEntry>,
    kept: &'a BTreeMap<String, String>,
) -> (Vec<ImportResult>, NewSecrets<'a>) {
    let (definitions, _) = own.definitions();
    let mut known = KnownServers::default();
    definitions.iter().for_each(|definition| known.add(definition, signature(definition)));
    let limited = own.config.suites.iter().filter(|(_, settings)| settings.workspaces.is_some());
    limited.for_each(|(name, _)| known.limit(name));
    let mut new_secrets = NewSecrets { kept, new: BTreeMap::new() };
    let mut import_results = Vec::new();
    // Entries without a project first: a project's duplicate then refers to them.
    let (wide, narrow): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|found| found.entry.project.is_none());
    for HostEntry { host, file, entry, inputs, limits, off, off_in } in wide.into_iter().chain(narrow) {
        if survey::is_ours(&entry) {
            continue;
        }
        let draft = limits::project(own, &entry).and_then(|()| convert(host, &entry, &inputs));
        let mut end = match draft.and_then(|draft| off.map_or(Ok(draft), Err)) {
            Err(why) => ImportOutcome::Left { why },
            Ok(draft) => consider(own, &entry, draft, &mut known, &mut new_secrets)
                .unwrap_or_else(|why| ImportOutcome::Left { why }),
        };
        for project in off_in {
            end.note(format!(
                "it is turned off for {} in {}; Switchboard shows it there, too",
                project.display(),
                host.name
            ));
        }
        import_results.push(ImportResult { host, file, entry, limits, outcome: end });
    }
    (import_results, new_secrets)
}

fn consider(
    own: &PersonalConfig,
    entry: &ServerEntry,
    ConvertedEntry { definition, mut notes, in_workspace }: ConvertedEntry,
    known: &mut KnownServers,
    new_secrets: &mut NewSecrets<'_>,
) -> Result<ImportOutcome, String> {
    let wished = folder_name(&entry.name);
    let mut chosen = new_secrets.new.clone();
    let (mut body, mut secrets) = (definition, Vec::new());
    hide_secrets(&wished, &mut body, &mut |literal| {
        let name = new_secrets.name(&mut chosen, literal)?;
        secrets.push(name.clone());
        Ok(format!("${{{name}}}"))
    })?;
    let read = parsed(own, &wished, &body)?;
    reachable(read.launch.clone()?)?;
    let launch = signature(&read).unwrap_or_default();
    // A project's entry is a duplicate if it differs from a global one only by running in its project.
    let anywhere = match (&entry.project, &read.launch) {
        (Some(project), Ok(Launch::Process(launch))) if !has_relative(&words(&entry.value)) => {
            let mut bare = body.clone();
            if launch.base.join(launch.cwd.to_string()) == *project
                && let Some(command) = bare.get_mut("command").and_then(Value::as_object_mut)
            {
                command.remove("cwd");
            }
            signature(&parsed(own, &wished, &bare)?)
        }
        _ => None,
    };
    notes.retain(|note| asked_secret(note).is_none_or(|id| !new_secrets.kept.contains_key(id)));
    let is_for_all = entry.project.is_none();
    if let Some(name) = known.same(&launch, is_for_all).or_else(|| known.same(anywhere.as_ref()?, is_for_all))
    {
        // What is still missing.
        notes.retain(|note| asked_secret(note).is_some());
        if let Some(project) = entry.project.as_ref().filter(|_| known.is_limited(name)) {
            notes.push(format!("it is shown in {}, too (`workspaces`)", project.display()));
        }
        return Ok(ImportOutcome::Same { name: name.clone(), notes });
    }
    // Neither a definition nor a file has this name, nor a setting that limits it to projects.
    let is_limited = |name: &String| own.config.suite(name).workspaces.is_some();
    let is_free = |name: &String| !known.has(name) && !own.file(name).exists() && !is_limited(name);
    let numbered = (2..).map(|number| format!("{wished}-{number}"));
    let name = std::iter::once(wished.clone()).chain(numbered).find(is_free).unwrap_or_default();
    if name != wished {
        let hint = match known.runs_same(&wished, &read) {
            true => {
                format!(" and looks the same; `switchboard remove {}` takes it away again", shell_word(&name))
            }
            false => String::new(),
        };
        notes.push(format!("`{wished}` is the name of another server; this one is `{name}`{hint}"));
    } else if name != entry.name {
        notes.push(format!("`{}` cannot be a name here; it is `{name}`", visible(&entry.name)));
    }
    if let Some(project) = &entry.project {
        notes.push(format!("it is shown in {} only (`workspaces`)", project.display()));
        known.limit(&name);
    }
    known.add(&Definition { name: name.clone(), ..read }, Some(launch));
    new_secrets.new = chosen;
    let definition = named_definition(&name, &body);
    Ok(ImportOutcome::Taken { name, definition, secrets, notes, in_workspace })
}

/// The secret that a note asks for.
fn asked_secret(note: &str) -> Option<&str> {
    note.strip_prefix("`switchboard secret set ")?.split('`').next()
}

fn named_definition(name: &str, body: &Map<String, Value>) -> Value {
    let mut whole = body.clone();
    whole.insert("name".to_owned(), json!(name));
    Value::Object(whole)
}

/// Parses the definition as the daemon would read it from its file.
fn parsed(own: &PersonalConfig, name: &str, body: &Map<String, Value>) -> Result<Definition, String> {
    let file = own.file(name);
    let document = Document::from_text(&file, &named_definition(name, body).to_string());
    let search_scope = SearchScope { config: &own.config, confined: false, home: &own.home, data: &own.data };
    let location = EntryLocation {
        file: &file,
        context: expansion_context(&file, search_scope),
        variables: &read_variables,
    };
    let mut read = shapes::read(&document, &location);
    match (read.definitions.pop(), read.problems.first()) {
        (Some(definition), None) => Ok(definition),
        (_, problem) => {
            Err(problem
                .map_or_else(|| "it cannot be understood".to_owned(), |problem| problem.message.clone()))
        }
    }
}

/// Equal for definitions that start or reach the same server, whatever file they are in.
fn signature(definition: &Definition) -> Option<String> {
    let launch = match definition.launch.as_ref().ok()? {
        Launch::Remote(remote) => json!([remote.url, remote.headers]),
        Launch::Process(launch) => {
            let folder = definition.file.parent().unwrap_or(Path::new(""));
            let cwd = launch.base.join(launch.cwd.to_string());
            let cwd = (cwd != folder).then_some(cwd);
            json!([launch.cmd, launch.args, launch.env, launch.env_file_path, launch.pass_env, cwd])
        }
    };
    Some(launch.to_string())
}

impl ImportOutcome {
    /// The definition that stands for the server.
    fn name(&self) -> Option<&str> {
        match self {
            Self::Taken { name, .. } | Self::Same { name, .. } => Some(name),
            Self::Left { .. } => None,
        }
    }

    /// Adds a note for the user, unless the server is left out.
    fn note(&mut self, note: String) {
        if let Self::Taken { notes, .. } | Self::Same { notes, .. } = self {
            notes.push(note);
        }
    }
}

impl ImportResult {
    fn uses_secret(&self, secret: &String) -> bool {
        matches!(&self.outcome, ImportOutcome::Taken { secrets, .. } if secrets.contains(secret))
    }
}

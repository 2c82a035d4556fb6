//! What hosts forbid of their servers' tools, carried over into `suites` of the user's own config.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use switchboard_definitions::config::{Config, ConfigOwner};
use switchboard_definitions::document::{Document, Problem};
use switchboard_definitions::files::text::read_text;
use switchboard_hosts::import::startup_ms;
use switchboard_hosts::limits::ToolLimits;
use switchboard_hosts::limits::rules::{HostRules, RuleFile};
use switchboard_hosts::machine::Machine;
use switchboard_hosts::suite_settings::{SuiteSettings, confirmed, exposed, with_settings, workspaces};
use switchboard_hosts::swap::{Edit, swap};
use switchboard_hosts::{Host, HostFileError, ServerEntry};
use switchboardd::Locations;

use super::{ImportOutcome, ImportResult};
use crate::add::PersonalConfig;

/// The rules of a host about tools, in its files with servers and beside them.
pub(super) fn rules(
    machine: &Machine,
    host: &Host,
    own: &[RuleFile],
    projects: &[PathBuf],
) -> Result<HostRules, Problem> {
    let mut files = Vec::new();
    for (project, path) in machine.rule_files(host, projects) {
        let text = read_text(&path).map_err(|why| Problem::of(&path, why))?.unwrap_or_default();
        files.push(RuleFile { path, project, text });
    }
    HostRules::read(host, own, &files)
}

/// Whether sessions can be in the project of an entry. Else its server would be shown nowhere.
pub(super) fn project(own: &PersonalConfig, entry: &ServerEntry) -> Result<(), String> {
    let Some(project) = &entry.project else { return Ok(()) };
    if !project.is_absolute() {
        return Err(format!("its project `{}` is not an absolute path", project.display()));
    }
    // A folder that is gone may come back.
    let Ok(real) = project.canonicalize() else { return Ok(()) };
    let locations = Locations::new(&own.home, &own.config.folder, &[]);
    match locations.workspace(project, &own.config) {
        Some(root) if root == real => Ok(()),
        Some(root) => Err(format!(
            "it is for `{}`, whose sessions belong to the project `{}`; it stays where it is",
            project.display(),
            root.display()
        )),
        None => Err(format!(
            "it is for `{}`, which cannot be a project of Switchboard; it stays where it is",
            project.display()
        )),
    }
}

/// The settings for every server that is imported. All hosts' limits count: where they cannot be carried over
/// together, the server is left in all of them.
pub(super) fn settle(config: &str, results: &mut [ImportResult]) -> BTreeMap<String, SuiteSettings> {
    let names: Vec<String> =
        results.iter().filter_map(|result| Some(result.outcome.name()?.to_owned())).collect();
    let mut settings = BTreeMap::new();
    for name in names {
        if settings.contains_key(&name) {
            continue;
        }
        let group = results.iter().filter(|result| result.outcome.name() == Some(&name));
        match together(config, &name, group) {
            Ok(found) => {
                settings.insert(name, found);
            }
            Err(why) => {
                for result in results.iter_mut().filter(|result| result.outcome.name() == Some(&name)) {
                    result.outcome = ImportOutcome::Left { why: format!("{why}; it stays where it is") };
                }
            }
        }
    }
    results.iter_mut().for_each(|result| note(config, result));
    settings.retain(|_, settings| !settings.is_empty());
    settings
}

fn together<'a>(
    config: &str,
    name: &str,
    group: impl Iterator<Item = &'a ImportResult>,
) -> Result<SuiteSettings, String> {
    let before = exposed(config, name).map_err(|error| error.why)?;
    let mut limits = before.clone();
    let (mut spawn_ms, mut in_workspace) = (None, false);
    let shown_in = workspaces(config, name).map_err(|error| error.why)?;
    let (mut folders, mut is_limited) = (shown_in.clone().unwrap_or_default(), shown_in.is_some());
    for result in group {
        if let Some(project) = &result.entry.project {
            folders.insert(project.to_string_lossy().into_owned());
            is_limited |= matches!(result.outcome, ImportOutcome::Taken { .. });
        }
        limits.restrict(result.limits.as_ref().map_err(Clone::clone)?)?;
        if let ImportOutcome::Taken { in_workspace: runs_there, .. } = &result.outcome {
            spawn_ms = spawn_ms.max(startup_ms(&result.entry.value));
            in_workspace |= runs_there;
        }
    }
    let is_same = limits.allow == before.allow && limits.deny == before.deny;
    let confirm = confirmed(config, name).map_err(|error| error.why)?.with(&limits.confirm);
    let (allow, deny) = if is_same { Default::default() } else { (limits.allow, limits.deny) };
    // Why it cannot be carried over is said with the server.
    let confirm = confirm.ok().flatten().unwrap_or_default();
    let limits = ToolLimits { allow, deny, confirm, ..ToolLimits::default() };
    let workspaces = Some(folders).filter(|folders| is_limited && shown_in.as_ref() != Some(folders));
    Ok(SuiteSettings { limits, spawn_ms, in_workspace, workspaces })
}

/// Says what each host's limits were, and which settings are not carried over.
fn note(config: &str, result: &mut ImportResult) {
    let Ok(limits) = &result.limits else { return };
    let mut notes: Vec<String> = limits.sentence().into_iter().collect();
    let before = result.outcome.name().and_then(|name| confirmed(config, name).ok());
    let conflict = before.and_then(|before| before.with(&limits.confirm).err());
    notes.extend(match (limits.confirm_sentence(), conflict) {
        (Some(sentence), None) => {
            Some(format!("{sentence} (`confirm`; an editor that cannot ask is refused)"))
        }
        (Some(sentence), Some(why)) => Some(format!("left out: {sentence}; {why}")),
        (None, _) => None,
    });
    notes.extend(limits.left_out.iter().map(|what| {
        format!("{what} is left out: with Switchboard, an editor asks about a server and not about each tool")
    }));
    notes.into_iter().for_each(|note| result.outcome.note(note));
}

/// Writes the settings into the user's config.
pub(super) fn write(own: &PersonalConfig, settings: &BTreeMap<String, SuiteSettings>) -> Result<(), Problem> {
    if settings.is_empty() {
        return Ok(());
    }
    let file = &own.config.file;
    let failed = |error: std::io::Error| Problem::of(file, format!("cannot be written: {error}"));
    std::fs::create_dir_all(&own.config.folder).map_err(failed)?;
    swap(
        file,
        |text| {
            let mut made = text.unwrap_or_default().to_owned();
            for (server, settings) in settings {
                made = with_settings(&made, server, settings)?;
            }
            check(file, &made)?;
            Ok(Edit::Write(made))
        },
        |_, _| Ok(()),
    )
    .map(|_| ())
}

/// The daemon must be able to read what is written.
fn check(file: &Path, text: &str) -> Result<(), HostFileError> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let document = Document::from_text(file, text);
    match Config::parse(&document, folder, ConfigOwner::Personal) {
        Ok(_) => Ok(()),
        Err(problems) => Err(HostFileError {
            at: problems.first().and_then(|problem| problem.at),
            why: problems.first().map(|problem| problem.message.clone()).unwrap_or_default(),
        }),
    }
}

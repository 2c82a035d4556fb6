//! What became of each server, for the user.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use switchboard_wire::visible::visible;

use super::{ImportOutcome, ImportResult};
use crate::args::Args;
use crate::local_config::LocalConfig;
use crate::output::{Paint, Tone, count, say};
use crate::shell_word::shell_word;

/// All of them, and how many there are of each kind.
pub(super) fn print_all(results: &[ImportResult], would: bool) {
    let new = new_names(results);
    results.iter().for_each(|result| print(result, &new, would));
    if !results.is_empty() {
        say!("{}", total(results, would));
    }
}

/// Says that the servers of this project are not for `import`.
pub(super) fn project_files(args: &Args) {
    let Some(local) = LocalConfig::open_if_possible(args) else { return };
    let Some(root) = local.here(args).filter(|_| local.personal.config.project_files) else { return };
    let layer = local.workspace(&root);
    let own = layer.entries.iter().filter(|entry| !entry.read_by.is_empty());
    let (files, names): (BTreeSet<_>, Vec<_>) = own
        .map(|entry| {
            let file = &entry.definition.file;
            (
                shell_word(file.strip_prefix(&root).unwrap_or(file)),
                visible(&entry.definition.name).into_owned(),
            )
        })
        .unzip();
    if !names.is_empty() {
        let files: Vec<String> = files.into_iter().collect();
        say!(
            "not imported: {} of this project, which Switchboard reads from {}; `switchboard allow` shows what waits",
            names.join(", "),
            files.join(", ")
        );
    }
}

/// The names of the servers that are imported now.
fn new_names(results: &[ImportResult]) -> Vec<&str> {
    results.iter().filter(|result| result.is_taken()).filter_map(|result| result.outcome.name()).collect()
}

pub(super) fn total(results: &[ImportResult], would: bool) -> String {
    let taken = results.iter().filter(|result| result.is_taken()).count();
    let left = results.iter().filter(|result| result.outcome.name().is_none()).count();
    let new = new_names(results);
    let is_double = |result: &&ImportResult| {
        !result.is_taken() && result.outcome.name().is_some_and(|name| new.contains(&name))
    };
    let doubles = results.iter().filter(is_double).count();
    let there = results.len() - taken - left - doubles;
    let be = if would { "would be " } else { "" };
    let mut parts = vec![match taken {
        0 => "no new servers".to_owned(),
        _ => format!("{} {be}imported", count(taken, "server")),
    }];
    parts.extend((doubles > 0).then(|| count(doubles, "duplicate")));
    parts.extend((there > 0).then(|| format!("{there} already there")));
    parts.extend((left > 0).then(|| format!("{left} {be}skipped")));
    parts.join(", ")
}

fn print(import_result: &ImportResult, new: &[&str], would: bool) {
    let name = visible(&import_result.entry.name).into_owned();
    let of = match &import_result.entry.project {
        Some(project) => format!("{}, {}", import_result.host.name, visible(&project.display().to_string())),
        None => import_result.host.name.to_owned(),
    };
    let (tone, word, more) = match &import_result.outcome {
        ImportOutcome::Taken { name, secrets, notes, .. } => {
            let mut more = notes.clone();
            if !secrets.is_empty() {
                let its = if secrets.len() == 1 { "its secret" } else { "its secrets" };
                let names: Vec<_> = secrets.iter().map(|name| format!("`{name}`")).collect();
                let kept = match (would, secrets.len()) {
                    (true, _) => "would be stored",
                    (false, 1) => "is stored",
                    (false, _) => "are stored",
                };
                more.insert(0, format!("{its} {kept} as {}", names.join(", ")));
            }
            let word = if would { "would be imported" } else { "imported" };
            (Tone::Good, format!("{word} as `{}`", visible(name)), more)
        }
        ImportOutcome::Same { name, notes } if new.contains(&name.as_str()) => {
            (Tone::Quiet, format!("the same server as `{}`", visible(name)), notes.clone())
        }
        ImportOutcome::Same { name, notes } => {
            (Tone::Quiet, format!("already there as `{}`", visible(name)), notes.clone())
        }
        ImportOutcome::Left { why } => {
            let word = if would { "would be skipped" } else { "skipped" };
            (Tone::Warning, format!("{word}: {}", visible(why)), Vec::new())
        }
    };
    say!("{name} ({of}): {}", Paint::for_stdout().on(tone, word));
    more.iter().for_each(|line| say!("  {}", visible(line)));
}

impl ImportResult {
    fn is_taken(&self) -> bool {
        matches!(self.outcome, ImportOutcome::Taken { .. })
    }

    pub(super) fn as_json(&self) -> Value {
        let mut told = json!({
            "host": self.host.id, "file": self.file, "name": self.entry.name, "project": self.entry.project,
        });
        match &self.outcome {
            ImportOutcome::Taken { name, secrets, notes, definition, .. } => {
                told["result"] = json!("taken");
                told["as"] = json!(name);
                told["secrets"] = json!(secrets);
                told["notes"] = json!(notes);
                // Contains no secret: values were replaced by `${NAME}`.
                told["definition"] = definition.clone();
            }
            ImportOutcome::Same { name, notes } => {
                told["result"] = json!("already there");
                told["as"] = json!(name);
                told["notes"] = json!(notes);
            }
            ImportOutcome::Left { why } => {
                told["result"] = json!("left out");
                told["why"] = json!(why);
            }
        }
        told
    }
}

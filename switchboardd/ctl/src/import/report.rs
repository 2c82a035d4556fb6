//! What became of each server, for the user.

use serde_json::{Value, json};
use switchboard_wire::visible::visible;

use super::{ImportOutcome, ImportResult};
use crate::output::{Paint, Tone, say};

pub(super) fn print(import_result: &ImportResult, would: bool) {
    let name = visible(&import_result.entry.name).into_owned();
    let of = match &import_result.entry.project {
        Some(project) => format!("{}, {}", import_result.host.name, visible(&project.display().to_string())),
        None => import_result.host.name.to_owned(),
    };
    let (tone, word, more) = match &import_result.outcome {
        ImportOutcome::Taken { name, secrets, notes, .. } => {
            let mut more = notes.clone();
            if !secrets.is_empty() {
                let names: Vec<_> = secrets.iter().map(|name| format!("`{name}`")).collect();
                more.insert(0, format!("its secrets are kept as {}", names.join(", ")));
            }
            let word = if would { "would be taken" } else { "taken" };
            (Tone::Good, format!("{word} as `{}`", visible(name)), more)
        }
        ImportOutcome::Same { name, notes } => {
            (Tone::Quiet, format!("already there as `{}`", visible(name)), notes.clone())
        }
        ImportOutcome::Left { why } => (Tone::Warning, format!("left out: {}", visible(why)), Vec::new()),
    };
    say!("{name} ({of}): {}", Paint::for_stdout().on(tone, word));
    more.iter().for_each(|line| say!("  {}", visible(line)));
}

impl ImportResult {
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

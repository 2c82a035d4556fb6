//! Which servers are imported: those that were named, after a question where somebody can be asked.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use switchboard_hosts::import::folder_name;
use switchboard_hosts::suite_settings::SuiteSettings;
use switchboard_wire::printable;
use switchboard_wire::visible::visible;

use super::{HostEntry, ImportOutcome, ImportResult};
use crate::args::{Args, HostSelection};
use crate::output::count;
use crate::prompt;

/// The entries with these names; all, if none was named.
pub(super) fn only(entries: Vec<HostEntry>, names: &[String]) -> Result<Vec<HostEntry>, Vec<String>> {
    let names: Vec<&str> = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
    let is_meant =
        |entry: &HostEntry, name: &str| entry.entry.name == name || folder_name(&entry.entry.name) == name;
    let is_unknown = |name: &&&str| !entries.iter().any(|entry| is_meant(entry, name));
    let mut known: Vec<&str> = entries.iter().map(|entry| entry.entry.name.as_str()).collect();
    known.sort_unstable();
    known.dedup();
    let complaint = |name: &&str| {
        let have = match known.is_empty() {
            true => "they have none".to_owned(),
            false => format!("they have {}", visible(&known.join(", "))),
        };
        format!("no editor has a server `{}`; {have}", visible(name))
    };
    let complaints: Vec<String> = names.iter().filter(is_unknown).map(complaint).collect();
    if !complaints.is_empty() {
        return Err(complaints);
    }
    let is_named = |entry: &HostEntry| names.is_empty() || names.iter().any(|name| is_meant(entry, name));
    Ok(entries.into_iter().filter(is_named).collect())
}

/// Whether the user is asked before anything is written.
pub(super) fn is_asked(args: &Args, which: &HostSelection) -> bool {
    !which.dry_run && !which.yes && !args.json && std::io::stdin().is_terminal()
}

/// Whether there is anything to write.
pub(super) fn is_work(results: &[ImportResult], settings: &BTreeMap<String, SuiteSettings>) -> bool {
    !settings.is_empty() || results.iter().any(|result| matches!(result.outcome, ImportOutcome::Taken { .. }))
}

pub(super) fn agreed(results: &[ImportResult]) -> bool {
    let (mut servers, mut kept) = (0, Vec::new());
    for result in results {
        if let ImportOutcome::Taken { secrets, .. } = &result.outcome {
            servers += 1;
            kept.extend(secrets);
        }
    }
    kept.sort_unstable();
    kept.dedup();
    let mut what = match servers {
        0 => "write these settings".to_owned(),
        _ => format!("import {}", count(servers, "server")),
    };
    if !kept.is_empty() {
        what.push_str(&format!(" and store {}", count(kept.len(), "secret")));
    }
    prompt::yes(&printable!("{what}? [y/N] "))
}

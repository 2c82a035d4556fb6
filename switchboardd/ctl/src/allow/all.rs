//! `switchboard allow --all`: everything that is held, one project at a time, with one question for each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::Method;
use switchboard_definitions::discover::host_files::HostProjectFile;
use switchboard_wire::printable;
use switchboard_wire::visible::visible;

use super::drift;
use super::{Candidate, NO_PROGRAM, Shown, allow, candidates, left_held, shown, waits};
use crate::CliExit;
use crate::args::Args;
use crate::ask::{ask_within, tell_daemon};
use crate::local_config::LocalConfig;
use crate::output::{complain, count, say};
use crate::prompt;

/// A daemon that takes longer is not waited for: its projects are then known from earlier decisions only.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn run(args: &Args, local: &LocalConfig) -> CliExit {
    let own = candidates(&local.personal, true);
    let mut projects = vec![("your own servers".to_owned(), own)];
    let roots = roots(args, local).await;
    for root in &roots {
        projects.push((root.display().to_string(), candidates(&local.workspace(root), false)));
    }
    let (mut any, mut left) = (false, false);
    for (project, candidates) in projects {
        if let Some(all_allowed) = consider_all(local, &project, &candidates).await {
            any = true;
            left |= !all_allowed;
        }
    }
    let here = local.here(args);
    let mut seen = BTreeSet::new();
    for root in roots.iter().map(|root| Some(root.as_path())).chain([here.as_deref()]) {
        for changed in drift::found(local, root, None) {
            if seen.insert((changed.file.clone(), changed.name.clone())) {
                any = true;
                left |= !drift::consider(local, &changed);
            }
        }
    }
    match any {
        true => tell_daemon(args).await,
        false => say!("nothing waits for your approval, in any project that is known here"),
    }
    if left { CliExit::Held } else { CliExit::Ok }
}

/// Every project that is known: this one, those that the daemon serves, and those of earlier decisions.
async fn roots(args: &Args, local: &LocalConfig) -> BTreeSet<PathBuf> {
    let mut roots: BTreeSet<PathBuf> = local.here(args).into_iter().collect();
    if let Ok(status) = ask_within(STATUS_TIMEOUT, args, Method::GET, "/status").await {
        let workspaces = status["workspaces"].as_array().into_iter().flatten();
        let named = workspaces.filter_map(|one| one["root"].as_str().map(PathBuf::from));
        roots.extend(named.filter_map(|root| local.root_of(&root)));
    }
    let own = &local.personal.config.folder;
    let files = local.trust.records.keys().filter(|file| !file.starts_with(own));
    // An editor's file is in the project's folder, or in a folder of the editor's there.
    let folder_of = |file: &PathBuf| match HostProjectFile::at(file) {
        Some((_, root)) => Some(root),
        None => file.parent().map(Path::to_owned),
    };
    roots.extend(files.filter_map(|file| local.root_of(&folder_of(file)?)));
    roots
}

/// Shows all that waits in one project and asks once. `None` if nothing waits; false if something is left.
async fn consider_all(local: &LocalConfig, project: &str, candidates: &[Candidate]) -> Option<bool> {
    let mut asked: Vec<(&Candidate, Shown)> = Vec::new();
    for candidate in candidates.iter().filter(|candidate| !candidate.denied && !candidate.is_second) {
        // A server whose program has changed waits, too.
        if let Some(shown) = shown(local, candidate).await
            && (waits(candidate) || candidate.before.is_some())
        {
            asked.push((candidate, shown));
        }
    }
    if asked.is_empty() {
        return None;
    }
    say!("project {}: {}", visible(project), count(asked.len(), "server"));
    for (_, shown) in &asked {
        say!("");
        shown.lines.iter().for_each(|line| say!("{line}"));
        if shown.wanted.is_none() {
            complain(&NO_PROGRAM);
        }
    }
    say!("");
    let total = asked.len();
    asked.retain(|(_, shown)| shown.wanted.is_some());
    let mut names: Vec<&str> =
        asked.iter().map(|(candidate, _)| candidate.definition.name.as_str()).collect();
    names.sort_unstable();
    let names: Vec<String> = names.iter().map(|name| format!("`{}`", visible(name))).collect();
    if names.is_empty() {
        return Some(false);
    }
    if !prompt::yes(&printable!("allow {} in {}? [y/N] ", names.join(", "), project)) {
        asked.iter().for_each(|(candidate, _)| {
            say!("{}  ({})", left_held(candidate), visible(&candidate.definition.name));
        });
        return Some(false);
    }
    let mut complete = asked.len() == total;
    for (candidate, shown) in asked {
        if let Some(wanted) = shown.wanted {
            say!("{}", visible(&candidate.definition.name));
            complete &= allow(local, candidate, &wanted);
        }
    }
    Some(complete)
}

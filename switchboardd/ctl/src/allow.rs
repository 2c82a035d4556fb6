//! `switchboard allow` and `switchboard deny`: the user's decision on what a workspace may run.
//!
//! Works without a daemon, on the files as they are now: what is shown is what is recorded.

mod all;
mod candidates;
pub(crate) mod drift;
pub(crate) mod person;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::json;
use switchboard_definitions::config::Restrictions;
use switchboard_definitions::definition::{Definition, Launch, LaunchCommand};
use switchboard_definitions::own_limits::OwnLimits;
use switchboard_definitions::trust::view::{ShownValues, View, mentioned};
use switchboard_definitions::trust::{Decision, TrustRecord, project_files};
use switchboard_wire::visible::visible;

use super::CliExit;
use super::ask::tell_daemon;
use super::local_config::LocalConfig;
use super::output::{complain, failed, print_json, remark, say};
use super::prompt;
use crate::args::Args;
use candidates::{Candidate, candidates, is_other_version, names, waits};
use person::{record, why_not_interactive};

impl LocalConfig {
    /// All definitions of a workspace, and those of the user that may need a decision.
    fn candidates(&self, root: Option<&Path>) -> Vec<Candidate> {
        let mut all = candidates(&self.personal, true);
        if let Some(root) = root {
            let layer = self.workspace(root);
            for problem in &layer.problems {
                if self.told.borrow_mut().insert(problem.to_string()) {
                    remark!("problem: {}", visible(&problem.to_string()));
                }
            }
            all.extend(candidates(&layer, false));
        }
        all
    }

    /// The candidates selected by what was typed. If there is none, that is an error unless something else of that
    /// name waits.
    fn meant(
        &self,
        args: &Args,
        what: Option<&str>,
        else_waits: impl FnOnce() -> bool,
    ) -> Result<Vec<Candidate>, CliExit> {
        let here = self.here(args);
        let Some(what) = what else { return Ok(self.candidates(here.as_deref())) };
        let by_name = |all: Vec<Candidate>| -> Vec<Candidate> {
            all.into_iter().filter(|one| one.suite_names.contains(what)).collect()
        };
        let named = by_name(self.candidates(here.as_deref()));
        if !named.is_empty() {
            return Ok(named);
        }
        let Ok(path) = Path::new(what).canonicalize() else {
            if else_waits() {
                return Ok(Vec::new());
            }
            let is_own = self
                .personal
                .entries
                .iter()
                .any(|entry| names(&self.personal, &entry.definition).contains(what));
            let what = visible(what);
            if is_own {
                return Err(failed(&format!(
                    "`{what}` is your own server and needs no approval; `switchboard remove {what}` removes it"
                )));
            }
            let Some(root) = here else {
                return Err(failed(&format!(
                    "there is no project here, and no file `{what}`; run this in the project that has the server"
                )));
            };
            return Err(failed(&format!(
                "the project `{}` has no server `{what}`, and there is no such file; `switchboard allow --list` lists what it has",
                visible(&root.display().to_string())
            )));
        };
        if path.is_dir() {
            return Ok(self.candidates(self.root_of(&path).as_deref()));
        }
        // A file's workspace is the nearest folder above it that finds it.
        let found = path.ancestors().skip(1).chain(here.as_deref()).find_map(|root| {
            let all = self.candidates(Some(&self.root_of(root)?));
            let of_file: Vec<_> = all.into_iter().filter(|one| one.is_in(&path)).collect();
            (!of_file.is_empty()).then_some(of_file)
        });
        if found.is_none() && else_waits() {
            return Ok(Vec::new());
        }
        found.ok_or_else(|| {
            let path = path.display().to_string();
            failed(&format!("nothing in `{}` waits, in this project or above it", visible(&path)))
        })
    }
}

pub(super) async fn run(args: &Args, what: Option<&str>, all: bool) -> CliExit {
    if args.json {
        return failed(
            &"`allow` asks you and has no JSON; `switchboard allow --list --json` lists what waits",
        );
    }
    if let Some(why) = why_not_interactive() {
        return failed(&why);
    }
    let local = match LocalConfig::open(args) {
        Ok(local) => local,
        Err(exit) => return exit,
    };
    if all {
        return all::run(args, &local).await;
    }
    let has_changed = || !drift::found(&local, local.here(args).as_deref(), what).is_empty();
    let meant = match local.meant(args, what, has_changed) {
        Ok(meant) => meant,
        Err(exit) => return exit,
    };
    let (mut allowed, mut left) = (0, 0);
    let mut settled = BTreeSet::new();
    for candidate in meant {
        // A denied definition comes up only if it is named.
        if candidate.denied && what.is_none() {
            continue;
        }
        // The first one that is allowed is used.
        if candidate.is_second && settled.contains(&candidate.definition.name) {
            continue;
        }
        match consider(&local, &candidate).await {
            Some(true) => {
                settled.insert(candidate.definition.name);
                allowed += 1;
            }
            Some(false) => left += 1,
            None => {}
        }
    }
    for change in drift::found(&local, local.here(args).as_deref(), what) {
        match drift::consider(&local, &change) {
            true => allowed += 1,
            false => left += 1,
        }
    }
    match (allowed, left) {
        (0, 0) => say!("nothing waits for your approval here"),
        _ => tell_daemon(args).await,
    }
    if left > 0 { CliExit::Held } else { CliExit::Ok }
}

/// A candidate as the user is shown it.
struct Shown {
    lines: Vec<String>,
    /// What is recorded if the user says yes; `None` if its program is not there.
    wanted: Option<Launch>,
}

/// What the user is shown of a candidate. `None` if there is nothing to ask.
async fn shown(local: &LocalConfig, candidate: &Candidate) -> Option<Shown> {
    let program = match &candidate.wanted {
        Launch::Process(launch) => Some(local.resolver.find_program(launch).await),
        Launch::Remote(_) => None,
    };
    // Already allowed, and its program has not changed.
    let settled = match (&candidate.wanted, &program) {
        (Launch::Process(LaunchCommand { program: Some(was), .. }), Some(Ok(found))) => was == found,
        (Launch::Process(LaunchCommand { program: Some(_), .. }), _) => false,
        (now, _) => candidate.before.as_ref() == Some(now),
    };
    if settled && candidate.has_same_limits() && !candidate.settings.wait() {
        return None;
    }
    let given = local.resolver.given(&candidate.wanted).await;
    let found = program.as_ref().and_then(|found| found.as_deref().ok());
    let view = View {
        definition: &candidate.definition,
        launch: &candidate.wanted,
        program: program.as_ref().map(|found| found.as_ref().map(PathBuf::as_path).map_err(String::as_str)),
        before: candidate.before.as_ref(),
        limits: &candidate.limits,
        root: &candidate.root,
        is_masked: false,
        values: ShownValues::All,
        given: &given,
        project_files: &project_files(&candidate.wanted, found, &candidate.root),
        settings: &candidate.settings,
    };
    let mut lines = view.lines();
    if candidate.denied {
        lines.push("  denied    you have denied it before".to_owned());
    }
    let wanted = match (&candidate.wanted, program) {
        (Launch::Process(launch), Some(Ok(program))) => {
            Some(Launch::Process(LaunchCommand { program: Some(program), ..launch.clone() }))
        }
        (Launch::Process(_), _) => None,
        (remote, _) => Some(remote.clone()),
    };
    Some(Shown { lines, wanted })
}

/// Shows one candidate and asks. `None` if there is nothing to ask.
async fn consider(local: &LocalConfig, candidate: &Candidate) -> Option<bool> {
    let Shown { lines, wanted } = shown(local, candidate).await?;
    lines.iter().for_each(|line| say!("{line}"));
    let Some(wanted) = wanted else {
        complain(&NO_PROGRAM);
        return Some(false);
    };
    if !prompt::yes(&"allow this version? [y/N] ".into()) {
        say!("{}", left_held(candidate));
        return Some(false);
    }
    Some(allow(local, candidate, &wanted))
}

const NO_PROGRAM: &str = "it can be allowed once its program is installed";

/// What stays as it is after a no.
fn left_held(candidate: &Candidate) -> &'static str {
    if candidate.settings.wait() && !is_other_version(candidate) {
        return "  what you allowed stays in force";
    }
    // If only the program has changed, there is no allowed version to keep running.
    match candidate.before.as_ref().is_some_and(|before| *before != candidate.wanted) {
        true => "  this version stays held; the one that you allowed keeps running",
        false => "  stays held",
    }
}

/// Records the user's yes. False if that failed.
fn allow(local: &LocalConfig, candidate: &Candidate, wanted: &Launch) -> bool {
    let Definition { file, name, .. } = &candidate.definition;
    let denied = candidate.also.iter().filter(|(.., is_denied)| *is_denied);
    let places = std::iter::once((file, name)).chain(denied.map(|(file, name, _)| (file, name)));
    let recorded = places.map(|(file, name)| {
        let verdict = Decision::Allow(Box::new(wanted.clone()));
        let record = record(verdict, candidate.settings.wanted.clone(), candidate.limits.clone());
        local.locations.trust.record(file, name, record)
    });
    match recorded.collect() {
        Ok(()) => {
            say!("  allowed");
            true
        }
        Err(error) => {
            complain(&error);
            false
        }
    }
}

pub(super) async fn deny(args: &Args, what: &str) -> CliExit {
    let local = match LocalConfig::open(args) {
        Ok(local) => local,
        Err(exit) => return exit,
    };
    let meant = match local.meant(args, Some(what), || false) {
        Ok(meant) => meant,
        Err(exit) => return exit,
    };
    let mut denied = Vec::new();
    let places = meant.iter().flat_map(|one| {
        let also = one.also.iter().map(|(file, name, _)| (file, name));
        std::iter::once((&one.definition.file, &one.definition.name)).chain(also)
    });
    for (file, name) in places {
        let record = record(Decision::Deny, Restrictions::default(), OwnLimits::default());
        if let Err(error) = local.locations.trust.record(file, name, record) {
            return failed(&error);
        }
        denied.push(json!({ "name": name, "file": file }));
        if !args.json {
            say!(
                "denied `{}` in {}; `switchboard allow` with its name takes it back",
                visible(name),
                visible(&file.display().to_string())
            );
        }
    }
    if args.json {
        print_json(&json!({ "denied": denied }));
    }
    tell_daemon(args).await;
    CliExit::Ok
}

pub(super) fn list(args: &Args) -> CliExit {
    let local = match LocalConfig::open(args) {
        Ok(local) => local,
        Err(exit) => return exit,
    };
    let here = local.here(args);
    let waiting: Vec<Candidate> = local.candidates(here.as_deref()).into_iter().filter(waits).collect();
    let changed = drift::found(&local, here.as_deref(), None);
    let said = local
        .trust
        .records
        .iter()
        .flat_map(|(file, names)| names.iter().map(move |(name, record)| (file, name, record)));
    if args.json {
        let said: Vec<_> = said
            .map(|(file, name, TrustRecord { verdict, at, by, .. })| match verdict {
                Decision::Allow(launch) => {
                    json!({ "verdict": "allow", "name": name, "file": file, "runs": mentioned(launch), "at": at, "by": by })
                }
                Decision::Deny => json!({ "verdict": "deny", "name": name, "file": file, "at": at, "by": by }),
            })
            .collect();
        let waiting: Vec<_> = waiting
            .iter()
            .map(|one| json!({ "name": one.definition.name, "file": one.definition.file, "wouldRun": mentioned(&one.wanted) }))
            .collect();
        let changed: Vec<_> = changed
            .iter()
            .map(|one| json!({ "name": one.name, "file": one.file, "drift": one.drift.to_json(local.holds_changes()) }))
            .collect();
        print_json(
            &json!({ "said": said, "waiting": waiting, "changed": changed, "trustRoots": local.trust.roots }),
        );
        return CliExit::Ok;
    }
    for root in &local.trust.roots {
        say!("allowed   everything in {}", root.display());
    }
    for (file, name, TrustRecord { verdict, at, .. }) in said {
        let file = file.display().to_string();
        let (name, file) = (visible(name), visible(&file));
        match verdict {
            Decision::Allow(launch) => say!("allowed   {name}  {}  ({file}, {at})", mentioned(launch)),
            Decision::Deny => say!("denied    {name}  ({file}, {at})"),
        }
    }
    for one in &waiting {
        let (name, file) = (visible(&one.definition.name), one.definition.file.display().to_string());
        say!("waiting   {name}  {}  ({})", mentioned(&one.wanted), visible(&file));
    }
    for one in &changed {
        say!("changed   {}  {}", visible(&one.name), visible(&one.drift.summary()));
    }
    let nothing = waiting.is_empty() && changed.is_empty() && local.trust.records.is_empty();
    if nothing && local.trust.roots.is_empty() {
        say!("nothing was allowed or denied yet, and nothing waits here");
    }
    CliExit::Ok
}

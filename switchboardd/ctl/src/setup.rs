//! `switchboard setup` and `switchboard undo`: change the hosts' own files.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};
use switchboard_definitions::document::{Problem, nearest};
use switchboard_hosts::machine::{Evidence, Machine};
use switchboard_hosts::mask::masked;
use switchboard_hosts::record::{HostFileRecord, HostFileRecords};
use switchboard_hosts::setup::{Plan, SetupKind, exposure, plan, plan_undo, set_up, undo as take_back};
use switchboard_hosts::survey::survey;
use switchboard_hosts::table::{HOSTS, by_id, meant_by};
use switchboard_hosts::{Host, shim};
use switchboard_wire::printable;
use switchboard_wire::visible::{Printable, visible};

use super::CliExit;
use super::local_config::LocalConfig;
use super::output::{Paint, Tone, complain, indented, print, print_json, remark, say};
use super::prompt;
use crate::args::{Args, HostSelection, Setup, Undo};
use switchboardd::daemon;

/// Longer lines of a diff are clipped.
const MAX_LINE: usize = 160;
const CONTEXT: usize = 3;

/// The result for one file of a host.
pub(super) struct HostFileReport {
    host: &'static Host,
    file: PathBuf,
    outcome: Result<SetupOutcome, Problem>,
}

struct SetupOutcome {
    word: &'static str,
    diff: Option<String>,
    /// How other users could change the file.
    warning: Option<String>,
}

pub(super) fn run(args: &Args, setup: &Setup) -> CliExit {
    let HostSelection { host, dry_run, .. } = &setup.which;
    let (named, home, state) = match hosts_and_folders(args, host) {
        Ok(found) => found,
        Err(exit) => return exit,
    };
    let machine = Machine::here(&home);
    let shim = match shim::find(setup.shim.as_deref(), &machine.path) {
        Ok(shim) => shim,
        Err(none) => return failed(&none),
    };
    if let Some(refused) = refuse_unasked(args, &setup.which) {
        return refused;
    }
    let mut setup_run =
        SetupRun { as_json: args.json, dry_run: *dry_run, yes: setup.which.yes, reports: Vec::new() };
    let (found, missing): (Vec<_>, Vec<_>) =
        HOSTS.iter().filter(|host| !host.places.is_empty()).partition(|host| machine.trace(host).is_some());
    let meant: Vec<&'static Host> = if named.is_empty() { found.clone() } else { named };
    if !args.json && setup.which.host.is_empty() {
        for host in &found {
            let by = match machine.trace(host) {
                Some(Evidence::File) => "its file",
                Some(Evidence::Folder) => "its folder",
                _ => "its program",
            };
            say!("found      {} (by {by})", host.name);
        }
        let missing: Vec<_> = missing.iter().map(|host| host.name).collect();
        say!("not found  {}", missing.join(", "));
    }
    let mut snippets = Vec::new();
    for host in meant {
        if host.places.is_empty() {
            snippets.push((host, host.snippet(&shim)));
        }
        for file in machine.targets(host) {
            let planned = plan(host, &file, &shim);
            setup_run.one(host, &file, planned, || {
                let records =
                    HostFileRecords::open(&state).map_err(|error| Problem::of(&state, error.to_string()))?;
                set_up(&records, host, &file, &shim)
            });
            if let Some(HostFileReport { outcome: Err(_), .. }) = setup_run.reports.last() {
                snippets.push((host, host.snippet(&shim)));
            }
        }
    }
    if args.json {
        let snippets: Vec<_> =
            snippets.iter().map(|(host, text)| json!({ "host": host.id, "snippet": text })).collect();
        let missing: Vec<_> = missing.iter().map(|host| host.id).collect();
        let files: Vec<_> = setup_run.reports.iter().map(HostFileReport::as_json).collect();
        print_json(
            &json!({ "shim": shim, "dryRun": dry_run, "files": files, "notFound": missing, "snippets": snippets }),
        );
        return setup_run.exit();
    }
    for (host, text) in &snippets {
        let what = if host.places.is_empty() {
            "keeps no file of its own; paste this into its settings"
        } else {
            "by hand, that would be"
        };
        say!("");
        say!("{}: {what}:", host.name);
        say!("");
        print(&Printable::text(text));
    }
    if setup_run.reports.is_empty() && snippets.is_empty() {
        say!("no editor was found on this machine; `--host NAME` sets one up all the same");
    }
    if setup_run.reports.iter().any(HostFileReport::is_new) {
        say!("");
        say!("restart your editors to see the change; `switchboard undo` takes it back");
        let has_definitions =
            LocalConfig::open_if_possible(args).is_some_and(|local| !local.personal.entries.is_empty());
        match (own_servers(&home), has_definitions) {
            (false, _) => {}
            (true, false) => say!(
                "next: `switchboard import` copies the servers that your editors start now; `--remove` also removes them there"
            ),
            (true, true) => say!(
                "next: `switchboard import --remove` removes the servers from your editors that Switchboard has and that answer"
            ),
        }
    }
    setup_run.exit()
}

/// The named hosts, the home folder and the daemon's state folder.
fn hosts_and_folders(
    args: &Args,
    hosts: &[String],
) -> Result<(Vec<&'static Host>, PathBuf, PathBuf), CliExit> {
    let named = named(hosts)?;
    let home = daemon::home().map_err(|fatal| failed(&fatal))?;
    let state = daemon::files_in_use(&args.of_daemon(), &home).1;
    Ok((named, home, state))
}

pub(super) fn undo(args: &Args, undo: &Undo) -> CliExit {
    let (named, _, state) = match hosts_and_folders(args, &undo.which.host) {
        Ok(found) => found,
        Err(exit) => return exit,
    };
    let (all, problems) = HostFileRecords::peek(&state).all();
    problems.iter().for_each(|problem| remark!("switchboard: {}", indented(problem)));
    let is_meant =
        |record: &HostFileRecord| named.is_empty() || named.iter().any(|host| host.id == record.host);
    let meant: Vec<HostFileRecord> = all.into_iter().filter(is_meant).collect();
    if meant.is_empty() {
        match args.json {
            true => print_json(&json!({ "dryRun": undo.which.dry_run, "files": [] })),
            false => say!("nothing to undo: no file of an editor was changed"),
        }
        return if problems.is_empty() { CliExit::Ok } else { CliExit::Error };
    }
    if let Some(refused) = refuse_unasked(args, &undo.which) {
        return refused;
    }
    let mut setup_run = SetupRun {
        as_json: args.json,
        dry_run: undo.which.dry_run,
        yes: undo.which.yes,
        reports: Vec::new(),
    };
    for record in &meant {
        let Some(host) = by_id(&record.host) else {
            remark!("switchboard: this version does not know the editor `{}`", visible(&record.host));
            continue;
        };
        let planned = plan_undo(host, record);
        setup_run.one(host, &record.file, planned, || {
            let records =
                HostFileRecords::open(&state).map_err(|error| Problem::of(&state, error.to_string()))?;
            // Another process may have undone it meanwhile.
            match records.of(&record.file).map_err(|why| Problem::of(&record.file, why))? {
                Some(record) => take_back(&records, host, &record),
                None => Ok(SetupKind::NothingLeft),
            }
        });
    }
    if args.json {
        let files: Vec<_> = setup_run.reports.iter().map(HostFileReport::as_json).collect();
        print_json(&json!({ "dryRun": undo.which.dry_run, "files": files }));
    }
    match problems.is_empty() {
        true => setup_run.exit(),
        false => CliExit::Error,
    }
}

/// Processes files one by one.
pub(super) struct SetupRun {
    pub(super) as_json: bool,
    pub(super) dry_run: bool,
    pub(super) yes: bool,
    pub(super) reports: Vec<HostFileReport>,
}

impl SetupRun {
    /// Shows what would be done to a file, asks, and does it.
    pub(super) fn one(
        &mut self,
        host: &'static Host,
        file: &Path,
        planned: Result<Plan, Problem>,
        act: impl FnOnce() -> Result<SetupKind, Problem>,
    ) {
        let outcome = planned.and_then(|plan| {
            let diff = plan.changes().then(|| difference(host, file, &plan));
            if let (Some(diff), false) = (&diff, self.as_json) {
                say!("");
                say!("{}", Paint::for_stdout().on(Tone::Strong, host.name));
                print(&coloured(diff));
            }
            let warning = diff.as_ref().and_then(|_| exposure(file)).map(|how| {
                format!("others could change this file, and what {} starts with it: {how}", host.name)
            });
            if let (Some(warning), false) = (&warning, self.as_json) {
                say!("{} {}", Paint::for_stdout().on(Tone::Warning, "warning:"), indented(warning));
            }
            let word = if diff.is_none() && plan.kind != SetupKind::NothingLeft {
                action_word(plan.kind, false)
            } else if self.dry_run {
                action_word(plan.kind, true)
            } else if diff.is_none() || self.yes || agreed(file) {
                action_word(act()?, false)
            } else {
                "declined"
            };
            Ok(SetupOutcome { word, diff, warning })
        });
        let told = HostFileReport { host, file: file.to_owned(), outcome };
        if !self.as_json {
            told.print();
        }
        self.reports.push(told);
    }

    pub(super) fn exit(&self) -> CliExit {
        if self.reports.iter().any(|told| told.outcome.is_err()) { CliExit::Error } else { CliExit::Ok }
    }
}

impl HostFileReport {
    fn is_new(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|outcome| matches!(outcome.word, "set up" | "path updated"))
    }

    fn print(&self) {
        match &self.outcome {
            Ok(SetupOutcome { word, .. }) => {
                let tone = match *word {
                    "declined" | "set up, but turned off there" => Tone::Warning,
                    _ => Tone::Good,
                };
                let word = Paint::for_stdout().on(tone, word);
                say!("{}: {word} ({})", self.host.name, visible(&self.file.display().to_string()));
            }
            Err(problem) => {
                remark!("switchboard: {}: {}; the file was not changed", self.host.name, indented(problem))
            }
        }
    }

    pub(super) fn as_json(&self) -> Value {
        let mut told = json!({ "host": self.host.id, "name": self.host.name, "file": self.file });
        match &self.outcome {
            Ok(SetupOutcome { word, diff, warning }) => {
                told["result"] = json!(word);
                if let Some(warning) = warning {
                    told["warning"] = json!(warning);
                }
                if let Some(diff) = diff {
                    told["diff"] = json!(diff);
                }
            }
            Err(problem) => {
                told["result"] = json!("refused");
                told["why"] = json!(problem.to_string());
            }
        }
        told
    }
}

/// What was done, or would be.
fn action_word(kind: SetupKind, would: bool) -> &'static str {
    match (kind, would) {
        (SetupKind::Already, _) => "already set up",
        (SetupKind::Disabled, _) => "set up, but turned off there",
        (SetupKind::Add, false) => "set up",
        (SetupKind::Add, true) => "would be set up",
        (SetupKind::Move, false) => "path updated",
        (SetupKind::Move, true) => "path would be updated",
        (SetupKind::Restore, false) => "restored as it was",
        (SetupKind::Restore, true) => "would be restored as it was",
        (SetupKind::TakeOut, false) => {
            "the editor has changed it since: only what Switchboard did was undone"
        }
        (SetupKind::TakeOut, true) => {
            "the editor has changed it since: only what Switchboard did would be undone"
        }
        (SetupKind::RemoveImported, false) => "the imported servers were removed",
        (SetupKind::RemoveImported, true) => "the imported servers would be removed",
        (SetupKind::NothingLeft, _) => "nothing of Switchboard is left in it",
    }
}

/// The hosts that the user named.
pub(super) fn named(typed: &[String]) -> Result<Vec<&'static Host>, CliExit> {
    let mut hosts: Vec<&'static Host> = Vec::new();
    for typed in typed.iter().map(|typed| typed.trim()).filter(|typed| !typed.is_empty()) {
        let host = one_named(typed).map_err(|why| {
            complain(&why);
            CliExit::Usage
        })?;
        if !hosts.iter().any(|known| known.id == host.id) {
            hosts.push(host);
        }
    }
    Ok(hosts)
}

/// Of several that a name may mean, the only one on this machine.
fn one_named(typed: &str) -> Result<&'static Host, String> {
    let typed = visible(typed);
    let ids = |hosts: &[&Host]| hosts.iter().map(|host| host.id).collect::<Vec<_>>();
    match meant_by(&typed).as_slice() {
        [one] => Ok(*one),
        [] => {
            let known = ids(&HOSTS.iter().collect::<Vec<_>>());
            let hint = nearest(&typed, known.iter().copied()).map_or_else(
                || format!("known editors are {}", known.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            Err(format!("there is no editor `{typed}`; {hint}"))
        }
        several => {
            let machine = daemon::home().ok().map(|home| Machine::here(&home));
            let here = |host: &&&Host| machine.as_ref().is_some_and(|machine| machine.trace(host).is_some());
            match several.iter().filter(here).collect::<Vec<_>>().as_slice() {
                [one] => {
                    remark!(
                        "`{typed}` is taken as `{}`, the only one of {} here",
                        one.id,
                        ids(several).join(", ")
                    );
                    Ok(**one)
                }
                _ => Err(format!("`{typed}` may be {}; write one of them", ids(several).join(" or "))),
            }
        }
    }
}

/// Other programs' files are changed only with the user's consent.
pub(super) fn refuse_unasked(args: &Args, which: &HostSelection) -> Option<CliExit> {
    let can_ask = std::io::stdin().is_terminal() && !args.json;
    if which.dry_run || which.yes || can_ask {
        return None;
    }
    remark!(
        "switchboard: not a terminal, so you can't be asked: use `--yes`, or `--dry-run` to see what would be done"
    );
    Some(CliExit::Usage)
}

fn agreed(file: &Path) -> bool {
    prompt::yes(&printable!("change {}? [y/N] ", visible(&file.display().to_string())))
}

/// A unified diff with secrets masked.
fn difference(host: &Host, file: &Path, plan: &Plan) -> String {
    let (before, after) = masked(host, plan.before.as_deref(), plan.after.as_deref());
    unified(file, before.as_deref(), after.as_deref())
}

/// Whether an editor has servers of its own.
pub(crate) fn own_servers(home: &Path) -> bool {
    let mut files = survey(&Machine::here(home)).into_iter().flat_map(|surveyed| surveyed.files);
    files.any(|file| file.state.is_ok_and(|state| state.servers.iter().any(|server| !server.is_off)))
}

/// Prints what changes in a file of the user's own, which shows its values.
pub(super) fn print_difference(heading: &str, file: &Path, before: &str, after: &str) {
    say!("");
    say!("{}", Paint::for_stdout().on(Tone::Strong, heading));
    print(&coloured(&unified(file, Some(before), Some(after))));
}

fn unified(file: &Path, before: Option<&str>, after: Option<&str>) -> String {
    let diff = TextDiff::from_lines(before.unwrap_or_default(), after.unwrap_or_default());
    let name = |text: Option<&str>| match text {
        Some(_) => visible(&file.display().to_string()).into_owned(),
        None => "/dev/null".to_owned(),
    };
    let mut lines = vec![format!("--- {}", name(before)), format!("+++ {}", name(after))];
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        lines.push(hunk.header().to_string());
        for change in hunk.iter_changes() {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            lines.push(format!("{sign}{}", short(change.value().trim_end_matches(['\n', '\r']))));
        }
    }
    lines.join("\n")
}

/// Clips a long line at its start: additions are at its end.
fn short(line: &str) -> String {
    let line = line.replace('\t', "    ");
    let line = visible(&line).into_owned();
    let length = line.chars().count();
    if length <= MAX_LINE {
        return line;
    }
    format!("…{}", line.chars().skip(length - MAX_LINE).collect::<String>())
}

fn coloured(diff: &str) -> Printable {
    let paint = Paint::for_stdout();
    let line = |line: &str| match line.as_bytes().first() {
        Some(b'+') => paint.on(Tone::Good, line),
        Some(b'-') => paint.on(Tone::Bad, line),
        Some(b'@') => paint.on(Tone::Quiet, line),
        _ => Printable::line(line),
    };
    Printable::lines(diff.lines().map(line))
}

fn failed(error: &dyn std::fmt::Display) -> CliExit {
    remark!("switchboard: {}", indented(error));
    CliExit::Error
}

//! `switchboard doctor`: finds everything that does not work, each with the command that fixes it. Works
//! without a daemon; changes nothing, unless `--fix` asks for it.

mod definitions;
mod files;
mod hosts;
mod machine;
mod repair;
mod running;

pub(super) use running::is_locked;

use serde_json::{Value, json};
use switchboard_wire::visible::{Printable, visible};

use super::CliExit;
use super::at_once::noted;
use super::local_config::LocalConfig;
use super::output::{Paint, Tone, complain, count, print, print_json, say, width, wrap};
use super::status;
use crate::args::Args;
use switchboardd::daemon;

use repair::Repair;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// As it should be.
    Fine,
    /// Works, but is risky or may stop working.
    Warning,
    /// Something does not work.
    Error,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Finding {
    severity: Severity,
    /// What was checked, as a keyword for programs.
    about: &'static str,
    what: String,
    /// The command that fixes it.
    fix: Option<String>,
    /// What `--fix` does about it.
    repair: Option<Repair>,
    /// How it is shown together with others of its kind.
    fold: Option<Fold>,
    /// The server that this keeps from running.
    server: Option<String>,
}

/// Findings with the same heading become one in what users read.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    heading: &'static str,
    item: String,
    /// The command that fixes all of them.
    fix: &'static str,
}

impl Finding {
    fn fine(about: &'static str, what: impl Into<String>) -> Self {
        Self {
            severity: Severity::Fine,
            about,
            what: what.into(),
            fix: None,
            repair: None,
            fold: None,
            server: None,
        }
    }

    fn warning(about: &'static str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            about,
            what: what.into(),
            fix: Some(fix.into()),
            repair: None,
            fold: None,
            server: None,
        }
    }

    fn error(about: &'static str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            about,
            what: what.into(),
            fix: Some(fix.into()),
            repair: None,
            fold: None,
            server: None,
        }
    }
}

impl Finding {
    fn with_server(mut self, server: &str) -> Self {
        self.server = Some(server.to_owned());
        self
    }

    fn with_repair(mut self, repair: Repair) -> Self {
        self.repair = Some(repair);
        self
    }

    fn with_fold(mut self, heading: &'static str, item: impl Into<String>, fix: &'static str) -> Self {
        self.fold = Some(Fold { heading, item: item.into(), fix });
        self
    }
}

pub(super) async fn run(args: &Args, fix: bool) -> CliExit {
    let mut findings = find_all(args).await;
    let repairs: Vec<Repair> = findings.iter().filter_map(|finding| finding.repair.clone()).collect();
    let mut fixed = Vec::new();
    if fix {
        for repair in &repairs {
            match repair.run() {
                Ok(done) => fixed.push(done),
                Err(why) => complain(&why),
            }
        }
        if !repairs.is_empty() {
            findings = find_all(args).await;
        }
    }
    let worst = findings.iter().map(|finding| finding.severity).max();
    if args.json {
        print_json(&json!({
            "ok": worst != Some(Severity::Error),
            "findings": findings.iter().map(as_json).collect::<Vec<_>>(),
            "fixed": fixed,
        }));
    } else {
        fixed.iter().for_each(|done| say!("fixed: {}", visible(done)));
        if fix && fixed.is_empty() {
            say!("nothing here can be fixed without you");
        }
        if fix {
            say!("");
        }
        print_findings(&findings);
        if !fix && !repairs.is_empty() {
            say!("`switchboard doctor --fix` fixes {} of these", repairs.len());
        }
    }
    if worst == Some(Severity::Error) { CliExit::Error } else { CliExit::Ok }
}

async fn find_all(args: &Args) -> Vec<Finding> {
    let home = match daemon::home() {
        Ok(home) => home,
        Err(fatal) => {
            return vec![Finding::error("home", fatal.to_string(), "export HOME=/home/you")];
        }
    };
    let paths = daemon::runtime_paths_in_use(&args.of_daemon(), &home);
    let (config, state) = daemon::files_in_use(&args.of_daemon(), &home);
    let status = noted("asking the daemon", status::fetch_status(args)).await;
    let mut findings = running::presence(&paths, &status);
    let status = status.ok();
    findings.extend(running::programs(status.as_ref()));
    findings.extend(files::places(&paths, &state));
    findings.extend(files::config(&config, &state));
    findings.extend(files::trust(&state));
    if let Some(local) = LocalConfig::open_if_possible(args) {
        let project = local.here(args).map(|root| local.workspace(&root));
        let unused = files::unused_settings(&local.personal, project.as_ref());
        if unused.iter().any(|(file, _)| *file == config) {
            findings.retain(|finding| finding.about != "config" || finding.severity != Severity::Fine);
        }
        findings.extend(unused.into_iter().map(|(_, finding)| finding));
        findings.extend(noted("asking your login shell", machine::path(&local)).await);
        findings.extend(
            definitions::check(args, &local, project.as_ref(), crate::setup::own_servers(&home)).await,
        );
        findings.extend(running::port(status.as_ref(), &local.personal.config));
    }
    let known: Vec<&str> = findings.iter().filter_map(|finding| finding.server.as_deref()).collect();
    let failing = running::suites(status.as_ref(), &known);
    findings.extend(failing);
    findings.extend(running::record(status.as_ref()));
    findings.extend(machine::watches(status.as_ref()));
    findings.extend(hosts::check(&home));
    findings.extend(machine::linger(&home));
    findings.extend(running::orphans(&paths, status.is_some()));
    findings
}

fn as_json(finding: &Finding) -> Value {
    let Finding { severity, about, what, fix, .. } = finding;
    json!({ "severity": severity.as_str(), "about": about, "what": what, "mend": fix })
}

/// One finding for all that share a heading.
fn folded(findings: &[Finding]) -> Vec<Finding> {
    let mut shown: Vec<Finding> = Vec::new();
    for finding in findings {
        let Some(Fold { heading, fix, .. }) = &finding.fold else {
            shown.push(finding.clone());
            continue;
        };
        let alike = |one: &&Finding| one.fold.as_ref().is_some_and(|fold| fold.heading == *heading);
        if shown.iter().any(|one| alike(&one)) {
            continue;
        }
        let items: Vec<&str> = findings
            .iter()
            .filter(alike)
            .filter_map(|one| one.fold.as_ref().map(|fold| fold.item.as_str()))
            .collect();
        let mut one = finding.clone();
        if items.len() > 1 {
            one.what = format!("{} {heading}: {}", items.len(), items.join(", "));
            one.fix = Some((*fix).to_owned());
        }
        shown.push(one);
    }
    shown
}

fn print_findings(findings: &[Finding]) {
    let paint = Paint::for_stdout();
    let shown = folded(findings);
    let mut sorted = shown.clone();
    // The worst first: it stands where one begins to read.
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let wide = width().min(120);
    for finding in sorted {
        let (mark, tone) = match finding.severity {
            Severity::Fine => ("✓", Tone::Good),
            Severity::Warning => ("!", Tone::Warning),
            Severity::Error => ("✗", Tone::Bad),
        };
        let text = Printable::text(finding.what.replace('\t', "    "));
        for (at, line) in wrap(text.as_str(), wide.saturating_sub(2)).iter().enumerate() {
            let mark = if at == 0 { paint.on(tone, mark) } else { " ".into() };
            say!("{mark} {line}");
        }
        if let Some(fix) = &finding.fix {
            say!("    {}", paint.on(Tone::Strong, visible(fix)));
        }
    }
    let number = |severity| shown.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (number(Severity::Error), number(Severity::Warning));
    say!("");
    print(&match (errors, warnings) {
        (0, 0) => paint.on(Tone::Good, "everything is fine"),
        (0, warnings) => paint.on(Tone::Warning, count(warnings, "warning")),
        (errors, warnings) => {
            paint.on(Tone::Bad, format!("{}, {}", count(errors, "error"), count(warnings, "warning")))
        }
    });
}

//! `switchboard doctor`: finds everything that does not work, each with the command that fixes it. Works
//! without a daemon; changes nothing.

mod definitions;
mod files;
mod hosts;
mod machine;
mod running;

pub(super) use running::is_locked;

use serde_json::{Value, json};
use switchboard_wire::visible::{Printable, visible};

use super::CliExit;
use super::local_config::LocalConfig;
use super::output::{Paint, Tone, count, print, print_json, say, width, wrap};
use super::status;
use crate::args::Args;
use switchboardd::daemon;

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
}

impl Finding {
    fn fine(about: &'static str, what: impl Into<String>) -> Self {
        Self { severity: Severity::Fine, about, what: what.into(), fix: None }
    }

    fn warning(about: &'static str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, about, what: what.into(), fix: Some(fix.into()) }
    }

    fn error(about: &'static str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Error, about, what: what.into(), fix: Some(fix.into()) }
    }
}

pub(super) async fn run(args: &Args) -> CliExit {
    let findings = find_all(args).await;
    let worst = findings.iter().map(|finding| finding.severity).max();
    if args.json {
        print_json(&json!({
            "ok": worst != Some(Severity::Error),
            "findings": findings.iter().map(as_json).collect::<Vec<_>>(),
        }));
    } else {
        print_findings(&findings);
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
    let status = status::fetch_status(args).await;
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
        findings.extend(machine::path(&local).await);
        findings.extend(definitions::check(&local, project.as_ref()).await);
        findings.extend(running::port(status.as_ref(), &local.personal.config));
    }
    findings.extend(running::suites(status.as_ref()));
    findings.extend(running::record(status.as_ref()));
    findings.extend(machine::watches(status.as_ref()));
    findings.extend(hosts::check(&home));
    findings.extend(machine::linger(&home));
    findings.extend(running::orphans(&paths, status.is_some()));
    findings
}

fn as_json(finding: &Finding) -> Value {
    let Finding { severity, about, what, fix } = finding;
    json!({ "severity": severity.as_str(), "about": about, "what": what, "mend": fix })
}

fn print_findings(findings: &[Finding]) {
    let paint = Paint::for_stdout();
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.severity);
    let wide = width().min(120);
    for finding in sorted {
        let (mark, tone) = match finding.severity {
            Severity::Fine => ("✓", Tone::Good),
            Severity::Warning => ("!", Tone::Warning),
            Severity::Error => ("✗", Tone::Bad),
        };
        let shown = Printable::text(finding.what.replace('\t', "    "));
        for (at, line) in wrap(shown.as_str(), wide.saturating_sub(2)).iter().enumerate() {
            let mark = if at == 0 { paint.on(tone, mark) } else { " ".into() };
            say!("{mark} {line}");
        }
        if let Some(fix) = &finding.fix {
            say!("    {}", paint.on(Tone::Strong, visible(fix)));
        }
    }
    let number = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
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

//! Finds hosts that start servers themselves, with or without Switchboard.

use std::path::Path;

use switchboard_hosts::Host;
use switchboard_hosts::machine::Machine;
use switchboard_hosts::survey::{HostFileState, HostServer, survey};

use super::Finding;
use crate::output::tilde;
use crate::shell_word::shell_word;

pub(super) fn check(home: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    for surveyed in survey(&Machine::here(home)) {
        let host = surveyed.host;
        for file in &surveyed.files {
            match &file.state {
                Ok(state) => findings.extend(of_file(host, &file.path, state)),
                Err(problem) => {
                    let fix = format!("switchboard check {}", shell_word(&file.path));
                    findings.push(Finding::warning("host", format!("{}: {problem}", host.name), fix));
                }
            }
        }
    }
    // `import --remove` needs Switchboard in the file: `setup` comes first.
    let is_import = |fix: &str| fix.starts_with("switchboard import");
    findings.sort_by_key(|finding: &Finding| finding.fix.as_deref().is_some_and(is_import));
    findings
}

fn of_file(host: &Host, path: &Path, state: &HostFileState) -> Vec<Finding> {
    let mut findings = Vec::new();
    let shown = tilde(&path.display().to_string());
    let Host { id, name: host, .. } = host;
    // One without a program and without a URL starts nothing.
    let starts = |server: &&HostServer| !server.is_off && !server.command.is_empty();
    let own: Vec<&str> = state.servers.iter().filter(starts).map(|server| server.name.as_str()).collect();
    match &state.switchboard {
        Some(there) if !there.exists => {
            let what = format!("{host} starts {}, which is not there ({shown})", there.command.display());
            findings.push(Finding::error("host", what, format!("switchboard setup --host {id}")));
        }
        Some(_) => {}
        None if !own.is_empty() => {
            let what = format!("{host} does not start Switchboard ({shown})");
            let finding = Finding::warning("host", what, format!("switchboard setup --host {id}"));
            findings.push(finding.with_fold("editors do not start Switchboard", *host, "switchboard setup"));
        }
        None => {}
    }
    if !own.is_empty() {
        let what = format!("{host} still starts {} itself ({shown})", own.join(", "));
        let fix = format!("switchboard import --host {id} --remove");
        findings.push(Finding::warning("host", what, fix).with_fold(
            "editors still start servers themselves",
            format!("{host} ({})", own.join(", ")),
            "switchboard import --remove",
        ));
    }
    findings
}

//! Removes imported servers from the editors' files: only where Switchboard is set up, and only what answered.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use switchboard_definitions::document::Problem;
use switchboard_hosts::Host;
use switchboard_hosts::machine::Machine;
use switchboard_hosts::record::HostFileRecords;
use switchboard_hosts::setup::{ServerKey, plan_removal, take_out};
use switchboard_hosts::survey::file_state;
use switchboard_hosts::table::HOSTS;
use switchboard_wire::printable;
use switchboard_wire::visible::visible;

use super::ImportResult;
use crate::learn::LearnedServer;
use crate::output::{Paint, Tone, say};
use crate::prompt;
use crate::setup::SetupRun;

pub(super) struct Removal<'a> {
    pub(super) machine: &'a Machine,
    pub(super) state: &'a Path,
    /// Definitions that could not be written.
    pub(super) failed: &'a BTreeSet<String>,
    /// What happened when the servers were started; `None`: they were not.
    pub(super) learned: Option<&'a [LearnedServer]>,
}

/// A server that stays in an editor's file.
pub(super) struct KeptServer {
    host: &'static Host,
    file: PathBuf,
    name: String,
    why: String,
}

/// The servers of one file: the definition that stands for each, and its place there.
struct FileServers<'a> {
    file: &'a Path,
    host: &'static Host,
    servers: Vec<(&'a str, ServerKey)>,
}

impl Removal<'_> {
    /// Returns what stays although it was imported.
    pub(super) fn run(&self, setup_run: &mut SetupRun, results: &[ImportResult]) -> Vec<KeptServer> {
        let mut kept = Vec::new();
        for FileServers { file, host, servers } in self.files(results) {
            let keep = |name: &str, why: String| KeptServer {
                host,
                file: file.to_owned(),
                name: name.to_owned(),
                why,
            };
            let is_set_up = self.is_set_up(host, file);
            if !is_set_up && !setup_run.as_json {
                let what = Paint::for_stdout().on(Tone::Warning, "its servers stay there");
                say!(
                    "{}: {what}: it does not start Switchboard; `switchboard setup --host {}` adds it ({})",
                    host.name,
                    host.id,
                    visible(&file.display().to_string())
                );
            }
            let mut going = Vec::new();
            for (name, key) in servers {
                let why = match is_set_up {
                    true => self.fault(name),
                    false => Some("the editor does not start Switchboard".to_owned()),
                };
                match why {
                    None => going.push(key),
                    Some(why) if is_set_up && !setup_run.as_json => {
                        say!(
                            "{} stays in {}: {}",
                            visible(&key.1),
                            host.name,
                            Paint::for_stdout().on(Tone::Warning, &why)
                        );
                        match !setup_run.yes && confirmed(host, &key.1) {
                            true => going.push(key),
                            false => kept.push(keep(&key.1, why)),
                        }
                    }
                    Some(why) => kept.push(keep(&key.1, why)),
                }
            }
            if going.is_empty() {
                continue;
            }
            setup_run.one(host, file, plan_removal(host, file, &going), || {
                let records = HostFileRecords::open(self.state)
                    .map_err(|error| Problem::of(self.state, error.to_string()))?;
                take_out(&records, host, file, &going)
            });
        }
        kept
    }

    fn files<'a>(&self, results: &'a [ImportResult]) -> Vec<FileServers<'a>> {
        let mut files: Vec<FileServers<'a>> = Vec::new();
        for result in results {
            let Some(name) = result.outcome.name().filter(|name| !self.failed.contains(*name)) else {
                continue;
            };
            let server = (name, (result.entry.project.clone(), result.entry.name.clone()));
            match files.iter_mut().find(|known| known.file == result.file) {
                Some(known) => known.servers.push(server),
                None => {
                    files.push(FileServers { file: &result.file, host: result.host, servers: vec![server] });
                }
            }
        }
        // A project's servers come last in the results; editors have one order everywhere.
        files.sort_by_key(|known| HOSTS.iter().position(|host| host.id == known.host.id));
        files
    }

    /// Whether an editor that reads this file starts Switchboard.
    fn is_set_up(&self, host: &Host, file: &Path) -> bool {
        let starts = |file: &Path| {
            let entry = file_state(host, file).ok().and_then(|state| state.switchboard);
            entry.is_some_and(|entry| entry.exists && !entry.is_off)
        };
        // An older file of the same editor gets no entry.
        let targets = self.machine.targets(host);
        starts(file)
            || !targets.iter().any(|target| target == file) && targets.iter().any(|target| starts(target))
    }

    /// Why it is not known that this server works; `None` if it answered, or was not to be started.
    fn fault(&self, name: &str) -> Option<String> {
        let learned = self.learned?;
        match learned.iter().find(|server| server.name() == name) {
            Some(server) => server.fault(),
            None => Some("it was not started, because its project is gone".to_owned()),
        }
    }
}

fn confirmed(host: &Host, name: &str) -> bool {
    std::io::stdin().is_terminal()
        && prompt::yes(&printable!("remove {} from {} anyway? [y/N] ", visible(name), host.name))
}

impl KeptServer {
    pub(super) fn as_json(&self) -> Value {
        json!({ "host": self.host.id, "file": self.file, "name": self.name, "why": self.why })
    }
}

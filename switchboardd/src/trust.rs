//! Who may be started: a person's own definitions, and what a person has allowed.
//!
//! A workspace's definition is held until somebody allows exactly what it would execute. What was allowed
//! is kept, so that a changed file leaves the last allowed version serving. Nothing here reads a workspace.

mod store;
pub mod view;
mod warnings;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use store::{Store, StoreError};
pub use warnings::{container_id_file, secrets_in_arguments, unpinned};

use crate::definition::{Definition, Reach};

/// Where a definition comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provenance {
    /// The person's own config.
    Personal,
    /// The person's own config, but others can write it; and how.
    Exposed(String),
    Workspace,
}

/// What a person has said about one entry of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub verdict: Verdict,
    /// When, and how it was said.
    pub at: String,
    pub by: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// This version, with the program that was found for it.
    Allow(Box<Reach>),
    /// No version.
    Deny,
}

/// Everything that has been said, by file and name.
pub type Records = BTreeMap<PathBuf, BTreeMap<String, Record>>;

/// What decides, at one moment.
#[derive(Debug, Default)]
pub struct Trust {
    pub records: Records,
    /// Directories in which everything is allowed, as they really are.
    pub roots: Vec<PathBuf>,
}

/// How a definition stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Allowed,
    /// The version that was allowed serves on; this one waits.
    Outdated {
        waiting: Box<Reach>,
    },
    /// Nothing of it runs.
    Held,
    /// A person does not want it.
    Denied,
}

impl Trust {
    /// How a definition stands, with what may be executed for it in place of what its file says.
    pub fn judge(&self, mut definition: Definition, provenance: &Provenance) -> (Definition, Standing) {
        if *provenance == Provenance::Personal {
            return (definition, Standing::Allowed);
        }
        let record = self.records.get(&definition.file).and_then(|names| names.get(&definition.name));
        let denied = record.is_some_and(|record| record.verdict == Verdict::Deny);
        if !denied && self.roots.iter().any(|root| definition.file.starts_with(root)) {
            return (definition, Standing::Allowed);
        }
        let standing = match (record.map(|record| &record.verdict), &definition.reach) {
            (Some(Verdict::Deny), _) => Standing::Denied,
            // An update that makes no sense is none: nobody can be asked about it.
            (Some(Verdict::Allow(allowed)), _) => {
                match std::mem::replace(&mut definition.reach, Ok((**allowed).clone())) {
                    Ok(waiting) if waiting.digest() != allowed.digest() => {
                        Standing::Outdated { waiting: Box::new(waiting) }
                    }
                    _ => Standing::Allowed,
                }
            }
            _ => Standing::Held,
        };
        (definition, standing)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::definition::Launch;
    use crate::expand::Template;

    fn definition(cmd: &str) -> Definition {
        let launch = Launch { cmd: Template::text(cmd), ..Launch::default() };
        Definition {
            name: "x".to_owned(),
            description: Some("d".to_owned()),
            reach: Ok(Reach::Process(launch)),
            timeout: None,
            file: "/w/mcps/x/.mcp.json".into(),
            at: None,
            unclear_in: None,
        }
    }

    fn said(verdict: Verdict) -> Trust {
        let record = Record { verdict, at: String::new(), by: String::new() };
        let names = BTreeMap::from([("x".to_owned(), record)]);
        Trust { records: [("/w/mcps/x/.mcp.json".into(), names)].into(), roots: Vec::new() }
    }

    fn allowed(cmd: &str) -> Trust {
        let Ok(Reach::Process(launch)) = definition(cmd).reach else { unreachable!() };
        let pinned = Launch { program: Some("/bin/found".into()), ..launch };
        said(Verdict::Allow(Box::new(Reach::Process(pinned))))
    }

    #[track_caller]
    fn check(trust: &Trust, cmd: &str, provenance: &Provenance, expect: &Standing) -> Definition {
        let (definition, standing) = trust.judge(definition(cmd), provenance);
        assert_eq!(&standing, expect);
        definition
    }

    #[test]
    fn a_workspace_is_held_until_this_version_is_allowed() {
        let nothing = Trust::default();
        check(&nothing, "a", &Provenance::Personal, &Standing::Allowed);
        check(&nothing, "a", &Provenance::Workspace, &Standing::Held);
        check(&nothing, "a", &Provenance::Exposed("x".to_owned()), &Standing::Held);
        let runs = check(&allowed("a"), "a", &Provenance::Workspace, &Standing::Allowed);
        assert_eq!(runs.launch().unwrap().program.as_deref(), Some(Path::new("/bin/found")));
        check(&said(Verdict::Deny), "a", &Provenance::Workspace, &Standing::Denied);
        check(&said(Verdict::Deny), "a", &Provenance::Personal, &Standing::Allowed);
    }

    #[test]
    fn a_changed_version_waits_and_the_allowed_one_serves() {
        let waiting = Box::new(definition("b").reach.unwrap());
        let runs = check(&allowed("a"), "b", &Provenance::Workspace, &Standing::Outdated { waiting });
        assert_eq!(runs.launch().unwrap().cmd, Template::text("a"));
        let broken = Definition { reach: Err("no command".to_owned()), ..definition("a") };
        let (runs, standing) = allowed("a").judge(broken, &Provenance::Workspace);
        assert_eq!(standing, Standing::Allowed);
        assert_eq!(runs.launch().unwrap().cmd, Template::text("a"));
    }

    #[test]
    fn names_and_files_are_not_interchangeable() {
        let trust = allowed("a");
        let other = Definition { name: "y".to_owned(), ..definition("a") };
        assert_eq!(trust.judge(other, &Provenance::Workspace).1, Standing::Held);
        let other = Definition { file: "/v/mcps/x/.mcp.json".into(), ..definition("a") };
        assert_eq!(trust.judge(other, &Provenance::Workspace).1, Standing::Held);
    }

    #[test]
    fn what_is_not_executed_never_asks_again() {
        let edited = Definition {
            description: None,
            timeout: Some(std::time::Duration::from_secs(1)),
            ..definition("a")
        };
        assert_eq!(allowed("a").judge(edited, &Provenance::Workspace).1, Standing::Allowed);
    }

    #[test]
    fn a_trusted_root_is_a_directory_not_a_beginning_of_names() {
        let roots = |root: &str| Trust { roots: vec![root.into()], ..Trust::default() };
        check(&roots("/w"), "a", &Provenance::Workspace, &Standing::Allowed);
        check(&roots("/w/mc"), "a", &Provenance::Workspace, &Standing::Held);
        // What a person said of one server weighs more than what they said of all.
        let but_one = Trust { roots: vec!["/w".into()], ..said(Verdict::Deny) };
        check(&but_one, "a", &Provenance::Workspace, &Standing::Denied);
    }
}

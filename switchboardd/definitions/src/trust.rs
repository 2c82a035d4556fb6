//! Decides what may be started: the user's own definitions, and what the user has allowed.
//!
//! A workspace's definition is held until the user allows exactly what it would execute. The allowed version
//! is stored, so that it keeps serving when the file changes. Nothing here reads a workspace.

mod judged;
mod project_files;
mod store;
pub mod view;
pub mod warnings;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use judged::{JudgedDefinition, JudgedSettings};
pub use project_files::project_files;
pub use store::{TrustStore, TrustStoreError};
pub use warnings::{DIRECTORY_OUTSIDE, container_id_file, secrets_in_arguments, unpinned};

use crate::config::Restrictions;
use crate::definition::{Definition, Launch};
use crate::own_limits::OwnLimits;

/// Where a definition comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provenance {
    /// The user's own config.
    Personal,
    /// The user's own config, but others can write it; says how.
    WritableByOthers(String),
    Workspace,
}

/// The user's decision on one entry of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustRecord {
    pub verdict: Decision,
    /// What the project's settings of the server forbade when it was allowed.
    #[serde(default, skip_serializing_if = "Restrictions::is_default")]
    pub restrictions: Restrictions,
    /// When, and through which interface.
    pub at: String,
    pub by: String,
    /// The limits on its tools that were shown.
    #[serde(default, skip_serializing_if = "OwnLimits::is_open")]
    pub limits: OwnLimits,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// Allows this version, with the program that was found for it.
    Allow(Box<Launch>),
    /// Denies every version.
    Deny,
}

/// All decisions, by file and name.
pub type TrustRecords = BTreeMap<PathBuf, BTreeMap<String, TrustRecord>>;

/// The basis of all judgements at one moment.
#[derive(Debug, Default)]
pub struct Trust {
    pub records: TrustRecords,
    /// Directories in which everything is allowed, as real paths.
    pub roots: Vec<PathBuf>,
}

/// The trust status of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustStatus {
    Allowed,
    /// The allowed version keeps serving; the current one awaits approval.
    Outdated {
        pending: Box<Launch>,
        /// The limits on its tools with the version that awaits approval.
        limits: OwnLimits,
    },
    /// Nothing of it runs.
    Held,
    /// The user denied it.
    Denied,
}

impl TrustStatus {
    /// The limits on tools that come with the version that awaits approval, if one does.
    pub fn pending_limits<'a>(&'a self, definition: &'a Definition) -> &'a OwnLimits {
        match self {
            Self::Outdated { limits, .. } => limits,
            _ => &definition.limits,
        }
    }
}

impl Trust {
    /// Judges a definition, and replaces its launch by the allowed version.
    pub fn judge(
        &self,
        mut definition: Arc<Definition>,
        provenance: &Provenance,
    ) -> (Arc<Definition>, TrustStatus) {
        if *provenance == Provenance::Personal {
            return (definition, TrustStatus::Allowed);
        }
        let record = self.records.get(&definition.file).and_then(|names| names.get(&definition.name));
        let denied = record.is_some_and(|record| record.verdict == Decision::Deny);
        if !denied && self.is_in_root(&definition) {
            return (definition, TrustStatus::Allowed);
        }
        let trust_status = match record.map(|record| (&record.verdict, &record.limits)) {
            Some((Decision::Deny, _)) => TrustStatus::Denied,
            // A broken update does not count: there is nothing to approve.
            Some((Decision::Allow(allowed), allowed_limits)) => {
                let own = Arc::make_mut(&mut definition);
                let limits = own.limits.clone();
                // Stricter limits need no approval.
                let is_looser = limits.is_looser_than(allowed_limits);
                if is_looser {
                    own.limits = allowed_limits.clone();
                }
                match std::mem::replace(&mut own.launch, Ok((**allowed).clone())) {
                    Ok(waiting) if is_looser || waiting.digest() != allowed.digest() => {
                        TrustStatus::Outdated { pending: Box::new(waiting), limits }
                    }
                    _ => TrustStatus::Allowed,
                }
            }
            None => TrustStatus::Held,
        };
        (definition, trust_status)
    }
}

impl Trust {
    /// Judges what a project's settings forbid. If they forbid less than what the user allowed, both hold, and the
    /// server waits for the user.
    pub fn judge_settings(
        &self,
        definition: &Definition,
        provenance: &Provenance,
        trust_status: TrustStatus,
        wanted: Restrictions,
    ) -> (TrustStatus, JudgedSettings) {
        let record = self.records.get(&definition.file).and_then(|names| names.get(&definition.name));
        let allowed = record
            .filter(|record| {
                *provenance == Provenance::Workspace && matches!(record.verdict, Decision::Allow(_))
            })
            .filter(|_| !self.is_in_root(definition))
            .map(|record| record.restrictions.clone());
        let in_force = allowed.as_ref().map_or_else(|| wanted.clone(), |allowed| wanted.and(allowed));
        let settings = JudgedSettings { in_force, wanted, allowed };
        let trust_status = match (trust_status, &definition.launch) {
            (TrustStatus::Allowed, Ok(launch)) if settings.wait() => {
                TrustStatus::Outdated { pending: Box::new(launch.clone()), limits: definition.limits.clone() }
            }
            (trust_status, _) => trust_status,
        };
        (trust_status, settings)
    }

    fn is_in_root(&self, definition: &Definition) -> bool {
        self.roots.iter().any(|root| definition.file.starts_with(root))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Split;
    use crate::definition::LaunchCommand;
    use crate::expand::Template;

    fn definition(cmd: &str) -> Definition {
        let launch = LaunchCommand { cmd: Template::text(cmd), ..LaunchCommand::default() };
        Definition {
            name: "x".to_owned(),
            description: Some("d".to_owned()),
            launch: Ok(Launch::Process(launch)),
            timeout: None,
            file: "/w/mcps/x/.mcp.json".into(),
            at: None,
            unclear_in: None,
            limits: Default::default(),
        }
    }

    fn said(verdict: Decision) -> Trust {
        let (restrictions, limits) = (Restrictions::default(), OwnLimits::default());
        let record = TrustRecord { verdict, restrictions, limits, at: String::new(), by: String::new() };
        let names = BTreeMap::from([("x".to_owned(), record)]);
        Trust { records: [("/w/mcps/x/.mcp.json".into(), names)].into(), roots: Vec::new() }
    }

    fn allowed(cmd: &str) -> Trust {
        let Ok(Launch::Process(launch)) = definition(cmd).launch else { unreachable!() };
        let pinned = LaunchCommand { program: Some("/bin/found".into()), ..launch };
        said(Decision::Allow(Box::new(Launch::Process(pinned))))
    }

    #[track_caller]
    fn check(trust: &Trust, cmd: &str, provenance: &Provenance, expect: &TrustStatus) -> Arc<Definition> {
        let (definition, trust_status) = trust.judge(Arc::new(definition(cmd)), provenance);
        assert_eq!(&trust_status, expect);
        definition
    }

    #[test]
    fn a_workspace_is_held_until_this_version_is_allowed() {
        let nothing = Trust::default();
        check(&nothing, "a", &Provenance::Personal, &TrustStatus::Allowed);
        check(&nothing, "a", &Provenance::Workspace, &TrustStatus::Held);
        check(&nothing, "a", &Provenance::WritableByOthers("x".to_owned()), &TrustStatus::Held);
        let runs = check(&allowed("a"), "a", &Provenance::Workspace, &TrustStatus::Allowed);
        assert_eq!(runs.command().unwrap().program.as_deref(), Some(Path::new("/bin/found")));
        check(&said(Decision::Deny), "a", &Provenance::Workspace, &TrustStatus::Denied);
        check(&said(Decision::Deny), "a", &Provenance::Personal, &TrustStatus::Allowed);
    }

    #[test]
    fn a_changed_version_waits_and_the_allowed_one_serves() {
        let waiting = Box::new(definition("b").launch.unwrap());
        let runs = check(
            &allowed("a"),
            "b",
            &Provenance::Workspace,
            &TrustStatus::Outdated { pending: waiting, limits: OwnLimits::default() },
        );
        assert_eq!(runs.command().unwrap().cmd, Template::text("a"));
        let broken = Definition { launch: Err("no command".to_owned()), ..definition("a") };
        let (runs, trust_status) = allowed("a").judge(Arc::new(broken), &Provenance::Workspace);
        assert_eq!(trust_status, TrustStatus::Allowed);
        assert_eq!(runs.command().unwrap().cmd, Template::text("a"));
    }

    #[test]
    fn names_and_files_are_not_interchangeable() {
        let trust = allowed("a");
        let other = Definition { name: "y".to_owned(), ..definition("a") };
        assert_eq!(trust.judge(Arc::new(other), &Provenance::Workspace).1, TrustStatus::Held);
        let other = Definition { file: "/v/mcps/x/.mcp.json".into(), ..definition("a") };
        assert_eq!(trust.judge(Arc::new(other), &Provenance::Workspace).1, TrustStatus::Held);
    }

    #[test]
    fn what_is_not_executed_never_asks_again() {
        let edited = Definition {
            description: None,
            timeout: Some(std::time::Duration::from_secs(1)),
            ..definition("a")
        };
        assert_eq!(allowed("a").judge(Arc::new(edited), &Provenance::Workspace).1, TrustStatus::Allowed);
    }

    #[test]
    fn a_trusted_root_is_a_directory_not_a_name_prefix() {
        let roots = |root: &str| Trust { roots: vec![root.into()], ..Trust::default() };
        check(&roots("/w"), "a", &Provenance::Workspace, &TrustStatus::Allowed);
        check(&roots("/w/mc"), "a", &Provenance::Workspace, &TrustStatus::Held);
        // A decision on one server takes precedence over a trusted root.
        let but_one = Trust { roots: vec!["/w".into()], ..said(Decision::Deny) };
        check(&but_one, "a", &Provenance::Workspace, &TrustStatus::Denied);
    }

    #[test]
    fn settings_that_forbid_less_wait_and_the_allowed_ones_stay_in_force() {
        let with = |trust: &mut Trust, restrictions: Restrictions| {
            let names = trust.records.values_mut().next().unwrap();
            names.values_mut().next().unwrap().restrictions = restrictions;
        };
        let split = |split| Restrictions { split, ..Restrictions::default() };
        let confirm = Restrictions { confirm: ["rm".to_owned()].into(), ..Restrictions::default() };
        let cases = [
            (split(Split::Auto), split(Split::Never), true),
            (split(Split::Never), split(Split::Never), false),
            (split(Split::Auto), split(Split::Always), false),
            (confirm.clone(), Restrictions::default(), true),
            (Restrictions::default(), confirm, false),
        ];
        for (allowed_then, wanted, waits) in cases {
            let mut trust = allowed("a");
            with(&mut trust, allowed_then.clone());
            let (judged, trust_status) = trust.judge(Arc::new(definition("a")), &Provenance::Workspace);
            let judge = |trust: &Trust, provenance| {
                trust.judge_settings(&judged, &provenance, trust_status.clone(), wanted.clone())
            };
            let (judged_status, settings) = judge(&trust, Provenance::Workspace);
            assert_eq!(matches!(judged_status, TrustStatus::Outdated { .. }), waits, "{wanted:?}");
            assert!(!settings.in_force.loosens(&allowed_then) && !settings.in_force.loosens(&wanted));
            assert_eq!(judge(&trust, Provenance::Personal).1.in_force, wanted);
            let everything = Trust { roots: vec!["/w".into()], ..trust };
            assert_eq!(judge(&everything, Provenance::Workspace).1.in_force, wanted);
        }
        // Nothing was allowed.
        let (held, trust_status) = Trust::default().judge(Arc::new(definition("a")), &Provenance::Workspace);
        let (_, settings) =
            Trust::default().judge_settings(&held, &Provenance::Workspace, trust_status, split(Split::Never));
        assert_eq!((settings.in_force, settings.allowed), (split(Split::Never), None));
    }
}

//! A definition together with the verdict on it.

use std::sync::Arc;

use super::TrustStatus;
use crate::config::{Restrictions, SuiteConfig};
use crate::definition::{Definition, Launch};
use crate::discover::host_files::HostSet;
use crate::own_limits::OwnLimits;

/// A definition and its trust status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedDefinition {
    /// Shared by all suites that show it.
    pub definition: Arc<Definition>,
    pub trust_status: TrustStatus,
    /// Why a definition of the user's own is held nevertheless.
    pub why_held: Option<String>,
    /// The hosts that read it themselves, from a file of the project.
    pub read_by: HostSet,
    pub settings: JudgedSettings,
    /// The limits on its tools in other files that define the same server.
    pub other_limits: OwnLimits,
}

/// What the settings of a server forbid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JudgedSettings {
    /// What holds.
    pub in_force: Restrictions,
    /// What the configuration says.
    pub wanted: Restrictions,
    /// What it said when the user allowed the server.
    pub allowed: Option<Restrictions>,
}

impl JudgedSettings {
    /// Whether the configuration forbids less than what the user allowed.
    pub fn wait(&self) -> bool {
        self.allowed.as_ref().is_some_and(|allowed| self.wanted.loosens(allowed))
    }

    /// Whether the project's settings, or those that the user allowed of it, ask about a tool.
    pub fn asks_of_project(&self, tool: &str) -> bool {
        let of_project = self.allowed.iter().fold(self.wanted.clone(), |all, allowed| all.and(allowed));
        let mut settings = SuiteConfig::default();
        settings.restrict(&of_project);
        settings.confirm.asks_about(tool, || false)
    }

    /// How the configuration differs from what the user allowed.
    pub fn changes(&self) -> Vec<String> {
        self.allowed.as_ref().map_or_else(Vec::new, |allowed| self.wanted.changes(allowed))
    }
}

impl JudgedDefinition {
    /// The version that awaits the user's approval.
    pub fn pending(&self) -> Option<&Launch> {
        match &self.trust_status {
            TrustStatus::Outdated { pending: waiting, .. } => Some(waiting),
            TrustStatus::Held => self.definition.launch.as_ref().ok(),
            TrustStatus::Allowed | TrustStatus::Denied => None,
        }
    }
}

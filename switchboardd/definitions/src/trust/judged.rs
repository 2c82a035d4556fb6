//! A definition together with the verdict on it.

use std::sync::Arc;

use super::TrustStatus;
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
    /// The limits on its tools in other files that define the same server.
    pub other_limits: OwnLimits,
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

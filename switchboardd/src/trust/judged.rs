//! A definition together with the verdict on it.

use super::TrustStatus;
use crate::definition::{Definition, Launch};

/// A definition and how it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedDefinition {
    pub definition: Definition,
    pub trust_status: TrustStatus,
    /// Why a definition of the person's own is held all the same.
    pub why_held: Option<String>,
}

impl JudgedDefinition {
    /// What waits for a person's word.
    pub fn pending(&self) -> Option<&Launch> {
        match &self.trust_status {
            TrustStatus::Outdated { pending: waiting } => Some(waiting),
            TrustStatus::Held => self.definition.launch.as_ref().ok(),
            TrustStatus::Allowed | TrustStatus::Denied => None,
        }
    }
}

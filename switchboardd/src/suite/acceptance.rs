//! What the user has accepted of one list of tools: processes of one server may list different ones.

use std::sync::Arc;

use switchboard_definitions::drift::Drift;

use super::Suite;
use crate::child::{Annotations, Tool, ToolList};
use crate::pool::Pool;

/// How the tools of one list are judged. It can go to another thread.
#[derive(Debug, Clone)]
pub struct ToolAcceptance {
    comparison: ListComparison,
    pool: Option<Arc<Pool>>,
}

#[derive(Debug, Clone)]
enum ListComparison {
    /// Nothing is compared: everything counts as accepted.
    Off,
    /// It has not been compared yet: nothing counts as accepted.
    Pending,
    Done(Arc<Drift>),
}

impl Suite {
    /// Judges by this list, or by all that are in use, if it has not been compared.
    pub(super) fn acceptance(&self, list: Option<&Arc<ToolList>>) -> ToolAcceptance {
        let comparison = match &self.baseline {
            None => ListComparison::Off,
            Some(baseline) => {
                let drift = list.and_then(|list| baseline.drift_of(list)).or_else(|| baseline.drift());
                drift.map_or(ListComparison::Pending, ListComparison::Done)
            }
        };
        ToolAcceptance { comparison, pool: self.pool.clone() }
    }

    /// The same for the list that is known without starting a child.
    pub(super) fn known_acceptance(&self) -> ToolAcceptance {
        self.acceptance(self.tools_if_known().as_ref())
    }

    /// Judges by the list of a child that may get a call; it is compared now, unless it was.
    pub(super) async fn compared(&self, list: &Arc<ToolList>) -> ToolAcceptance {
        let comparison = match &self.baseline {
            None => ListComparison::Off,
            Some(baseline) => ListComparison::Done(match baseline.drift_of(list) {
                Some(known) => known,
                None => baseline.compare(list, self.server_info().as_ref()).await,
            }),
        };
        ToolAcceptance { comparison, pool: self.pool.clone() }
    }

    /// Whether a subtool counts as read-only, as far as is known without starting a child.
    pub fn accepted_read_only(&self, tool: &Tool) -> bool {
        self.known_acceptance().reads(tool)
    }
}

impl ToolAcceptance {
    /// Whether a subtool counts as read-only: it says so, the user accepted that, and it never said otherwise while this
    /// daemon ran. A server must not move a tool to what a user has already allowed.
    pub(super) fn reads(&self, tool: &Tool) -> bool {
        let is_accepted = match &self.comparison {
            ListComparison::Off => true,
            ListComparison::Pending => false,
            ListComparison::Done(drift) => drift.read_only.contains(&tool.name),
        };
        is_accepted
            && tool.annotations.read_only == Some(true)
            && self.pool.as_ref().is_some_and(|pool| !pool.has_seen_writing(&tool.name))
    }

    /// The annotations of a subtool, as far as they are accepted.
    pub(super) fn annotations(&self, tool: &Tool) -> Annotations {
        let read_only = match tool.annotations.read_only {
            Some(true) if !self.reads(tool) => None,
            said => said,
        };
        // Harmless only if the user accepted the tool as it is: `confirm` asks about all others.
        let is_accepted = match &self.comparison {
            ListComparison::Off => true,
            ListComparison::Pending => false,
            ListComparison::Done(drift) => !drift.unaccepted.contains(&tool.name),
        };
        let destructive = match tool.annotations.destructive {
            Some(false) if !is_accepted => None,
            said => said,
        };
        Annotations { read_only, destructive, ..tool.annotations }
    }
}

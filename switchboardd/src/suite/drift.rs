//! Tools that are not as the user accepted them: with `trust.drift: "hold"` they are neither shown nor called, on no
//! face. The model reads only names that the user has accepted before, and no other text of such a tool.

use std::collections::HashSet;
use std::sync::Arc;

use switchboard_definitions::drift::Drift;
use switchboard_wire::envelope::quoted;
use switchboard_wire::event_loop::run_blocking;
use tokio::time::Instant;

use super::Suite;
use crate::child::{Tool, ToolList};
use crate::pool::Lease;
use crate::pool::baseline::ToolBaseline;
use crate::suite::failure::Failure;

/// How many held tools a hint names.
const MAX_NAMED: usize = 20;

impl Suite {
    pub fn with_baseline(self, baseline: Arc<ToolBaseline>) -> Self {
        if let Some(pool) = &self.pool {
            pool.compare_with(&baseline);
        }
        Self { baseline: Some(baseline), ..self }
    }

    /// Whether tools that are not accepted are refused.
    pub fn holds_changes(&self) -> bool {
        self.baseline.as_ref().is_some_and(|baseline| baseline.holds())
    }

    /// Whether a tool may be shown: exposed, and not held as far as is known.
    pub fn shows(&self, tool: &str) -> bool {
        self.settings.expose.permits(tool)
            && !self.baseline.as_ref().is_some_and(|baseline| baseline.is_held(tool))
    }

    /// The same for a tool of this list: another process of the server may list another one.
    pub fn shows_of(&self, list: &Arc<ToolList>, tool: &str) -> bool {
        match self.known_drift_of(list) {
            Some(drift) => self.settings.expose.permits(tool) && !drift.unaccepted.contains(tool),
            None => self.shows(tool),
        }
    }

    /// The outcome of all lists that are in use, if tools are held.
    fn known_drift(&self) -> Option<Arc<Drift>> {
        self.baseline.as_ref().filter(|baseline| baseline.holds())?.drift()
    }

    /// What is held of this list, as far as is known.
    pub(super) fn held_if_known(&self, list: &Arc<ToolList>) -> Option<Arc<Drift>> {
        self.known_drift_of(list).or_else(|| self.known_drift())
    }

    /// Whether a list has been compared, if changes are held.
    pub(super) fn is_compared(&self) -> bool {
        self.baseline.as_ref().is_none_or(|baseline| !baseline.holds() || baseline.drift().is_some())
    }

    /// The outcome for this very list, if changes are held and it has been compared.
    pub(super) fn known_drift_of(&self, list: &Arc<ToolList>) -> Option<Arc<Drift>> {
        self.baseline.as_ref().filter(|baseline| baseline.holds())?.drift_of(list)
    }

    /// What is held of this list; `None` if nothing is ever held.
    pub async fn held_drift(&self, list: &Arc<ToolList>) -> Option<Arc<Drift>> {
        let baseline = self.baseline.as_ref().filter(|baseline| baseline.holds())?;
        Some(baseline.compare(list, self.server_info().as_ref()).await)
    }

    pub(super) async fn refuses(&self, list: &Arc<ToolList>, tool: &str) -> bool {
        self.held_drift(list).await.is_some_and(|drift| drift.unaccepted.contains(tool))
    }

    /// Refuses a call to a tool that is not accepted, by the list of the child that would run it.
    pub(super) async fn refuse_changed(
        &self,
        lease: &Lease,
        subtool: &str,
        asked: Instant,
    ) -> Result<(), Failure> {
        if !self.holds_changes() {
            return Ok(());
        }
        let failed = |error| self.failed(Some(subtool), error);
        let mut list = lease.tools(self.limits, asked).await.map_err(failed)?;
        if list.find(subtool).is_none() {
            list = lease.renew_tools(self.limits).await.map_err(failed)?;
        }
        // A tool that is in no list cannot have been accepted.
        let refused = list.find(subtool).is_none() || self.refuses(&list, subtool).await;
        if refused { Err(self.held_tool(subtool)) } else { Ok(()) }
    }

    pub(super) fn held_tool(&self, subtool: &str) -> Failure {
        Failure::ToolHeld { child: self.child_name().to_owned(), subtool: subtool.to_owned() }
    }

    /// Adds to an introspection that tools are held. Names are not a server's to choose here: those of new tools are
    /// counted only.
    pub(super) fn with_held_hint(&self, text: String, all: &Arc<ToolList>, shown: &ToolList) -> String {
        let held = all.tools.len() - shown.tools.len();
        if held == 0 {
            return text;
        }
        let known = self.held_if_known(all);
        let seen: HashSet<&str> = shown.tools.iter().map(|tool| &*tool.name).collect();
        let is_new = |tool: &Tool| known.as_ref().is_none_or(|drift| drift.added.contains(&tool.name));
        let named: Vec<String> = all
            .tools
            .iter()
            .filter(|tool| {
                !seen.contains(&*tool.name) && self.settings.expose.permits(&tool.name) && !is_new(tool)
            })
            .take(MAX_NAMED)
            .map(|tool| format!("`{}`", tool.name))
            .collect();
        let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
        let hint = format!(
            "{held} subtools{named} are held by Switchboard, because the server changed or added them; the user can look at them and accept them with `switchboard allow {}`",
            self.child_name()
        );
        match text.strip_suffix('}').filter(|_| text.starts_with('{')) {
            Some(open) => format!(r#"{open},"held":{}}}"#, quoted(&hint)),
            None => format!("{text}\n{hint}"),
        }
    }
}

/// The list without what is held.
pub(super) fn without_held(list: &Arc<ToolList>, drift: Option<&Drift>) -> Arc<ToolList> {
    match drift.filter(|drift| !drift.unaccepted.is_empty()) {
        None => list.clone(),
        Some(drift) => {
            let accepted = |tool: &&Tool| !drift.unaccepted.contains(&tool.name);
            Arc::new(list.tools.iter().filter(accepted).cloned().collect::<Vec<_>>().into())
        }
    }
}

/// The list without what is held. If it is long, another thread makes it.
pub(super) async fn without_held_async(list: &Arc<ToolList>, drift: Option<Arc<Drift>>) -> Arc<ToolList> {
    match drift.filter(|drift| !drift.unaccepted.is_empty()) {
        None => list.clone(),
        Some(drift) if list.is_large() => {
            let list = list.clone();
            run_blocking(move || without_held(&list, Some(&drift))).await
        }
        Some(drift) => without_held(list, Some(&drift)),
    }
}

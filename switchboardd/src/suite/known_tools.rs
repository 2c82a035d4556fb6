//! What is known about a server's tools, from a running child or its manifest.

use std::sync::Arc;

use switchboard_definitions::config::Scope;
use tokio::time::Instant;

use super::failure::Failure;
use super::{CallContext, Suite};
use crate::child::{ServerInfo, ToolList};
use crate::pool::PoolStatus;
use crate::pool::manifest::Manifest;

impl Suite {
    /// The server info of the running child, or of the last one that ran; without its words while it is held.
    pub fn server_info(&self) -> Option<ServerInfo> {
        let pool = self.pool.as_ref()?;
        match pool.running().first() {
            Some(child) => Some(child.server_info().clone()),
            None => {
                let known = pool.manifest()?;
                let shown = &known.server_info;
                Some(if self.may_be_shown() { shown.clone() } else { shown.without_words(self.child_name()) })
            }
        }
    }

    /// What the last child said, if a host may read it: not while the server or its program is held.
    pub fn shown_manifest(&self) -> Option<Arc<Manifest>> {
        self.manifest().filter(|_| self.may_be_shown())
    }

    /// What is known about the child without starting it.
    pub fn manifest(&self) -> Option<Arc<Manifest>> {
        self.pool.as_ref().and_then(|pool| pool.manifest())
    }

    /// The tools, without starting a child: those of a running child, else those of the manifest.
    pub fn tools_if_known(&self) -> Option<Arc<ToolList>> {
        let pool = self.pool.as_ref()?;
        let running = pool.running().iter().find_map(|child| child.known_tools());
        running.or_else(|| self.shown_manifest().map(|manifest| manifest.tools.clone()))
    }

    /// The tools of the running child. If none runs but a manifest exists, returns its tools and starts a
    /// child in the background for the call that is likely to follow.
    pub(super) async fn known_tools(&self, call: CallContext<'_>) -> Result<Arc<ToolList>, Failure> {
        let pool = self.pool()?;
        // With session scope, reading another session's child does not count as use.
        let shares = pool.settings().scope != Scope::Session;
        if let Some(known) = pool.running().iter().find_map(|child| child.known_tools()) {
            if shares {
                pool.note_use(call.caller, true);
            }
            return Ok(known);
        }
        // If its program is held, the lease says so.
        if let Some(manifest) = self.shown_manifest() {
            // What a manifest answers uses no child: the session has not waited for one, and has none that could be gone.
            if shares && pool.status() == PoolStatus::Ready {
                pool.note_use(call.caller, true);
            }
            pool.warm_up(self.limits);
            return Ok(manifest.tools.clone());
        }
        let lease = self.lease(call).await?;
        lease.tools(self.limits, Instant::now()).await.map_err(|error| self.failed(call.tool, error))
    }

    /// Whether the child is known to have this tool.
    pub fn has_tool(&self, name: &str) -> bool {
        let Some(pool) = &self.pool else { return false };
        let has = |list: &ToolList| list.find(name).is_some();
        pool.running().iter().any(|child| child.known_tools().is_some_and(|list| has(&list)))
            || pool.manifest().is_some_and(|manifest| has(&manifest.tools))
    }
}

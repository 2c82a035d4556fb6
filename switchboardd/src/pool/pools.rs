//! All pools: one for each launch and scope, whichever catalogs contain it; with scope `workspace`, one for each
//! workspace.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use switchboard_definitions::config::Scope;
use switchboard_definitions::definition::SharedLaunch;

use super::{ChildServices, Pool, PoolSettings, WorkspaceOf};

#[derive(Debug, Default)]
pub struct Pools {
    // A leaf lock: held for a lookup, an insert or a sweep.
    known: Mutex<HashMap<PoolKey, PoolEntry>>,
}

/// The launch, the scope and, with scope `workspace`, the workspace.
type PoolKey = (SharedLaunch, Scope, Option<PathBuf>);

#[derive(Debug)]
struct PoolEntry {
    pool: Arc<Pool>,
    /// The workspace whose settings it has; `None` for the user's own.
    owner: Option<PathBuf>,
}

impl Pools {
    /// The pool of this launch, with these settings. A workspace's settings do not apply to the
    /// pool of another owner.
    pub fn get(
        &self,
        name: &str,
        launch: &SharedLaunch,
        settings: PoolSettings,
        owner: Option<&Path>,
        workspace: Option<&Path>,
        services: &ChildServices,
    ) -> Arc<Pool> {
        if settings.scope != Scope::Workspace {
            return self.get_one(
                (launch.clone(), settings.scope, None),
                name,
                settings,
                owner,
                None,
                services,
            );
        }
        // The user's own server has a pool without a workspace: it starts nothing, and keeps what the server said
        // in any workspace.
        let mut template = None;
        if owner.is_none() {
            let cold = PoolSettings { warm: 0, ..settings };
            let key = (launch.clone(), settings.scope, None);
            template = Some(self.get_one(key, name, cold, None, None, services));
        }
        match (workspace, template) {
            (None, Some(template)) => template,
            (workspace, template) => {
                let bound = workspace.map_or_else(|| launch.clone(), |root| launch.in_workspace(root));
                let key = (bound, settings.scope, workspace.map(ToOwned::to_owned));
                self.get_one(key, name, settings, owner, template, services)
            }
        }
    }

    fn get_one(
        &self,
        key: PoolKey,
        name: &str,
        settings: PoolSettings,
        owner: Option<&Path>,
        template: Option<Arc<Pool>>,
        services: &ChildServices,
    ) -> Arc<Pool> {
        let mut known = self.lock();
        let (launch, workspace) = (key.0.clone(), key.2.clone());
        let entry = known.entry(key).or_insert_with(|| PoolEntry {
            pool: Pool::new(
                name,
                launch,
                settings,
                WorkspaceOf { root: workspace, template },
                services.clone(),
            ),
            owner: owner.map(ToOwned::to_owned),
        });
        if owner.is_none() || entry.owner.as_deref() == owner {
            entry.owner = owner.map(ToOwned::to_owned);
            if entry.pool.settings() != settings {
                entry.pool.reconfigure(settings);
            }
        }
        entry.pool.clone()
    }

    pub fn all(&self) -> Vec<Arc<Pool>> {
        self.lock().values().map(|known| known.pool.clone()).collect()
    }

    /// Removes the pools that are no longer wanted, and returns them.
    pub fn sweep(&self, wanted: impl Fn(&Arc<Pool>) -> bool) -> Vec<Arc<Pool>> {
        let mut gone = Vec::new();
        self.lock().retain(|_, known| {
            let keep = wanted(&known.pool);
            if !keep {
                gone.push(known.pool.clone());
            }
            keep
        });
        gone
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PoolKey, PoolEntry>> {
        self.known.lock().expect("BUG: pool bookkeeping panicked")
    }
}

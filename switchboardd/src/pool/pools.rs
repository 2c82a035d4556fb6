//! All pools: one for each launch and scope, whichever catalogs contain it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use switchboard_definitions::config::Scope;
use switchboard_definitions::definition::SharedLaunch;

use super::{ChildServices, Pool, PoolSettings};

#[derive(Debug, Default)]
pub struct Pools {
    // A leaf lock: held for a lookup, an insert or a sweep.
    known: Mutex<HashMap<(SharedLaunch, Scope), PoolEntry>>,
}

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
        services: &ChildServices,
    ) -> Arc<Pool> {
        let mut known = self.lock();
        let entry = known.entry((launch.clone(), settings.scope)).or_insert_with(|| PoolEntry {
            pool: Pool::new(name, launch.clone(), settings, services.clone()),
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

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(SharedLaunch, Scope), PoolEntry>> {
        self.known.lock().expect("BUG: pool bookkeeping panicked")
    }
}

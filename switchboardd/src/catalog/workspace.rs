//! The directories that sessions belong to, each with the catalog that its sessions see.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use switchboard_definitions::discover::LastGoodDefinitions;
use tokio::time::Instant;

use crate::catalog::Catalog;

#[derive(Debug)]
pub struct Workspace {
    /// `None` for callers without a workspace: they see only the user's own servers.
    pub root: Option<PathBuf>,
    // Read-mostly: a reload replaces it as a whole, everybody else clones it.
    catalog: RwLock<Arc<Catalog>>,
    /// The last valid content of its files. Locked by the reload that reads them.
    pub memory: Mutex<LastGoodDefinitions>,
    // A leaf lock: held to copy or replace the time.
    last_used: Mutex<Instant>,
}

impl Workspace {
    pub fn new(root: Option<PathBuf>, catalog: Catalog, memory: LastGoodDefinitions) -> Arc<Self> {
        Arc::new(Self {
            root,
            catalog: RwLock::new(Arc::new(catalog)),
            memory: Mutex::new(memory),
            last_used: Mutex::new(Instant::now()),
        })
    }

    #[cfg(test)]
    pub fn empty() -> Arc<Self> {
        let folder = Path::new("/nonexistent");
        let locations = crate::catalog::layer::Locations::new(folder, folder, &[]);
        let config = switchboard_definitions::config::Config::defaults(folder);
        let run_log = crate::child::RunLog::unwritten();
        crate::state::Daemon::new(folder.join("x"), config, locations, String::new(), run_log)
            .workspaces
            .personal
            .clone()
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().expect("BUG: a swap panicked").clone()
    }

    /// Returns the previous catalog.
    pub fn publish(&self, catalog: Catalog) -> Arc<Catalog> {
        let catalog = Arc::new(catalog);
        std::mem::replace(&mut *self.catalog.write().expect("BUG: a swap panicked"), catalog)
    }

    pub fn touch(&self) {
        *self.last_used.lock().expect("BUG: a copy panicked") = Instant::now();
    }

    pub fn last_used(&self) -> Instant {
        *self.last_used.lock().expect("BUG: a copy panicked")
    }
}

/// The workspaces that are loaded, by their root.
#[derive(Debug)]
pub struct Workspaces {
    /// Stands in for the workspace of callers that have none: only the user's own servers.
    pub personal: Arc<Workspace>,
    // A leaf lock: held for an insert, a lookup or a removal.
    by_root: Mutex<HashMap<PathBuf, Arc<Workspace>>>,
}

impl Workspaces {
    pub fn new(personal: Arc<Workspace>) -> Self {
        Self { personal, by_root: Mutex::default() }
    }

    pub fn get(&self, root: &Path) -> Option<Arc<Workspace>> {
        self.lock().get(root).cloned()
    }

    pub fn insert(&self, workspace: &Arc<Workspace>) {
        if let Some(root) = &workspace.root {
            self.lock().insert(root.clone(), workspace.clone());
        }
    }

    /// Whether this very workspace is loaded, not another one with the same root.
    pub fn has(&self, workspace: &Workspace) -> bool {
        let Some(root) = &workspace.root else { return false };
        self.lock().get(root).is_some_and(|known| std::ptr::eq(&**known, workspace))
    }

    pub fn remove(&self, workspace: &Workspace) {
        if let Some(root) = workspace.root.as_ref().filter(|_| self.has(workspace)) {
            self.lock().remove(root);
        }
    }

    /// Sorted by root.
    pub fn all(&self) -> Vec<Arc<Workspace>> {
        let mut all: Vec<_> = self.lock().values().cloned().collect();
        all.sort_by(|a, b| a.root.cmp(&b.root));
        all
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Arc<Workspace>>> {
        self.by_root.lock().expect("BUG: bookkeeping panicked")
    }
}

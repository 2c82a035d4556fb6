//! Workspaces that come and go: loaded when somebody says that they are there, let go when everybody has left.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::report;
use crate::catalog::Catalog;
use crate::daemon_state::Daemon;
use crate::discover::LastGoodDefinitions;
use crate::event_loop::spawn_blocking;
use crate::layer::Layer;
use crate::session::Session;
use crate::workspace::Workspace;

/// A workspace that nobody came back to is let go after this.
const EVICT_AFTER: Duration = Duration::from_secs(5 * 60);
/// More than a person has open; those that nobody is in go first.
const MAX_WORKSPACES: usize = 128;
/// Who asked for a workspace has their session in it after this, or is not coming.
const JOIN_GRACE: Duration = Duration::from_secs(10);
/// No host waits longer for its workspace; it hears of it later.
const LOAD_TIMEOUT: Duration = Duration::from_secs(2);

/// Somebody who is on the way to their workspace.
pub type WorkspaceLoad = JoinHandle<Arc<Workspace>>;

impl Daemon {
    /// The workspace of this directory, loaded if need be; that of nobody's if it cannot be one, or does not
    /// answer.
    pub async fn workspace(self: &Arc<Self>, named: Option<&Path>) -> Arc<Workspace> {
        self.resolve_workspace(named).await.0
    }

    /// The same, with a way to the right one if it takes longer than anybody waits.
    pub async fn resolve_workspace(
        self: &Arc<Self>,
        named: Option<&Path>,
    ) -> (Arc<Workspace>, Option<WorkspaceLoad>) {
        let Some(named) = named else { return (self.personal.clone(), None) };
        let mut arrival = tokio::spawn(self.clone().load_workspace(named.to_owned()));
        match tokio::time::timeout(LOAD_TIMEOUT, &mut arrival).await {
            Ok(Ok(workspace)) => (workspace, None),
            Ok(Err(_)) => (self.personal.clone(), None),
            Err(_) => {
                tracing::warn!(target: "workspace", "`{}` takes long to answer", named.display());
                (self.personal.clone(), Some(arrival))
            }
        }
    }

    /// A session that did not wait for its workspace is there at last.
    pub async fn attach_workspace(self: Arc<Self>, session: Arc<Session>, arrival: WorkspaceLoad) {
        if let Ok(workspace) = arrival.await
            && workspace.root.is_some()
        {
            session.set_workspace(workspace);
            self.notify_catalog_changed(&session);
        }
    }

    async fn load_workspace(self: Arc<Self>, named: PathBuf) -> Arc<Workspace> {
        let daemon = self.clone();
        let root = spawn_blocking(move || daemon.locations.workspace(&named)).await;
        let Some(root) = root.ok().flatten() else { return self.personal.clone() };
        if let Some(known) = self.find_workspace(&root) {
            return known;
        }
        let (daemon, folder) = (self.clone(), root.clone());
        let Ok((own, memory)) = spawn_blocking(move || daemon.read_new(&folder)).await else {
            return self.personal.clone();
        };
        // Somebody else may have been quicker.
        if let Some(known) = self.find_workspace(&root) {
            return known;
        }
        let workspace = self.add_workspace(root, own, memory);
        report(&workspace.catalog(), None);
        tokio::spawn(self.clone().evict_when_unused(workspace.clone()));
        // Its folders are watched from there on, and looked at once more: they may have changed meanwhile,
        // and so may the person's own.
        self.changed.notify_one();
        workspace
    }

    fn read_new(&self, root: &Path) -> (Layer, LastGoodDefinitions) {
        let (trust, _) = self.locations.trust(self.personal.catalog().config());
        let mut memory = LastGoodDefinitions::default();
        let own =
            Layer::workspace(root, &self.locations, &trust, &mut memory).recall(&self.services.manifests);
        (own, memory)
    }

    /// Takes the pools and shows them in one turn of the event loop: pools that no workspace shows are swept.
    fn add_workspace(&self, root: PathBuf, own: Layer, memory: LastGoodDefinitions) -> Arc<Workspace> {
        let personal = self.personal.catalog().personal.clone();
        let catalog = Catalog::build(&personal, Some(&Arc::new(own)), &self.pools, &self.services, 1);
        let workspace = Workspace::new(Some(root), catalog, memory);
        self.workspaces.insert(&workspace);
        self.evict_surplus(&workspace);
        workspace
    }

    fn find_workspace(&self, root: &Path) -> Option<Arc<Workspace>> {
        let known = self.workspaces.get(root)?;
        known.touch();
        Some(known)
    }

    async fn evict_when_unused(self: Arc<Self>, workspace: Arc<Workspace>) {
        while self.workspaces.has(&workspace) {
            if self.is_used(&workspace) {
                workspace.touch();
            } else if workspace.last_used().elapsed() >= EVICT_AFTER {
                self.evict_workspace(&workspace);
                let _reloading = self.reloading.lock().await;
                self.watch().await;
                return;
            }
            tokio::time::sleep_until(workspace.last_used() + EVICT_AFTER).await;
        }
    }

    fn is_used(&self, workspace: &Arc<Workspace>) -> bool {
        self.sessions.all().iter().any(|session| session.is_in(workspace))
            || self.all_anonymous_sessions().iter().any(|them| them.is_in(workspace) && them.in_flight() > 0)
    }

    fn evict_workspace(&self, workspace: &Workspace) {
        tracing::debug!(target: "workspace", root = ?workspace.root, "let go");
        self.workspaces.remove(workspace);
        self.forget_anonymous_session(workspace);
        self.sweep();
    }

    /// Lets those go that are unused for longest, if there are too many. Somebody may be on the way into one that was
    /// asked for a moment ago, such as `arrived`: those stay, up to as many again.
    fn evict_surplus(&self, arrived: &Arc<Workspace>) {
        let mut all = self.workspaces.all();
        let surplus = all.len().saturating_sub(MAX_WORKSPACES);
        let far_too_many = surplus.saturating_sub(MAX_WORKSPACES);
        if surplus == 0 {
            return;
        }
        all.retain(|known| !Arc::ptr_eq(known, arrived) && !self.is_used(known));
        all.sort_by_key(|known| known.last_used());
        for (at, known) in all.iter().take(surplus).enumerate() {
            if at < far_too_many || known.last_used().elapsed() >= JOIN_GRACE {
                self.evict_workspace(known);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DEBOUNCE, ReloadCause};
    use super::*;
    use crate::child::RunLog;
    use crate::config::Config;
    use crate::face::Face;
    use crate::layer::Locations;

    #[tokio::test(start_paused = true)]
    async fn a_workspace_that_everybody_left_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (home, work) = (root.join("home"), root.join("work"));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::create_dir_all(work.join("mcps/a")).unwrap();
        std::fs::write(work.join("mcps/a/.mcp.json"), r#"{"name": "a", "command": {"cmd": "true"}}"#)
            .unwrap();
        let locations = Locations::new(&home, &root.join("state"), std::slice::from_ref(&work));
        let daemon = Daemon::new(
            home.join("c"),
            Config::defaults(&home),
            locations,
            String::new(),
            RunLog::unwritten(),
        );
        let workspace = daemon.workspace(Some(&work)).await;
        assert_eq!(workspace.catalog().suites.len(), 1);
        assert_eq!(daemon.pools.all().len(), 1);
        let session = Session::open(&daemon.run_id, &workspace, None, Face::Aggregate);
        daemon.sessions.insert(&session);
        assert!(daemon.reload(ReloadCause::FileEvent).await.config_problems.is_empty());
        let watched = daemon.watcher.lock().unwrap().folders();
        tokio::time::sleep(EVICT_AFTER * 3).await;
        assert!(Arc::ptr_eq(&daemon.workspace(Some(&work)).await, &workspace));
        daemon.sessions.remove(&session.id);
        tokio::time::sleep(EVICT_AFTER * 2 + DEBOUNCE).await;
        assert!(daemon.workspaces.all().is_empty() && daemon.pools.all().is_empty());
        assert!(daemon.watcher.lock().unwrap().folders() < watched);
        // HOME and `/` are nobody's workspace.
        for none in [&home, Path::new("/")] {
            assert!(daemon.workspace(Some(none)).await.root.is_none());
        }
    }

    /// A home without servers of its own, and `count` projects with one each.
    fn projects(count: usize) -> (tempfile::TempDir, Arc<Daemon>, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let home = root.join("home");
        std::fs::create_dir_all(&home).unwrap();
        let project = |number: usize| {
            let work = root.join(format!("w{number:03}"));
            std::fs::create_dir_all(work.join("mcps/a")).unwrap();
            std::fs::write(work.join("mcps/a/.mcp.json"), r#"{"name": "a", "command": {"cmd": "true"}}"#)
                .unwrap();
            work
        };
        let works: Vec<PathBuf> = (0..count).map(project).collect();
        let locations = Locations::new(&home, &root.join("state"), std::slice::from_ref(&root));
        let daemon = Daemon::new(
            home.join("c"),
            Config::defaults(&home),
            locations,
            String::new(),
            RunLog::unwritten(),
        );
        (folder, daemon, works)
    }

    /// Whether the pools that this workspace shows are the ones that are known, none of them retired.
    fn is_served(daemon: &Daemon, workspace: &Workspace) -> bool {
        let known = daemon.pools.all();
        let catalog = workspace.catalog();
        catalog.pools().count() == 1
            && catalog.pools().all(|pool| known.iter().any(|known| Arc::ptr_eq(known, pool)))
    }

    #[tokio::test(start_paused = true)]
    async fn one_workspace_too_many_keeps_its_pools() {
        let (_folder, daemon, works) = projects(MAX_WORKSPACES + 2);
        for work in &works[..MAX_WORKSPACES] {
            daemon.workspace(Some(work)).await;
        }
        tokio::time::sleep(JOIN_GRACE).await;
        for work in &works[MAX_WORKSPACES..] {
            let workspace = daemon.workspace(Some(work)).await;
            assert!(is_served(&daemon, &workspace), "{:?}", workspace.root);
            assert_eq!(daemon.workspaces.all().len(), MAX_WORKSPACES);
        }
        assert_eq!(daemon.pools.all().len(), MAX_WORKSPACES);
    }

    #[tokio::test]
    async fn workspaces_that_somebody_is_on_the_way_into_stay() {
        let (_folder, daemon, works) = projects(2 * MAX_WORKSPACES + 3);
        let mut all = Vec::new();
        for work in &works {
            all.push(daemon.workspace(Some(work)).await);
        }
        // The first three were one too many each.
        for workspace in &all[3..] {
            assert!(is_served(&daemon, workspace), "{:?}", workspace.root);
        }
        assert!(daemon.workspaces.all().len() <= 2 * MAX_WORKSPACES);
    }

    #[tokio::test]
    async fn a_workspace_that_arrives_during_a_reload_keeps_its_pools() {
        let (_folder, daemon, works) = projects(40);
        let sweeping = tokio::spawn({
            let daemon = daemon.clone();
            async move {
                loop {
                    daemon.sweep();
                    tokio::task::yield_now().await;
                }
            }
        });
        for work in &works {
            let workspace = daemon.workspace(Some(work)).await;
            assert!(is_served(&daemon, &workspace), "{:?}", workspace.root);
        }
        sweeping.abort();
    }
}

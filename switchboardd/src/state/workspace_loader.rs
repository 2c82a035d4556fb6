//! Loads a directory's workspace when a host enters it, and evicts it when all hosts have left.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_definitions::config::Config;
use switchboard_definitions::discover::LastGoodDefinitions;
use switchboard_wire::event_loop::{run_blocking, try_run_blocking};
use tokio::task::JoinHandle;

use super::reload_requests::ReloadRequests;
use crate::catalog::Catalog;
use crate::catalog::layer::{Layer, Locations};
use crate::catalog::workspace::{Workspace, Workspaces};
use crate::pool::manifest::Manifests;
use crate::pool::{ChildServices, Pool, Pools};
use crate::session::{Session, Sessions};

/// An unused workspace is evicted after this time.
const EVICT_AFTER: Duration = Duration::from_secs(5 * 60);
/// More than a user has open; unused ones are evicted first.
const MAX_WORKSPACES: usize = 128;
/// A session that requested a workspace joins it within this time, or never.
const JOIN_GRACE: Duration = Duration::from_secs(10);
/// A host waits no longer than this for its workspace; it is notified when the workspace is loaded.
const LOAD_TIMEOUT: Duration = Duration::from_secs(2);

/// A workspace that is still loading.
pub type WorkspaceLoad = JoinHandle<Arc<Workspace>>;

#[derive(Debug)]
pub struct WorkspaceLoader {
    pub locations: Locations,
    pub pools: Arc<Pools>,
    unpublished: Arc<UnpublishedCatalogs>,
    workspaces: Arc<Workspaces>,
    sessions: Arc<Sessions>,
    services: ChildServices,
    reload_requests: Arc<ReloadRequests>,
}

/// Catalogs that are being built on other threads. No published catalog shows their new pools yet, so no pool
/// is retired until they are published.
#[derive(Debug, Default)]
struct UnpublishedCatalogs {
    // A leaf lock: held to count.
    counts: Mutex<UnpublishedCounts>,
}

#[derive(Debug, Default)]
struct UnpublishedCounts {
    catalogs: usize,
    /// Whether a sweep waits for them.
    sweep_due: bool,
}

/// Counts as an unpublished catalog while it lives.
#[derive(Debug)]
struct UnpublishedCatalog(Arc<UnpublishedCatalogs>);

impl UnpublishedCatalogs {
    fn begin(self: &Arc<Self>) -> UnpublishedCatalog {
        self.lock().catalogs += 1;
        UnpublishedCatalog(self.clone())
    }

    /// Whether a sweep may run now; if not, it is due when the last catalog is published.
    fn may_sweep(&self) -> bool {
        let mut counts = self.lock();
        counts.sweep_due = counts.catalogs > 0;
        !counts.sweep_due
    }

    /// Whether a sweep was postponed and can run now.
    fn is_sweep_due(&self) -> bool {
        let counts = self.lock();
        counts.sweep_due && counts.catalogs == 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, UnpublishedCounts> {
        self.counts.lock().expect("BUG: a count panicked")
    }
}

impl Drop for UnpublishedCatalog {
    fn drop(&mut self) {
        self.0.lock().catalogs -= 1;
    }
}

impl WorkspaceLoader {
    /// Loads the personal workspace, before any host is served. `config`: the personal config.
    pub(super) fn new(
        config: Config,
        locations: Locations,
        services: &ChildServices,
        sessions: &Arc<Sessions>,
        reload_requests: &Arc<ReloadRequests>,
    ) -> (Arc<Self>, Arc<Workspaces>) {
        let pools = Arc::<Pools>::default();
        let (layer, memory) = load_personal(config, &locations, &services.manifests);
        let catalog = Catalog::build(&layer, None, &pools, services, 1);
        catalog.log_loaded(None);
        let workspaces = Arc::new(Workspaces::new(Workspace::new(None, catalog, memory)));
        let loader = Arc::new(Self {
            locations,
            pools,
            unpublished: Arc::default(),
            workspaces: workspaces.clone(),
            sessions: sessions.clone(),
            services: services.clone(),
            reload_requests: reload_requests.clone(),
        });
        (loader, workspaces)
    }

    /// The workspace of this directory, loaded if necessary. Returns `personal` if the directory cannot be a
    /// workspace or does not respond in time.
    pub async fn workspace(self: &Arc<Self>, named: Option<&Path>) -> Arc<Workspace> {
        self.resolve_workspace(named).await.0
    }

    /// Like `workspace`, with the pending load if it takes longer than `LOAD_TIMEOUT`.
    pub async fn resolve_workspace(
        self: &Arc<Self>,
        named: Option<&Path>,
    ) -> (Arc<Workspace>, Option<WorkspaceLoad>) {
        let Some(named) = named else { return (self.workspaces.personal.clone(), None) };
        let mut arrival = tokio::spawn(self.clone().load_workspace(named.to_owned()));
        match tokio::time::timeout(LOAD_TIMEOUT, &mut arrival).await {
            Ok(Ok(workspace)) => (workspace, None),
            Ok(Err(_)) => (self.workspaces.personal.clone(), None),
            Err(_) => {
                tracing::warn!(target: "project", "`{}` takes long to answer", named.display());
                (self.workspaces.personal.clone(), Some(arrival))
            }
        }
    }

    /// Moves a session into its workspace, once that is loaded.
    pub async fn attach_workspace(self: Arc<Self>, session: Arc<Session>, arrival: WorkspaceLoad) {
        if let Ok(workspace) = arrival.await
            && workspace.root.is_some()
        {
            session.set_workspace(workspace);
            self.services.lists_changed.notify_one();
        }
    }

    /// Moves a session into the workspace of this folder, if it can be one.
    pub async fn join_workspace(self: Arc<Self>, session: Arc<Session>, folder: PathBuf) {
        let arrival = tokio::spawn(self.clone().load_workspace(folder));
        self.attach_workspace(session, arrival).await;
    }

    /// Moves each session into the workspace that its folder belongs to now: a file above it can begin or end a project.
    pub async fn rejoin_sessions(self: &Arc<Self>) {
        let mut folders: BTreeMap<PathBuf, Vec<Arc<Session>>> = BTreeMap::new();
        for session in self.sessions.all() {
            if let Some(folder) = session.folder.clone() {
                folders.entry(folder).or_default().push(session);
            }
        }
        let resolve = |(folder, sessions): (PathBuf, Vec<Arc<Session>>)| {
            let loader = self.clone();
            tokio::spawn(async move { (loader.workspace(Some(&folder)).await, sessions) })
        };
        for resolved in folders.into_iter().map(resolve).collect::<Vec<_>>() {
            let Ok((workspace, mut sessions)) = resolved.await else { continue };
            sessions.retain(|session| workspace.root.is_some() && !session.is_in(&workspace));
            for session in sessions {
                session.set_workspace(workspace.clone());
                self.services.lists_changed.notify_one();
            }
        }
    }

    async fn load_workspace(self: Arc<Self>, named: PathBuf) -> Arc<Workspace> {
        let loader = self.clone();
        let personal = self.workspaces.personal.catalog();
        let root = try_run_blocking(move || loader.locations.workspace(&named, personal.config())).await;
        let Some(root) = root.flatten() else { return self.workspaces.personal.clone() };
        if let Some(known) = self.find_workspace(&root) {
            return known;
        }
        let (loader, folder) = (self.clone(), root.clone());
        let Some((own, memory)) = try_run_blocking(move || loader.read_new(&folder)).await else {
            return self.workspaces.personal.clone();
        };
        let workspace = self.add_workspace(root, own, memory).await;
        workspace.catalog().log_loaded(None);
        workspace.catalog().keep_warm_here();
        tokio::spawn(self.clone().evict_when_unused(workspace.clone()));
        // Triggers a reload, which watches its folders and reads them again: they may have changed meanwhile,
        // and so may the user's own files.
        self.reload_requests.notify_changed();
        workspace
    }

    fn read_new(&self, root: &Path) -> (Layer, LastGoodDefinitions) {
        let personal = self.workspaces.personal.catalog();
        let (trust, _) = self.locations.trust(personal.config());
        let mut memory = LastGoodDefinitions::default();
        let own = Layer::workspace(root, personal.config(), &self.locations, &trust, &mut memory)
            .load_manifests(&self.services.manifests);
        (own, memory)
    }

    async fn add_workspace(&self, root: PathBuf, own: Layer, memory: LastGoodDefinitions) -> Arc<Workspace> {
        let personal = self.workspaces.personal.catalog().personal.clone();
        let publish = |catalog| {
            // Another request may have loaded it meanwhile.
            if let Some(known) = self.find_workspace(&root) {
                return known;
            }
            let workspace = Workspace::new(Some(root), catalog, memory);
            self.workspaces.insert(&workspace);
            self.evict_surplus(&workspace);
            workspace
        };
        self.build_catalog((personal, Some(Arc::new(own))), None, publish).await
    }

    /// Builds a catalog of these layers on another thread, because that takes a while with thousands of definitions,
    /// and passes it to `publish` on the event loop. `before`: the catalog that it replaces.
    pub async fn build_catalog<T>(
        &self,
        (personal, own): (Arc<Layer>, Option<Arc<Layer>>),
        before: Option<Arc<Catalog>>,
        publish: impl FnOnce(Catalog) -> T,
    ) -> T {
        let unpublished = self.unpublished.begin();
        let (pools, services) = (self.pools.clone(), self.services.clone());
        // The count goes along, so that it is right even if the caller gives up during the build.
        let (catalog, unpublished) = run_blocking(move || {
            let generation = before.as_ref().map_or(1, |before| before.generation + 1);
            let catalog = Catalog::build(&personal, own.as_ref(), &pools, &services, generation);
            if let Some(before) = before {
                catalog.keep_descriptions(&before);
            }
            (catalog, unpublished)
        })
        .await;
        let published = publish(catalog);
        drop(unpublished);
        if self.unpublished.is_sweep_due() {
            self.sweep_pools();
        }
        published
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
                self.reload_requests.notify_evicted();
                return;
            }
            tokio::time::sleep_until(workspace.last_used() + EVICT_AFTER).await;
        }
    }

    fn is_used(&self, workspace: &Arc<Workspace>) -> bool {
        self.sessions.all().iter().any(|session| session.is_in(workspace))
            || self.sessions.all_anonymous().iter().any(|them| them.is_in(workspace) && them.in_flight() > 0)
    }

    fn evict_workspace(&self, workspace: &Workspace) {
        tracing::debug!(target: "project", root = ?workspace.root, "let go");
        self.workspaces.remove(workspace);
        self.sessions.forget_anonymous(workspace);
        self.sweep_pools();
    }

    /// Evicts the workspaces that have been unused for longest, if there are too many. Recently requested
    /// ones, such as `arrived`, may be about to be joined: they stay, up to twice the limit.
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

    /// Retires the pools that no catalog shows any more. While catalogs are being built it is postponed until the
    /// last of them is published.
    pub fn sweep_pools(&self) {
        if !self.unpublished.may_sweep() {
            return;
        }
        let mut shown: HashSet<*const Pool> = HashSet::new();
        let all = self.workspaces.all();
        for workspace in all.iter().chain([&self.workspaces.personal]) {
            shown.extend(workspace.catalog().pools().map(Arc::as_ptr));
        }
        for pool in self.pools.sweep(|pool| shown.contains(&Arc::as_ptr(pool))) {
            pool.retire();
        }
    }
}

/// The first read, before the daemon serves.
fn load_personal(
    config: Config,
    locations: &Locations,
    manifests: &Manifests,
) -> (Arc<Layer>, LastGoodDefinitions) {
    let (trust, damage) = locations.trust(&config);
    let mut memory = LastGoodDefinitions::default();
    let mut layer = Layer::personal(config, locations, &trust, &mut memory).load_manifests(manifests);
    layer.problems.extend(damage);
    (Arc::new(layer), memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::RunLog;
    use crate::face::Face;
    use crate::reload::{ReloadCause, Reloader};
    use crate::state::Daemon;

    #[tokio::test(start_paused = true)]
    async fn an_unused_workspace_is_evicted() {
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
        let reloader = Reloader::new(&daemon);
        let workspace = daemon.workspace_loader.workspace(Some(&work)).await;
        assert_eq!(workspace.catalog().suites.len(), 1);
        assert_eq!(daemon.workspace_loader.pools.all().len(), 1);
        let session = Session::open(&daemon.run_id, &workspace, None, Face::Aggregate);
        daemon.sessions.insert(&session);
        assert!(reloader.reload(ReloadCause::FileEvent).await.config_problems.is_empty());
        let (watched, _) = reloader.watched().unwrap();
        let running = tokio::spawn({
            let reloader = reloader.clone();
            async move { reloader.run_reload_loop().await }
        });
        tokio::time::sleep(EVICT_AFTER * 3).await;
        assert!(Arc::ptr_eq(&daemon.workspace_loader.workspace(Some(&work)).await, &workspace));
        daemon.sessions.remove(&session.id);
        tokio::time::sleep(EVICT_AFTER * 2 + Duration::from_secs(1)).await;
        assert!(daemon.workspaces.all().is_empty() && daemon.workspace_loader.pools.all().is_empty());
        assert!(reloader.watched().unwrap().0 < watched);
        running.abort();
        // HOME and `/` are never a workspace.
        for none in [&home, Path::new("/")] {
            assert!(daemon.workspace_loader.workspace(Some(none)).await.root.is_none());
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

    /// Whether the workspace's pools are registered, i.e. not retired.
    fn is_served(daemon: &Daemon, workspace: &Workspace) -> bool {
        let known = daemon.workspace_loader.pools.all();
        let catalog = workspace.catalog();
        catalog.pools().count() == 1
            && catalog.pools().all(|pool| known.iter().any(|known| Arc::ptr_eq(known, pool)))
    }

    #[tokio::test(start_paused = true)]
    async fn one_workspace_too_many_keeps_its_pools() {
        let (_folder, daemon, works) = projects(MAX_WORKSPACES + 2);
        for work in &works[..MAX_WORKSPACES] {
            daemon.workspace_loader.workspace(Some(work)).await;
        }
        tokio::time::sleep(JOIN_GRACE).await;
        for work in &works[MAX_WORKSPACES..] {
            let workspace = daemon.workspace_loader.workspace(Some(work)).await;
            assert!(is_served(&daemon, &workspace), "{:?}", workspace.root);
            assert_eq!(daemon.workspaces.all().len(), MAX_WORKSPACES);
        }
        assert_eq!(daemon.workspace_loader.pools.all().len(), MAX_WORKSPACES);
    }

    #[tokio::test]
    async fn workspaces_that_somebody_is_on_the_way_into_stay() {
        let (_folder, daemon, works) = projects(2 * MAX_WORKSPACES + 3);
        let mut all = Vec::new();
        for work in &works {
            all.push(daemon.workspace_loader.workspace(Some(work)).await);
        }
        // Each of the first three exceeded twice the limit.
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
                    daemon.workspace_loader.sweep_pools();
                    tokio::task::yield_now().await;
                }
            }
        });
        for work in &works {
            let workspace = daemon.workspace_loader.workspace(Some(work)).await;
            assert!(is_served(&daemon, &workspace), "{:?}", workspace.root);
        }
        sweeping.abort();
    }
}

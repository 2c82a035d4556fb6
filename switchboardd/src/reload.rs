//! Reads all files again and publishes what changed; one reload at a time. Children whose launch has not
//! changed keep running; pools that are no longer shown finish their calls and stop.
//!
//! No file is touched on the event loop. If a directory does not respond (e.g. an unreachable network file
//! system), only its own workspace is not updated.

mod values;
pub mod watch;

use std::pin::Pin;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use switchboard_definitions::config::{Config, ConfigOwner, ConfigSource, LastGood, Watch};
use switchboard_definitions::document::Problem;
use switchboard_wire::event_loop::{run_blocking_detached, try_run_blocking};

use crate::catalog::Catalog;
use crate::catalog::layer::{Layer, Locations};
use crate::catalog::workspace::Workspace;
use crate::reload::watch::{POLL_INTERVAL, WatchPlan, Watcher};
use crate::state::{Daemon, Reload};
use values::ValueChecks;

/// Changes come in bursts: an editor writes, renames, writes again.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// New folders can reveal further ones. After this many rounds another reload is triggered.
const MAX_ROUNDS: usize = 4;
/// Time limit for reading files; the old state stays in use.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Why everything is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadCause {
    /// A file may have changed.
    FileEvent,
    /// The user requested it: breakers are reset, and the login shell is asked again.
    Requested,
}

/// The state after a reload.
pub struct ReloadResult {
    /// The catalog without a workspace.
    pub catalog: Arc<Catalog>,
    /// What is wrong with the personal config, and what is used instead.
    pub config_problems: Vec<Problem>,
}

/// The user's own files as they are now.
struct PersonalFiles {
    /// `None` if hosts are shown the same already.
    layer: Option<Layer>,
    problems: Vec<Problem>,
}

/// Runs blocking file work off the event loop; `None` on timeout.
async fn run_blocking_with_timeout<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    tokio::time::timeout(READ_TIMEOUT, try_run_blocking(work)).await.ok()?
}

/// Reloads the daemon's files, and updates what hosts are shown.
#[derive(Debug)]
pub struct Reloader {
    daemon: Arc<Daemon>,
    /// The TCP address in the config when the daemon started.
    listen: String,
    /// Held during a reload: one at a time.
    reloading: tokio::sync::Mutex<()>,
    // Held by a blocking thread while it changes what is watched; others only `try_lock` it.
    watcher: Arc<Mutex<Watcher>>,
    /// The background checks of the values for `${…}`.
    checks: Arc<ValueChecks>,
    /// Why the config in use differs from the config file.
    // A leaf lock: held to compare or copy.
    broken_config: Mutex<Vec<Problem>>,
}

impl Reload for Reloader {
    fn reload_files(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { drop(self.reload(ReloadCause::FileEvent).await) })
    }
}

impl Reloader {
    pub fn daemon(&self) -> &Arc<Daemon> {
        &self.daemon
    }

    /// Registers itself for the daemon's reload requests. The daemon holds only a weak reference to it.
    pub fn new(daemon: &Arc<Daemon>) -> Arc<Self> {
        let watcher = Watcher::new(daemon.reload_requests.changed_handle().clone());
        let reloader = Arc::new(Self {
            daemon: daemon.clone(),
            listen: daemon.catalog().config().http.listen.clone(),
            reloading: tokio::sync::Mutex::default(),
            watcher: Arc::new(Mutex::new(watcher)),
            checks: Arc::default(),
            broken_config: Mutex::default(),
        });
        let handle = Arc::downgrade(&reloader);
        daemon.reload_requests.set_reloader(handle);
        reloader
    }

    /// The number of watched folders, and whether watching has failed so that polling is needed; `None` while
    /// the watches change.
    pub fn watched(&self) -> Option<(usize, bool)> {
        self.watcher.try_lock().ok().map(|watcher| (watcher.folders(), watcher.has_failed()))
    }

    /// Why the personal config in use differs from its file.
    pub fn broken_config(&self) -> Vec<Problem> {
        self.broken_config.lock().expect("BUG: a note panicked").clone()
    }

    /// Reads everything again. While the personal config has a mistake, its last good version is used.
    pub async fn reload(self: &Arc<Self>, why: ReloadCause) -> ReloadResult {
        // A task of its own, because the user may give up while catalogs are being built: a later reload must not
        // publish before this one.
        let reloader = self.clone();
        let task = tokio::spawn(async move { reloader.reload_in_turn(why).await });
        match task.await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down, so nobody needs the result.
                Err(_) => std::future::pending().await,
            },
        }
    }

    async fn reload_in_turn(self: &Arc<Self>, why: ReloadCause) -> ReloadResult {
        let reloading = self.reloading.lock().await;
        if why == ReloadCause::Requested {
            self.daemon.services.value_resolver.forget_shell();
        }
        let mut config_problems = Vec::new();
        for round in 1..=MAX_ROUNDS {
            config_problems = self.read_all(why).await;
            // A newly watched folder may have changed between the read and the watch.
            if !self.watch().await {
                break;
            }
            if round == MAX_ROUNDS {
                self.daemon.reload_requests.notify_changed();
            }
        }
        if why == ReloadCause::Requested {
            self.daemon.workspace_loader.rejoin_sessions().await;
        }
        drop(reloading);
        self.daemon.services.metrics.record_reload(config_problems.is_empty());
        if self.daemon.services.manifests.baselines.take_changed() {
            self.daemon.services.lists_changed.notify_one();
            self.daemon.services.status_changed.notify();
        }
        self.checks.run(&self.daemon, why).await;
        ReloadResult { catalog: self.daemon.workspaces.personal.catalog(), config_problems }
    }

    /// Reloads whenever something may have changed; never resolves.
    pub async fn run_reload_loop(self: &Arc<Self>) {
        let store = self.locations().trust.clone();
        run_blocking_with_timeout(move || {
            if let Err(error) = store.prepare() {
                tracing::warn!(target: "trust", "`{}`: {error}", store.folder().display());
            }
        })
        .await;
        if self.watch().await {
            self.daemon.reload_requests.notify_changed();
        }
        self.checks.run(&self.daemon, ReloadCause::FileEvent).await;
        loop {
            // If it is locked, a folder that does not respond may be blocking it: poll.
            let looks = self.watcher.try_lock().map_or(true, |watcher| watcher.is_polling());
            tokio::select! {
                () = self.daemon.reload_requests.changed() => tokio::time::sleep(DEBOUNCE).await,
                () = self.daemon.reload_requests.evicted() => {
                    let _reloading = self.reloading.lock().await;
                    self.watch().await;
                    continue;
                }
                () = tokio::time::sleep(POLL_INTERVAL), if looks => {}
                () = self.daemon.services.value_resolver.wait_late_shell() => {}
            }
            // The result is not needed: publishing logs the problems, and the status shows those of the
            // config.
            self.reload_in_turn(ReloadCause::FileEvent).await;
        }
    }

    /// Updates the watches. True if something is watched that was not before.
    async fn watch(self: &Arc<Self>) -> bool {
        let (reloader, watcher) = (self.clone(), self.watcher.clone());
        let set = move || match watcher.try_lock() {
            Ok(mut watcher) => watcher.set(reloader.plan()),
            Err(_) => false,
        };
        run_blocking_with_timeout(set).await.unwrap_or(false)
    }

    /// Reads the user's own files first, then all workspaces concurrently. Returns the problems of the
    /// personal config.
    async fn read_all(self: &Arc<Self>, why: ReloadCause) -> Vec<Problem> {
        let reloader = self.clone();
        let personal = run_blocking_with_timeout(move || reloader.read_personal(why)).await.flatten();
        let config_problems = match personal {
            Some(personal) => self.publish_personal(personal, why).await,
            None => Vec::new(),
        };
        let personal = self.daemon.workspaces.personal.catalog().personal.clone();
        let reading = self.daemon.workspaces.all().into_iter().map(|workspace| {
            let (reloader, personal) = (self.clone(), personal.clone());
            tokio::spawn(async move {
                let read = {
                    let (reloader, workspace) = (reloader.clone(), workspace.clone());
                    move || reloader.read_workspace(&workspace)
                };
                let layer = run_blocking_with_timeout(read).await.flatten();
                reloader.publish_workspace(&workspace, &personal, layer, why).await;
            })
        });
        for read in reading.collect::<Vec<_>>() {
            let _ = read.await;
        }
        self.daemon.workspace_loader.sweep_pools();
        config_problems
    }

    /// `None` while an earlier read still hangs.
    fn read_personal(&self, why: ReloadCause) -> Option<PersonalFiles> {
        let mut memory = unless_locked(self.daemon.workspaces.personal.memory.try_lock())?;
        let (mut config, mut problems) = Config::read_usable(&self.daemon.config_file, ConfigOwner::Personal);
        let before = self.daemon.workspaces.personal.catalog();
        if problems.is_empty() {
            LastGood::new(&self.locations().state).save(&config);
        } else if before.config().basis != ConfigSource::Partial {
            // Use the previous config, but read all else anew: a mistake in the config must not hide a new
            // `deny`.
            config = before.config().clone();
        }
        if !problems.is_empty() {
            problems.push(config.in_place_of_the_file(&self.daemon.config_file));
        }
        let (trust, damage) = self.locations().trust(&config);
        let mut layer = Layer::personal(config, self.locations(), &trust, &mut memory)
            .load_manifests(&self.daemon.services.manifests);
        layer.problems.extend(damage);
        layer.problems.extend(self.needs_restart(&layer.config));
        // Compared and dropped here: both take a while with thousands of definitions.
        let is_shown =
            why != ReloadCause::Requested && layer.is_same(&before.personal) && !before.has_retired_pool();
        Some(PersonalFiles { layer: (!is_shown).then_some(layer), problems })
    }

    /// The layer that hosts are shown, if it is as it was.
    fn read_workspace(&self, workspace: &Workspace) -> Option<Arc<Layer>> {
        let root = workspace.root.as_deref()?;
        let mut memory = unless_locked(workspace.memory.try_lock())?;
        let personal = self.daemon.workspaces.personal.catalog();
        let (trust, _) = self.locations().trust(personal.config());
        let layer = Layer::workspace(root, personal.config(), self.locations(), &trust, &mut memory)
            .load_manifests(&self.daemon.services.manifests);
        LastGood::new(&self.locations().state).save(&layer.config);
        let shown = workspace.catalog().own.clone().filter(|own| layer.is_same(own));
        Some(shown.unwrap_or_else(|| Arc::new(layer)))
    }

    /// Returns the problems of the personal config.
    async fn publish_personal(&self, read: PersonalFiles, why: ReloadCause) -> Vec<Problem> {
        let PersonalFiles { layer, problems } = read;
        if self.broken_config() != problems || (why == ReloadCause::Requested && !problems.is_empty()) {
            self.note_broken(problems.clone());
        }
        if let Some(layer) = layer {
            self.daemon.services.budget.set(layer.config.budget);
            self.daemon.services.logins.set(layer.config.oauth.clone());
            self.daemon.call_recorder.set_mode(layer.config.record);
            self.show(&self.daemon.workspaces.personal, (Arc::new(layer), None), why).await;
        }
        problems
    }

    /// Records the current problems of the personal config: logged once, shown in the status while they last.
    pub fn note_broken(&self, problems: Vec<Problem>) {
        problems.iter().for_each(|problem| tracing::error!(target: "config", "{problem}"));
        *self.broken_config.lock().expect("BUG: a note panicked") = problems;
        self.daemon.services.status_changed.notify();
    }

    /// `layer`: the workspace's files as they are now; `None` if they could not be read in time.
    async fn publish_workspace(
        &self,
        workspace: &Arc<Workspace>,
        personal: &Arc<Layer>,
        layer: Option<Arc<Layer>>,
        why: ReloadCause,
    ) {
        let before = workspace.catalog();
        let same = match (&layer, &before.own) {
            (Some(layer), Some(own)) => Arc::ptr_eq(layer, own),
            (None, _) => true,
            (Some(_), None) => false,
        };
        let is_current = Arc::ptr_eq(&before.personal, personal) && !before.has_retired_pool();
        if why == ReloadCause::Requested || !same || !is_current {
            let own = layer.or_else(|| before.own.clone());
            self.show(workspace, (personal.clone(), own), why).await;
        }
    }

    /// Publishes a new catalog in one swap, and notifies hosts whose lists changed.
    async fn show(
        &self,
        workspace: &Arc<Workspace>,
        layers: (Arc<Layer>, Option<Arc<Layer>>),
        why: ReloadCause,
    ) {
        let before = Some(workspace.catalog());
        let publish = |catalog| (workspace.publish(catalog), workspace.catalog());
        let (before, after) = self.daemon.workspace_loader.build_catalog(layers, before, publish).await;
        after.log_loaded(Some(&before));
        if why == ReloadCause::Requested {
            after.reset_breakers();
        }
        after.keep_warm();
        self.daemon.list_changes.notify();
        self.daemon.services.status_changed.notify();
        self.daemon.sessions.notify_changed();
        // Thousands of suites take a while to free.
        run_blocking_detached(move || drop(before));
    }

    /// All files and folders that affect the catalogs.
    fn plan(&self) -> WatchPlan {
        let mut plan = WatchPlan::default();
        let personal = self.daemon.workspaces.personal.catalog().personal.clone();
        if personal.config.watch == Watch::Poll {
            plan.poll();
        }
        plan.file(&self.daemon.config_file);
        plan.add(&personal.watched);
        self.daemon.services.value_resolver.files().iter().for_each(|file| plan.file(file));
        plan.file(&self.locations().trust.file());
        for workspace in self.daemon.workspaces.all() {
            if let (Some(root), Some(own)) = (&workspace.root, &workspace.catalog().own) {
                plan.file(&Layer::config_file(root));
                plan.add(&own.watched);
            }
        }
        plan
    }

    fn locations(&self) -> &Locations {
        &self.daemon.workspace_loader.locations
    }

    /// Settings that take effect only after a restart.
    fn needs_restart(&self, config: &Config) -> Option<Problem> {
        (config.http.listen != self.listen).then(|| {
            let message = "`http.listen` changed: it takes effect after `switchboard restart`";
            Problem::of(&config.file, message)
        })
    }
}

/// The guard, unless the lock is taken.
fn unless_locked<T>(tried: Result<T, TryLockError<T>>) -> Option<T> {
    match tried {
        Ok(free) => Some(free),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(_)) => panic!("BUG: a reading panicked"),
    }
}

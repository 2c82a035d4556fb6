//! Reads everything again and publishes what changed: one at a time, the newest wins. Children whose launch
//! did not change go on; those that nobody wants any more finish what they have and go.
//!
//! Nothing here touches a file on the one thread that works. A directory that does not answer (a network file
//! system that is away) costs its own workspace its news, and nobody else anything.

mod values;
mod workspaces;

use std::collections::HashSet;
use std::sync::{Arc, TryLockError};
use std::time::Duration;

pub use values::ValueChecks;
pub use workspaces::WorkspaceLoad;

use crate::catalog::Catalog;
use crate::config::{Basis, Config, Extent, LastGood, Watch};
use crate::daemon_state::Daemon;
use crate::discover::LastGoodDefinitions;
use crate::document::Problem;
use crate::event_loop::spawn_blocking;
use crate::layer::{Layer, Locations};
use crate::mailbox::MessageKind;
use crate::manifest::Manifests;
use crate::methods;
use crate::pool::Pool;
use crate::session::Session;
use crate::trust::Trust;
use crate::watch::{POLL_INTERVAL, WatchPlan};
use crate::workspace::Workspace;

/// Changes come in flocks: an editor writes, renames, writes again.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// New folders show new folders; deeper than this nobody goes in one step.
const MAX_ROUNDS: usize = 4;
/// Files that take longer than this to read are not read now.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Why everything is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadCause {
    /// A file may have changed.
    FileEvent,
    /// A person says so: past failures are forgiven, the login shell is asked again.
    Requested,
}

/// What there is after everything was read again.
pub struct Reloaded {
    /// The person's own.
    pub catalog: Arc<Catalog>,
    /// What is wrong with the personal config, and what is used of it.
    pub config_problems: Vec<Problem>,
}

/// The person's own files as they are now.
struct PersonalFiles {
    layer: Layer,
    problems: Vec<Problem>,
}

/// Does something with files beside the one thread that works. `None` if it took too long.
async fn run_blocking_with_timeout<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    tokio::time::timeout(READ_TIMEOUT, spawn_blocking(work)).await.ok()?.ok()
}

fn push_changed(session: &Session, method: &'static str) {
    let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
    session.caller.push(MessageKind::Changed(method), body.into_bytes());
}

impl Daemon {
    /// Reads everything again. While the personal config has a mistake, what it said before is used.
    pub async fn reload(self: &Arc<Self>, why: ReloadCause) -> Reloaded {
        let reloading = self.reloading.lock().await;
        if why == ReloadCause::Requested {
            self.services.value_resolver.forget_shell();
        }
        let mut config_problems = Vec::new();
        for round in 1..=MAX_ROUNDS {
            config_problems = self.read_all(why).await;
            // What is watched only now may have changed between the look and the watch.
            if !self.watch().await {
                break;
            }
            if round == MAX_ROUNDS {
                self.changed.notify_one();
            }
        }
        drop(reloading);
        self.services.metrics.reloaded(config_problems.is_empty());
        self.check_values(why).await;
        Reloaded { catalog: self.personal.catalog(), config_problems }
    }

    /// The catalog that a session sees has changed.
    pub fn notify_catalog_changed(&self, session: &Session) {
        self.services.list_changes.notify_one();
        // What one child offers is compared before it is told.
        if session.face.child().is_none() {
            self.notify_tools_changed(session);
        }
    }

    /// A session is to look at its list again.
    pub fn notify_tools_changed(&self, session: &Session) {
        let host = session.caller.profile();
        // A host of the modern era hears nothing that it does not listen for.
        if host.is_modern && host.revision.is_none() {
            return;
        }
        push_changed(session, methods::TOOLS_CHANGED);
    }

    /// A session is to look at all its lists again.
    pub fn notify_all_lists_changed(&self, session: &Session) {
        self.notify_tools_changed(session);
        if session.caller.profile().revision.is_some() {
            push_changed(session, methods::PROMPTS_CHANGED);
            push_changed(session, methods::RESOURCES_CHANGED);
        }
    }

    /// Looks again whenever something may have changed; never resolves.
    pub async fn run_reload_loop(self: &Arc<Self>) {
        let daemon = self.clone();
        run_blocking_with_timeout(move || {
            if let Err(error) = daemon.locations.trust.prepare() {
                tracing::warn!(target: "trust", "`{}`: {error}", daemon.locations.trust.folder().display());
            }
        })
        .await;
        if self.watch().await {
            self.changed.notify_one();
        }
        self.check_values(ReloadCause::FileEvent).await;
        loop {
            // Held for long only by somebody whom a folder keeps waiting: then looking is the way.
            let looks = self.watcher.try_lock().map_or(true, |watcher| watcher.is_polling());
            tokio::select! {
                () = self.changed.notified() => tokio::time::sleep(DEBOUNCE).await,
                () = tokio::time::sleep(POLL_INTERVAL), if looks => {}
                () = self.services.value_resolver.shell_answered_late() => {}
            }
            // Said once, by whoever publishes; the config's problems stand in the status too.
            self.reload(ReloadCause::FileEvent).await;
        }
    }

    /// Watches what decides what is shown. True if something is watched that was not before.
    async fn watch(self: &Arc<Self>) -> bool {
        let (daemon, watcher) = (self.clone(), self.watcher.clone());
        let set = move || match watcher.try_lock() {
            Ok(mut watcher) => watcher.set(daemon.plan()),
            Err(_) => false,
        };
        run_blocking_with_timeout(set).await.unwrap_or(false)
    }

    /// The person's own first; then every workspace for itself, all at once. Gives what is wrong with the personal config.
    async fn read_all(self: &Arc<Self>, why: ReloadCause) -> Vec<Problem> {
        let daemon = self.clone();
        let config_problems = match run_blocking_with_timeout(move || daemon.read_personal()).await.flatten()
        {
            Some(personal) => self.publish_personal(personal, why),
            None => Vec::new(),
        };
        let personal = self.personal.catalog().personal.clone();
        let reading = self.workspaces.all().into_iter().map(|workspace| {
            let (daemon, personal) = (self.clone(), personal.clone());
            tokio::spawn(async move {
                let read = {
                    let (daemon, workspace) = (daemon.clone(), workspace.clone());
                    move || daemon.read_workspace(&workspace)
                };
                let layer = run_blocking_with_timeout(read).await.flatten();
                daemon.publish_workspace(&workspace, &personal, layer, why);
            })
        });
        for read in reading.collect::<Vec<_>>() {
            let _ = read.await;
        }
        self.sweep();
        config_problems
    }

    /// `None` while an earlier reading has not come back.
    fn read_personal(&self) -> Option<PersonalFiles> {
        let mut memory = unless_locked(self.personal.memory.try_lock())?;
        let (mut config, mut problems) = Config::understood(&self.config_file, Extent::Personal);
        let before = self.personal.catalog();
        if problems.is_empty() {
            LastGood::new(&self.locations.state).keep(&config);
        } else if before.config().basis != Basis::Partial {
            // What it said before; all else is read as ever. A mistake in it is no reason to ignore a `deny`.
            config = before.config().clone();
        }
        if !problems.is_empty() {
            problems.push(config.in_place_of_the_file(&self.config_file));
        }
        let (trust, damage) = self.locations.trust(&config);
        let mut layer =
            Layer::personal(config, &self.locations, &trust, &mut memory).recall(&self.services.manifests);
        layer.problems.extend(damage);
        layer.problems.extend(self.needs_restart(&layer.config));
        Some(PersonalFiles { layer, problems })
    }

    fn read_workspace(&self, workspace: &Workspace) -> Option<Layer> {
        let root = workspace.root.as_deref()?;
        let mut memory = unless_locked(workspace.memory.try_lock())?;
        let (trust, _) = self.locations.trust(self.personal.catalog().config());
        let layer =
            Layer::workspace(root, &self.locations, &trust, &mut memory).recall(&self.services.manifests);
        LastGood::new(&self.locations.state).keep(&layer.config);
        Some(layer)
    }

    /// Gives what is wrong with the personal config.
    fn publish_personal(&self, read: PersonalFiles, why: ReloadCause) -> Vec<Problem> {
        let PersonalFiles { layer, problems } = read;
        if self.broken_config() != problems || (why == ReloadCause::Requested && !problems.is_empty()) {
            self.note_broken(problems.clone());
        }
        let before = self.personal.catalog();
        if why == ReloadCause::Requested || !layer.is_same(&before.personal) || before.has_retired_pool() {
            self.services.budget.set(layer.config.budget);
            self.services.logins.set(layer.config.oauth.clone());
            self.show(&self.personal, &Arc::new(layer), None, why);
        }
        problems
    }

    /// What is wrong with the personal config from now on: said once, and shown for as long as it is.
    pub(crate) fn note_broken(&self, problems: Vec<Problem>) {
        problems.iter().for_each(|problem| tracing::error!(target: "config", "{problem}"));
        *self.broken_config.lock().expect("BUG: a note panicked") = problems;
        self.services.status_changed.notify();
    }

    /// `layer`: what it says now; `None` if it does not answer.
    fn publish_workspace(
        &self,
        workspace: &Arc<Workspace>,
        personal: &Arc<Layer>,
        layer: Option<Layer>,
        why: ReloadCause,
    ) {
        let before = workspace.catalog();
        let same = match (&layer, &before.own) {
            (Some(layer), Some(own)) => layer.is_same(own),
            (None, _) => true,
            (Some(_), None) => false,
        };
        let is_current = Arc::ptr_eq(&before.personal, personal) && !before.has_retired_pool();
        if why == ReloadCause::Requested || !same || !is_current {
            let own = if same { before.own.clone() } else { layer.map(Arc::new) };
            self.show(workspace, personal, own.as_ref(), why);
        }
    }

    /// One swap; whoever sees another list than before hears of it.
    fn show(
        &self,
        workspace: &Arc<Workspace>,
        personal: &Arc<Layer>,
        own: Option<&Arc<Layer>>,
        why: ReloadCause,
    ) {
        let generation = workspace.catalog().generation + 1;
        let catalog = Catalog::build(personal, own, &self.pools, &self.services, generation);
        let before = workspace.publish(catalog);
        let after = workspace.catalog();
        report(&after, Some(&before));
        if why == ReloadCause::Requested {
            after.reset_breakers();
        }
        after.keep_warm();
        if before.tools_list != after.tools_list {
            let there = self.sessions.all().into_iter().filter(|session| session.is_in(workspace));
            there.for_each(|session| self.notify_catalog_changed(&session));
        }
        self.services.list_changes.notify_one();
        self.services.status_changed.notify();
        self.sessions.stir();
    }

    /// What nobody shows any more goes when it has finished. A catalog takes its pools in the same turn of the event
    /// loop in which it is shown, and this runs on that loop too: it never meets pools of a catalog under way.
    fn sweep(&self) {
        let mut shown: HashSet<*const Pool> = HashSet::new();
        let all = self.workspaces.all();
        for workspace in all.iter().chain([&self.personal]) {
            shown.extend(workspace.catalog().pools().map(Arc::as_ptr));
        }
        for pool in self.pools.sweep(|pool| shown.contains(&Arc::as_ptr(pool))) {
            pool.retire();
        }
    }

    /// Everything that decides what is shown.
    fn plan(&self) -> WatchPlan {
        let mut plan = WatchPlan::default();
        let personal = self.personal.catalog().personal.clone();
        if personal.config.watch == Watch::Poll {
            plan.poll();
        }
        plan.file(&self.config_file);
        plan.add(&personal.watched);
        self.services.value_resolver.files().iter().for_each(|file| plan.file(file));
        plan.file(&self.locations.trust.file());
        for workspace in self.workspaces.all() {
            if let (Some(root), Some(own)) = (&workspace.root, &workspace.catalog().own) {
                plan.file(&Layer::config_file(root));
                plan.add(&own.watched);
            }
        }
        plan
    }

    /// What is read and takes effect only with the next daemon.
    fn needs_restart(&self, config: &Config) -> Option<Problem> {
        (config.http.listen != self.listen).then(|| {
            let message = "`http.listen` changed: it takes effect after `switchboard restart`";
            Problem::of(&config.file, message)
        })
    }
}

/// What a lock guards, unless somebody else has it.
fn unless_locked<T>(tried: Result<T, TryLockError<T>>) -> Option<T> {
    match tried {
        Ok(free) => Some(free),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(_)) => panic!("BUG: a reading panicked"),
    }
}

/// The first look, before anybody is served.
pub(crate) fn load_personal(
    config: Config,
    locations: &Locations,
    manifests: &Manifests,
) -> (Arc<Layer>, LastGoodDefinitions) {
    let (trust, damage): (Trust, _) = locations.trust(&config);
    let mut memory = LastGoodDefinitions::default();
    let mut layer = Layer::personal(config, locations, &trust, &mut memory).recall(manifests);
    layer.problems.extend(damage);
    (Arc::new(layer), memory)
}

/// Says what changed; problems that were told before are not told again.
pub(crate) fn report(catalog: &Catalog, before: Option<&Catalog>) {
    let known = before.map_or(&[][..], |before| &before.problems);
    for problem in catalog.problems.iter().filter(|problem| !known.contains(problem)) {
        tracing::warn!(target: "discover", "{problem}");
    }
    let folder = catalog.own.as_ref().unwrap_or(&catalog.personal).config.folder.display();
    tracing::info!(
        target: "catalog",
        generation = catalog.generation,
        suites = catalog.suites.len(),
        "loaded from {folder}",
    );
}

//! Reads everything again and publishes what changed: one at a time, the newest wins. Children whose launch
//! did not change go on; those that nobody wants any more finish what they have and go.
//!
//! Nothing here touches a file on the one thread that works. A directory that does not answer (a network file
//! system that is away) costs its own workspace its news, and nobody else anything.

mod arrivals;
mod values;

use std::collections::HashSet;
use std::sync::{Arc, TryLockError};
use std::time::Duration;

pub use arrivals::Arrival;
pub use values::Checks;

use crate::board::Board;
use crate::catalog::Catalog;
use crate::config::{Basis, Config, Extent, LastGood, Watch};
use crate::discover::Memory;
use crate::document::Problem;
use crate::layer::{Ground, Layer};
use crate::mailbox::Kind;
use crate::manifest::Manifests;
use crate::methods;
use crate::pool::Pool;
use crate::session::Session;
use crate::trust::Trust;
use crate::watch::{LOOK, Plan};
use crate::workspace::Workspace;

/// Changes come in flocks: an editor writes, renames, writes again.
const SETTLE: Duration = Duration::from_millis(200);
/// New folders show new folders; deeper than this nobody goes in one step.
const NEW_FOLDERS: usize = 4;
/// Files that take longer than this to read are not read now.
const READ: Duration = Duration::from_secs(5);

/// Why everything is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// A file may have changed.
    Changed,
    /// A person says so: past failures are forgiven, the login shell is asked again.
    Told,
}

/// What there is after everything was read again.
pub struct Reloaded {
    /// The person's own.
    pub catalog: Arc<Catalog>,
    /// What is wrong with the personal config, and what is used of it.
    pub config_problems: Vec<Problem>,
}

/// The person's own files as they are now.
struct Read {
    layer: Layer,
    problems: Vec<Problem>,
}

/// Does something with files beside the one thread that works. `None` if it took too long.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::time::timeout(READ, tokio::task::spawn_blocking(work)).await.ok()?.ok()
}

fn push_changed(session: &Session, method: &'static str) {
    let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
    session.caller.push(Kind::Changed(method), body.into_bytes());
}

impl Board {
    /// Reads everything again. While the personal config has a mistake, what it said before is used.
    pub async fn reload(self: &Arc<Self>, why: Why) -> Reloaded {
        let reloading = self.reloading.lock().await;
        if why == Why::Told {
            self.nursery.sources.forget_shell();
        }
        let mut config_problems = Vec::new();
        for round in 1..=NEW_FOLDERS {
            config_problems = self.read_all(why).await;
            // What is watched only now may have changed between the look and the watch.
            if !self.watch().await {
                break;
            }
            if round == NEW_FOLDERS {
                self.changed.notify_one();
            }
        }
        drop(reloading);
        self.nursery.measures.reloaded(config_problems.is_empty());
        self.check_values(why).await;
        Reloaded { catalog: self.personal.catalog(), config_problems }
    }

    /// The catalog that a session sees has changed.
    pub fn tell_changed(&self, session: &Session) {
        self.nursery.news.notify_one();
        // What one child offers is compared before it is told.
        if session.face.child().is_none() {
            self.tell_anew(session);
        }
    }

    /// A session is to look at its list again.
    pub fn tell_anew(&self, session: &Session) {
        let host = session.caller.profile();
        // A host of the modern era hears nothing that it does not listen for.
        if host.is_modern && host.revision.is_none() {
            return;
        }
        push_changed(session, methods::TOOLS_CHANGED);
    }

    /// A session is to look at all its lists again.
    pub fn tell_all_anew(&self, session: &Session) {
        self.tell_anew(session);
        if session.caller.profile().revision.is_some() {
            push_changed(session, methods::PROMPTS_CHANGED);
            push_changed(session, methods::RESOURCES_CHANGED);
        }
    }

    /// Looks again whenever something may have changed; never resolves.
    pub async fn keep_current(self: &Arc<Self>) {
        let board = self.clone();
        aside(move || {
            if let Err(error) = board.ground.trust.prepare() {
                tracing::warn!(target: "trust", "`{}`: {error}", board.ground.trust.folder().display());
            }
        })
        .await;
        if self.watch().await {
            self.changed.notify_one();
        }
        self.check_values(Why::Changed).await;
        loop {
            // Held for long only by somebody whom a folder keeps waiting: then looking is the way.
            let looks = self.watcher.try_lock().map_or(true, |watcher| watcher.looks());
            tokio::select! {
                () = self.changed.notified() => tokio::time::sleep(SETTLE).await,
                () = tokio::time::sleep(LOOK), if looks => {}
                () = self.nursery.sources.shell_answered_late() => {}
            }
            // Said once, by whoever publishes; the config's problems stand in the status too.
            self.reload(Why::Changed).await;
        }
    }

    /// Watches what decides what is shown. True if something is watched that was not before.
    async fn watch(self: &Arc<Self>) -> bool {
        let (board, watcher) = (self.clone(), self.watcher.clone());
        let set = move || match watcher.try_lock() {
            Ok(mut watcher) => watcher.set(board.plan()),
            Err(_) => false,
        };
        aside(set).await.unwrap_or(false)
    }

    /// The person's own first; then every workspace for itself, all at once. Gives what is wrong with the personal config.
    async fn read_all(self: &Arc<Self>, why: Why) -> Vec<Problem> {
        let board = self.clone();
        let config_problems = match aside(move || board.read_personal()).await.flatten() {
            Some(personal) => self.publish_personal(personal, why),
            None => Vec::new(),
        };
        let personal = self.personal.catalog().personal.clone();
        let reading = self.workspaces.all().into_iter().map(|workspace| {
            let (board, personal) = (self.clone(), personal.clone());
            tokio::spawn(async move {
                let read = {
                    let (board, workspace) = (board.clone(), workspace.clone());
                    move || board.read_workspace(&workspace)
                };
                let layer = aside(read).await.flatten();
                board.publish_workspace(&workspace, &personal, layer, why);
            })
        });
        for read in reading.collect::<Vec<_>>() {
            let _ = read.await;
        }
        self.sweep();
        config_problems
    }

    /// `None` while an earlier reading has not come back.
    fn read_personal(&self) -> Option<Read> {
        let mut memory = free(self.personal.memory.try_lock())?;
        let (mut config, mut problems) = Config::understood(&self.config_file, Extent::Personal);
        let before = self.personal.catalog();
        if problems.is_empty() {
            LastGood::new(&self.ground.state).keep(&config);
        } else if before.config().basis != Basis::Partial {
            // What it said before; all else is read as ever. A mistake in it is no reason to ignore a `deny`.
            config = before.config().clone();
        }
        if !problems.is_empty() {
            problems.push(config.in_place_of_the_file(&self.config_file));
        }
        let (trust, damage) = self.ground.trust(&config);
        let mut layer =
            Layer::personal(config, &self.ground, &trust, &mut memory).recall(&self.nursery.manifests);
        layer.problems.extend(damage);
        layer.problems.extend(self.unheeded(&layer.config));
        Some(Read { layer, problems })
    }

    fn read_workspace(&self, workspace: &Workspace) -> Option<Layer> {
        let root = workspace.root.as_deref()?;
        let mut memory = free(workspace.memory.try_lock())?;
        let (trust, _) = self.ground.trust(self.personal.catalog().config());
        let layer = Layer::workspace(root, &self.ground, &trust, &mut memory).recall(&self.nursery.manifests);
        LastGood::new(&self.ground.state).keep(&layer.config);
        Some(layer)
    }

    /// Gives what is wrong with the personal config.
    fn publish_personal(&self, read: Read, why: Why) -> Vec<Problem> {
        let Read { layer, problems } = read;
        if self.broken_config() != problems || (why == Why::Told && !problems.is_empty()) {
            self.note_broken(problems.clone());
        }
        let before = self.personal.catalog();
        if why == Why::Told || !layer.is_same(&before.personal) || before.has_retired_pool() {
            self.nursery.budget.set(layer.config.budget);
            self.nursery.logins.set(layer.config.oauth.clone());
            self.show(&self.personal, &Arc::new(layer), None, why);
        }
        problems
    }

    /// What is wrong with the personal config from now on: said once, and shown for as long as it is.
    pub(crate) fn note_broken(&self, problems: Vec<Problem>) {
        problems.iter().for_each(|problem| tracing::error!(target: "config", "{problem}"));
        *self.broken_config.lock().expect("BUG: a note panicked") = problems;
        self.nursery.pulse.beat();
    }

    /// `layer`: what it says now; `None` if it does not answer.
    fn publish_workspace(
        &self,
        workspace: &Arc<Workspace>,
        personal: &Arc<Layer>,
        layer: Option<Layer>,
        why: Why,
    ) {
        let before = workspace.catalog();
        let same = match (&layer, &before.own) {
            (Some(layer), Some(own)) => layer.is_same(own),
            (None, _) => true,
            (Some(_), None) => false,
        };
        let is_current = Arc::ptr_eq(&before.personal, personal) && !before.has_retired_pool();
        if why == Why::Told || !same || !is_current {
            let own = if same { before.own.clone() } else { layer.map(Arc::new) };
            self.show(workspace, personal, own.as_ref(), why);
        }
    }

    /// One swap; whoever sees another list than before hears of it.
    fn show(&self, workspace: &Arc<Workspace>, personal: &Arc<Layer>, own: Option<&Arc<Layer>>, why: Why) {
        let generation = workspace.catalog().generation + 1;
        let catalog = Catalog::build(personal, own, &self.pools, &self.nursery, generation);
        let before = workspace.publish(catalog);
        let after = workspace.catalog();
        report(&after, Some(&before));
        if why == Why::Told {
            after.forgive();
        }
        after.keep_warm();
        if before.tools_list != after.tools_list {
            let there = self.sessions.all().into_iter().filter(|session| session.is_in(workspace));
            there.for_each(|session| self.tell_changed(&session));
        }
        self.nursery.news.notify_one();
        self.nursery.pulse.beat();
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
    fn plan(&self) -> Plan {
        let mut plan = Plan::default();
        let personal = self.personal.catalog().personal.clone();
        if personal.config.watch == Watch::Poll {
            plan.look();
        }
        plan.file(&self.config_file);
        plan.add(&personal.watched);
        self.nursery.sources.files().iter().for_each(|file| plan.file(file));
        plan.file(&self.ground.trust.file());
        for workspace in self.workspaces.all() {
            if let (Some(root), Some(own)) = (&workspace.root, &workspace.catalog().own) {
                plan.file(&Layer::config_file(root));
                plan.add(&own.watched);
            }
        }
        plan
    }

    /// What is read and takes effect only with the next daemon.
    fn unheeded(&self, config: &Config) -> Option<Problem> {
        (config.http.listen != self.listen).then(|| {
            let message = "`http.listen` changed: it takes effect after `switchboard restart`";
            Problem::of(&config.file, message)
        })
    }
}

/// What a lock guards, unless somebody else has it.
fn free<T>(tried: Result<T, TryLockError<T>>) -> Option<T> {
    match tried {
        Ok(free) => Some(free),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(_)) => panic!("BUG: a reading panicked"),
    }
}

/// The first look, before anybody is served.
pub(crate) fn first_look(config: Config, ground: &Ground, manifests: &Manifests) -> (Arc<Layer>, Memory) {
    let (trust, damage): (Trust, _) = ground.trust(&config);
    let mut memory = Memory::default();
    let mut layer = Layer::personal(config, ground, &trust, &mut memory).recall(manifests);
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

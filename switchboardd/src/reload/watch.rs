//! Notices that files may have changed. An event only triggers a reload, which finds out what changed.
//!
//! Watches folders, never files, because editors save by replacing the file. If the system cannot report
//! changes (a network file system, or no watches left), the daemon polls every few seconds.

pub mod folder;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, CreateKind, Event, EventKind, ModifyKind, RemoveKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use switchboard_definitions::discover::WatchedPaths;
use switchboard_definitions::discover::walk::WatchRule;
use switchboard_wire::event_loop::may_block;

/// The polling interval.
pub const POLL_INTERVAL: Duration = Duration::from_secs(3);

/// File systems that other machines can change without an event here, by their statfs(2) numbers.
#[cfg(target_os = "linux")]
const NETWORKED: [u64; 12] = [
    0x6969,      // NFS
    0x517B,      // SMB
    0xFF53_4D42, // CIFS
    0xFE53_4D42, // SMB2
    0x6573_5546, // FUSE
    0x0102_1997, // 9P
    0x7375_7245, // CODA
    0x5346_414F, // AFS
    0x00C3_6400, // CEPH
    0x786F_4256, // VirtualBox shares
    0x0BD0_0BD0, // Lustre
    0x4750_4653, // GPFS
];

/// As many symlinks in a row as the kernel follows.
const MAX_LINKS: usize = 40;

/// The folders to watch, and the changes that matter there.
#[derive(Debug, Default)]
pub struct WatchPlan {
    folders: BTreeMap<PathBuf, Vec<Rule>>,
    poll: bool,
}

/// A change that matters in a folder.
#[derive(Debug, PartialEq)]
enum Rule {
    Discovery(WatchRule),
    Name(OsString),
}

impl WatchPlan {
    pub fn add(&mut self, watched: &WatchedPaths) {
        self.poll |= watched.is_incomplete;
        for dir in &watched.folders {
            self.rule(&dir.folder, Rule::Discovery(dir.rule.clone()));
        }
        watched.files.iter().for_each(|file| self.file(file));
    }

    /// Watches a file. Neither the file nor its folder need exist. Every symlink on its path is watched too.
    pub fn file(&mut self, file: &Path) {
        may_block();
        let words = |path: &Path| -> Vec<OsString> {
            path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
        };
        let (mut here, mut ahead, mut links) = (PathBuf::from("/"), words(file), 0);
        while let Some(word) = ahead.pop() {
            match word.as_encoded_bytes() {
                b"/" => here = PathBuf::from("/"),
                b"." => {}
                b".." => drop(here.pop()),
                _ => {
                    let next = here.join(&word);
                    let meta = next.symlink_metadata();
                    let is_link = meta.as_ref().is_ok_and(|meta| meta.is_symlink());
                    if is_link || meta.is_err() || ahead.is_empty() {
                        self.rule(&here, Rule::Name(word));
                    }
                    match meta {
                        Err(_) => return,
                        Ok(_) if is_link && links < MAX_LINKS => {
                            links += 1;
                            ahead.extend(std::fs::read_link(&next).map(|to| words(&to)).unwrap_or_default());
                        }
                        Ok(_) => here = next,
                    }
                }
            }
        }
    }

    /// Polls instead of watching.
    pub fn poll(&mut self) {
        self.poll = true;
    }

    fn rule(&mut self, folder: &Path, rule: Rule) {
        self.folders.entry(folder.to_owned()).or_default().push(rule);
    }

    /// Whether a change matters by this plan that did not matter by the one `before`.
    fn has_new_rule(&self, before: &Self) -> bool {
        self.folders.iter().any(|(folder, rules)| {
            let known = before.folders.get(folder).map_or(&[][..], Vec::as_slice);
            rules.iter().any(|rule| !known.contains(rule))
        })
    }
}

impl Rule {
    fn matches(&self, name: &OsStr, may_be_folder: bool) -> bool {
        match self {
            Self::Discovery(rule) => rule.is_relevant(name, may_be_folder),
            Self::Name(known) => known == name,
        }
    }
}

/// Device and inode of a watched folder: another folder may replace it under the same name.
type FolderId = (u64, u64);

pub struct Watcher {
    inner: Option<RecommendedWatcher>,
    filter: Arc<EventFilter>,
    watched: HashMap<PathBuf, FolderId>,
    /// Whether polling is needed, and whether a failed watch was logged.
    is_polling: bool,
    warned: bool,
}

/// Shared by the event thread and the daemon.
#[derive(Debug, Default)]
struct EventFilter {
    // Both are leaf locks: held to look something up or to replace it.
    plan: RwLock<WatchPlan>,
    /// Folders that were removed or renamed, and their watch with them.
    lost: Mutex<HashSet<PathBuf>>,
    changed: Arc<Notify>,
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").field("folders", &self.watched.len()).finish_non_exhaustive()
    }
}

impl Watcher {
    /// `changed` is notified when a reload is needed.
    pub fn new(changed: Arc<Notify>) -> Self {
        let filter = Arc::new(EventFilter { changed, ..EventFilter::default() });
        Self { inner: None, filter, watched: HashMap::new(), is_polling: false, warned: false }
    }

    /// Replaces the watch set. Returns true if a folder or a rule was added: the change may have happened before
    /// the watch was in place, or its event was dropped by the rules before.
    pub fn set(&mut self, mut plan: WatchPlan) -> bool {
        may_block();
        let all: Vec<PathBuf> = if plan.poll { Vec::new() } else { plan.folders.keys().cloned().collect() };
        plan.poll |= all.iter().any(|folder| is_networked(folder));
        let mut looks = plan.poll;
        let before = std::mem::replace(&mut *self.filter.plan.write().expect("BUG: a plan panicked"), plan);
        let mut added = self.filter.plan.read().expect("BUG: a plan panicked").has_new_rule(&before);
        let lost = std::mem::take(&mut *self.filter.lost.lock().expect("BUG: a note panicked"));
        let wanted: HashMap<PathBuf, FolderId> =
            all.into_iter().filter_map(|folder| Some((folder.clone(), identity(&folder)?))).collect();
        let stale: Vec<PathBuf> = self
            .watched
            .iter()
            .filter(|(folder, identity)| lost.contains(*folder) || wanted.get(*folder) != Some(identity))
            .map(|(folder, _)| folder.clone())
            .collect();
        for folder in stale {
            self.watched.remove(&folder);
            if let Some(inner) = &mut self.inner {
                let _ = inner.unwatch(&folder);
            }
        }
        for (folder, identity) in wanted {
            if self.watched.contains_key(&folder) {
                continue;
            }
            match self.watch(&folder) {
                Ok(()) => {
                    self.watched.insert(folder, identity);
                    added = true;
                }
                // The folder is gone again; the watch on its parent has reported that.
                Err(notify::Error { kind: notify::ErrorKind::PathNotFound, .. }) => {}
                Err(error) => {
                    self.warn_once(&folder, &error);
                    looks = true;
                }
            }
        }
        self.is_polling = looks;
        added
    }

    /// Whether polling is needed.
    pub fn is_polling(&self) -> bool {
        self.is_polling
    }

    /// Whether a folder could not be watched.
    pub fn has_failed(&self) -> bool {
        self.warned
    }

    pub fn folders(&self) -> usize {
        self.watched.len()
    }

    fn watch(&mut self, folder: &Path) -> notify::Result<()> {
        let inner = match &mut self.inner {
            Some(inner) => inner,
            None => {
                let filter = self.filter.clone();
                self.inner.insert(notify::recommended_watcher(move |event| filter.on_event(&event))?)
            }
        };
        inner.watch(folder, RecursiveMode::NonRecursive)
    }

    fn warn_once(&mut self, folder: &Path, error: &notify::Error) {
        if !std::mem::replace(&mut self.warned, true) {
            let seconds = POLL_INTERVAL.as_secs();
            tracing::warn!(target: "watch", "`{}` cannot be watched: {error}; looking every {seconds} s instead", folder.display());
        }
    }
}

impl EventFilter {
    fn on_event(&self, event: &notify::Result<Event>) {
        let matters = match event {
            // The missed event may be a relevant one.
            Err(_) => true,
            Ok(event) => event.need_rescan() || self.is_relevant(event),
        };
        if matters {
            self.changed.notify_one();
        }
    }

    fn is_relevant(&self, event: &Event) -> bool {
        let (goes, may_be_folder) = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => (false, false),
            EventKind::Access(_) => return false,
            EventKind::Create(CreateKind::File) => (false, true), // may be a link to a folder
            EventKind::Create(_) => (false, true),
            EventKind::Remove(RemoveKind::File) => (true, true),
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => (true, true),
            // A changed mode may make a folder readable.
            EventKind::Modify(ModifyKind::Metadata(_)) => (false, true),
            _ => (false, false),
        };
        let plan = self.plan.read().expect("BUG: a plan panicked");
        event.paths.iter().any(|path| {
            if goes && plan.folders.contains_key(path) {
                self.lost.lock().expect("BUG: a note panicked").insert(path.clone());
                return true;
            }
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return false };
            let rules = plan.folders.get(folder).map_or(&[][..], Vec::as_slice);
            rules.iter().any(|rule| rule.matches(name, may_be_folder))
        })
    }
}

fn identity(folder: &Path) -> Option<FolderId> {
    let meta = std::fs::metadata(folder).ok()?;
    Some((meta.dev(), meta.ino()))
}

#[cfg(target_os = "linux")]
fn is_networked(folder: &Path) -> bool {
    #[allow(clippy::unnecessary_cast, reason = "the type differs between systems")]
    rustix::fs::statfs(folder).is_ok_and(|system| NETWORKED.contains(&(system.f_type as u64 & 0xFFFF_FFFF)))
}

#[cfg(not(target_os = "linux"))]
fn is_networked(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|system| !is_local(system.f_flags))
}

/// Whether a file system is on this machine, by the `f_flags` of macOS: `MNT_LOCAL`.
#[cfg(any(not(target_os = "linux"), test))]
fn is_local(flags: u32) -> bool {
    flags & 0x1000 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn heard(changed: &Notify) -> bool {
        tokio::time::timeout(Duration::from_secs(5), changed.notified()).await.is_ok()
    }

    async fn quiet(changed: &Notify) -> bool {
        tokio::time::timeout(Duration::from_millis(150), changed.notified()).await.is_err()
    }

    #[test]
    fn a_file_system_of_another_machine_is_told_by_its_flags() {
        // The system's disk: MNT_JOURNALED | MNT_DOVOLFS | MNT_ROOTFS | MNT_LOCAL; and a share: MNT_NOSUID.
        assert!(is_local(0x0080_d000) && !is_local(0x0000_0008));
    }

    #[tokio::test]
    async fn only_relevant_changes_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let changed = Arc::new(Notify::new());
        let mut watcher = Watcher::new(changed.clone());
        let plan = || {
            let mut plan = WatchPlan::default();
            plan.file(&root.join("some"));
            plan.file(&root.join("not/there/yet"));
            plan
        };
        assert!(watcher.set(plan()));
        assert!(!watcher.set(plan()) && !watcher.is_polling());
        let mut more = plan();
        more.file(&root.join("more"));
        assert!(watcher.set(more), "the file may have appeared before the rule was known");
        assert!(!watcher.set(plan()));
        std::fs::write(root.join("other"), "x").unwrap();
        assert!(quiet(&changed).await);
        std::fs::write(root.join("some"), "x").unwrap();
        assert!(heard(&changed).await);
        while !quiet(&changed).await {}
        std::fs::read(root.join("some")).unwrap();
        assert!(quiet(&changed).await);
        std::fs::create_dir_all(root.join("not/there")).unwrap();
        assert!(heard(&changed).await);
        assert!(watcher.set(plan()));
        while !quiet(&changed).await {}
        std::fs::write(root.join("not/there/yet"), "x").unwrap();
        assert!(heard(&changed).await);
    }

    #[tokio::test]
    async fn a_replaced_folder_is_watched_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let changed = Arc::new(Notify::new());
        let mut watcher = Watcher::new(changed.clone());
        let plan = || {
            let mut plan = WatchPlan::default();
            plan.file(&root.join("a/file"));
            plan.file(&root.join("a"));
            plan
        };
        std::fs::create_dir(root.join("a")).unwrap();
        watcher.set(plan());
        for _ in 0..20 {
            std::fs::create_dir(root.join("b")).unwrap();
            std::fs::remove_dir_all(root.join("a")).unwrap();
            std::fs::rename(root.join("b"), root.join("a")).unwrap();
            assert!(heard(&changed).await);
            watcher.set(plan());
            while !quiet(&changed).await {
                watcher.set(plan());
            }
            std::fs::write(root.join("a/file"), "x").unwrap();
            assert!(heard(&changed).await);
            while !quiet(&changed).await {}
        }
    }
}

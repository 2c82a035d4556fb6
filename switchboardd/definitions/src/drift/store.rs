//! What was accepted of each server's tools: one private file for each definition, replaced atomically, one writer at
//! a time. A damaged file is never overwritten by the daemon: no tool of its server counts as accepted until the user
//! accepts them anew.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use switchboard_wire::event_loop::may_block;
use switchboard_wire::folder::private_folder;

use super::changes::{AcceptedTool, AcceptedTools, compare, key};
use super::known_tool::KnownTool;
use super::{Drift, ListedText};
use crate::digest;
use crate::files::{open_own, private, replace};

const VERSION: u32 = 1;
const MAX_BYTES: u64 = 32 * 1024 * 1024;
/// More tools of one server than this are not kept; they count as new.
const MAX_TOOLS: usize = 10_000;
/// How much of definitions is kept for one server; of the others, only digests.
const MAX_TEXT: usize = 4 * 1024 * 1024;
/// How many definitions of one tool count as accepted: a server may alternate between some.
const MAX_VERSIONS: usize = 4;
/// How many changes are remembered as reported.
const MAX_REPORTED: usize = 2000;
/// Longer versions are not kept.
const MAX_SERVER_VERSION: usize = 64;

#[derive(Debug, Clone)]
pub struct ToolStore {
    folder: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    #[error("`{file}` is damaged ({why})")]
    Damaged { file: String, why: String },
    #[error("`{file}`: {error}")]
    Io { file: String, error: io::Error },
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BaselineFile {
    version: u32,
    server: String,
    file: PathBuf,
    server_version: Option<String>,
    tools: AcceptedTools,
    /// Marks of changes that are not accepted and were reported.
    reported: Vec<String>,
}

/// The definition whose tools are meant.
#[derive(Debug, Clone, Copy)]
struct BaselineOf<'a> {
    file: &'a Path,
    name: &'a str,
}

/// A comparison, and whether it found changes that were not reported before.
#[derive(Debug)]
pub struct Compared {
    pub drift: Drift,
    pub is_news: bool,
}

impl ToolStore {
    pub fn new(state: &Path) -> Self {
        Self { folder: state.join("tools") }
    }

    /// Where the tools of a definition are kept.
    pub fn path(&self, file: &Path, name: &str) -> PathBuf {
        let id = digest::hex(serde_json::json!([file, name]).to_string().as_bytes());
        self.folder.join(format!("{}.json", &id[..32]))
    }

    /// Changes whenever the record does.
    pub fn stamp(&self, file: &Path, name: &str) -> Option<(u64, i64, i64)> {
        may_block();
        let meta = std::fs::symlink_metadata(self.path(file, name)).ok()?;
        Some((meta.ino(), meta.mtime(), meta.mtime_nsec()))
    }

    /// Compares a server's tools with what was accepted. The first list is the baseline. Changes are noted as
    /// reported, so that they are news only once.
    pub fn compare(
        &self,
        file: &Path,
        name: &str,
        tools: &[ListedText<'_>],
        server_version: Option<&str>,
    ) -> Result<Compared, BaselineError> {
        let entry = BaselineOf { file, name };
        // Without the lock first: usually nothing changed, and nothing is written.
        if let Some(record) = self.read(entry)? {
            let (drift, marks) = compared(&record, tools, server_version);
            if marks.iter().all(|mark| record.reported.contains(mark)) {
                return Ok(Compared { drift, is_news: false });
            }
        }
        let _lock = self.lock()?;
        let Some(mut record) = self.read(entry)? else {
            let record = BaselineFile::first(entry, tools, server_version);
            self.write(entry, &record)?;
            let (drift, _) = compared(&record, tools, server_version);
            return Ok(Compared { drift, is_news: false });
        };
        let (drift, marks) = compared(&record, tools, server_version);
        let mut new: Vec<String> =
            marks.into_iter().filter(|mark| !record.reported.contains(mark)).take(MAX_REPORTED).collect();
        let is_news = !new.is_empty();
        if is_news {
            new.extend(std::mem::take(&mut record.reported));
            new.truncate(MAX_REPORTED);
            record.reported = new;
            self.write(entry, &record)?;
        }
        Ok(Compared { drift, is_news })
    }

    /// The same without noting anything; nothing differs from a baseline that is not there.
    pub fn peek(
        &self,
        file: &Path,
        name: &str,
        tools: &[ListedText<'_>],
        server_version: Option<&str>,
    ) -> Result<Drift, BaselineError> {
        let record = self.read(BaselineOf { file, name })?;
        Ok(record.map(|record| compared(&record, tools, server_version).0).unwrap_or_default())
    }

    /// Accepts these tools as they are, besides what was accepted before. A damaged record is replaced.
    pub fn accept(
        &self,
        file: &Path,
        name: &str,
        tools: &[ListedText<'_>],
        server_version: Option<&str>,
    ) -> Result<(), BaselineError> {
        let entry = BaselineOf { file, name };
        let _lock = self.lock()?;
        let mut record = match self.read(entry) {
            Ok(Some(record)) => record,
            Ok(None) | Err(BaselineError::Damaged { .. }) => BaselineFile::default(),
            Err(error) => return Err(error),
        };
        record.accept(entry, tools, server_version);
        self.write(entry, &record)
    }

    fn lock(&self) -> Result<std::fs::File, BaselineError> {
        may_block();
        let failed = |error| self.failed(&self.folder, error);
        private_folder(&self.folder).map_err(failed)?;
        let lock = open_own(&self.folder.join("lock"), false).map_err(failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        Ok(lock)
    }

    fn read(&self, entry: BaselineOf<'_>) -> Result<Option<BaselineFile>, BaselineError> {
        may_block();
        let path = self.path(entry.file, entry.name);
        let damaged = |why: String| BaselineError::Damaged { file: path.display().to_string(), why };
        let Some(body) = private::read(&path, MAX_BYTES).map_err(|error| damaged(error.to_string()))? else {
            return Ok(None);
        };
        let record: BaselineFile =
            serde_json::from_slice(&body).map_err(|error| damaged(error.to_string()))?;
        if record.version != VERSION {
            return Err(damaged(format!("its version is {}", record.version)));
        }
        if record.file != entry.file || record.server != entry.name {
            return Err(damaged("it is about another server".to_owned()));
        }
        Ok(Some(record))
    }

    fn write(&self, entry: BaselineOf<'_>, record: &BaselineFile) -> Result<(), BaselineError> {
        let path = self.path(entry.file, entry.name);
        let body = serde_json::to_vec(record).map_err(|error| self.failed(&path, error.into()))?;
        replace(&path, &body).map_err(|error| self.failed(&path, error))
    }

    fn failed(&self, path: &Path, error: io::Error) -> BaselineError {
        BaselineError::Io { file: path.display().to_string(), error }
    }
}

impl Drift {
    /// Nothing counts as accepted, because it is not known what was.
    pub fn unknown(error: &BaselineError, tools: &[ListedText<'_>]) -> Self {
        let unaccepted: std::collections::HashSet<Box<str>> =
            tools.iter().map(|tool| tool.name.into()).collect();
        let added = unaccepted.clone();
        Self { added, damaged: Some(error.to_string()), unaccepted, ..Self::default() }
    }
}

fn compared(record: &BaselineFile, tools: &[ListedText<'_>], version: Option<&str>) -> (Drift, Vec<String>) {
    let (mut drift, marks) = compare(&record.tools, tools);
    let (was, is) = (record.server_version.as_deref(), version.map(short_version));
    if let (Some(was), Some(is)) = (was, is)
        && was != is
        && !drift.changes.is_empty()
    {
        drift.versions = Some((was.to_owned(), is));
    }
    (drift, marks)
}

fn short_version(version: &str) -> String {
    super::difference::clipped(version, MAX_SERVER_VERSION)
}

impl BaselineFile {
    fn first(entry: BaselineOf<'_>, tools: &[ListedText<'_>], server_version: Option<&str>) -> Self {
        let mut record = Self::default();
        record.accept(entry, tools, server_version);
        record
    }

    fn accept(&mut self, entry: BaselineOf<'_>, tools: &[ListedText<'_>], server_version: Option<&str>) {
        self.version = VERSION;
        (self.server, self.file) = (entry.name.to_owned(), entry.file.to_owned());
        self.server_version = server_version.map(short_version);
        self.reported.clear();
        let mut current: BTreeMap<String, KnownTool> = BTreeMap::new();
        for tool in tools.iter().take(MAX_TOOLS) {
            current.entry(key(tool.name)).or_insert_with(|| KnownTool::of(*tool));
        }
        for (name, tool) in &mut self.tools {
            tool.may_be_absent |= !current.contains_key(name);
        }
        // Room for what the server has now: what it had before goes first.
        let new = current.keys().filter(|name| !self.tools.contains_key(*name)).count();
        let excess = (self.tools.len() + new).saturating_sub(MAX_TOOLS);
        let old: Vec<String> =
            self.tools.keys().filter(|name| !current.contains_key(*name)).take(excess).cloned().collect();
        old.iter().for_each(|name| drop(self.tools.remove(name)));
        for (name, known) in current {
            let tool = self
                .tools
                .entry(name)
                .or_insert_with(|| AcceptedTool { versions: Vec::new(), may_be_absent: false });
            tool.versions.retain(|one| one.digest != known.digest);
            tool.versions.push(known);
            let surplus = tool.versions.len().saturating_sub(MAX_VERSIONS);
            tool.versions.drain(..surplus);
        }
        self.bound_text();
    }

    /// Keeps texts up to the limit, those of the latest versions first.
    fn bound_text(&mut self) {
        let mut left = MAX_TEXT;
        for age in 0..MAX_VERSIONS {
            for tool in self.tools.values_mut() {
                let Some(at) = tool.versions.len().checked_sub(age + 1) else { continue };
                let known = &mut tool.versions[at];
                match left.checked_sub(known.kept_bytes()) {
                    Some(rest) => left = rest,
                    None => *known = known.clone().without_text(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const A: ListedText<'_> = ListedText { name: "a", raw: r#"{"description":"A"}"# };
    const B: ListedText<'_> = ListedText { name: "b", raw: r#"{"description":"B"}"# };
    const A2: ListedText<'_> = ListedText { name: "a", raw: r#"{"description":"A two"}"# };

    struct Rig {
        folder: tempfile::TempDir,
        store: ToolStore,
    }

    impl Rig {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = ToolStore::new(folder.path());
            Self { folder, store }
        }

        fn compare(&self, tools: &[ListedText<'_>]) -> Compared {
            self.store.compare(Path::new("/f"), "s", tools, Some("1")).unwrap()
        }

        fn accept(&self, tools: &[ListedText<'_>]) {
            self.store.accept(Path::new("/f"), "s", tools, Some("1")).unwrap();
        }
    }

    #[test]
    fn the_first_list_is_the_baseline_and_a_change_is_news_once() {
        let rig = Rig::new();
        assert!(rig.store.peek(Path::new("/f"), "s", &[A], None).unwrap().is_none());
        let first = rig.compare(&[A]);
        assert!(first.drift.is_none() && !first.is_news);
        assert!(!rig.compare(&[A]).is_news);
        for (expected, tools) in [(true, [A2]), (false, [A2]), (false, [A]), (false, [A2])] {
            let compared = rig.compare(&tools);
            assert_eq!((compared.is_news, compared.drift.is_none()), (expected, tools[0].raw == A.raw));
        }
        // Another server of that name has its own.
        assert!(rig.store.compare(Path::new("/g"), "s", &[A2], None).unwrap().drift.is_none());
        let file = rig.store.path(Path::new("/f"), "s");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(file.starts_with(rig.folder.path().join("tools")));
    }

    #[test]
    fn a_server_may_alternate_between_accepted_lists() {
        let rig = Rig::new();
        rig.compare(&[A, B]);
        assert_eq!(rig.compare(&[A2]).drift.changes.len(), 2);
        rig.accept(&[A2]);
        for tools in [&[A2][..], &[A, B], &[A2], &[B]] {
            // `a` may not be absent: no list without it was accepted.
            assert_eq!(
                rig.compare(tools).drift.is_none(),
                tools.len() > 1 || tools[0].name == "a",
                "{tools:?}"
            );
        }
    }

    #[test]
    fn an_upgrade_is_named_with_both_versions() {
        let rig = Rig::new();
        rig.compare(&[A]);
        let drift = rig.store.peek(Path::new("/f"), "s", &[A2], Some("2\u{1b}[2J")).unwrap();
        let expected =
            r#"1 tool changed (version 1 → 2\u{1b}[2J): tool `a` changed: `description`: "A" → "A two""#;
        assert_eq!(drift.summary(), expected);
        assert!(rig.store.peek(Path::new("/f"), "s", &[A], Some("2")).unwrap().is_none());
    }

    #[test]
    fn a_damaged_record_accepts_nothing_and_is_kept_until_the_user_accepts() {
        let rig = Rig::new();
        rig.compare(&[A]);
        let file = rig.store.path(Path::new("/f"), "s");
        let good = std::fs::read_to_string(&file).unwrap();
        for damage in
            ["", "{", "[]", &good.replace("\"version\":1", "\"version\":9"), &good.replace("/f", "/g")]
        {
            std::fs::write(&file, damage).unwrap();
            let error = rig.store.compare(Path::new("/f"), "s", &[A], None).unwrap_err();
            assert!(matches!(error, BaselineError::Damaged { .. }), "{damage}");
            let drift = Drift::unknown(&error, &[A]);
            assert!(!drift.is_none() && drift.unaccepted.contains("a") && drift.read_only.is_empty());
            assert_eq!(std::fs::read_to_string(&file).unwrap(), damage);
        }
        rig.accept(&[A]);
        assert!(rig.compare(&[A]).drift.is_none());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(rig.store.compare(Path::new("/f"), "s", &[A], None).is_err());
    }

    #[test]
    fn the_record_is_bounded() {
        let rig = Rig::new();
        rig.compare(&[A]);
        let long = "d".repeat(1000);
        for round in 0..2 {
            let tools: Vec<(String, String)> = (0..12_000)
                .map(|at| (format!("t{round}-{at}"), format!(r#"{{"description":"{long}{round}"}}"#)))
                .collect();
            let tools: Vec<ListedText<'_>> =
                tools.iter().map(|(name, raw)| ListedText { name, raw }).collect();
            let compared = rig.compare(&tools);
            assert!(compared.drift.summary().len() < 2500);
            assert!(compared.drift.lines().iter().all(|line| line.len() < 1000));
            rig.accept(&tools);
            let length = rig.store.path(Path::new("/f"), "s").metadata().unwrap().len();
            assert!(length < 8 * 1024 * 1024, "{length}");
        }
        let huge = format!(r#"{{"description":"{}"}}"#, "d".repeat(1024 * 1024));
        let drift = rig.compare(&[ListedText { name: "t1-0", raw: &huge }]).drift;
        let of_tool = drift.changes.iter().find(|change| change.tool == "`t1-0`").unwrap();
        assert!(of_tool.details[0].contains("too long to be shown"), "{:?}", of_tool.details);
    }

    #[test]
    fn writers_wait_for_each_other() {
        let rig = Rig::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let news = rig.compare(&[A2]).is_news;
                    assert!(!news);
                });
            }
        });
        let news: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| rig.compare(&[A]).is_news)).collect();
            threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
        });
        assert_eq!(news, 1);
    }
}

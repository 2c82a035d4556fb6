//! The trust database: one private file, replaced atomically, one writer at a time, with an audit log. If it
//! cannot be read, everything is held.

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use switchboard_wire::folder::{check_itself, private_folder};

use super::{Decision, TrustRecord, TrustRecords};
use crate::files::regular::{self, Links, OpenFileError};
use crate::files::{is_ours_alone, open_own, replace};
use switchboard_wire::event_loop::may_block;

const VERSION: u32 = 1;
const MAX_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, Clone)]
pub struct TrustStore {
    folder: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum TrustStoreError {
    #[error("`{file}` is damaged, so every server of a project is held ({why}); move it away to start again")]
    Damaged { file: String, why: String },
    #[error("`{file}`: {error}")]
    Io { file: String, error: io::Error },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustFile {
    version: u32,
    entries: Vec<TrustFileEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustFileEntry {
    file: PathBuf,
    name: String,
    record: TrustRecord,
}

impl TrustStore {
    pub fn new(state: &Path) -> Self {
        Self { folder: state.join("trust") }
    }

    /// The folder to watch for decisions.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn file(&self) -> PathBuf {
        self.folder.join("trust.json")
    }

    pub fn audit_file(&self) -> PathBuf {
        self.folder.join("audit.log")
    }

    /// Creates the folder, so that it can be watched.
    pub fn prepare(&self) -> io::Result<()> {
        private_folder(&self.folder)
    }

    pub fn read(&self) -> Result<TrustRecords, TrustStoreError> {
        may_block();
        let file = self.file();
        // A link in place of the folder would lead to decisions of someone else.
        if let Err(error) = check_itself(&self.folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(self.failed(error));
        }
        let (opened, meta) = match regular::open(&file, Links::Refuse) {
            Ok(opened) => opened,
            Err(OpenFileError::Absent) => return Ok(TrustRecords::new()),
            Err(OpenFileError::Irregular | OpenFileError::DanglingLink) => {
                return Err(self.damaged("it is not a regular file"));
            }
            Err(OpenFileError::Failed(error)) => return Err(self.failed(error)),
        };
        is_ours_alone(&meta).map_err(|why| self.damaged(&why))?;
        // We never give it to a group, not even to the user's own.
        if meta.permissions().mode() & 0o022 != 0 {
            return Err(self.damaged("others can write it"));
        }
        let text = regular::read_up_to(MAX_BYTES, opened).map_err(|error| self.failed(error))?;
        let text = text.ok_or_else(|| self.damaged("it is too long"))?;
        let written: TrustFile =
            serde_json::from_slice(&text).map_err(|error| self.damaged(&error.to_string()))?;
        if written.version != VERSION {
            return Err(self.damaged(&format!("its version is {}", written.version)));
        }
        let mut records = TrustRecords::new();
        for TrustFileEntry { file, name, record } in written.entries {
            records.entry(file).or_default().insert(name, record);
        }
        Ok(records)
    }

    /// Records a decision under an exclusive lock; other decisions stay.
    pub fn record(&self, file: &Path, name: &str, record: TrustRecord) -> Result<(), TrustStoreError> {
        self.change(|records| {
            let line = audit_line(file, name, &record);
            records.entry(file.to_owned()).or_default().insert(name.to_owned(), record);
            vec![line]
        })
    }

    /// Takes back what was allowed, under the same lock; what was denied stays so. Returns what was taken back.
    pub fn revoke(
        &self,
        entries: &[(PathBuf, String)],
        at: &str,
        by: &str,
    ) -> Result<Vec<(PathBuf, String)>, TrustStoreError> {
        let mut revoked = Vec::new();
        self.change(|records| {
            for (file, name) in entries {
                let Some(names) = records.get_mut(file) else { continue };
                let is_allowed =
                    names.get(name).is_some_and(|record| matches!(record.verdict, Decision::Allow(_)));
                if is_allowed {
                    names.remove(name);
                    revoked.push((file.clone(), name.clone()));
                }
            }
            records.retain(|_, names| !names.is_empty());
            revoked.iter().map(|(file, name)| format!("{at} revoke {name:?} in {file:?} by {by}")).collect()
        })?;
        Ok(revoked)
    }

    /// `change` returns the lines for the log; without any, nothing is written.
    fn change(&self, change: impl FnOnce(&mut TrustRecords) -> Vec<String>) -> Result<(), TrustStoreError> {
        may_block();
        let failed = |error| self.failed(error);
        self.prepare().map_err(failed)?;
        let lock = open_own(&self.folder.join("lock"), false).map_err(failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let mut records = self.read()?;
        let lines = change(&mut records);
        if lines.is_empty() {
            return Ok(());
        }
        // Logged first, so that no decision takes effect without a log entry.
        let mut audit = open_own(&self.audit_file(), true).map_err(failed)?;
        for line in lines {
            writeln!(audit, "{line}").map_err(failed)?;
        }
        let entries = records.into_iter().flat_map(|(file, names)| {
            names.into_iter().map(move |(name, record)| TrustFileEntry { file: file.clone(), name, record })
        });
        let written = TrustFile { version: VERSION, entries: entries.collect() };
        let body = serde_json::to_vec_pretty(&written).map_err(|error| failed(error.into()))?;
        replace(&self.file(), &body).map_err(failed)
    }

    fn damaged(&self, why: &str) -> TrustStoreError {
        TrustStoreError::Damaged { file: self.file().display().to_string(), why: why.to_owned() }
    }

    fn failed(&self, error: io::Error) -> TrustStoreError {
        TrustStoreError::Io { file: self.folder.display().to_string(), error }
    }
}

fn audit_line(file: &Path, name: &str, record: &TrustRecord) -> String {
    let TrustRecord { at, by, verdict, restrictions, .. } = record;
    match verdict {
        Decision::Allow(launch) => {
            let mut settings = restrictions.lines().join(", ");
            if !settings.is_empty() {
                settings = format!(" with {settings}");
            }
            format!("{at} allow {name:?} in {file:?} version {}{settings} by {by}", &launch.digest()[..16])
        }
        Decision::Deny => format!("{at} deny {name:?} in {file:?} by {by}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Restrictions;

    fn record(verdict: Decision) -> TrustRecord {
        let (at, by) = ("2026-01-01T00:00:00Z".to_owned(), "test".to_owned());
        TrustRecord { verdict, restrictions: Restrictions::default(), at, by, limits: Default::default() }
    }

    #[test]
    fn decisions_are_stored_and_logged() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore::new(folder.path());
        assert!(store.read().unwrap().is_empty());
        store.record(Path::new("/a"), "x", record(Decision::Deny)).unwrap();
        store.record(Path::new("/a"), "y", record(Decision::Deny)).unwrap();
        let records = store.read().unwrap();
        assert_eq!(records[Path::new("/a")].keys().collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(std::fs::read_to_string(store.audit_file()).unwrap().lines().count(), 2);
        for file in [store.file(), store.audit_file()] {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_damaged_file_gives_an_error_and_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore::new(folder.path());
        store.record(Path::new("/a"), "x", record(Decision::Deny)).unwrap();
        let good = std::fs::read_to_string(store.file()).unwrap();
        for damage in [String::new(), "{".to_owned(), good.replace(": 1", ": 9"), good.replace("deny", "Yes")]
        {
            std::fs::write(store.file(), &damage).unwrap();
            assert!(matches!(store.read(), Err(TrustStoreError::Damaged { .. })), "{damage}");
            assert!(store.record(Path::new("/b"), "x", record(Decision::Deny)).is_err());
            assert_eq!(std::fs::read_to_string(store.file()).unwrap(), damage);
        }
        std::fs::write(store.file(), &good).unwrap();
        for open in [0o622, 0o620, 0o602] {
            std::fs::set_permissions(store.file(), std::fs::Permissions::from_mode(open)).unwrap();
            assert!(matches!(store.read(), Err(TrustStoreError::Damaged { .. })), "{open:o}");
        }
    }

    #[test]
    fn only_what_was_allowed_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore::new(folder.path());
        let launch = crate::definition::Launch::Process(crate::definition::LaunchCommand::default());
        store.record(Path::new("/a"), "x", record(Decision::Allow(Box::new(launch.clone())))).unwrap();
        store.record(Path::new("/a"), "y", record(Decision::Deny)).unwrap();
        store.record(Path::new("/b"), "x", record(Decision::Allow(Box::new(launch)))).unwrap();
        let entry = |file: &str, name: &str| (PathBuf::from(file), name.to_owned());
        let entries = [entry("/a", "x"), entry("/a", "y"), entry("/c", "z")];
        assert_eq!(store.revoke(&entries, "t", "test").unwrap(), [entry("/a", "x")]);
        assert!(store.revoke(&entries, "t", "test").unwrap().is_empty());
        let records = store.read().unwrap();
        assert_eq!(records[Path::new("/a")].keys().collect::<Vec<_>>(), ["y"]);
        assert_eq!(records[Path::new("/b")].keys().collect::<Vec<_>>(), ["x"]);
        let log = std::fs::read_to_string(store.audit_file()).unwrap();
        assert_eq!(log.lines().count(), 4);
        assert!(log.contains(r#"t revoke "x" in "/a" by test"#), "{log}");
    }

    #[test]
    fn writers_wait_for_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore::new(folder.path());
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let store = &store;
                scope.spawn(move || {
                    for name in 0..8 {
                        let name = format!("{writer}-{name}");
                        store.record(Path::new("/a"), &name, record(Decision::Deny)).unwrap();
                    }
                });
            }
        });
        assert_eq!(store.read().unwrap()[Path::new("/a")].len(), 64);
    }
}

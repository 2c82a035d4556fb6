//! Records of changes to hosts' files, so that they can be undone: the original text and a fingerprint of
//! what we wrote. Such files hold secrets, so only the user can read the records.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use switchboard_wire::runtime_paths::private_folder;

use switchboard_definitions::files::{open_own, private};

use super::table::HOSTS;

const VERSION: u64 = 1;
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// One file of a host, before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFileRecord {
    pub(super) version: u64,
    pub host: String,
    pub file: PathBuf,
    /// `None`: there was no file.
    pub original: Option<String>,
    /// The fingerprint of what we wrote last.
    pub written: String,
    /// Folders that were created for it, outermost first.
    pub folders: Vec<PathBuf>,
    /// How many of the keys on our entry's path existed before; `None` if we added no entry.
    pub there_before: Option<usize>,
    /// Servers that were removed.
    pub taken: Vec<RemovedServer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemovedServer {
    pub project: Option<PathBuf>,
    pub name: String,
    pub raw: String,
}

impl HostFileRecord {
    pub fn new(host: &str, file: &Path, original: Option<&str>) -> Self {
        Self {
            version: VERSION,
            host: host.to_owned(),
            file: file.to_owned(),
            original: original.map(ToOwned::to_owned),
            written: String::new(),
            folders: Vec::new(),
            there_before: None,
            taken: Vec::new(),
        }
    }

    /// Whether the record may hold the only copy of something.
    pub fn holds_something(&self) -> bool {
        !self.taken.is_empty() || self.original.as_deref().is_some_and(|text| !text.trim().is_empty())
    }

    /// Whether a text is what we wrote last.
    pub fn is_ours(&self, text: &str) -> bool {
        self.written == fingerprint(text)
    }
}

pub fn fingerprint(text: &str) -> String {
    switchboard_definitions::digest::hex(text.as_bytes())
}

/// The folder of all records, locked by one process at a time.
#[derive(Debug)]
pub struct HostFileRecords {
    folder: PathBuf,
    _lock: Option<File>,
}

impl HostFileRecords {
    /// Read-only, without the lock.
    pub fn peek(state: &Path) -> Self {
        Self { folder: state.join("hosts"), _lock: None }
    }

    /// Waits for the lock.
    pub fn open(state: &Path) -> io::Result<Self> {
        let folder = state.join("hosts");
        private_folder(&folder)?;
        let lock = open_own(&folder.join("lock"), true)?;
        loop {
            match flock(&lock, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                locked => {
                    locked?;
                    return Ok(Self { folder, _lock: Some(lock) });
                }
            }
        }
    }

    /// The record of a file.
    pub fn of(&self, file: &Path) -> Result<Option<HostFileRecord>, String> {
        read(&self.record_path(file))
    }

    /// All records, and what is wrong with those that cannot be read.
    pub fn all(&self) -> (Vec<HostFileRecord>, Vec<String>) {
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        let files = std::fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut files: Vec<_> =
            files.filter(|file| file.extension().is_some_and(|end| end == "json")).collect();
        files.sort();
        for file in files {
            match read(&file) {
                Ok(record) => found.extend(record),
                Err(problem) => problems.push(problem),
            }
        }
        // Editors in the order in which they are listed everywhere.
        let place = |record: &HostFileRecord| HOSTS.iter().position(|host| host.id == record.host);
        found.sort_by_cached_key(|record: &HostFileRecord| {
            (place(record).unwrap_or(usize::MAX), record.file.clone())
        });
        (found, problems)
    }

    pub fn save(&self, record: &HostFileRecord) -> io::Result<()> {
        let body = serde_json::to_vec(record)?;
        switchboard_definitions::files::replace(&self.record_path(&record.file), &body)
    }

    pub fn forget(&self, file: &Path) -> io::Result<()> {
        match std::fs::remove_file(self.record_path(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn record_path(&self, file: &Path) -> PathBuf {
        let name = switchboard_definitions::digest::hex(file.as_os_str().as_encoded_bytes());
        self.folder.join(format!("{}.json", &name[..16]))
    }
}

fn read(file: &Path) -> Result<Option<HostFileRecord>, String> {
    let Some(body) = private::read(file, MAX_FILE_BYTES).map_err(|unfit| unfit.to_string())? else {
        return Ok(None);
    };
    // The position only: the parser's message may quote a value.
    let record: HostFileRecord = serde_json::from_slice(&body).map_err(|error| {
        let file = file.display();
        format!(
            "`{file}` is damaged at line {}, column {}; what it was about cannot be undone",
            error.line(),
            error.column()
        )
    })?;
    match record.version {
        VERSION => Ok(Some(record)),
        version => Err(format!(
            "`{}` is of version {version}, which another version of Switchboard wrote; use that one",
            file.display()
        )),
    }
}

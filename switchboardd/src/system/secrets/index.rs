//! The private file: all names, where each value is stored, and the values themselves if there is no keyring.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use switchboard_definitions::files::{open_own, private};
use switchboard_wire::event_loop::{may_block, run_blocking};
use switchboard_wire::runtime_paths::private_folder;

use super::{SecretString, SecretsError};

const VERSION: u64 = 1;
/// Room for several hundred values of the maximum length.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretsIndex {
    version: u64,
    pub(super) secrets: BTreeMap<String, SecretEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "in", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum SecretEntry {
    Keyring {},
    File { value: SecretString },
}

/// Read first: another version may have a different format.
#[derive(Deserialize)]
struct Version {
    version: u64,
}

impl SecretsIndex {
    /// Reads the file; empty if there is none.
    pub(super) fn load(folder: &Path) -> Result<Self, SecretsError> {
        may_block();
        let file = file(folder);
        let Some(body) = private::read(&file, MAX_FILE_BYTES)? else {
            return Ok(Self { version: VERSION, secrets: BTreeMap::new() });
        };
        // Reports only the position: the parser's message may quote a value.
        let damaged = |error: serde_json::Error| SecretsError::Damaged {
            file: file.clone(),
            line: error.line(),
            column: error.column(),
        };
        let Version { version } = serde_json::from_slice(&body).map_err(damaged)?;
        if version != VERSION {
            return Err(SecretsError::Version { file, version });
        }
        serde_json::from_slice(&body).map_err(damaged)
    }

    pub(super) fn save(&self, folder: &Path) -> Result<(), SecretsError> {
        let file = file(folder);
        let body = serde_json::to_vec_pretty(self).expect("BUG: text and names are JSON");
        switchboard_definitions::files::replace(&file, &body)
            .map_err(|error| SecretsError::Unwritten { file, error })
    }
}

/// Takes the write lock, waiting for other writers. Dropping the file releases it.
pub(super) async fn lock(folder: &Path) -> Result<File, SecretsError> {
    let (file, folder) = (folder.join("lock"), folder.to_owned());
    let path = file.clone();
    let locked = run_blocking(move || {
        may_block();
        private_folder(&folder)?;
        let lock = open_own(&path, true)?;
        loop {
            match flock(&lock, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                locked => return locked.map(|()| lock).map_err(io::Error::from),
            }
        }
    });
    locked.await.map_err(|error| SecretsError::Unwritten { file, error })
}

fn file(folder: &Path) -> PathBuf {
    folder.join("secrets.json")
}

//! The bearers of status pages. They outlive the daemon, so that a pinned tab survives a restart or an upgrade: a private
//! file keeps the SHA-256 of each and when it ends, from which no bearer can be made.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use switchboard_definitions::digest;
use switchboard_definitions::files::{private, replace};
use switchboard_wire::event_loop::may_block;
use switchboard_wire::random::hex;
use switchboard_wire::secret;
use tokio::time::Instant;

/// A working day; after that the user must run `switchboard open` again.
pub const BEARER_LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// More pages than a user has open; the oldest bearer is dropped.
pub(super) const BEARERS: usize = 16;

const BEARER_BYTES: usize = 32;
/// A longer file was not written by us.
const MAX_BYTES: u64 = 16 * 1024;

/// Issued bearers, oldest first.
#[derive(Debug, Default)]
pub(super) struct PageBearers {
    issued: VecDeque<PageBearer>,
}

#[derive(Debug)]
struct PageBearer {
    sha256: String,
    ends: Instant,
}

/// One bearer in the file.
#[derive(Debug, Serialize, Deserialize)]
struct StoredBearer {
    sha256: String,
    /// Milliseconds since 1970.
    until: u64,
}

impl PageBearers {
    pub(super) fn issue(&mut self) -> String {
        self.forget_old();
        if self.issued.len() == BEARERS {
            self.issued.pop_front();
        }
        let bearer = hex(BEARER_BYTES);
        let sha256 = digest::hex(bearer.as_bytes());
        self.issued.push_back(PageBearer { sha256, ends: Instant::now() + BEARER_LIFE });
        bearer
    }

    /// Compares with all of them, so that the time does not reveal which one matched.
    pub(super) fn is_valid(&mut self, bearer: &[u8]) -> bool {
        self.forget_old();
        let given = digest::hex(bearer);
        let same = |known: &PageBearer| secret::is_same(given.as_bytes(), known.sha256.as_bytes());
        self.issued.iter().fold(false, |found, known| same(known) | found)
    }

    /// For each bearer a text that only somebody who knows its hash can make.
    pub(super) fn proofs(&mut self, host: &str, nonce: &str) -> Vec<String> {
        self.forget_old();
        let proof = |known: &PageBearer| digest::hex(format!("{}\n{host}\n{nonce}", known.sha256).as_bytes());
        self.issued.iter().map(proof).collect()
    }

    pub(super) fn clear(&mut self) {
        self.issued.clear();
    }

    /// What the file holds.
    pub(super) fn stored(&mut self) -> Vec<u8> {
        self.forget_old();
        let (now, today) = (Instant::now(), unix_ms());
        let stored: Vec<StoredBearer> = self
            .issued
            .iter()
            .map(|known| StoredBearer {
                sha256: known.sha256.clone(),
                until: today + whole_ms(known.ends.saturating_duration_since(now)),
            })
            .collect();
        serde_json::to_vec(&stored).expect("BUG: text and numbers are JSON")
    }

    /// Takes over what an earlier daemon stored. A file that others could have read or written is not used.
    pub(super) fn read(&mut self, file: &Path) {
        may_block();
        let Ok(Some(text)) = private::read(file, MAX_BYTES) else { return };
        let Ok(stored) = serde_json::from_slice::<Vec<StoredBearer>>(&text) else { return };
        let (now, today) = (Instant::now(), unix_ms());
        for StoredBearer { sha256, until } in stored.into_iter().take(BEARERS) {
            // The clock may have been set back; nothing is valid for longer than a new one.
            let left = Duration::from_millis(until.saturating_sub(today)).min(BEARER_LIFE);
            self.issued.push_back(PageBearer { sha256, ends: now + left });
        }
        self.forget_old();
    }

    fn forget_old(&mut self) {
        let now = Instant::now();
        self.issued.retain(|known| known.ends > now);
    }
}

pub(super) fn bearers_file(state: &Path) -> PathBuf {
    state.join("page-bearers.json")
}

pub(super) fn write(file: &Path, stored: &[u8]) {
    may_block();
    if let Err(error) = replace(file, stored) {
        tracing::warn!(target: "page", "`{}` cannot be written: {error}; open status pages end with this daemon", file.display());
    }
}

fn unix_ms() -> u64 {
    whole_ms(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_next_daemon_knows_a_bearer_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let file = bearers_file(folder.path());
        let mut before = PageBearers::default();
        let bearer = before.issue();
        write(&file, &before.stored());
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains(&bearer) && text.contains(&digest::hex(bearer.as_bytes())), "{text}");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let next = || {
            let mut next = PageBearers::default();
            next.read(&file);
            next
        };
        let mut after = next();
        assert!(after.is_valid(bearer.as_bytes()));
        let hash = digest::hex(bearer.as_bytes());
        assert!(!after.is_valid(hash.as_bytes()), "the file is of no use to somebody who reads it");
        assert_eq!(after.proofs("h", "n"), [digest::hex(format!("{hash}\nh\nn").as_bytes())]);
        tokio::time::sleep(BEARER_LIFE).await;
        assert!(!after.is_valid(bearer.as_bytes()));
        // Times that no daemon writes, damage, and a file that others can read.
        std::fs::write(&file, format!(r#"[{{"sha256":"{hash}","until":{}}}]"#, u64::MAX)).unwrap();
        let mut long = next();
        assert!(long.is_valid(bearer.as_bytes()));
        tokio::time::sleep(BEARER_LIFE).await;
        assert!(!long.is_valid(bearer.as_bytes()));
        std::fs::write(&file, format!(r#"[{{"sha256":"{hash}","until":1}}]"#)).unwrap();
        assert!(!next().is_valid(bearer.as_bytes()));
        std::fs::write(&file, "[{").unwrap();
        assert!(next().issued.is_empty());
        write(&file, text.as_bytes());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!next().is_valid(bearer.as_bytes()));
    }
}

//! The file that outlives the daemon: the totals of each suite and the token counts of texts. No text is
//! counted twice, and a text is stored only until it is counted. A file that cannot be read is started
//! afresh.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use switchboard_definitions::files::{open_own, replace};
use switchboard_definitions::time::unix_seconds;
use switchboard_wire::event_loop::may_block;
use switchboard_wire::runtime_paths::private_folder;

use super::{Fingerprint, SuiteDelta};
use crate::savings::tokens::{MAX_TEXT, TOKENIZER};

const VERSION: u32 = 1;
/// A longer file was not written by us.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Suites of removed definitions stay in the file; above this many, the least recently updated is dropped.
const MAX_SUITES: usize = 512;
/// Limit for texts that wait to be counted, in bytes. Texts above it count as `uncounted`.
const MAX_WAITING_TEXT: usize = 8 * 1024 * 1024;
/// Above this many token counts, the unused ones are dropped.
const MAX_COUNTS: usize = 8192;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SavingsFile {
    version: u32,
    tokenizer: String,
    /// When the file was started, in seconds since 1970.
    pub since: u64,
    suites: BTreeMap<String, SuiteTotals>,
    counts: BTreeMap<String, u64>,
    texts: BTreeMap<String, String>,
}

/// The totals of one suite.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteTotals {
    /// Sessions that were shown the suite.
    pub sessions: u64,
    pub introspections: u64,
    /// Tokens of the introspections that were counted.
    pub introspected: u64,
    /// Introspections that can never be counted.
    pub uncounted: u64,
    pub cold_avoided: u64,
    pub cold_avoided_ms: u64,
    pub cold_added: u64,
    pub cold_added_ms: u64,
    /// Texts that wait to be counted, and how often each was fetched.
    waiting: BTreeMap<String, u64>,
    touched: u64,
}

impl AddAssign<&SuiteTotals> for SuiteTotals {
    fn add_assign(&mut self, other: &SuiteTotals) {
        self.sessions += other.sessions;
        self.introspections += other.introspections;
        self.introspected += other.introspected;
        self.uncounted += other.uncounted;
        self.cold_avoided += other.cold_avoided;
        self.cold_avoided_ms += other.cold_avoided_ms;
        self.cold_added += other.cold_added;
        self.cold_added_ms += other.cold_added_ms;
    }
}

impl SavingsFile {
    fn empty() -> Self {
        Self { version: VERSION, tokenizer: TOKENIZER.to_owned(), since: now(), ..Self::default() }
    }

    pub(super) fn add(
        &mut self,
        notes: HashMap<Fingerprint, SuiteDelta>,
        texts: HashMap<Fingerprint, Box<str>>,
    ) {
        let now = now();
        for (suite, notes) in notes {
            let past = self.suites.entry(suite.to_string()).or_default();
            past.touched = now;
            past.sessions += notes.sessions;
            past.cold_avoided += notes.cold.avoided;
            past.cold_avoided_ms += notes.cold.avoided_ms;
            past.cold_added += notes.cold.added;
            past.cold_added_ms += notes.cold.added_ms;
            for (text, times) in notes.fetched {
                past.introspections += times;
                *past.waiting.entry(text.to_string()).or_default() += times;
            }
        }
        let mut room =
            MAX_WAITING_TEXT.saturating_sub(self.texts.values().map(|text| text.len()).sum::<usize>());
        for (mark, text) in texts {
            let mark = mark.to_string();
            if !self.counts.contains_key(&mark) && text.len() <= room.min(MAX_TEXT) {
                room -= text.len();
                self.texts.insert(mark, text.into());
            }
        }
        self.add_up_counted();
        while self.suites.len() > MAX_SUITES {
            let oldest =
                self.suites.iter().min_by_key(|(_, past)| past.touched).map(|(mark, _)| mark.clone());
            oldest.and_then(|oldest| self.suites.remove(&oldest));
        }
    }

    /// Texts that were fetched and wait to be counted.
    pub fn waiting(&self) -> impl Iterator<Item = &str> {
        self.texts.values().map(String::as_str)
    }

    /// Records the token counts of these texts.
    pub fn add_counts(&mut self, counted: &[(String, u64)]) {
        self.counts.extend(counted.iter().map(|(text, tokens)| (Fingerprint::of(text).to_string(), *tokens)));
        self.add_up_counted();
    }

    pub fn tokens(&self, mark: Fingerprint) -> Option<u64> {
        self.counts.get(&mark.to_string()).copied()
    }

    pub fn totals(&self, suite: Fingerprint) -> SuiteTotals {
        self.suites.get(&suite.to_string()).cloned().unwrap_or_default()
    }

    /// If there are too many counts, drops those that are not in `used`.
    pub fn trim(&mut self, used: &HashSet<Fingerprint>) {
        if self.counts.len() > MAX_COUNTS {
            let used: HashSet<String> = used.iter().map(ToString::to_string).collect();
            self.counts.retain(|mark, _| used.contains(mark));
        }
    }

    /// Adds counted texts to the totals, and counts those that can never be counted as `uncounted`.
    fn add_up_counted(&mut self) {
        for past in self.suites.values_mut() {
            past.waiting.retain(|mark, times| match self.counts.get(mark) {
                Some(tokens) => {
                    past.introspected += *times * tokens;
                    false
                }
                None if self.texts.contains_key(mark) => true,
                None => {
                    past.uncounted += *times;
                    false
                }
            });
        }
        self.texts.retain(|mark, _| !self.counts.contains_key(mark));
    }
}

/// Reads and writes the file.
#[derive(Debug)]
pub struct SavingsStore {
    folder: PathBuf,
    /// Content that could not be written.
    // Held while the file is read and written; never taken on the event loop.
    unwritten: Mutex<Option<SavingsFile>>,
}

impl SavingsStore {
    pub fn new(state: &Path) -> Self {
        Self { folder: state.to_owned(), unwritten: Mutex::default() }
    }

    /// Applies `change` to the file under a lock that also excludes other daemons of this user.
    pub fn change<T>(&self, change: impl FnOnce(&mut SavingsFile) -> T) -> T {
        may_block();
        let mut unwritten = self.unwritten.lock().expect("BUG: a note panicked");
        let lock = private_folder(&self.folder).and_then(|()| {
            let open = open_own(&self.file("savings.lock"), true)?;
            flock(&open, FlockOperation::LockExclusive)?;
            Ok(open)
        });
        let before = std::fs::read(self.file("savings.json")).unwrap_or_default();
        let mut kept = unwritten.take().unwrap_or_else(|| read(&before).unwrap_or_else(SavingsFile::empty));
        let told = change(&mut kept);
        let body = serde_json::to_vec(&kept).expect("BUG: numbers and text are JSON");
        if body == before {
            return told;
        }
        if let Err(error) = lock.and_then(|_lock| replace(&self.file("savings.json"), &body)) {
            let file = self.file("savings.json");
            tracing::warn!(target: "savings", "`{}` could not be written: {error}", file.display());
            *unwritten = Some(kept);
        }
        told
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Rejects counts of another tokenizer.
fn read(text: &[u8]) -> Option<SavingsFile> {
    let kept: SavingsFile = (text.len() as u64 <= MAX_BYTES).then(|| serde_json::from_slice(text).ok())??;
    (kept.version == VERSION && kept.tokenizer == TOKENIZER).then_some(kept)
}

fn now() -> u64 {
    unix_seconds(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::savings::recorder::{ChildUse, SavingsRecorder};
    use std::time::Duration;

    #[test]
    fn records_outlive_the_daemon_and_texts_are_kept_until_counted() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let suite = Fingerprint::of("suite");
        for _ in 0..2 {
            let recorder = SavingsRecorder::new(&state);
            recorder.record_shown([suite].into_iter());
            recorder.record_fetched(suite, Fingerprint::of("text"), "text");
            recorder.record_fetched(suite, Fingerprint::of("text"), "text");
            recorder.record_use(suite, ChildUse::FoundRunning, Some(Duration::from_millis(7)));
            recorder.record_use(suite, ChildUse::Started, Some(Duration::from_millis(900)));
            recorder.flush();
        }
        let recorder = SavingsRecorder::new(&state);
        let waiting = recorder.change(|kept| kept.waiting().map(ToOwned::to_owned).collect::<Vec<_>>());
        assert_eq!(waiting, ["text"]);
        let past = recorder.change(|kept| {
            kept.add_counts(&[("text".to_owned(), 3)]);
            kept.totals(suite)
        });
        assert_eq!((past.sessions, past.introspections, past.introspected, past.uncounted), (2, 4, 12, 0));
        assert_eq!((past.cold_avoided, past.cold_avoided_ms, past.cold_added), (2, 14, 0));
        // A counted text is not stored, and is added to the totals at once.
        recorder.record_fetched(suite, Fingerprint::of("text"), "text");
        let (waiting, past) = recorder.change(|kept| (kept.waiting().count(), kept.totals(suite)));
        assert_eq!((waiting, past.introspected), (0, 15));
    }

    #[test]
    fn texts_over_the_limit_are_uncounted() {
        let folder = tempfile::tempdir().unwrap();
        let (recorder, suite) = (SavingsRecorder::new(folder.path()), Fingerprint::of("suite"));
        let long = "x".repeat(MAX_TEXT + 1);
        recorder.record_fetched(suite, Fingerprint::of(&long), &long);
        let past = recorder.change(|kept| kept.totals(suite));
        assert_eq!((past.introspections, past.introspected, past.uncounted), (1, 0, 1));
    }

    #[test]
    fn a_damaged_file_is_replaced_and_a_failed_write_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let suite = Fingerprint::of("suite");
        for damage in [
            "",
            "{",
            r#"{"version":9}"#,
            r#"{"version":1,"tokenizer":"other","since":0,"suites":{},"counts":{"x":1},"texts":{}}"#,
        ] {
            std::fs::write(folder.path().join("savings.json"), damage).unwrap();
            assert_eq!(SavingsRecorder::new(folder.path()).change(|kept| kept.counts.len()), 0, "{damage}");
        }
        std::fs::remove_file(folder.path().join("savings.json")).unwrap();
        // A folder in place of the file.
        std::fs::create_dir_all(folder.path().join("savings.json/x")).unwrap();
        let recorder = SavingsRecorder::new(folder.path());
        recorder.record_shown([suite].into_iter());
        recorder.flush();
        recorder.record_shown([suite].into_iter());
        assert_eq!(recorder.change(|kept| kept.totals(suite).sessions), 2);
    }
}

//! The file that outlives the daemon: what was noted of each suite, and how many tokens a text has. Nothing is
//! counted twice, and a text is kept only until it was counted. A file that cannot be read is begun anew.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use switchboard_wire::runtime_paths::private_folder;

use super::{Fingerprint, SuiteDelta};
use crate::event_loop::may_block;
use crate::files::{open_own, replace};
use crate::time::unix_seconds;
use crate::tokens::{MAX_TEXT, TOKENIZER};

const VERSION: u32 = 1;
/// Anything longer is not one of ours.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Definitions that come and go leave their past behind; beyond this many the oldest is forgotten.
const MAX_SUITES: usize = 512;
/// Texts that wait to be counted, in bytes; beyond it they only count as not counted.
const MAX_WAITING_TEXT: usize = 8 * 1024 * 1024;
/// Numbers of tokens that are remembered.
const MAX_COUNTS: usize = 8192;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SavingsFile {
    version: u32,
    tokenizer: String,
    /// When the first note was made, in seconds since 1970.
    pub since: u64,
    suites: BTreeMap<String, SuiteTotals>,
    counts: BTreeMap<String, u64>,
    texts: BTreeMap<String, String>,
}

/// What was noted of one suite.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteTotals {
    /// Sessions that were shown it.
    pub sessions: u64,
    pub introspections: u64,
    /// What they gave, in tokens, as far as it was counted.
    pub introspected: u64,
    /// Introspections whose tokens nobody will know.
    pub uncounted: u64,
    pub cold_avoided: u64,
    pub cold_avoided_ms: u64,
    pub cold_added: u64,
    pub cold_added_ms: u64,
    /// What is to be counted, and how often it was fetched.
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

    /// So many tokens these texts have.
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

    /// Forgets numbers that are not among `used` if there are too many.
    pub fn trim(&mut self, used: &HashSet<Fingerprint>) {
        if self.counts.len() > MAX_COUNTS {
            let used: HashSet<String> = used.iter().map(ToString::to_string).collect();
            self.counts.retain(|mark, _| used.contains(mark));
        }
    }

    /// What has a number is added up; what has none and never will is said to have none.
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

/// Where it is.
#[derive(Debug)]
pub struct SavingsStore {
    folder: PathBuf,
    /// What could not be written.
    // Held while the file is read and written, beside the one thread that works.
    unwritten: Mutex<Option<SavingsFile>>,
}

impl SavingsStore {
    pub fn new(state: &Path) -> Self {
        Self { folder: state.to_owned(), unwritten: Mutex::default() }
    }

    /// Nobody else writes meanwhile, another daemon of this person included.
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

/// Numbers of another tokenizer are none of ours.
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
    use crate::savings_recorder::{ChildUse, SavingsRecorder};
    use std::time::Duration;

    #[test]
    fn notes_outlive_the_daemon_and_texts_wait_until_they_are_counted() {
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
        // What has a number is not kept as text, and counts at once from then on.
        recorder.record_fetched(suite, Fingerprint::of("text"), "text");
        let (waiting, past) = recorder.change(|kept| (kept.waiting().count(), kept.totals(suite)));
        assert_eq!((waiting, past.introspected), (0, 15));
    }

    #[test]
    fn what_cannot_be_kept_is_said_to_be_uncounted() {
        let folder = tempfile::tempdir().unwrap();
        let (recorder, suite) = (SavingsRecorder::new(folder.path()), Fingerprint::of("suite"));
        let long = "x".repeat(MAX_TEXT + 1);
        recorder.record_fetched(suite, Fingerprint::of(&long), &long);
        let past = recorder.change(|kept| kept.totals(suite));
        assert_eq!((past.introspections, past.introspected, past.uncounted), (1, 0, 1));
    }

    #[test]
    fn a_damaged_file_is_begun_anew_and_one_that_cannot_be_written_loses_nothing() {
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
        // A folder in the way of the file.
        std::fs::create_dir_all(folder.path().join("savings.json/x")).unwrap();
        let recorder = SavingsRecorder::new(folder.path());
        recorder.record_shown([suite].into_iter());
        recorder.flush();
        recorder.record_shown([suite].into_iter());
        assert_eq!(recorder.change(|kept| kept.totals(suite).sessions), 2);
    }
}

//! The file that outlives the daemon: what was noted of each suite, and how many tokens a text has. Nothing is
//! counted twice, and a text is kept only until it was counted. A file that cannot be read is begun anew.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use switchboard_wire::place::private_folder;

use super::{Mark, Notes};
use crate::event_loop::may_block;
use crate::files::{open_own, replace};
use crate::tokens::{MAX_TEXT, TOKENIZER};

const VERSION: u32 = 1;
/// Anything longer is not one of ours.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Definitions that come and go leave their past behind; beyond this many the oldest is forgotten.
const MOST_SUITES: usize = 512;
/// Texts that wait to be counted, in bytes; beyond it they only count as not counted.
const MOST_TEXT: usize = 8 * 1024 * 1024;
/// Numbers of tokens that are remembered.
const MOST_COUNTS: usize = 8192;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    version: u32,
    tokenizer: String,
    /// When the first note was made, in seconds since 1970.
    pub since: u64,
    suites: BTreeMap<String, Past>,
    counts: BTreeMap<String, u64>,
    texts: BTreeMap<String, String>,
}

/// What was noted of one suite.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
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

impl AddAssign<&Past> for Past {
    fn add_assign(&mut self, other: &Past) {
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

impl Kept {
    fn fresh() -> Self {
        Self { version: VERSION, tokenizer: TOKENIZER.to_owned(), since: now(), ..Self::default() }
    }

    pub(super) fn add(&mut self, notes: HashMap<Mark, Notes>, texts: HashMap<Mark, Box<str>>) {
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
        let mut room = MOST_TEXT.saturating_sub(self.texts.values().map(|text| text.len()).sum::<usize>());
        for (mark, text) in texts {
            let mark = mark.to_string();
            if !self.counts.contains_key(&mark) && text.len() <= room.min(MAX_TEXT) {
                room -= text.len();
                self.texts.insert(mark, text.into());
            }
        }
        self.settle();
        while self.suites.len() > MOST_SUITES {
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
    pub fn learn(&mut self, counted: &[(String, u64)]) {
        self.counts.extend(counted.iter().map(|(text, tokens)| (Mark::of(text).to_string(), *tokens)));
        self.settle();
    }

    pub fn tokens(&self, mark: Mark) -> Option<u64> {
        self.counts.get(&mark.to_string()).copied()
    }

    pub fn past(&self, suite: Mark) -> Past {
        self.suites.get(&suite.to_string()).cloned().unwrap_or_default()
    }

    /// Forgets numbers that are not among `used` if there are too many.
    pub fn trim(&mut self, used: &HashSet<Mark>) {
        if self.counts.len() > MOST_COUNTS {
            let used: HashSet<String> = used.iter().map(ToString::to_string).collect();
            self.counts.retain(|mark, _| used.contains(mark));
        }
    }

    /// What has a number is added up; what has none and never will is said to have none.
    fn settle(&mut self) {
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
pub struct Store {
    folder: PathBuf,
    /// What could not be written.
    // Held while the file is read and written, beside the one thread that works.
    unwritten: Mutex<Option<Kept>>,
}

impl Store {
    pub fn new(state: &Path) -> Self {
        Self { folder: state.to_owned(), unwritten: Mutex::default() }
    }

    /// Nobody else writes meanwhile, another daemon of this person included.
    pub fn change<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        may_block();
        let mut unwritten = self.unwritten.lock().expect("BUG: a note panicked");
        let lock = private_folder(&self.folder).and_then(|()| {
            let open = open_own(&self.file("savings.lock"), true)?;
            flock(&open, FlockOperation::LockExclusive)?;
            Ok(open)
        });
        let before = std::fs::read(self.file("savings.json")).unwrap_or_default();
        let mut kept = unwritten.take().unwrap_or_else(|| read(&before).unwrap_or_else(Kept::fresh));
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
fn read(text: &[u8]) -> Option<Kept> {
    let kept: Kept = (text.len() as u64 <= MAX_BYTES).then(|| serde_json::from_slice(text).ok())??;
    (kept.version == VERSION && kept.tokenizer == TOKENIZER).then_some(kept)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thrift::{Thrift, Use};
    use std::time::Duration;

    #[test]
    fn notes_outlive_the_daemon_and_texts_wait_until_they_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let suite = Mark::of("suite");
        for _ in 0..2 {
            let thrift = Thrift::new(&state);
            thrift.shown([suite].into_iter());
            thrift.fetched(suite, Mark::of("text"), "text");
            thrift.fetched(suite, Mark::of("text"), "text");
            thrift.used(suite, Use::FoundRunning, Some(Duration::from_millis(7)));
            thrift.used(suite, Use::Started, Some(Duration::from_millis(900)));
            thrift.flush();
        }
        let thrift = Thrift::new(&state);
        let waiting = thrift.change(|kept| kept.waiting().map(ToOwned::to_owned).collect::<Vec<_>>());
        assert_eq!(waiting, ["text"]);
        let past = thrift.change(|kept| {
            kept.learn(&[("text".to_owned(), 3)]);
            kept.past(suite)
        });
        assert_eq!((past.sessions, past.introspections, past.introspected, past.uncounted), (2, 4, 12, 0));
        assert_eq!((past.cold_avoided, past.cold_avoided_ms, past.cold_added), (2, 14, 0));
        // What has a number is not kept as text, and counts at once from then on.
        thrift.fetched(suite, Mark::of("text"), "text");
        let (waiting, past) = thrift.change(|kept| (kept.waiting().count(), kept.past(suite)));
        assert_eq!((waiting, past.introspected), (0, 15));
    }

    #[test]
    fn what_cannot_be_kept_is_said_to_be_uncounted() {
        let folder = tempfile::tempdir().unwrap();
        let (thrift, suite) = (Thrift::new(folder.path()), Mark::of("suite"));
        let long = "x".repeat(MAX_TEXT + 1);
        thrift.fetched(suite, Mark::of(&long), &long);
        let past = thrift.change(|kept| kept.past(suite));
        assert_eq!((past.introspections, past.introspected, past.uncounted), (1, 0, 1));
    }

    #[test]
    fn a_damaged_file_is_begun_anew_and_one_that_cannot_be_written_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let suite = Mark::of("suite");
        for damage in [
            "",
            "{",
            r#"{"version":9}"#,
            r#"{"version":1,"tokenizer":"other","since":0,"suites":{},"counts":{"x":1},"texts":{}}"#,
        ] {
            std::fs::write(folder.path().join("savings.json"), damage).unwrap();
            assert_eq!(Thrift::new(folder.path()).change(|kept| kept.counts.len()), 0, "{damage}");
        }
        std::fs::remove_file(folder.path().join("savings.json")).unwrap();
        // A folder in the way of the file.
        std::fs::create_dir_all(folder.path().join("savings.json/x")).unwrap();
        let thrift = Thrift::new(folder.path());
        thrift.shown([suite].into_iter());
        thrift.flush();
        thrift.shown([suite].into_iter());
        assert_eq!(thrift.change(|kept| kept.past(suite).sessions), 2);
    }
}

//! Records what Switchboard saves and costs as it happens: which sessions are shown which suites, what models
//! fetch with `introspect`, who finds a child running and who has to wait for a start.
//!
//! Recording takes a leaf lock briefly. The records are added to a file in the state folder every few
//! seconds, so that memory holds only the latest, and a crash loses only those.

mod savings_file;
mod session_usage;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

pub use savings_file::{SavingsFile, SavingsStore, SuiteTotals};
pub use session_usage::{ChildUse, SessionUsage};

use switchboard_wire::event_loop::try_run_blocking;

/// How long records stay in memory.
const FLUSH_INTERVAL: Duration = Duration::from_secs(5);
/// Above this many bytes of text, the records are flushed at once.
const MAX_UNSAVED_TEXT: usize = 1024 * 1024;

/// A fingerprint of a text, or of everything that decides how a child is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// Stands for the aggregate face, which belongs to no suite.
    pub const AGGREGATE: Self = Self(0);

    pub fn of(text: &str) -> Self {
        Self::from_digest(&switchboard_definitions::digest::hex(text.as_bytes()))
    }

    /// From a SHA-256 in hexadecimal digits.
    pub fn from_digest(hex: &str) -> Self {
        Self(hex.get(..32).and_then(|start| u128::from_str_radix(start, 16).ok()).unwrap_or_default())
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What happened to one suite since the last flush.
#[derive(Debug, Default)]
pub struct SuiteDelta {
    /// Sessions that were shown the suite.
    sessions: u64,
    /// Texts that were fetched, and how often.
    fetched: HashMap<Fingerprint, u64>,
    cold: ColdStarts,
}

/// Cold starts avoided by sharing, and cold starts added by idle shutdown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColdStarts {
    pub avoided: u64,
    pub avoided_ms: u64,
    pub added: u64,
    pub added_ms: u64,
}

#[derive(Debug, Default)]
struct UnsavedSavings {
    suites: HashMap<Fingerprint, SuiteDelta>,
    texts: HashMap<Fingerprint, Box<str>>,
    bytes: usize,
}

#[derive(Debug)]
pub struct SavingsRecorder {
    store: SavingsStore,
    // A leaf lock: held only for an insert, or to take everything out.
    unsaved: Mutex<UnsavedSavings>,
    written: Notify,
    full: Notify,
    /// Children that the open sessions would have started for themselves.
    wanted: AtomicI64,
    peak_saved: AtomicI64,
}

impl SavingsRecorder {
    pub fn new(state: &Path) -> Arc<Self> {
        Arc::new(Self {
            store: SavingsStore::new(state),
            unsaved: Mutex::default(),
            written: Notify::new(),
            full: Notify::new(),
            wanted: AtomicI64::new(0),
            peak_saved: AtomicI64::new(0),
        })
    }

    /// A session was shown these suites for the first time.
    pub fn record_shown(&self, suites: impl Iterator<Item = Fingerprint>) {
        let mut fresh = self.lock();
        for suite in suites {
            fresh.suites.entry(suite).or_default().sessions += 1;
        }
        drop(fresh);
        self.written.notify_one();
    }

    /// A model fetched this text from a suite.
    pub fn record_fetched(&self, suite: Fingerprint, mark: Fingerprint, text: &str) {
        let mut fresh = self.lock();
        let notes = fresh.suites.entry(suite).or_default();
        *notes.fetched.entry(mark).or_default() += 1;
        if !fresh.texts.contains_key(&mark) {
            fresh.bytes += text.len();
            fresh.texts.insert(mark, text.into());
        }
        let is_full = fresh.bytes > MAX_UNSAVED_TEXT;
        drop(fresh);
        self.written.notify_one();
        if is_full {
            self.full.notify_one();
        }
    }

    /// A session used a child. `took` is how long the child's last start took.
    pub fn record_use(&self, suite: Fingerprint, how: ChildUse, took: Option<Duration>) {
        let ms = took.map_or(0, |took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        let mut fresh = self.lock();
        let cold = &mut fresh.suites.entry(suite).or_default().cold;
        match how {
            ChildUse::FoundRunning => {
                cold.avoided += 1;
                cold.avoided_ms += ms;
            }
            ChildUse::StartedAgain => {
                cold.added += 1;
                cold.added_ms += ms;
            }
            ChildUse::Started | ChildUse::Known => return,
        }
        drop(fresh);
        self.written.notify_one();
    }

    /// An open session began to use one more child, while `running` children ran.
    pub fn add_wanted_process(&self, running: usize) {
        let wanted = self.wanted.fetch_add(1, Ordering::Relaxed) + 1;
        let running = i64::try_from(running).unwrap_or(i64::MAX);
        self.peak_saved.fetch_max(wanted - running, Ordering::Relaxed);
    }

    /// A session that used this many children has ended.
    pub fn remove_wanted_processes(&self, children: usize) {
        self.wanted.fetch_sub(i64::try_from(children).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// The most processes saved at one time since the daemon started.
    pub fn peak_saved_processes(&self) -> i64 {
        self.peak_saved.load(Ordering::Relaxed)
    }

    /// Flushes records as they come; never resolves.
    pub async fn run_flush_loop(self: &Arc<Self>) {
        loop {
            self.written.notified().await;
            let _ = tokio::time::timeout(FLUSH_INTERVAL, self.full.notified()).await;
            let recorder = self.clone();
            let _ = try_run_blocking(move || recorder.flush()).await;
        }
    }

    /// Adds the records to the file. Blocks on the disk.
    pub fn flush(&self) {
        self.change(|_| ());
    }

    /// Flushes, and applies `change` to the file's content.
    pub fn change<T>(&self, change: impl FnOnce(&mut SavingsFile) -> T) -> T {
        self.store.change(|kept| {
            let fresh = std::mem::take(&mut *self.lock());
            kept.add(fresh.suites, fresh.texts);
            change(kept)
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, UnsavedSavings> {
        self.unsaved.lock().expect("BUG: a note panicked")
    }
}

//! The tools of each definition's server, compared with what the user has accepted (`definitions/src/drift.rs`). Each
//! list of a child is compared once; status, lists and calls read the outcome.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use switchboard_definitions::definition::Definition;
use switchboard_definitions::drift::{BaselineError, Drift, ListedText, ToolStore};
use switchboard_wire::event_loop::{may_block, try_run_blocking};
use switchboard_wire::members::Members;
use tokio::time::Instant;

use crate::child::{ServerInfo, ToolList};

/// A server whose tools change all the time is logged so often at once, and then once in each pause.
const MAX_LOGGED: u32 = 10;
const LOG_PAUSE: Duration = Duration::from_secs(60);
/// How many lists of different children are remembered as compared.
const MAX_COMPARED: usize = 64;

/// The baselines of all definitions.
#[derive(Debug, Clone)]
pub struct Baselines {
    store: ToolStore,
    shared: Arc<SharedBaselines>,
}

#[derive(Debug, Default)]
struct SharedBaselines {
    /// Whether tools that are not accepted are refused (`trust.drift`).
    holds: Arc<AtomicBool>,
    /// Whether an outcome changed without a child's doing.
    changed: AtomicBool,
    // A leaf lock: held for a lookup or an insert.
    known: Mutex<HashMap<(PathBuf, String), Arc<ToolBaseline>>>,
}

/// The tools of one definition's server.
#[derive(Debug)]
pub struct ToolBaseline {
    file: PathBuf,
    name: String,
    store: ToolStore,
    holds: Arc<AtomicBool>,
    // A leaf lock: held to copy or replace handles.
    state: Mutex<BaselineState>,
}

#[derive(Debug, Default)]
struct BaselineState {
    compared: Vec<(Weak<ToolList>, Arc<Drift>)>,
    latest: Option<Arc<Drift>>,
    /// What the record says while no list is known.
    recorded: Option<ReadBefore>,
    /// The record on disk when the latest list was compared.
    stamp: Option<(u64, i64, i64)>,
    log_budget: LogBudget,
}

/// Which tools only read when the user last accepted them.
#[derive(Debug)]
enum ReadBefore {
    Names(HashSet<Box<str>>),
    /// The record is damaged.
    Unknown,
}

/// How many lines may be logged now.
#[derive(Debug)]
struct LogBudget {
    left: u32,
    since: Option<Instant>,
}

impl Default for LogBudget {
    fn default() -> Self {
        Self { left: MAX_LOGGED, since: None }
    }
}

impl LogBudget {
    /// Whether one more line may be logged.
    fn take(&mut self) -> bool {
        let now = Instant::now();
        if self.since.is_none_or(|since| now.duration_since(since) >= LOG_PAUSE) {
            self.since = Some(now);
            self.left = (self.left + 1).min(MAX_LOGGED);
        }
        let any = self.left > 0;
        self.left = self.left.saturating_sub(1);
        any
    }
}

impl BaselineState {
    /// The outcome for this list, if it was compared.
    fn compared(&self, tools: &Arc<ToolList>) -> Option<Arc<Drift>> {
        let same = |list: &Weak<ToolList>| std::ptr::eq(list.as_ptr(), Arc::as_ptr(tools));
        self.compared.iter().find(|(list, _)| same(list)).map(|(_, drift)| drift.clone())
    }
}

impl Baselines {
    pub fn new(state: &Path) -> Self {
        Self { store: ToolStore::new(state), shared: Arc::default() }
    }

    /// Applies `trust.drift` of the user's config.
    pub fn set_holds(&self, holds: bool) {
        if self.shared.holds.swap(holds, Ordering::Relaxed) != holds {
            self.shared.changed.store(true, Ordering::Relaxed);
        }
    }

    /// Whether lists may have changed since the last call.
    pub fn take_changed(&self) -> bool {
        self.shared.changed.swap(false, Ordering::Relaxed)
    }

    pub fn of(&self, definition: &Definition) -> Arc<ToolBaseline> {
        let mut known = self.shared.known.lock().expect("BUG: a lookup panicked");
        let key = (definition.file.clone(), definition.name.clone());
        // Definitions come and go; those that nobody shows are forgotten.
        if known.len() > 1000 && !known.contains_key(&key) {
            known.retain(|_, baseline| Arc::strong_count(baseline) > 1);
        }
        let (file, name) = key.clone();
        let new = || ToolBaseline {
            file,
            name,
            store: self.store.clone(),
            holds: self.shared.holds.clone(),
            state: Mutex::default(),
        };
        known.entry(key).or_insert_with(|| Arc::new(new())).clone()
    }

    /// Compares the tools of a stored manifest, or again what was compared before, if the user has decided since.
    pub fn load(&self, definition: &Definition, tools: &Arc<ToolList>, info: &ServerInfo) {
        may_block();
        let baseline = self.of(definition);
        let stamp = self.store.stamp(&definition.file, &definition.name);
        let before = {
            let state = baseline.lock();
            if state.stamp == stamp && state.compared(tools).is_some() {
                return;
            }
            state.latest.clone()
        };
        let drift = baseline.compare_now(tools, server_version(info).as_deref());
        if before.is_some_and(|before| before != drift) {
            self.shared.changed.store(true, Ordering::Relaxed);
        }
    }
}

impl Baselines {
    /// Reads what was accepted of a server of which no list is known: its definition is new.
    pub fn load_unlisted(&self, definition: &Definition) {
        may_block();
        let recorded = match self.store.peek(&definition.file, &definition.name, &[], None) {
            Ok(record) => ReadBefore::Names(record.read_before),
            Err(_) => ReadBefore::Unknown,
        };
        self.of(definition).lock().recorded = Some(recorded);
    }
}

impl ToolBaseline {
    /// Whether tools that are not accepted are refused.
    pub fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }

    /// The latest outcome.
    pub fn drift(&self) -> Option<Arc<Drift>> {
        self.lock().latest.clone()
    }

    /// The outcome for this list, if it has been compared.
    pub fn drift_of(&self, tools: &Arc<ToolList>) -> Option<Arc<Drift>> {
        self.lock().compared(tools)
    }

    /// Whether a tool is refused, as far as is known.
    pub fn is_held(&self, tool: &str) -> bool {
        self.holds() && self.drift().is_some_and(|drift| drift.unaccepted.contains(tool))
    }

    /// Whether the user has accepted that this tool only reads, and it says so now. A tool that gains `readOnlyHint`,
    /// and a new one, must not be shown among those that only read until the user accepts it.
    pub fn is_accepted_reader(&self, tool: &str) -> bool {
        self.drift().is_some_and(|drift| drift.read_only.contains(tool))
    }

    /// Whether one of the tools that only read when the user last accepted them is among `which`. If the record cannot
    /// be read, any may have been.
    pub fn read_before(&self, which: impl Fn(&str) -> bool) -> bool {
        let state = self.lock();
        match (&state.latest, &state.recorded) {
            (Some(drift), _) => drift.read_before.iter().any(|tool| which(tool)),
            (None, Some(ReadBefore::Names(names))) => names.iter().any(|tool| which(tool)),
            (None, Some(ReadBefore::Unknown)) => true,
            (None, None) => false,
        }
    }

    /// Whether a tool is not as the user accepted it, or nothing has been compared yet.
    pub fn is_unaccepted(&self, tool: &str) -> bool {
        self.drift().is_none_or(|drift| drift.unaccepted.contains(tool))
    }

    /// Compares a list that a child sent.
    pub async fn compare(self: &Arc<Self>, tools: &Arc<ToolList>, info: Option<&ServerInfo>) -> Arc<Drift> {
        {
            let mut state = self.lock();
            if let Some(known) = state.compared(tools) {
                // A reload may have compared an older list from the disk since.
                state.latest = Some(known.clone());
                return known;
            }
        }
        let (baseline, list, version) = (self.clone(), tools.clone(), info.and_then(server_version));
        let compared = try_run_blocking(move || baseline.compare_now(&list, version.as_deref())).await;
        // The daemon ends, or the comparison panicked: nothing counts as accepted.
        compared.unwrap_or_else(|| {
            let unaccepted: HashSet<Box<str>> = tools.tools.iter().map(|tool| tool.name.clone()).collect();
            let damaged = Some("its tools could not be compared".to_owned());
            Arc::new(Drift { read_before: unaccepted.clone(), unaccepted, damaged, ..Drift::default() })
        })
    }

    fn compare_now(&self, tools: &Arc<ToolList>, version: Option<&str>) -> Arc<Drift> {
        may_block();
        let texts: Vec<ListedText<'_>> =
            tools.tools.iter().map(|tool| ListedText { name: &tool.name, raw: tool.raw.get() }).collect();
        let stamp = self.store.stamp(&self.file, &self.name);
        let compared = self.store.compare(&self.file, &self.name, &texts, version);
        // A record that could not be read is read again with the next list: for a moment, descriptors may be short.
        let stamp = stamp.filter(|_| compared.is_ok());
        let (drift, is_news) = match compared {
            Ok(compared) => (Arc::new(compared.drift), compared.is_news),
            Err(error) => self.unknown(&error, &texts),
        };
        let mut state = self.lock();
        // The user may have decided: what was compared before counts no more.
        if state.stamp != stamp {
            state.compared.clear();
        }
        state.compared.retain(|(list, _)| list.strong_count() > 0);
        let surplus = (state.compared.len() + 1).saturating_sub(MAX_COMPARED);
        state.compared.drain(..surplus);
        state.compared.push((Arc::downgrade(tools), drift.clone()));
        state.stamp = stamp;
        state.latest = Some(drift.clone());
        if is_news && state.log_budget.take() {
            drop(state);
            self.log(&drift);
        }
        drift
    }

    fn unknown(&self, error: &BaselineError, texts: &[ListedText<'_>]) -> (Arc<Drift>, bool) {
        let mut drift = Drift::unknown(error, texts);
        if self.store.stamp(&self.file, &self.name).is_some() {
            drift.read_before = drift.unaccepted.clone();
        }
        let known = self.drift().is_some_and(|before| before.damaged == drift.damaged);
        (Arc::new(drift), !known)
    }

    fn log(&self, drift: &Drift) {
        let held = if self.holds() { "; they are refused until then" } else { "" };
        let loses = !drift.read_before.is_subset(&drift.read_only);
        let split = if loses { "; what was shown as read-only does not write until then" } else { "" };
        tracing::warn!(
            target: "drift",
            child = self.name,
            "{}; `switchboard explain {1}` shows the difference, `switchboard allow {1}` accepts it{held}{split}",
            drift.summary(),
            self.name,
        );
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BaselineState> {
        self.state.lock().expect("BUG: a note panicked")
    }
}

/// The version that a server says it has.
pub fn server_version(info: &ServerInfo) -> Option<String> {
    Members::of(&*info.server)?.text("version").map(Into::into)
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::child::ToolList;

    fn definition() -> Definition {
        Definition {
            name: "s".to_owned(),
            description: None,
            launch: Err(String::new()),
            timeout: None,
            file: "/f".into(),
            at: None,
            unclear_in: None,
            limits: Default::default(),
        }
    }

    fn list(tools: &[&str]) -> Arc<ToolList> {
        let raw: Vec<Box<RawValue>> =
            tools.iter().map(|tool| RawValue::from_string((*tool).to_owned()).unwrap()).collect();
        Arc::new(ToolList::from_raw(&raw.iter().map(|tool| &**tool).collect::<Vec<_>>()))
    }

    fn info(version: &str) -> ServerInfo {
        let said = format!(
            r#"{{"protocolVersion":"2025-06-18","capabilities":{{}},"serverInfo":{{"name":"s","version":"{version}"}}}}"#
        );
        let raw = RawValue::from_string(said).unwrap();
        ServerInfo::read((&*raw).into()).unwrap()
    }

    const WRITER: &str = r#"{"name":"a","annotations":{"readOnlyHint":false}}"#;
    const READER: &str = r#"{"name":"a","annotations":{"readOnlyHint":true}}"#;

    #[test]
    fn a_writer_that_turns_into_a_reader_stays_one_until_the_user_accepts_it() {
        let folder = tempfile::tempdir().unwrap();
        let baselines = Baselines::new(folder.path());
        let (writer, reader) =
            (list(&[WRITER]), list(&[READER, r#"{"name":"b","annotations":{"readOnlyHint":true}}"#]));
        let baseline = baselines.of(&definition());
        assert!(!baseline.is_accepted_reader("a"), "nothing is known");
        baseline.compare_now(&writer, Some("1"));
        assert!(!baseline.is_accepted_reader("a"));
        let drift = baseline.compare_now(&reader, Some("2"));
        assert!(drift.changes[0].gains_read_only, "{drift:?}");
        // Neither the one that turned nor the new one.
        assert!(!baseline.is_accepted_reader("a") && !baseline.is_accepted_reader("b"));
        // It survives a restart.
        let again = Baselines::new(folder.path());
        again.load(&definition(), &reader, &info("2"));
        assert!(!again.of(&definition()).is_accepted_reader("a"));
        let texts: Vec<ListedText<'_>> =
            reader.tools.iter().map(|tool| ListedText { name: &tool.name, raw: tool.raw.get() }).collect();
        ToolStore::new(folder.path()).accept(Path::new("/f"), "s", &texts, Some("2")).unwrap();
        baselines.load(&definition(), &reader, &info("2"));
        assert!(baseline.is_accepted_reader("a") && baseline.is_accepted_reader("b"));
        assert!(baselines.take_changed() && !baselines.take_changed());
        // A reader that turns into a writer is none, whatever was accepted.
        baseline.compare_now(&writer, None);
        assert!(!baseline.is_accepted_reader("a"));
    }

    #[test]
    fn a_tool_is_refused_only_if_the_user_wants_that() {
        let folder = tempfile::tempdir().unwrap();
        let baselines = Baselines::new(folder.path());
        let baseline = baselines.of(&definition());
        baseline.compare_now(&list(&[WRITER]), None);
        baseline.compare_now(&list(&[READER]), None);
        assert!(!baseline.is_held("a"));
        baselines.set_holds(true);
        assert!(baseline.is_held("a") && !baseline.is_held("other"));
    }
}

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

use super::Pool;
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
    /// Those whose children have these tools.
    // A leaf lock: held to copy or replace handles.
    pools: Mutex<Vec<Weak<Pool>>>,
    // A leaf lock: held to copy or replace handles.
    state: Mutex<BaselineState>,
}

#[derive(Debug, Default)]
struct BaselineState {
    /// The last is the latest.
    compared: Vec<ComparedList>,
    /// The outcome of these lists together, until one of them is compared again.
    together: Option<(Vec<Weak<ToolList>>, Arc<Drift>)>,
    /// What the record says while no list is known.
    recorded: Option<ReadBefore>,
    /// The record on disk when the lists were compared.
    stamp: Option<(u64, i64, i64)>,
    log_budget: LogBudget,
}

/// A list of a child or of a manifest, and how it differs from what the user accepted.
#[derive(Debug, Clone)]
struct ComparedList {
    list: Weak<ToolList>,
    version: Option<String>,
    drift: Arc<Drift>,
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
        self.compared.iter().find(|one| one.is_of(tools)).map(|one| one.drift.clone())
    }

    /// The outcome of these lists together; of the latest one, if none of them was compared.
    fn together(&mut self, lists: &[Arc<ToolList>]) -> Option<Arc<Drift>> {
        let is_same = |of: &[Weak<ToolList>]| {
            of.len() == lists.len()
                && of.iter().zip(lists).all(|(one, list)| std::ptr::eq(one.as_ptr(), Arc::as_ptr(list)))
        };
        if let Some((_, known)) = self.together.as_ref().filter(|(of, _)| is_same(of)) {
            return Some(known.clone());
        }
        let drifts: Vec<Arc<Drift>> = lists.iter().filter_map(|list| self.compared(list)).collect();
        let together = Drift::together(drifts).or_else(|| Some(self.compared.last()?.drift.clone()))?;
        self.together = Some((lists.iter().map(Arc::downgrade).collect(), together.clone()));
        Some(together)
    }

    fn insert(&mut self, compared: ComparedList) {
        self.compared.retain(|one| one.list.strong_count() > 0 && !one.list.ptr_eq(&compared.list));
        let surplus = (self.compared.len() + 1).saturating_sub(MAX_COMPARED);
        self.compared.drain(..surplus);
        self.compared.push(compared);
        self.together = None;
    }
}

impl ComparedList {
    fn is_of(&self, tools: &Arc<ToolList>) -> bool {
        std::ptr::eq(self.list.as_ptr(), Arc::as_ptr(tools))
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
            pools: Mutex::default(),
            state: Mutex::default(),
        };
        known.entry(key).or_insert_with(|| Arc::new(new())).clone()
    }

    /// Compares the tools of a stored manifest, or again what was compared before, if the user has decided since.
    pub fn load(&self, definition: &Definition, tools: &Arc<ToolList>, info: &ServerInfo) {
        may_block();
        let baseline = self.of(definition);
        let stamp = self.store.stamp(&definition.file, &definition.name);
        {
            let state = baseline.lock();
            if state.stamp == stamp && state.compared(tools).is_some() {
                return;
            }
        }
        let before = baseline.drift();
        baseline.compare_now(tools, server_version(info));
        if before.is_some() && before != baseline.drift() {
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

    /// The outcome of all lists that are in use: several processes may list different tools.
    pub fn drift(&self) -> Option<Arc<Drift>> {
        let lists = self.lists();
        self.lock().together(&lists)
    }

    /// Has the lists of this pool count.
    pub(super) fn add_pool(&self, pool: &Arc<Pool>) {
        let mut pools = self.pools.lock().expect("BUG: a note panicked");
        pools.retain(|known| known.strong_count() > 0);
        if !pools.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(pool))) {
            pools.push(Arc::downgrade(pool));
        }
    }

    /// The lists that are in use: those of running children, and those of manifests.
    fn lists(&self) -> Vec<Arc<ToolList>> {
        let pools = self.pools.lock().expect("BUG: a note panicked").clone();
        let mut lists: Vec<Arc<ToolList>> = Vec::new();
        for pool in pools.iter().filter_map(Weak::upgrade) {
            let stored = pool.manifest().map(|manifest| manifest.tools.clone());
            let running = pool.running().into_iter().filter_map(|child| child.known_tools());
            for list in stored.into_iter().chain(running) {
                if !lists.iter().any(|known| Arc::ptr_eq(known, &list)) {
                    lists.push(list);
                }
            }
        }
        lists
    }

    /// The outcome for this list, if it has been compared.
    pub fn drift_of(&self, tools: &Arc<ToolList>) -> Option<Arc<Drift>> {
        self.lock().compared(tools)
    }

    /// Whether a tool is refused, as far as is known.
    pub fn is_held(&self, tool: &str) -> bool {
        self.holds() && self.drift().is_some_and(|drift| drift.unaccepted.contains(tool))
    }

    /// Whether one of the tools that only read when the user last accepted them is among `which`. If the record cannot
    /// be read, any may have been.
    pub fn read_before(&self, which: impl Fn(&str) -> bool) -> bool {
        match (self.drift(), &self.lock().recorded) {
            (Some(drift), _) => drift.read_before.iter().any(|tool| which(tool)),
            (None, Some(ReadBefore::Names(names))) => names.iter().any(|tool| which(tool)),
            (None, Some(ReadBefore::Unknown)) => true,
            (None, None) => false,
        }
    }

    /// Compares a list that a child sent.
    pub async fn compare(self: &Arc<Self>, tools: &Arc<ToolList>, info: Option<&ServerInfo>) -> Arc<Drift> {
        if let Some(known) = self.drift_of(tools) {
            return known;
        }
        let (baseline, list, version) = (self.clone(), tools.clone(), info.and_then(server_version));
        let compared = try_run_blocking(move || baseline.compare_now(&list, version)).await;
        // The daemon ends, or the comparison panicked: nothing counts as accepted.
        compared.unwrap_or_else(|| {
            let unaccepted: HashSet<Box<str>> = tools.tools.iter().map(|tool| tool.name.clone()).collect();
            let damaged = Some("its tools could not be compared".to_owned());
            Arc::new(Drift { read_before: unaccepted.clone(), unaccepted, damaged, ..Drift::default() })
        })
    }

    fn compare_now(&self, tools: &Arc<ToolList>, version: Option<String>) -> Arc<Drift> {
        may_block();
        let stamp = self.store.stamp(&self.file, &self.name);
        let (compared, mut is_news, is_read) = self.compare_list(tools, version);
        let drift = compared.drift.clone();
        // A record that could not be read is read again with the next list: for a moment, descriptors may be short.
        let stamp = stamp.filter(|_| is_read);
        // The user may have decided: what was compared before counts no more.
        let before = {
            let state = self.lock();
            if state.stamp == stamp { Vec::new() } else { state.compared.clone() }
        };
        let mut all = Vec::with_capacity(before.len() + 1);
        for one in before.into_iter().filter(|one| !one.is_of(tools)) {
            let Some(list) = one.list.upgrade() else { continue };
            let (again, is_news_too, _) = self.compare_list(&list, one.version);
            is_news |= is_news_too;
            all.push(again);
        }
        all.push(compared);
        let mut state = self.lock();
        if state.stamp != stamp {
            state.compared.clear();
        }
        state.stamp = stamp;
        all.into_iter().for_each(|one| state.insert(one));
        if is_news && state.log_budget.take() {
            drop(state);
            self.log(&drift);
        }
        drift
    }

    /// Compares one list. Also returns whether that says something new, and whether the record could be read.
    fn compare_list(&self, tools: &Arc<ToolList>, version: Option<String>) -> (ComparedList, bool, bool) {
        let texts: Vec<ListedText<'_>> =
            tools.tools.iter().map(|tool| ListedText { name: &tool.name, raw: tool.raw.get() }).collect();
        let compared = self.store.compare(&self.file, &self.name, &texts, version.as_deref());
        let is_read = compared.is_ok();
        let (drift, is_news) = match compared {
            Ok(compared) => (Arc::new(compared.drift), compared.is_news),
            Err(error) => self.unknown(&error, &texts),
        };
        (ComparedList { list: Arc::downgrade(tools), version, drift }, is_news, is_read)
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
            server = self.name,
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

    fn is_reader(baseline: &ToolBaseline, tool: &str) -> bool {
        baseline.drift().is_some_and(|drift| drift.read_only.contains(tool))
    }

    #[test]
    fn a_writer_that_turns_into_a_reader_stays_one_until_the_user_accepts_it() {
        let folder = tempfile::tempdir().unwrap();
        let baselines = Baselines::new(folder.path());
        let (writer, reader) =
            (list(&[WRITER]), list(&[READER, r#"{"name":"b","annotations":{"readOnlyHint":true}}"#]));
        let baseline = baselines.of(&definition());
        assert!(!is_reader(&baseline, "a"), "nothing is known");
        baseline.compare_now(&writer, Some("1".to_owned()));
        assert!(!is_reader(&baseline, "a"));
        let drift = baseline.compare_now(&reader, Some("2".to_owned()));
        assert!(drift.changes[0].gains_read_only, "{drift:?}");
        // Neither the one that turned nor the new one.
        assert!(!is_reader(&baseline, "a") && !is_reader(&baseline, "b"));
        // It survives a restart.
        let again = Baselines::new(folder.path());
        again.load(&definition(), &reader, &info("2"));
        assert!(!is_reader(&again.of(&definition()), "a"));
        let texts: Vec<ListedText<'_>> =
            reader.tools.iter().map(|tool| ListedText { name: &tool.name, raw: tool.raw.get() }).collect();
        ToolStore::new(folder.path()).accept(Path::new("/f"), "s", &texts, Some("2")).unwrap();
        baselines.load(&definition(), &reader, &info("2"));
        assert!(is_reader(&baseline, "a") && is_reader(&baseline, "b"));
        assert!(baselines.take_changed() && !baselines.take_changed());
        // A reader that turns into a writer is none, whatever was accepted.
        baseline.compare_now(&writer, None);
        assert!(!is_reader(&baseline, "a"));
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

    #[test]
    fn each_list_keeps_its_own_outcome_and_all_are_compared_again_after_a_decision() {
        let folder = tempfile::tempdir().unwrap();
        let baselines = Baselines::new(folder.path());
        let baseline = baselines.of(&definition());
        let (first, other) = (list(&[WRITER]), list(&[READER]));
        baseline.compare_now(&first, None);
        baseline.compare_now(&other, None);
        baseline.compare_now(&first, None);
        let is_accepted = |of: &Arc<ToolList>| baseline.drift_of(of).unwrap().unaccepted.is_empty();
        assert!(is_accepted(&first) && !is_accepted(&other));
        let texts: Vec<ListedText<'_>> =
            other.tools.iter().map(|tool| ListedText { name: &tool.name, raw: tool.raw.get() }).collect();
        ToolStore::new(folder.path()).accept(Path::new("/f"), "s", &texts, None).unwrap();
        // Only one of them is asked for.
        baselines.load(&definition(), &first, &info("1"));
        assert!(is_accepted(&first) && is_accepted(&other));
    }
}

//! What is counted and timed, for the status, the page and `/metrics`.
//!
//! It lies on the way of every call, so that way is short: two looks at the clock, a handful of additions, and no
//! name is copied that was met before. Every table has a most, and is made with the first thing that is counted.
//! No argument and no result of a call is ever kept here.

pub mod child_metrics;
pub mod latency;
pub mod names;
pub mod outcome;
pub mod series;
pub mod suite_metrics;
pub mod text;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use switchboard_wire::envelope::string;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use tokio::time::Instant;

use crate::methods;
use crate::telemetry::spans::{Side, Span, Spans};
use crate::telemetry::trace::Context;
use crate::visible::clipped_lines;
use child_metrics::{ChildCounts, ChildMetrics};
use names::{LabelName, LabelNames};
use series::{AllSeries, EntryPoint, Histogram, OperationKind, SeriesKey};
use suite_metrics::{MetricFigures, STEP, SuiteMetrics};

/// Failures that are remembered, for people.
const MAX_RECENT_ERRORS: usize = 50;
/// As much of a request's id as a span has.
const MAX_ID_CHARS: usize = 64;
/// As much of what one says.
const MAX_ERROR_CHARS: usize = 400;

#[derive(Debug)]
pub struct Metrics {
    started: Instant,
    store: Arc<MetricStore>,
    /// Of all calls.
    pub overall: Arc<SuiteMetrics>,
    // Leaf locks: held to count, to copy or for a look.
    suites: Mutex<HashMap<SuiteKey, Arc<SuiteMetrics>>>,
    children: Mutex<HashMap<Box<str>, Arc<ChildMetrics>>>,
    recent_errors: Mutex<VecDeque<RecentError>>,
    reloads: AtomicU64,
    failed_reloads: AtomicU64,
    /// Of sessions that have ended.
    mail_dropped: AtomicU64,
}

/// What the figures of all have in common.
#[derive(Debug, Default)]
pub struct MetricStore {
    names: Arc<LabelNames>,
    // A leaf lock: held to count or to copy.
    series: Mutex<AllSeries>,
    /// Where spans go, if anybody wants them.
    spans: OnceLock<Arc<Spans>>,
}

impl MetricStore {
    fn add(&self, kind: SeriesKey, took: Duration) {
        self.series.lock().expect("BUG: a count panicked").add(kind, took);
    }
}

/// A suite's name, and the file that it is from.
type SuiteKey = (Box<str>, PathBuf);

/// An operation that failed.
#[derive(Debug, Clone)]
pub struct RecentError {
    pub at: SystemTime,
    pub method: &'static str,
    pub suite: Option<Box<str>>,
    pub tool: Option<Arc<str>>,
    pub kind: &'static str,
    pub message: String,
}

impl Default for Metrics {
    fn default() -> Self {
        let store = Arc::<MetricStore>::default();
        Self {
            started: Instant::now(),
            overall: SuiteMetrics::new("", &store.names),
            store,
            suites: Mutex::default(),
            children: Mutex::default(),
            recent_errors: Mutex::default(),
            reloads: AtomicU64::new(0),
            failed_reloads: AtomicU64::new(0),
            mail_dropped: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    /// The figures of a suite: the same ones as long as it has this name and comes from this file.
    pub fn of_suite(&self, name: &str, file: &Path) -> Arc<SuiteMetrics> {
        let mut suites = self.suites.lock().expect("BUG: a look panicked");
        if suites.len() >= names::MAX_NAMES {
            // Nobody has so many; those of files that are gone are no loss.
            suites.retain(|_, metrics| Arc::strong_count(metrics) > 1);
        }
        suites
            .entry((name.into(), file.to_owned()))
            .or_insert_with(|| SuiteMetrics::new(name, &self.store.names))
            .clone()
    }

    /// What is counted of the children of this name.
    pub fn of_child(&self, name: &str) -> Arc<ChildMetrics> {
        let mut children = self.children.lock().expect("BUG: a look panicked");
        if children.len() >= names::MAX_NAMES {
            children.retain(|_, metrics| Arc::strong_count(metrics) > 1);
        }
        children.entry(name.into()).or_insert_with(|| ChildMetrics::new(name, &self.store)).clone()
    }

    /// A host's session has ended.
    pub fn session_ended(&self, via: EntryPoint, took: Duration, mail_dropped: u64) {
        self.store.add(
            SeriesKey { kind: OperationKind::Session { via }, owner: None, tool: None, error: None },
            took,
        );
        self.mail_dropped.fetch_add(mail_dropped, Ordering::Relaxed);
    }

    /// All files were read again, and what they say is used or not.
    pub fn reloaded(&self, used: bool) {
        let counter = if used { &self.reloads } else { &self.failed_reloads };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// From now on requests are spans.
    pub fn trace(&self, spans: &Arc<Spans>) {
        let _ = self.store.spans.set(spans.clone());
    }

    pub fn spans(&self) -> Option<&Arc<Spans>> {
        self.store.spans.get()
    }

    /// A request of a host begins; it ends with [`Metrics::end`].
    pub fn begin(&self, request: HostOperation<'_>) -> Operation {
        let HostOperation { via, single, method, id, meta, parent } = request;
        let method = known_method(method);
        let traced = self.spans().map(|spans| {
            let parent = Context::of(meta).or(parent);
            let id = string(id).map_or_else(
                || id.get().chars().take(MAX_ID_CHARS).collect(),
                |id| id.chars().take(MAX_ID_CHARS).collect(),
            );
            Box::new(Traced { context: spans.sampler.begin(parent), parent, id, begun: SystemTime::now() })
        });
        if method == methods::TOOLS_CALL {
            self.overall.enter();
        }
        let note = OperationNotes::of(method, traced.as_ref().map(|traced| traced.context));
        Operation { via, single, method, begun: Instant::now(), notes: note, traced }
    }

    pub fn overall(&self) -> MetricFigures {
        self.overall.figures(self.step())
    }

    pub fn figures(&self, metrics: &SuiteMetrics) -> MetricFigures {
        metrics.figures(self.step())
    }

    pub fn series(&self) -> Vec<(SeriesKey, Histogram)> {
        self.store.series.lock().expect("BUG: a copy panicked").all()
    }

    /// The name as it may stand in a label.
    pub fn label(&self, name: &str) -> Arc<str> {
        self.text(self.store.names.number(name))
    }

    pub fn text(&self, name: LabelName) -> Arc<str> {
        self.store.names.text(name)
    }

    /// Calls under way and introspections of each suite that was ever asked for something.
    pub fn by_suite(&self) -> BTreeMap<Arc<str>, (usize, u64)> {
        let suites: Vec<_> = self.suites.lock().expect("BUG: a copy panicked").values().cloned().collect();
        let mut all = BTreeMap::<_, (usize, u64)>::new();
        for metrics in suites.iter().filter(|metrics| metrics.is_used()) {
            let figures = self.figures(metrics);
            let sum = all.entry(self.text(metrics.name())).or_default();
            *sum = (sum.0 + figures.in_flight, sum.1 + figures.introspections);
        }
        all
    }

    pub fn by_child(&self) -> BTreeMap<Arc<str>, ChildCounts> {
        let children: Vec<_> =
            self.children.lock().expect("BUG: a copy panicked").values().cloned().collect();
        let mut all = BTreeMap::<_, ChildCounts>::new();
        for metrics in children {
            *all.entry(self.label(metrics.text())).or_default() += metrics.counts();
        }
        all
    }

    /// How often all files were read again, and how often what they said could not be used.
    pub fn reloads(&self) -> (u64, u64) {
        (self.reloads.load(Ordering::Relaxed), self.failed_reloads.load(Ordering::Relaxed))
    }

    /// Messages to hosts whose sessions have ended for which there was no room.
    pub fn mail_dropped(&self) -> u64 {
        self.mail_dropped.load(Ordering::Relaxed)
    }

    /// When a step of a chart began.
    pub fn time_of(&self, step: u64) -> SystemTime {
        let ago = self.started.elapsed().saturating_sub(STEP * u32::try_from(step).unwrap_or(u32::MAX));
        SystemTime::now() - ago
    }

    /// The latest last.
    pub fn recent_errors(&self) -> Vec<RecentError> {
        self.recent_errors.lock().expect("BUG: a copy panicked").iter().cloned().collect()
    }

    /// A request of a host is over, whether it came to its end or not.
    pub fn end(&self, operation: &mut Operation) {
        let took = operation.begun.elapsed();
        let NotesState { suite, tool, introspects, error, message, ended } =
            std::mem::take(&mut *operation.notes.lock());
        let error = if ended { error } else { error.or(Some(outcome::CANCELLED)) };
        let tool = tool.map(|tool| match tool {
            ToolLabel::Known(name) => name,
            // A child that did it has it. Of what nobody has, no name is kept.
            ToolLabel::New(name) if error.is_none() => self.store.names.number(&name),
            ToolLabel::New(_) => LabelName::OTHER,
        });
        let name = suite.as_ref().map(|suite| suite.name());
        let is_call = operation.notes.is_call;
        // The tool of an operation that does not come as far as a child's is the suite itself.
        let tool = if is_call && !operation.single { tool.or(name) } else { tool };
        let (via, single, method) = (operation.via, operation.single, operation.method);
        let what = OperationKind::HostRequest { via, single, method };
        self.store.add(SeriesKey { kind: what, owner: name, tool, error }, took);
        let failed = error.is_some_and(|error| error != outcome::CANCELLED);
        if let Some((spans, traced)) = self.spans().zip(operation.traced.take())
            && traced.context.sampled
        {
            spans.push(Span {
                context: traced.context,
                parent: traced.parent.map(|parent| parent.span),
                side: Side::Server { face: via.word() },
                method,
                tool: tool.map(|tool| self.text(tool)),
                whose: name.map(|name| self.text(name)),
                id: traced.id,
                error,
                failed,
                begun: traced.begun,
                took,
            });
        }
        if is_call && introspects {
            self.overall.introspected();
            suite.iter().for_each(|suite| suite.introspected());
        } else if is_call {
            let step = self.step();
            self.overall.add(took, failed, step);
            suite.iter().for_each(|suite| suite.add(took, failed, step));
        }
        if is_call {
            self.overall.leave();
            suite.iter().for_each(|suite| suite.leave());
        }
        if let Some(kind) = error.filter(|_| failed) {
            self.record_error(RecentError {
                at: SystemTime::now(),
                method,
                suite: suite.map(|suite| suite.text().into()),
                tool: tool.map(|tool| self.text(tool)),
                kind,
                // What a child says of it may hold anything, and is for its host.
                message: message.unwrap_or_else(|| match kind {
                    outcome::TOOL_ERROR => "the tool's result says `isError`".to_owned(),
                    _ => "the child answered with an error of its own".to_owned(),
                }),
            });
        }
    }

    fn step(&self) -> u64 {
        self.started.elapsed().as_secs() / STEP.as_secs()
    }

    fn record_error(&self, recent_error: RecentError) {
        let mut troubles = self.recent_errors.lock().expect("BUG: a note panicked");
        if troubles.len() >= MAX_RECENT_ERRORS {
            troubles.pop_front();
        }
        troubles.push_back(recent_error);
    }
}

/// A request of a host, as far as it is counted and traced.
#[derive(Debug, Clone, Copy)]
pub struct HostOperation<'a> {
    pub via: EntryPoint,
    /// Whether its host is shown one child as it is.
    pub single: bool,
    pub method: &'a str,
    pub id: Raw<'a>,
    pub meta: &'a Members<'a>,
    /// The span that it came with beside what its `_meta` says.
    pub parent: Option<Context>,
}

/// A request of a host under way.
#[derive(Debug)]
pub struct Operation {
    via: EntryPoint,
    single: bool,
    method: &'static str,
    begun: Instant,
    pub notes: OperationNotes,
    traced: Option<Box<Traced>>,
}

/// What is only known of an operation that is a span.
#[derive(Debug)]
struct Traced {
    context: Context,
    parent: Option<Context>,
    id: Box<str>,
    begun: SystemTime,
}

/// What is found out about an operation on its way.
#[derive(Debug)]
pub struct OperationNotes {
    is_call: bool,
    /// The operation's own span, which those to children are below.
    pub span: Option<Context>,
    // A leaf lock, and nobody's but this operation's: it is there because futures must be `Send`.
    state: Mutex<NotesState>,
}

#[derive(Debug, Default)]
struct NotesState {
    suite: Option<Arc<SuiteMetrics>>,
    tool: Option<ToolLabel>,
    introspects: bool,
    error: Option<&'static str>,
    message: Option<String>,
    ended: bool,
}

/// A tool by name.
#[derive(Debug)]
pub enum ToolLabel {
    Known(LabelName),
    /// Never met before, and nobody has said yet that there is such a tool.
    New(Box<str>),
}

impl OperationNotes {
    fn of(method: &'static str, span: Option<Context>) -> Self {
        Self { is_call: method == methods::TOOLS_CALL, span, state: Mutex::default() }
    }

    /// Whose it is.
    pub fn suite(&self, metrics: &Arc<SuiteMetrics>) {
        let mut noted = self.lock();
        if noted.suite.is_none() {
            if self.is_call {
                metrics.enter();
            }
            noted.suite = Some(metrics.clone());
        }
    }

    /// The child's tool that is called.
    pub fn tool(&self, name: &str) {
        let mut noted = self.lock();
        let known = noted.suite.as_ref().and_then(|suite| suite.names.find(name));
        noted.tool = Some(known.map_or_else(|| ToolLabel::New(name.into()), ToolLabel::Known));
    }

    /// Whether nobody has said yet that there is such a tool.
    pub fn is_new_tool(&self) -> bool {
        matches!(self.lock().tool, Some(ToolLabel::New(_)))
    }

    /// The child has the tool that is called.
    pub fn tool_exists(&self) {
        let mut noted = self.lock();
        if let NotesState { suite: Some(suite), tool: Some(ToolLabel::New(name)), .. } = &*noted {
            noted.tool = Some(ToolLabel::Known(suite.names.number(name)));
        }
    }

    /// It only asks what there is.
    pub fn introspects(&self) {
        self.lock().introspects = true;
    }

    /// It failed here or on the way: `kind` is one of the words that programs rely on.
    pub fn failed(&self, kind: &'static str, why: &impl Display) {
        let mut noted = self.lock();
        noted.error = Some(kind);
        noted.message = Some(clipped_lines(&why.to_string(), MAX_ERROR_CHARS));
    }

    /// It was answered, with an error that is not ours if there is one.
    pub fn answered(&self, error: Option<&'static str>) {
        let mut noted = self.lock();
        noted.error = noted.error.or(error);
    }

    /// It has come to its end; one that never does was called off.
    pub fn ended(&self) {
        self.lock().ended = true;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, NotesState> {
        self.state.lock().expect("BUG: a note panicked")
    }
}

/// The method, if it is one that there is.
pub fn known_method(method: &str) -> &'static str {
    macro_rules! known {
        ($($name:ident)*) => { match method { $(methods::$name => methods::$name,)* _ => names::OTHER } };
    }
    known!(INITIALIZE PING SET_LEVEL TOOLS_LIST TOOLS_CALL PROMPTS_LIST PROMPTS_GET RESOURCES_LIST TEMPLATES_LIST
        RESOURCES_READ SUBSCRIBE UNSUBSCRIBE COMPLETE DISCOVER LISTEN)
}

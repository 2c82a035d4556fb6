//! Counters and timings for the status command, the status page and `/metrics`.
//!
//! Every call passes through here, so the path is short: two clock reads, a few additions, and no copy of a
//! name that is already interned. Every table is bounded and is allocated on first use. Arguments and results
//! of calls are never stored here.

pub mod child_metrics;
pub mod cost;
pub mod latency;
pub mod names;
pub mod outcome;
pub mod series;
pub mod suite_metrics;
mod swept_table;
pub mod text;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use switchboard_mcp::methods;
use switchboard_wire::envelope::string;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::visible::clipped_lines;
use tokio::time::Instant;

use crate::observe::telemetry::spans::{Span, SpanSide, Spans};
use crate::observe::telemetry::trace::SpanContext;
use child_metrics::{ChildCounts, ChildMetrics};
use names::{LabelName, LabelNames};
use series::{AllSeries, EntryPoint, Histogram, OperationKind, SeriesKey};
use suite_metrics::{MetricFigures, STEP, SuiteMetrics};
use swept_table::SweptTable;

/// How many recent failures are kept to show to users.
const MAX_RECENT_ERRORS: usize = 50;
/// Longer request ids are cut to this in a span.
const MAX_ID_CHARS: usize = 64;
/// Longer error messages are cut to this.
const MAX_ERROR_CHARS: usize = 400;

#[derive(Debug)]
pub struct Metrics {
    started: Instant,
    store: Arc<MetricStore>,
    /// Totals over all calls.
    pub overall: Arc<SuiteMetrics>,
    // Leaf locks: held only to count, look up or copy.
    suites: Mutex<SweptTable<SuiteKey, SuiteMetrics>>,
    children: Mutex<SweptTable<Box<str>, ChildMetrics>>,
    recent_errors: Mutex<VecDeque<RecentError>>,
    reloads: AtomicU64,
    failed_reloads: AtomicU64,
    /// Messages dropped in sessions that have ended.
    mail_dropped: AtomicU64,
}

/// Label names, series and spans that all metrics share.
#[derive(Debug, Default)]
pub struct MetricStore {
    names: Arc<LabelNames>,
    // A leaf lock: held only to count or to copy.
    series: Mutex<AllSeries>,
    /// Unset while tracing is off.
    spans: OnceLock<Arc<Spans>>,
}

impl MetricStore {
    fn add(&self, kind: SeriesKey, took: Duration) {
        self.series.lock().expect("BUG: a count panicked").add(kind, took);
    }
}

/// A suite's name and the file that defines it.
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
    /// The metrics of a suite, kept across reloads while its name and file stay the same.
    pub fn of_suite(&self, name: &str, file: &Path) -> Arc<SuiteMetrics> {
        let mut suites = self.suites.lock().expect("BUG: a look panicked");
        suites.get((name.into(), file.to_owned()), || SuiteMetrics::new(name, &self.store.names))
    }

    /// The metrics shared by all children with this name.
    pub fn of_child(&self, name: &str) -> Arc<ChildMetrics> {
        let mut children = self.children.lock().expect("BUG: a look panicked");
        children.get(name.into(), || ChildMetrics::new(name, &self.store))
    }

    /// A host's session has ended.
    pub fn session_ended(&self, via: EntryPoint, took: Duration, mail_dropped: u64) {
        self.store.add(
            SeriesKey { kind: OperationKind::Session { via }, owner: None, tool: None, error: None },
            took,
        );
        self.mail_dropped.fetch_add(mail_dropped, Ordering::Relaxed);
    }

    /// All files were read again; `used` says whether the new content was applied.
    pub fn record_reload(&self, used: bool) {
        let counter = if used { &self.reloads } else { &self.failed_reloads };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Turns tracing on: every request from now on gets a span.
    pub fn trace(&self, spans: &Arc<Spans>) {
        let _ = self.store.spans.set(spans.clone());
    }

    pub fn spans(&self) -> Option<&Arc<Spans>> {
        self.store.spans.get()
    }

    /// Begins a host's request; [`Metrics::end`] ends it.
    pub fn begin(&self, request: HostOperation<'_>) -> Operation {
        let HostOperation { via, single, method, id, meta, parent } = request;
        let method = known_method(method);
        let traced = self.spans().map(|spans| {
            let parent = SpanContext::of(meta).or(parent);
            let id = string(id).map_or_else(
                || id.get().chars().take(MAX_ID_CHARS).collect(),
                |id| id.chars().take(MAX_ID_CHARS).collect(),
            );
            Box::new(TracedOperation {
                context: spans.sampler.begin(parent),
                parent,
                id,
                started_at: SystemTime::now(),
            })
        });
        if method == methods::TOOLS_CALL {
            self.overall.enter();
        }
        let note = OperationNotes::of(method, traced.as_ref().map(|traced| traced.context));
        Operation { via, single, method, started_at: Instant::now(), notes: note, traced }
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

    /// The name as a label value.
    pub fn label(&self, name: &str) -> Arc<str> {
        self.text(self.store.names.number(name))
    }

    pub fn text(&self, name: LabelName) -> Arc<str> {
        self.store.names.text(name)
    }

    /// Calls in flight and introspections of each suite that was used at least once.
    pub fn by_suite(&self) -> BTreeMap<Arc<str>, (usize, u64)> {
        let suites: Vec<_> = self.suites.lock().expect("BUG: a copy panicked").all();
        let mut all = BTreeMap::<_, (usize, u64)>::new();
        for metrics in suites.iter().filter(|metrics| metrics.is_used()) {
            let figures = self.figures(metrics);
            let sum = all.entry(self.text(metrics.name())).or_default();
            *sum = (sum.0 + figures.in_flight, sum.1 + figures.introspections);
        }
        all
    }

    pub fn by_child(&self) -> BTreeMap<Arc<str>, ChildCounts> {
        let children: Vec<_> = self.children.lock().expect("BUG: a copy panicked").all();
        let mut all = BTreeMap::<_, ChildCounts>::new();
        for metrics in children {
            *all.entry(self.label(metrics.text())).or_default() += metrics.counts();
        }
        all
    }

    /// Successful and failed reloads.
    pub fn reloads(&self) -> (u64, u64) {
        (self.reloads.load(Ordering::Relaxed), self.failed_reloads.load(Ordering::Relaxed))
    }

    /// Messages to hosts that were dropped for lack of room, in sessions that have ended.
    pub fn mail_dropped(&self) -> u64 {
        self.mail_dropped.load(Ordering::Relaxed)
    }

    /// When a chart step began.
    pub fn time_of(&self, step: u64) -> SystemTime {
        let ago = self.started.elapsed().saturating_sub(STEP * u32::try_from(step).unwrap_or(u32::MAX));
        SystemTime::now() - ago
    }

    /// Oldest first.
    pub fn recent_errors(&self) -> Vec<RecentError> {
        self.recent_errors.lock().expect("BUG: a copy panicked").iter().cloned().collect()
    }

    /// Ends a host's request, completed or not.
    pub fn end(&self, operation: &mut Operation) {
        let now = Instant::now();
        let took = now - operation.started_at;
        let NotesState { suite, tool, introspects, error, message, ended } =
            std::mem::take(&mut *operation.notes.lock());
        let error = if ended { error } else { error.or(Some(outcome::CANCELLED)) };
        let tool = tool.map(|tool| match tool {
            ToolLabel::Known(name) => name,
            // A call that succeeded proves that the tool exists. Unconfirmed names are not interned.
            ToolLabel::New(name) if error.is_none() => self.store.names.number(&name),
            ToolLabel::New(_) => LabelName::OTHER,
        });
        let name = suite.as_ref().map(|suite| suite.name());
        let is_call = operation.notes.is_call;
        // A call that never reaches a child's tool is attributed to the suite's own tool.
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
                side: SpanSide::Server { face: via.as_str() },
                method,
                tool: tool.map(|tool| self.text(tool)),
                owner: name.map(|name| self.text(name)),
                id: traced.id,
                error,
                failed,
                started_at: traced.started_at,
                took,
            });
        }
        if is_call && introspects {
            self.overall.record_introspection();
            suite.iter().for_each(|suite| suite.record_introspection());
        } else if is_call {
            let step = self.step_at(now);
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
                // A child's error message is for its host only and may contain anything, so it is not stored.
                message: message.unwrap_or_else(|| match kind {
                    outcome::TOOL_ERROR => "the tool's result says `isError`".to_owned(),
                    _ => "the child answered with an error of its own".to_owned(),
                }),
            });
        }
    }

    fn step(&self) -> u64 {
        self.step_at(Instant::now())
    }

    fn step_at(&self, now: Instant) -> u64 {
        (now - self.started).as_secs() / STEP.as_secs()
    }

    fn record_error(&self, recent_error: RecentError) {
        let mut troubles = self.recent_errors.lock().expect("BUG: a note panicked");
        if troubles.len() >= MAX_RECENT_ERRORS {
            troubles.pop_front();
        }
        troubles.push_back(recent_error);
    }
}

/// What metrics and traces record of a host's request.
#[derive(Debug, Clone, Copy)]
pub struct HostOperation<'a> {
    pub via: EntryPoint,
    /// Whether the request is for the face of a single child.
    pub single: bool,
    pub method: &'a str,
    pub id: Raw<'a>,
    pub meta: &'a Members<'a>,
    /// A parent span from outside `_meta`.
    pub parent: Option<SpanContext>,
}

/// A host's request in flight.
#[derive(Debug)]
pub struct Operation {
    via: EntryPoint,
    single: bool,
    method: &'static str,
    started_at: Instant,
    pub notes: OperationNotes,
    traced: Option<Box<TracedOperation>>,
}

/// What is known only of traced operations.
#[derive(Debug)]
struct TracedOperation {
    context: SpanContext,
    parent: Option<SpanContext>,
    id: Box<str>,
    started_at: SystemTime,
}

/// What is learned about an operation while it runs.
#[derive(Debug)]
pub struct OperationNotes {
    is_call: bool,
    /// The operation's own span, the parent of the spans of its requests to children.
    pub span: Option<SpanContext>,
    // A leaf lock that only this operation uses; it is here because futures must be `Send`.
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

/// The name of a called tool.
#[derive(Debug)]
pub enum ToolLabel {
    Known(LabelName),
    /// Not interned yet, and not yet confirmed to exist.
    New(Box<str>),
}

impl OperationNotes {
    fn of(method: &'static str, span: Option<SpanContext>) -> Self {
        Self { is_call: method == methods::TOOLS_CALL, span, state: Mutex::default() }
    }

    /// Sets the suite that the operation belongs to; only the first call counts.
    pub fn suite(&self, metrics: &Arc<SuiteMetrics>) {
        let mut noted = self.lock();
        if noted.suite.is_none() {
            if self.is_call {
                metrics.enter();
            }
            noted.suite = Some(metrics.clone());
        }
    }

    /// Sets the child's tool that is called.
    pub fn tool(&self, name: &str) {
        let mut noted = self.lock();
        let known = noted.suite.as_ref().and_then(|suite| suite.names.find(name));
        noted.tool = Some(known.map_or_else(|| ToolLabel::New(name.into()), ToolLabel::Known));
    }

    /// Whether the tool is not yet confirmed to exist.
    pub fn is_new_tool(&self) -> bool {
        matches!(self.lock().tool, Some(ToolLabel::New(_)))
    }

    /// Confirms that the child has the called tool.
    pub fn tool_exists(&self) {
        let mut noted = self.lock();
        if let NotesState { suite: Some(suite), tool: Some(ToolLabel::New(name)), .. } = &*noted {
            noted.tool = Some(ToolLabel::Known(suite.names.number(name)));
        }
    }

    /// Marks the operation as an introspection.
    pub fn introspects(&self) {
        self.lock().introspects = true;
    }

    /// The operation failed in the daemon or in transit. `kind` is one of the documented error words.
    pub fn record_failure(&self, kind: &'static str, why: &impl Display) {
        let mut noted = self.lock();
        noted.error = Some(kind);
        noted.message = Some(clipped_lines(&why.to_string(), MAX_ERROR_CHARS));
    }

    /// The operation was answered; `error` classifies an error that the child sent.
    pub fn record_answer(&self, error: Option<&'static str>) {
        let mut noted = self.lock();
        noted.error = noted.error.or(error);
    }

    /// The operation finished. One that is dropped unfinished counts as cancelled.
    pub fn record_end(&self) {
        self.lock().ended = true;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, NotesState> {
        self.state.lock().expect("BUG: a note panicked")
    }
}

/// The method if it is a known one, else [`names::OTHER`].
pub fn known_method(method: &str) -> &'static str {
    macro_rules! known {
        ($($name:ident)*) => { match method { $(methods::$name => methods::$name,)* _ => names::OTHER } };
    }
    known!(INITIALIZE PING SET_LEVEL TOOLS_LIST TOOLS_CALL PROMPTS_LIST PROMPTS_GET RESOURCES_LIST TEMPLATES_LIST
        RESOURCES_READ SUBSCRIBE UNSUBSCRIBE COMPLETE DISCOVER LISTEN)
}

//! Counters and timings for the status command, the status page and `/metrics`.
//!
//! Every call passes through here, so the path is short: two clock reads, a few additions, and no copy of a
//! name that is already interned. Every table is bounded and is allocated on first use. Arguments and results
//! of calls are never stored here.

pub mod call_result;
pub mod child_metrics;
pub mod cost;
pub mod failure_kind;
pub mod latency;
pub mod names;
mod operation;
pub mod outcome;
pub mod series;
pub mod suite_metrics;
mod swept_table;
pub mod text;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use switchboard_mcp::methods;
use switchboard_wire::envelope::string;
use tokio::time::Instant;

use crate::observe::telemetry::spans::{Span, SpanSide, Spans};
use crate::observe::telemetry::trace::SpanContext;
use call_result::CallResult;
use child_metrics::{ChildCounts, ChildMetrics};
use names::{LabelName, LabelNames};
pub use operation::{EndedOperation, HostOperation, Operation, OperationNotes, ReplyKind, ToolLabel};
use operation::{NotesState, TracedOperation};
use series::{AllSeries, EntryPoint, Histogram, OperationKind, SeriesKey};
use suite_metrics::{CountedResult, MetricFigures, STEP, SuiteMetrics};
use swept_table::SweptTable;

/// How many recent failures are kept to show to users.
const MAX_RECENT_ERRORS: usize = 50;
/// Longer request ids are cut to this in a span.
const MAX_ID_CHARS: usize = 64;

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

/// A suite's name, its server and the file that defines it.
type SuiteKey = (Box<str>, Box<str>, PathBuf);

/// An operation that failed.
#[derive(Debug, Clone)]
pub struct RecentError {
    pub at: SystemTime,
    pub method: &'static str,
    pub suite: Option<Box<str>>,
    pub tool: Option<Arc<str>>,
    pub kind: &'static str,
    /// Whether the call was refused; then nothing is wrong with the server.
    pub refused: bool,
    pub message: String,
}

impl Default for Metrics {
    fn default() -> Self {
        let store = Arc::<MetricStore>::default();
        Self {
            started: Instant::now(),
            overall: SuiteMetrics::new("", "", &store.names),
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
    /// The metrics of a suite, kept across reloads while its name, server and file stay the same.
    pub fn of_suite(&self, name: &str, server: &str, file: &Path) -> Arc<SuiteMetrics> {
        let mut suites = self.suites.lock().expect("BUG: a look panicked");
        let key = (name.into(), server.into(), file.to_owned());
        suites.get(key, || SuiteMetrics::new(name, server, &self.store.names))
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
        let HostOperation { via, single, method, id, meta, parent, wants_arguments } = request;
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
        let note = OperationNotes::of(method, traced.as_ref().map(|traced| traced.context), wants_arguments);
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
    pub fn end(&self, operation: &mut Operation) -> EndedOperation {
        let now = Instant::now();
        let NotesState {
            suite,
            tool: called,
            introspects,
            error,
            message,
            ended,
            reply,
            is_retry,
            details,
            user_time,
        } = std::mem::take(&mut *operation.notes.lock());
        let whole = now - operation.started_at;
        // A user who thinks about a question is not slow software.
        let user_time = user_time.min(whole);
        let took = whole - user_time;
        let error = if ended { error } else { error.or(Some(outcome::CANCELLED)) };
        let tool = called.as_ref().map(|tool| match tool {
            ToolLabel::Known(name) => *name,
            // A call that succeeded proves that the tool exists. Unconfirmed names are not interned.
            ToolLabel::New(name) if error.is_none() => self.store.names.number(name),
            ToolLabel::New(_) => LabelName::OTHER,
        });
        let name = suite.as_ref().map(|suite| suite.name());
        let is_call = operation.notes.is_call;
        // A call that never reaches a child's tool is attributed to the suite's own tool.
        let tool = if is_call && !operation.single { tool.or(name) } else { tool };
        let (via, single, method) = (operation.via, operation.single, operation.method);
        let what = OperationKind::HostRequest { via, single, method };
        self.store.add(SeriesKey { kind: what, owner: name, tool, error }, took);
        let reply = if ended { reply } else { ReplyKind::Answer };
        let is_error = error.is_some_and(|error| error != outcome::CANCELLED);
        let refused = is_error && CallResult::of(reply, error, false).0.is_refusal(error);
        let failed = is_error && !refused;
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
                failed: is_error,
                started_at: traced.started_at,
                took: whole,
            });
        }
        if is_call && introspects {
            self.overall.record_introspection();
            suite.iter().for_each(|suite| suite.record_introspection());
        } else if is_call {
            let step = self.step_at(now);
            let result = CountedResult { failed, refused };
            self.overall.add(took, result, step);
            suite.iter().for_each(|suite| suite.add(took, result, step));
        }
        if is_call {
            self.overall.leave();
            suite.iter().for_each(|suite| suite.leave());
        }
        if let Some(kind) = error.filter(|_| is_error) {
            self.record_error(RecentError {
                at: SystemTime::now(),
                method,
                suite: suite.as_ref().map(|suite| suite.text().into()),
                tool: tool.map(|tool| self.text(tool)),
                // The reason of a refusal says more than that there was one.
                kind: if let ReplyKind::Refusal(why) = reply { why.as_str() } else { kind },
                refused,
                // A child's error message is for its host only and may contain anything, so it is not stored.
                message: message.unwrap_or_else(|| match kind {
                    outcome::TOOL_ERROR => {
                        "the tool reported an error (`isError`); answers are not recorded".to_owned()
                    }
                    _ => "the server answered with an error of its own".to_owned(),
                }),
            });
        }
        EndedOperation {
            at: now,
            took,
            user_time,
            via,
            method,
            suite,
            tool: called,
            introspects,
            error,
            reply,
            is_retry,
            details,
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

/// The method if it is a known one, else [`names::OTHER`].
pub fn known_method(method: &str) -> &'static str {
    macro_rules! known {
        ($($name:ident)*) => { match method { $(methods::$name => methods::$name,)* _ => names::OTHER } };
    }
    known!(INITIALIZE PING SET_LEVEL TOOLS_LIST TOOLS_CALL PROMPTS_LIST PROMPTS_GET RESOURCES_LIST TEMPLATES_LIST
        RESOURCES_READ SUBSCRIBE UNSUBSCRIBE COMPLETE DISCOVER LISTEN)
}

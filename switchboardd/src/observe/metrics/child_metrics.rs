//! Counters for all children with one name: starts, restarts, discarded output, and requests to them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use super::names::LabelName;
use super::outcome::CANCELLED;
use super::series::{OperationKind, SeriesKey};
use super::{MetricStore, ToolLabel};
use crate::observe::telemetry::spans::{Span, SpanSide};
use crate::observe::telemetry::trace::SpanContext;

/// Why a child is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartReason {
    /// A call waits for it.
    Call,
    /// A model looked at its tools and is likely to call one.
    Introspect,
    /// A spare that `pool.warm` asks for.
    Warm,
}

impl StartReason {
    pub const ALL: [Self; 3] = [Self::Call, Self::Introspect, Self::Warm];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Introspect => "introspect",
            Self::Warm => "warm",
        }
    }
}

#[derive(Debug)]
pub struct ChildMetrics {
    store: Arc<MetricStore>,
    text: Box<str>,
    name: OnceLock<LabelName>,
    starts: [AtomicU64; StartReason::ALL.len()],
    restarts: AtomicU64,
    noise: AtomicU64,
    too_long: AtomicU64,
    too_long_bytes: AtomicU64,
}

/// A finished request to a child.
#[derive(Debug)]
pub struct FinishedCall {
    /// Whether the child is remote.
    pub remote: bool,
    pub method: &'static str,
    pub id: u64,
    pub tool: Option<ToolLabel>,
    pub error: Option<&'static str>,
    pub took: Duration,
    /// Its span and the parent span, if it is traced.
    pub span: Option<(SpanContext, SpanContext)>,
}

/// A copy of the counters.
#[derive(Debug, Clone, Default)]
pub struct ChildCounts {
    /// In the order of [`StartReason::ALL`].
    pub starts: [u64; StartReason::ALL.len()],
    pub restarts: u64,
    pub noise: u64,
    pub too_long: u64,
    pub too_long_bytes: u64,
}

impl ChildMetrics {
    pub(super) fn new(text: &str, store: &Arc<MetricStore>) -> Arc<Self> {
        Arc::new(Self {
            store: store.clone(),
            text: text.into(),
            name: OnceLock::new(),
            starts: Default::default(),
            restarts: AtomicU64::new(0),
            noise: AtomicU64::new(0),
            too_long: AtomicU64::new(0),
            too_long_bytes: AtomicU64::new(0),
        })
    }

    pub fn record_start(&self, reason: StartReason) {
        self.starts[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A start that replaces a child which ended on its own.
    pub fn record_restart(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// The child wrote something that is not a protocol message.
    pub fn record_noise(&self) {
        self.noise.fetch_add(1, Ordering::Relaxed);
    }

    /// The child wrote a message above the size limit.
    pub fn too_long(&self, bytes: u64) {
        self.too_long.fetch_add(1, Ordering::Relaxed);
        self.too_long_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The label of the tool that a request calls.
    pub fn tool(&self, name: &str) -> ToolLabel {
        self.store.names.find(name).map_or_else(|| ToolLabel::New(name.into()), ToolLabel::Known)
    }

    /// A new span below `parent`, returned with `parent`; `None` if tracing is off.
    pub fn span_below(&self, parent: Option<SpanContext>) -> Option<(SpanContext, SpanContext)> {
        self.store.spans.get()?;
        parent.map(|parent| (parent.child(), parent))
    }

    /// Records a finished request to the child. `has` says whether the child is known to have a tool.
    pub fn record_request(&self, call: FinishedCall, has: impl FnOnce(&str) -> bool) {
        let FinishedCall { remote, method, id, tool, error, took, span } = call;
        let tool = tool.map(|tool| match tool {
            ToolLabel::Known(name) => name,
            ToolLabel::New(name) if error.is_none() || has(&name) => self.store.names.number(&name),
            ToolLabel::New(_) => LabelName::OTHER,
        });
        self.add(OperationKind::ChildRequest { remote, method }, tool, error, took);
        let Some((context, parent)) = span.filter(|(context, _)| context.sampled) else { return };
        let Some(spans) = self.store.spans.get() else { return };
        spans.push(Span {
            context,
            parent: Some(parent.span),
            side: SpanSide::Client { remote },
            method,
            tool: tool.map(|tool| self.store.names.text(tool)),
            owner: Some(self.store.names.text(self.name())),
            id: id.to_string().into(),
            error,
            failed: error.is_some_and(|error| error != CANCELLED),
            started_at: SystemTime::now() - took,
            took,
        });
    }

    /// Records the lifetime of a child that has ended.
    pub fn record_lifetime(&self, remote: bool, error: Option<&'static str>, took: Duration) {
        self.add(OperationKind::ChildLifetime { remote }, None, error, took);
    }

    fn add(&self, what: OperationKind, tool: Option<LabelName>, error: Option<&'static str>, took: Duration) {
        let whose = Some(self.name());
        self.store.add(SeriesKey { kind: what, owner: whose, tool, error }, took);
    }

    fn name(&self) -> LabelName {
        *self.name.get_or_init(|| self.store.names.number(&self.text))
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn counts(&self) -> ChildCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ChildCounts {
            starts: StartReason::ALL.map(|reason| get(&self.starts[reason as usize])),
            restarts: get(&self.restarts),
            noise: get(&self.noise),
            too_long: get(&self.too_long),
            too_long_bytes: get(&self.too_long_bytes),
        }
    }
}

impl std::ops::AddAssign for ChildCounts {
    fn add_assign(&mut self, other: Self) {
        self.starts.iter_mut().zip(other.starts).for_each(|(one, another)| *one += another);
        self.restarts += other.restarts;
        self.noise += other.noise;
        self.too_long += other.too_long;
        self.too_long_bytes += other.too_long_bytes;
    }
}

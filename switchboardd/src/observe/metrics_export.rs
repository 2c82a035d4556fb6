//! Exports all metrics in a fixed order, as families of labelled samples. Names and units follow the
//! OpenTelemetry conventions for MCP where those define some: there, hosts' requests are "server" and our
//! requests to children "client". Our own names start with `switchboard_`.

mod process;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::observe::metrics::Metrics;
use crate::observe::metrics::child_metrics::StartReason;
use crate::observe::metrics::series::{EntryPoint, Histogram, OperationKind, SeriesKey};
use crate::observe::metrics::text::{Labels, MetricType, MetricsText};
use process::ProcessStats;

/// Receives the metrics: Prometheus text, or an OTLP message for a collector.
pub trait MetricSink {
    /// Begins a family. A counter's name is given without `_total`.
    fn family(&mut self, name: &'static str, sort: MetricType, help: &'static str);
    /// A sample of a counter or a gauge.
    fn sample(&mut self, labels: Labels<'_>, value: f64);
    fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram);
}

impl MetricSink for MetricsText {
    fn family(&mut self, name: &'static str, sort: MetricType, help: &'static str) {
        Self::family(self, name, sort, help);
    }

    fn sample(&mut self, labels: Labels<'_>, value: f64) {
        Self::sample(self, labels, value);
    }

    fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        Self::histogram(self, labels, histogram);
    }
}

/// Gauges sampled at export time.
#[derive(Debug)]
pub struct Gauges {
    /// By name of the child.
    pub pools: BTreeMap<Arc<str>, PoolCounts>,
    /// Bytes by child name.
    pub memory: BTreeMap<Arc<str>, u64>,
    pub sessions: [(EntryPoint, usize); 2],
    /// Definitions that wait for your approval.
    pub pending: usize,
    /// Messages dropped in open sessions.
    pub mail_dropped: u64,
    /// Memory of the daemon itself, in bytes.
    pub own: Option<u64>,
}

/// How many children a pool has, and how many callers wait for one.
#[derive(Debug, Clone, Copy, Default)]
pub struct PoolCounts {
    pub alive: usize,
    pub idle: usize,
    pub waiting: usize,
}

impl std::ops::AddAssign for PoolCounts {
    fn add_assign(&mut self, other: Self) {
        self.alive += other.alive;
        self.idle += other.idle;
        self.waiting += other.waiting;
    }
}

/// Writes all metrics into `sink`.
pub fn export(metrics: &Metrics, now: &Gauges, sink: &mut impl MetricSink) {
    sink.family("switchboard_build_info", MetricType::Gauge, "The version that runs, as a label.");
    sink.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    operations(sink, metrics);
    suites(sink, metrics);
    children(sink, metrics, now);
    daemon(sink, metrics, now);
    process(sink, now);
}

/// The four histograms of the conventions.
fn operations(sink: &mut impl MetricSink, metrics: &Metrics) {
    let mut all = metrics.series();
    // A stable order, so that equal values give equal text.
    all.sort_by_cached_key(|(kind, _)| labels(metrics, kind));
    let mut family = |name, help, is_it: fn(&OperationKind) -> bool| {
        sink.family(name, MetricType::Histogram, help);
        for (kind, histogram) in all.iter().filter(|(kind, _)| is_it(&kind.kind)) {
            let labels = labels(metrics, kind);
            let labels: Vec<(&'static str, &str)> =
                labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
            sink.histogram(&labels, histogram);
        }
    };
    family(
        "mcp_server_operation_duration_seconds",
        "How long requests of editors took, from their arrival to their answer.",
        |what| matches!(what, OperationKind::HostRequest { .. }),
    );
    family(
        "mcp_client_operation_duration_seconds",
        "How long requests to servers took, from being written to their answer.",
        |what| matches!(what, OperationKind::ChildRequest { .. }),
    );
    family("mcp_server_session_duration_seconds", "How long ended sessions of editors lasted.", |what| {
        matches!(what, OperationKind::Session { .. })
    });
    family("mcp_client_session_duration_seconds", "How long servers ran that have ended.", |what| {
        matches!(what, OperationKind::ChildLifetime { .. })
    });
}

fn labels(metrics: &Metrics, kind: &SeriesKey) -> Vec<(&'static str, String)> {
    let name = |name: Option<_>| name.map(|name| metrics.text(name).to_string()).unwrap_or_default();
    let transport = |remote: bool| ("network_transport", if remote { "tcp" } else { "pipe" }.to_owned());
    let face = |via: EntryPoint| ("face", via.as_str().to_owned());
    let method = |method: &str| ("mcp_method_name", method.to_owned());
    let mut labels = match kind.kind {
        OperationKind::HostRequest { via, single, method: asked } => {
            let shows = ("shows", if single { "child" } else { "suites" }.to_owned());
            vec![method(asked), face(via), shows, ("suite", name(kind.owner))]
        }
        OperationKind::ChildRequest { remote, method: sent } => {
            vec![method(sent), ("child", name(kind.owner)), transport(remote)]
        }
        OperationKind::Session { via } => vec![face(via)],
        OperationKind::ChildLifetime { remote } => vec![("child", name(kind.owner)), transport(remote)],
    };
    labels.push(("gen_ai_tool_name", name(kind.tool)));
    labels.push(("error_type", kind.error.unwrap_or_default().to_owned()));
    labels
}

fn suites(sink: &mut impl MetricSink, metrics: &Metrics) {
    let all = metrics.by_suite();
    sink.family("switchboard_inflight_calls", MetricType::Gauge, "Calls that are under way.");
    for (suite, (in_flight, _)) in &all {
        sink.sample(&[("suite", suite)], *in_flight as f64);
    }
    sink.family("switchboard_introspections", MetricType::Counter, "Requests for what a suite can do.");
    for (suite, (_, introspections)) in &all {
        sink.sample(&[("suite", suite)], *introspections as f64);
    }
}

fn children(sink: &mut impl MetricSink, metrics: &Metrics, now: &Gauges) {
    let mut gauge = |name, help, value: fn(&PoolCounts) -> usize| {
        sink.family(name, MetricType::Gauge, help);
        for (child, count) in &now.pools {
            sink.sample(&[("child", child)], value(count) as f64);
        }
    };
    gauge("switchboard_child_up", "1 if a server of this name runs.", |count| usize::from(count.alive > 0));
    gauge("switchboard_pool_size", "Running servers of this name.", |count| count.alive);
    gauge("switchboard_pool_idle", "Idle servers of this name.", |count| count.idle);
    gauge("switchboard_queue_depth", "Callers that wait for a server of this name.", |count| count.waiting);
    sink.family(
        "switchboard_child_memory_bytes",
        MetricType::Gauge,
        "Memory of servers and all that they started.",
    );
    for (child, bytes) in &now.memory {
        sink.sample(&[("child", child)], *bytes as f64);
    }
    let counted = metrics.by_child();
    sink.family("switchboard_child_starts", MetricType::Counter, "Servers that were started, and why.");
    for (child, counts) in &counted {
        for (reason, count) in StartReason::ALL.iter().zip(counts.starts) {
            sink.sample(&[("child", child), ("reason", reason.as_str())], count as f64);
        }
    }
    sink.family(
        "switchboard_child_restarts",
        MetricType::Counter,
        "Starts in place of a server that ended without being asked.",
    );
    for (child, counts) in &counted {
        sink.sample(&[("child", child)], counts.restarts as f64);
    }
    sink.family(
        "switchboard_dropped_messages",
        MetricType::Counter,
        "Messages that were not taken, and why.",
    );
    sink.sample(&[("reason", "mailbox_full")], (metrics.mail_dropped() + now.mail_dropped) as f64);
    for (child, counts) in &counted {
        sink.sample(&[("reason", "not_protocol"), ("child", child)], counts.noise as f64);
        sink.sample(&[("reason", "too_long"), ("child", child)], counts.too_long as f64);
    }
    sink.family(
        "switchboard_dropped_bytes",
        MetricType::Counter,
        "Bytes of messages that were too long to be taken.",
    );
    for (child, counts) in &counted {
        sink.sample(&[("reason", "too_long"), ("child", child)], counts.too_long_bytes as f64);
    }
}

fn daemon(sink: &mut impl MetricSink, metrics: &Metrics, now: &Gauges) {
    sink.family("switchboard_sessions", MetricType::Gauge, "Open sessions of editors.");
    for (via, count) in now.sessions {
        sink.sample(&[("face", via.as_str())], count as f64);
    }
    sink.family("switchboard_reload", MetricType::Counter, "Times that all files were read again.");
    let (ok, failed) = metrics.reloads();
    sink.sample(&[("result", "ok")], ok as f64);
    sink.sample(&[("result", "failed")], failed as f64);
    if let Some(spans) = metrics.spans() {
        let (sent, dropped) = spans.counts();
        sink.family("switchboard_spans", MetricType::Counter, "Spans by whether a collector took them.");
        sink.sample(&[("result", "sent")], sent as f64);
        sink.sample(&[("result", "dropped")], dropped as f64);
    }
    sink.family("switchboard_trust_pending", MetricType::Gauge, "Definitions that wait for your approval.");
    sink.sample(&[], now.pending as f64);
}

/// The standard `process_…` metrics.
fn process(sink: &mut impl MetricSink, now: &Gauges) {
    let own = ProcessStats::read();
    let mut one = |name, sort, help, value: Option<f64>| {
        if let Some(value) = value {
            sink.family(name, sort, help);
            sink.sample(&[], value);
        }
    };
    let whole = |value: Option<u64>| value.map(|value| value as f64);
    one("process_cpu_seconds", MetricType::Counter, "Processor time, user and system.", own.cpu_seconds);
    one("process_resident_memory_bytes", MetricType::Gauge, "Memory in use.", whole(now.own));
    one("process_virtual_memory_bytes", MetricType::Gauge, "Virtual memory.", whole(own.virtual_memory));
    one("process_open_fds", MetricType::Gauge, "Open files.", whole(own.open_files));
    one("process_max_fds", MetricType::Gauge, "Limit of open files.", whole(own.most_files));
    one("process_start_time_seconds", MetricType::Gauge, "When it started, since the epoch.", own.start_time);
}

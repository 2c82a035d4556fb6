//! All figures that are told to those who keep them, in the order in which they are told: families of samples with
//! labels. Names and units are those of the OpenTelemetry conventions for MCP where they have some; a host's requests are
//! "server" there, our requests to children "client". What is ours is `switchboard_…`.

mod process;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::board::Board;
use crate::budget::Weights;
use crate::catalog::Catalog;
use crate::layer::Layer;
use crate::measures::Measures;
use crate::measures::child_tally::Reason;
use crate::measures::series::{Histogram, Kind, Via, What};
use crate::measures::text::{Labels, Text, Type};
use crate::pool::Count;
use crate::suite::Suite;
use crate::workspace::Workspace;
use process::Process;

/// Whoever takes them in: a text for Prometheus, or a message for a collector.
pub trait Sink {
    /// Begins a family. A counter's name is given without `_total`.
    fn family(&mut self, name: &'static str, sort: Type, help: &'static str);
    /// A sample of a counter or a gauge.
    fn sample(&mut self, labels: Labels<'_>, value: f64);
    fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram);
}

impl Sink for Text {
    fn family(&mut self, name: &'static str, sort: Type, help: &'static str) {
        Self::family(self, name, sort, help);
    }

    fn sample(&mut self, labels: Labels<'_>, value: f64) {
        Self::sample(self, labels, value);
    }

    fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        Self::histogram(self, labels, histogram);
    }
}

/// What is so at this moment and is not counted anywhere.
#[derive(Debug)]
pub struct Now {
    /// By name of the child.
    pools: BTreeMap<Arc<str>, Count>,
    memory: BTreeMap<Arc<str>, u64>,
    sessions: [(Via, usize); 2],
    pending: usize,
    /// Of sessions that are open.
    mail_dropped: u64,
    own: Option<u64>,
}

impl Now {
    pub fn of(board: &Board, weights: &Weights) -> Self {
        let measures = &board.nursery.measures;
        let mut pools: BTreeMap<Arc<str>, Count> = BTreeMap::new();
        for pool in board.pools.all() {
            *pools.entry(measures.label(pool.name())).or_default() += pool.count();
        }
        let mut memory: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for child in board.nursery.roster.all() {
            if let Some(bytes) = weights.of_child(child.guard_pid()) {
                *memory.entry(measures.label(child.name())).or_default() += bytes;
            }
        }
        let all = board.sessions.all();
        let over_http = all.iter().filter(|session| session.streams.is_some()).count();
        let workspaces = board.workspaces.all();
        let in_workspace = |known: &Arc<Workspace>| {
            let catalog = known.catalog();
            catalog.own.as_ref().map_or(0, |own| pending(&catalog, own))
        };
        let personal = board.catalog();
        Self {
            pools,
            memory,
            sessions: [(Via::Shim, all.len() - over_http), (Via::Registry, over_http)],
            pending: pending(&personal, &personal.personal)
                + workspaces.iter().map(in_workspace).sum::<usize>(),
            mail_dropped: all.iter().map(|session| session.mail_dropped()).sum(),
            own: weights.own,
        }
    }
}

/// What of this layer waits for a person's word.
fn pending(catalog: &Catalog, layer: &Layer) -> usize {
    let is_own =
        |suite: &&Suite| layer.entries.iter().any(|entry| entry.definition.file == suite.definition.file);
    catalog.suites.iter().filter(is_own).filter(|suite| suite.waiting().is_some()).count()
}

/// All there is to tell.
pub fn expose(measures: &Measures, now: &Now, sink: &mut impl Sink) {
    sink.family("switchboard_build_info", Type::Gauge, "The version that runs, as a label.");
    sink.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    operations(sink, measures);
    suites(sink, measures);
    children(sink, measures, now);
    daemon(sink, measures, now);
    process(sink, now);
}

/// The four that the conventions have, each with the labels that belong to it.
fn operations(sink: &mut impl Sink, measures: &Measures) {
    let mut all = measures.series();
    // In an order that stays: two looks at the same figures give the same text.
    all.sort_by_cached_key(|(kind, _)| labels(measures, kind));
    let mut family = |name, help, is_it: fn(&What) -> bool| {
        sink.family(name, Type::Histogram, help);
        for (kind, histogram) in all.iter().filter(|(kind, _)| is_it(&kind.what)) {
            let labels = labels(measures, kind);
            let labels: Vec<(&'static str, &str)> =
                labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
            sink.histogram(&labels, histogram);
        }
    };
    family(
        "mcp_server_operation_duration_seconds",
        "How long requests of hosts took, from their arrival to their answer.",
        |what| matches!(what, What::Asked { .. }),
    );
    family(
        "mcp_client_operation_duration_seconds",
        "How long requests to children took, from being written to their answer.",
        |what| matches!(what, What::Sent { .. }),
    );
    family(
        "mcp_server_session_duration_seconds",
        "How long sessions of hosts lasted that have ended.",
        |what| matches!(what, What::Stayed { .. }),
    );
    family("mcp_client_session_duration_seconds", "How long children lived that have ended.", |what| {
        matches!(what, What::Lived { .. })
    });
}

fn labels(measures: &Measures, kind: &Kind) -> Vec<(&'static str, String)> {
    let name = |name: Option<_>| name.map(|name| measures.text(name).to_string()).unwrap_or_default();
    let transport = |remote: bool| ("network_transport", if remote { "tcp" } else { "pipe" }.to_owned());
    let face = |via: Via| ("face", via.word().to_owned());
    let method = |method: &str| ("mcp_method_name", method.to_owned());
    let mut labels = match kind.what {
        What::Asked { via, single, method: asked } => {
            let shows = ("shows", if single { "child" } else { "suites" }.to_owned());
            vec![method(asked), face(via), shows, ("suite", name(kind.whose))]
        }
        What::Sent { remote, method: sent } => {
            vec![method(sent), ("child", name(kind.whose)), transport(remote)]
        }
        What::Stayed { via } => vec![face(via)],
        What::Lived { remote } => vec![("child", name(kind.whose)), transport(remote)],
    };
    labels.push(("gen_ai_tool_name", name(kind.tool)));
    labels.push(("error_type", kind.error.unwrap_or_default().to_owned()));
    labels
}

fn suites(sink: &mut impl Sink, measures: &Measures) {
    let all = measures.by_suite();
    sink.family("switchboard_inflight_calls", Type::Gauge, "Calls that are under way.");
    for (suite, (in_flight, _)) in &all {
        sink.sample(&[("suite", suite)], *in_flight as f64);
    }
    sink.family(
        "switchboard_introspections",
        Type::Counter,
        "Times that somebody asked what a suite can do.",
    );
    for (suite, (_, introspections)) in &all {
        sink.sample(&[("suite", suite)], *introspections as f64);
    }
}

fn children(sink: &mut impl Sink, measures: &Measures, now: &Now) {
    let mut gauge = |name, help, value: fn(&Count) -> usize| {
        sink.family(name, Type::Gauge, help);
        for (child, count) in &now.pools {
            sink.sample(&[("child", child)], value(count) as f64);
        }
    };
    gauge("switchboard_child_up", "1 if a child of this name runs.", |count| usize::from(count.alive > 0));
    gauge("switchboard_pool_size", "Children of this name that run.", |count| count.alive);
    gauge("switchboard_pool_idle", "Children of this name that nobody uses.", |count| count.idle);
    gauge("switchboard_queue_depth", "Callers that wait for a child of this name.", |count| count.waiting);
    sink.family("switchboard_child_memory_bytes", Type::Gauge, "What children take with all they started.");
    for (child, bytes) in &now.memory {
        sink.sample(&[("child", child)], *bytes as f64);
    }
    let counted = measures.by_child();
    sink.family("switchboard_child_starts", Type::Counter, "Children that were started, and what for.");
    for (child, counts) in &counted {
        for (reason, count) in Reason::ALL.iter().zip(counts.starts) {
            sink.sample(&[("child", child), ("reason", reason.word())], count as f64);
        }
    }
    sink.family(
        "switchboard_child_restarts",
        Type::Counter,
        "Starts in place of a child that ended by itself.",
    );
    for (child, counts) in &counted {
        sink.sample(&[("child", child)], counts.restarts as f64);
    }
    sink.family("switchboard_dropped_messages", Type::Counter, "Messages that were not taken, and why.");
    sink.sample(&[("reason", "mailbox_full")], (measures.mail_dropped() + now.mail_dropped) as f64);
    for (child, counts) in &counted {
        sink.sample(&[("reason", "not_protocol"), ("child", child)], counts.noise as f64);
        sink.sample(&[("reason", "too_long"), ("child", child)], counts.too_long as f64);
    }
    sink.family(
        "switchboard_dropped_bytes",
        Type::Counter,
        "Bytes of messages that were too long to be taken.",
    );
    for (child, counts) in &counted {
        sink.sample(&[("reason", "too_long"), ("child", child)], counts.too_long_bytes as f64);
    }
}

fn daemon(sink: &mut impl Sink, measures: &Measures, now: &Now) {
    sink.family("switchboard_sessions", Type::Gauge, "Sessions of hosts that are open.");
    for (via, count) in now.sessions {
        sink.sample(&[("face", via.word())], count as f64);
    }
    sink.family("switchboard_reload", Type::Counter, "Times that all files were read again.");
    let (ok, failed) = measures.reloads();
    sink.sample(&[("result", "ok")], ok as f64);
    sink.sample(&[("result", "failed")], failed as f64);
    if let Some(spans) = measures.spans() {
        let (sent, dropped) = spans.counts();
        sink.family("switchboard_spans", Type::Counter, "Spans that a collector took, or nobody.");
        sink.sample(&[("result", "sent")], sent as f64);
        sink.sample(&[("result", "dropped")], dropped as f64);
    }
    sink.family("switchboard_trust_pending", Type::Gauge, "Definitions that wait for a person's consent.");
    sink.sample(&[], now.pending as f64);
}

/// What every exporter says of its process.
fn process(sink: &mut impl Sink, now: &Now) {
    let own = Process::look();
    let mut one = |name, sort, help, value: Option<f64>| {
        if let Some(value) = value {
            sink.family(name, sort, help);
            sink.sample(&[], value);
        }
    };
    let whole = |value: Option<u64>| value.map(|value| value as f64);
    one("process_cpu_seconds", Type::Counter, "Processor time, user and system.", own.cpu_seconds);
    one("process_resident_memory_bytes", Type::Gauge, "Memory that it takes.", whole(now.own));
    one("process_virtual_memory_bytes", Type::Gauge, "Memory that it could take.", whole(own.virtual_memory));
    one("process_open_fds", Type::Gauge, "Files that it has open.", whole(own.open_files));
    one("process_max_fds", Type::Gauge, "Files that it may have open.", whole(own.most_files));
    one("process_start_time_seconds", Type::Gauge, "When it started, since the epoch.", own.start_time);
}

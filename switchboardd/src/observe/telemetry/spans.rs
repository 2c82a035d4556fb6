//! The bounded queue of finished spans that wait to be sent. Pushing never waits.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use switchboard_mcp::methods;
use tokio::sync::Notify;

use super::message::{FieldValue, attribute, field, message};
use super::trace::{Sampler, SpanContext};

/// A host's request, or a request from the daemon to a child.
#[derive(Debug, Clone)]
pub struct Span {
    pub context: SpanContext,
    pub parent: Option<[u8; 8]>,
    pub side: SpanSide,
    pub method: &'static str,
    pub tool: Option<Arc<str>>,
    /// The suite, or the child.
    pub owner: Option<Arc<str>>,
    pub id: Box<str>,
    /// The error word; `None` for success.
    pub error: Option<&'static str>,
    /// False for success and for a cancelled request.
    pub failed: bool,
    pub started_at: SystemTime,
    pub took: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanSide {
    /// `face` names the entry point.
    Server {
        face: &'static str,
    },
    Client {
        remote: bool,
    },
}

#[derive(Debug)]
pub struct Spans {
    pub sampler: Sampler,
    limit: usize,
    batch: usize,
    // A leaf lock: held only to push or to take a batch.
    queue: Mutex<VecDeque<Span>>,
    /// Notified when a batch is full.
    enough: Notify,
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Spans {
    pub fn new(sampler: Sampler, most: usize, batch: usize) -> Arc<Self> {
        Arc::new(Self {
            sampler,
            limit: most,
            batch,
            queue: Mutex::default(),
            enough: Notify::new(),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// A span that does not fit is dropped and counted.
    pub fn push(&self, span: Span) {
        let waiting = {
            let mut queue = self.queue.lock().expect("BUG: a push panicked");
            if queue.len() >= self.limit {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            queue.push_back(span);
            queue.len()
        };
        if waiting >= self.batch {
            self.enough.notify_one();
        }
    }

    /// The next batch, oldest span first.
    pub fn take(&self) -> Vec<Span> {
        let mut queue = self.queue.lock().expect("BUG: a copy panicked");
        let count = queue.len().min(self.batch);
        queue.drain(..count).collect()
    }

    pub async fn wait_for_batch(&self) {
        self.enough.notified().await;
    }

    pub fn note_sent(&self, count: usize) {
        self.sent.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub fn note_dropped(&self, count: usize) {
        self.dropped.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Spans that the collector accepted, and spans that were dropped.
    pub fn counts(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
    }
}

/// The body of a request to `/v1/traces`.
pub fn request(resource: &FieldValue, spans: &[Span]) -> FieldValue {
    let spans = FieldValue::List(spans.iter().map(Span::written).collect());
    let scope = message([field(1, "scope", scope()), field(2, "spans", spans)]);
    let of_resource = message([
        field(1, "resource", resource.clone()),
        field(2, "scopeSpans", FieldValue::List(vec![scope])),
    ]);
    message([field(1, "resourceSpans", FieldValue::List(vec![of_resource]))])
}

/// The instrumentation scope.
pub fn scope() -> FieldValue {
    message([
        field(1, "name", FieldValue::Text("switchboard".to_owned())),
        field(2, "version", FieldValue::Text(env!("CARGO_PKG_VERSION").to_owned())),
    ])
}

pub fn nanos(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

impl Span {
    fn written(&self) -> FieldValue {
        let (kind, place) = match self.side {
            SpanSide::Server { .. } => (2, "switchboard.suite"),
            SpanSide::Client { .. } => (3, "switchboard.child"),
        };
        let name = match &self.tool {
            Some(tool) => format!("{} {tool}", self.method),
            None => self.method.to_owned(),
        };
        let mut attributes =
            vec![attribute("mcp.method.name", self.method), attribute("jsonrpc.request.id", &self.id)];
        if self.method == methods::TOOLS_CALL {
            attributes.push(attribute("gen_ai.operation.name", "execute_tool"));
        }
        attributes.extend(self.tool.as_ref().map(|tool| attribute("gen_ai.tool.name", tool)));
        attributes.extend(self.owner.as_ref().map(|whose| attribute(place, whose)));
        attributes.push(match self.side {
            SpanSide::Server { face } => attribute("switchboard.face", face),
            SpanSide::Client { remote } => {
                attribute("network.transport", if remote { "tcp" } else { "pipe" })
            }
        });
        attributes.extend(self.error.map(|error| attribute("error.type", error)));
        let begun = nanos(self.started_at);
        let took = u64::try_from(self.took.as_nanos()).unwrap_or(u64::MAX);
        let mut fields = vec![
            field(1, "traceId", FieldValue::Id(self.context.trace.into())),
            field(2, "spanId", FieldValue::Id(self.context.span.into())),
        ];
        fields.extend(self.parent.map(|parent| field(4, "parentSpanId", FieldValue::Id(parent.into()))));
        fields.extend([
            field(5, "name", FieldValue::Text(name)),
            field(6, "kind", FieldValue::Small(kind)),
            field(7, "startTimeUnixNano", FieldValue::Fixed64(begun)),
            field(8, "endTimeUnixNano", FieldValue::Fixed64(begun.saturating_add(took))),
            field(9, "attributes", FieldValue::List(attributes)),
        ]);
        if self.failed {
            fields.push(field(15, "status", message([field(3, "code", FieldValue::Small(2))])));
        }
        message(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: u64) -> Span {
        Span {
            context: SpanContext { trace: [1; 16], span: [2; 8], sampled: true },
            parent: Some([3; 8]),
            side: SpanSide::Server { face: "shim" },
            method: methods::TOOLS_CALL,
            tool: Some("echo".into()),
            owner: Some("kid_suite".into()),
            id: id.to_string().into(),
            error: Some("tool_error"),
            failed: true,
            started_at: UNIX_EPOCH + Duration::from_secs(1),
            took: Duration::from_nanos(5),
        }
    }

    #[test]
    fn a_span_is_written_by_the_conventions() {
        let json: serde_json::Value = serde_json::from_slice(&span(7).written().json()).unwrap();
        assert_eq!(json["traceId"], "01".repeat(16));
        assert_eq!((&json["name"], &json["kind"]), (&"tools/call echo".into(), &2.into()));
        assert_eq!(json["endTimeUnixNano"], "1000000005");
        assert_eq!(json["status"]["code"], 2);
        let attributes = json["attributes"].as_array().unwrap().iter();
        let attributes: Vec<_> = attributes
            .map(|one| (one["key"].as_str().unwrap(), one["value"]["stringValue"].as_str().unwrap()))
            .collect();
        assert_eq!(
            attributes,
            [
                ("mcp.method.name", "tools/call"),
                ("jsonrpc.request.id", "7"),
                ("gen_ai.operation.name", "execute_tool"),
                ("gen_ai.tool.name", "echo"),
                ("switchboard.suite", "kid_suite"),
                ("switchboard.face", "shim"),
                ("error.type", "tool_error"),
            ]
        );
    }

    #[test]
    fn a_full_queue_drops_and_counts_spans() {
        let spans = Spans::new(Sampler { parent_based: true, ratio: 1.0 }, 5, 2);
        (0..8).for_each(|id| spans.push(span(id)));
        let ids: Vec<_> = std::iter::from_fn(|| Some(spans.take()).filter(|batch| !batch.is_empty()))
            .map(|batch| batch.iter().map(|span| span.id.to_string()).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(ids, ["0 1", "2 3", "4"]);
        assert_eq!(spans.counts(), (0, 3));
    }
}

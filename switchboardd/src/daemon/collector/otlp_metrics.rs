//! The figures of `/metrics` as an OTLP message, named by the OpenTelemetry conventions.

use std::sync::Arc;
use std::time::SystemTime;

use switchboard_wire::event_loop::run_blocking;

use crate::observe::metrics::series::Histogram;
use crate::observe::metrics::text::{Labels, MetricType};
use crate::observe::metrics_export::{MetricSink, export};
use crate::observe::telemetry::message::{Field, FieldValue, attribute, field, message};
use crate::observe::telemetry::spans::{nanos, scope};
use crate::state::{Daemon, collect_gauges};

/// All counts start with the daemon.
const CUMULATIVE: u32 = 2;

pub(super) struct OtlpMetrics {
    resource: FieldValue,
    started: SystemTime,
}

impl OtlpMetrics {
    pub(super) fn new(resource: FieldValue) -> Self {
        Self { resource, started: SystemTime::now() }
    }

    /// The body of a request to `/v1/metrics`.
    pub(super) async fn request(&self, daemon: &Arc<Daemon>) -> FieldValue {
        let memory_usage = daemon.services.budget.measure_memory().await;
        let now = collect_gauges(daemon, &memory_usage);
        let mut batch = MetricBatch::new(self.started, SystemTime::now());
        let (metrics, resource) = (daemon.services.metrics.clone(), self.resource.clone());
        // Thousands of figures take a while, and some are read from files.
        run_blocking(move || {
            export(&metrics, &now, &mut batch);
            batch.request(&resource)
        })
        .await
    }
}

struct MetricBatch {
    times: [Field; 2],
    families: Vec<MetricFamily>,
}

struct MetricFamily {
    name: String,
    unit: &'static str,
    help: &'static str,
    sort: MetricType,
    points: Vec<FieldValue>,
}

impl MetricBatch {
    fn new(started: SystemTime, now: SystemTime) -> Self {
        let times = [
            field(2, "startTimeUnixNano", FieldValue::Fixed64(nanos(started))),
            field(3, "timeUnixNano", FieldValue::Fixed64(nanos(now))),
        ];
        Self { times, families: Vec::new() }
    }

    fn request(self, resource: &FieldValue) -> FieldValue {
        let metrics =
            self.families.into_iter().filter(|family| !family.points.is_empty()).map(MetricFamily::written);
        let metrics = FieldValue::List(metrics.collect());
        let scope = message([field(1, "scope", scope()), field(2, "metrics", metrics)]);
        let of_resource = message([
            field(1, "resource", resource.clone()),
            field(2, "scopeMetrics", FieldValue::List(vec![scope])),
        ]);
        message([field(1, "resourceMetrics", FieldValue::List(vec![of_resource]))])
    }

    fn push(&mut self, fields: Vec<Field>) {
        let point = self.times.iter().cloned().chain(fields).collect::<Vec<_>>();
        if let Some(family) = self.families.last_mut() {
            family.points.push(message(point));
        }
    }
}

impl MetricSink for MetricBatch {
    fn family(&mut self, name: &'static str, sort: MetricType, help: &'static str) {
        let (name, unit) = named(name);
        self.families.push(MetricFamily { name, unit, help, sort, points: Vec::new() });
    }

    fn sample(&mut self, labels: Labels<'_>, value: f64) {
        self.push(vec![
            field(4, "asDouble", FieldValue::Double(value)),
            field(7, "attributes", attributes(labels)),
        ]);
    }

    fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        self.push(vec![
            field(4, "count", FieldValue::Fixed64(histogram.count())),
            field(5, "sum", FieldValue::Double(histogram.sum.as_secs_f64())),
            field(6, "bucketCounts", FieldValue::Fixed64s(histogram.buckets.to_vec())),
            field(7, "explicitBounds", FieldValue::Doubles(histogram.bounds.to_vec())),
            field(9, "attributes", attributes(labels)),
        ]);
    }
}

impl MetricFamily {
    fn written(self) -> FieldValue {
        let points = field(1, "dataPoints", FieldValue::List(self.points));
        let temporality = || field(2, "aggregationTemporality", FieldValue::Small(CUMULATIVE));
        let points = match self.sort {
            MetricType::Gauge => field(5, "gauge", message([points])),
            MetricType::Counter => field(
                7,
                "sum",
                message([points, temporality(), field(3, "isMonotonic", FieldValue::Bool(true))]),
            ),
            MetricType::Histogram => field(9, "histogram", message([points, temporality()])),
        };
        message([
            field(1, "name", FieldValue::Text(self.name)),
            field(2, "description", FieldValue::Text(self.help.to_owned())),
            field(3, "unit", FieldValue::Text(self.unit.to_owned())),
            points,
        ])
    }
}

/// Converts a name to the conventions: dots between their words, and the unit apart from the name.
fn named(name: &str) -> (String, &'static str) {
    let (name, unit) = match name.strip_suffix("_seconds") {
        Some(rest) => (rest, "s"),
        None => name.strip_suffix("_bytes").map_or((name, "1"), |rest| (rest, "By")),
    };
    let dots = match name {
        "process_cpu" => return ("process.cpu.time".to_owned(), unit),
        "process_resident_memory" => return ("process.memory.usage".to_owned(), unit),
        "process_virtual_memory" => return ("process.memory.virtual".to_owned(), unit),
        "process_open_fds" => return ("process.open_file_descriptor.count".to_owned(), "{file_descriptor}"),
        name if name.starts_with("mcp_") => usize::MAX,
        _ => 1,
    };
    (name.replacen('_', ".", dots), unit)
}

fn attributes(labels: Labels<'_>) -> FieldValue {
    let known = |name: &'static str| match name {
        "mcp_method_name" => "mcp.method.name",
        "gen_ai_tool_name" => "gen_ai.tool.name",
        "error_type" => "error.type",
        "network_transport" => "network.transport",
        name => name,
    };
    let labels = labels.iter().filter(|(_, value)| !value.is_empty());
    FieldValue::List(labels.map(|(name, value)| attribute(known(name), value)).collect())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn names_are_those_of_the_conventions() {
        for (ours, theirs, unit) in [
            ("mcp_server_operation_duration_seconds", "mcp.server.operation.duration", "s"),
            ("mcp_client_session_duration_seconds", "mcp.client.session.duration", "s"),
            ("switchboard_child_memory_bytes", "switchboard.child_memory", "By"),
            ("switchboard_child_starts", "switchboard.child_starts", "1"),
            ("process_cpu_seconds", "process.cpu.time", "s"),
        ] {
            assert_eq!(named(ours), (theirs.to_owned(), unit));
        }
    }

    #[test]
    fn every_metric_type_has_its_points() {
        let mut batch = MetricBatch::new(UNIX_EPOCH, UNIX_EPOCH + Duration::from_secs(1));
        batch.family("switchboard_sessions", MetricType::Gauge, "S.");
        batch.sample(&[("face", "shim"), ("empty", "")], 2.0);
        batch.family("switchboard_reload", MetricType::Counter, "R.");
        batch.sample(&[], 3.0);
        batch.family("mcp_server_operation_duration_seconds", MetricType::Histogram, "O.");
        let mut histogram = Histogram::new(&[1.0]);
        histogram.add(Duration::from_secs(2));
        batch.histogram(&[("error_type", "x")], &histogram);
        batch.family("switchboard_nothing", MetricType::Gauge, "N.");
        let json: serde_json::Value = serde_json::from_slice(&batch.request(&message([])).json()).unwrap();
        let metrics = &json["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        assert_eq!(metrics.as_array().unwrap().len(), 3, "{json}");
        let gauge = &metrics[0]["gauge"]["dataPoints"][0];
        assert_eq!((&gauge["asDouble"], gauge["attributes"].as_array().unwrap().len()), (&2.into(), 1));
        assert_eq!(
            (&metrics[1]["sum"]["isMonotonic"], &metrics[1]["sum"]["aggregationTemporality"]),
            (&true.into(), &2.into())
        );
        let point = &metrics[2]["histogram"]["dataPoints"][0];
        assert_eq!(
            (&point["count"], &point["bucketCounts"][1], &point["sum"]),
            (&"1".into(), &"1".into(), &2.into())
        );
        assert_eq!(
            (&point["timeUnixNano"], &point["attributes"][0]["key"]),
            (&"1000000000".into(), &"error.type".into())
        );
    }
}

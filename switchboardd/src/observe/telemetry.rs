//! Traces and metrics for an OTLP collector, configured by the standard `OTEL_…` variables; off unless one of
//! them names an endpoint.
//!
//! Written by hand instead of using the OpenTelemetry SDK, which keeps its own copy of the metrics, runs
//! threads, and is larger than all other metrics code. Only a dozen kinds of messages are sent, and remote
//! children already need the HTTP client.
//!
//! With tracing on, each host request is a span, and each request to a child is a span below it; the child
//! receives its span in `_meta.traceparent`. With tracing off, `_meta` is not touched. `daemon/collector.rs`
//! does the sending.

pub mod message;
pub mod settings;
pub mod spans;
pub mod trace;

use settings::TelemetrySettings;

/// Reads the variables from the environment, then from the user's own `env` file: a daemon that a shim
/// started has almost no environment.
pub fn settings(file: &std::path::Path) -> Option<TelemetrySettings> {
    let (own, unread) = match switchboard_definitions::env_file::read_private(file) {
        Ok(own) => (own.unwrap_or_default(), None),
        Err(why) => (std::collections::BTreeMap::new(), Some(why)),
    };
    if let Some(why) = unread {
        tracing::debug!(target: "telemetry", "no `OTEL_…` variable is taken from there: {why}");
    }
    TelemetrySettings::read(|name| std::env::var(name).ok().or_else(|| own.get(name).cloned()))
}

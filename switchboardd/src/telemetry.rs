//! Traces and figures for a collector, by the standard `OTEL_…` variables; off unless one of them names an endpoint.
//!
//! Written here and not by the OpenTelemetry SDK: that keeps figures of its own beside ours, runs threads, and is larger
//! than all else that measures. What is sent are a dozen kinds of messages, and the HTTP client is there for remote
//! children already.
//!
//! With traces on, each request of a host is a span and so is each request to a child below it; the child is told of
//! its own in `_meta.traceparent`. With traces off not a byte of `_meta` is touched. `daemon/collector.rs` sends it all.

pub mod message;
pub mod settings;
pub mod spans;
pub mod trace;

use settings::Settings;

/// What the environment says, and for what it does not, the person's own `env` file: a daemon that a shim starts has
/// hardly any environment.
pub fn settings(file: &std::path::Path) -> Option<Settings> {
    let (own, unread) = match crate::env_file::read_private(file) {
        Ok(own) => (own.unwrap_or_default(), None),
        Err(why) => (std::collections::BTreeMap::new(), Some(why)),
    };
    if let Some(why) = unread {
        tracing::debug!(target: "telemetry", "no `OTEL_…` variable is taken from there: {why}");
    }
    Settings::read(|name| std::env::var(name).ok().or_else(|| own.get(name).cloned()))
}

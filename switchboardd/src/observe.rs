//! Counters and histograms, their export, traces, and the signal that the status changed.

pub mod metrics;
pub mod metrics_export;
pub mod status_changed;
pub mod telemetry;

//! The Switchboard daemon as a library: `daemon::run` takes the daemon's state, its listeners and a future that stops it;
//! `daemon::simulation` makes all of these in memory.
//!
//! Modules in reading order, the way of a call: a request comes in at `http`, belongs to a `session`,
//! is answered by a `face`, which shows `suite`s, which lease a `child` from its `pool`. What is found
//! in files comes from `discover` and stands in the `catalog`. A module names none above it.

#![warn(clippy::print_stderr)]

pub mod args;
pub mod cli;
pub mod daemon;
pub mod logging;

pub mod budget;
pub mod caller;
pub mod catalog;
pub mod child;
pub mod client_capabilities;
pub mod daemon_info;
pub mod daemon_state;
pub mod era;
pub mod error;
pub mod error_codes;
pub mod event_loop;
pub mod face;
pub mod http;
pub mod list_changes;
pub mod listen_requests;
pub mod log_level;
pub mod mailbox;
pub mod manifest;
pub mod merged_items;
pub mod methods;
pub mod metrics;
pub mod metrics_export;
pub mod oauth;
pub mod page_access;
pub mod pool;
pub mod reload;
pub mod savings;
pub mod savings_recorder;
pub mod session;
pub mod status_changed;
pub mod subscriptions;
pub mod suite;
pub mod suspended_calls;
pub mod telemetry;
pub mod value_resolver;
pub mod workspace;

pub mod config;
pub mod definition;
pub mod digest;
pub mod discover;
pub mod document;
pub mod env_file;
pub mod environment;
pub mod expand;
pub mod files;
pub mod header_names;
pub mod hosts;
pub mod inherited_variables;
pub mod layer;
pub mod mask;
mod processes;
pub mod random;
pub mod secrets;
pub mod suite_name;
pub mod time;
pub mod tokens;
pub mod trust;
pub mod unreadable;
pub mod watch;

pub use switchboard_wire::visible;

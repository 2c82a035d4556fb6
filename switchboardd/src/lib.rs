//! The Switchboard daemon. `daemon::run` takes the daemon's state, its listeners and a future that stops it;
//! `daemon::simulation` makes all of these in memory.
//!
//! The modules are listed in the order in which a call passes through them. A module names only modules below
//! it; `tests/tidy.rs` checks that. `ARCHITECTURE.md` at the root of the repository has the map.
//!
//! The commands are the package `switchboard-ctl`; what they use is re-exported here.

#![warn(clippy::print_stderr)]
#![allow(
    unreachable_pub,
    reason = "modules are private to the crate; `pub` in them means that other modules use it"
)]

// The daemon as a process.
pub mod daemon;

// Entry points.
pub(crate) mod http;

pub(crate) mod reload;

// What hosts see.
pub(crate) mod face;

pub(crate) mod state;

pub(crate) mod record;

pub(crate) mod changes;

pub(crate) mod session;

pub(crate) mod catalog;

pub(crate) mod suite;

// The servers.
pub(crate) mod pool;

pub mod oauth;

pub mod child;

pub(crate) mod caller;

// What a model is shown of a tool, and how it finds it.
pub mod search;

pub mod signature;

// Shared by all of the above.
pub(crate) mod savings;

pub(crate) mod observe;

pub(crate) mod system;

pub use caller::{CALL, Caller, START};
pub use catalog::layer::{DuplicateDefinition, Layer, Locations};
pub use pool::RootsOf;
pub use pool::baseline::server_version;
pub use pool::manifest::{Manifest, Manifests};
pub use record::{CallRecord, RecordEntry, RecordFiles};
pub use reload::watch::folder::Folder;
pub use savings::estimate::estimated_tokens;
/// Hidden first argument of `switchboard-ctl`: it prints the help of the daemon.
pub const DAEMON_HELP: &str = "--daemon-help";

pub use savings::tokens::{COUNT_TOKENS, TOKENIZER};
pub use state::{Daemon, page_access};
pub use suite::failure::Failure;
pub use suite::summary::summary;
pub use suite::{CallContext, Suite};
pub use system::environment::{ChildEnvironment, SHELL_ENV, run_shell};
pub use system::{logging, programs, secrets};

/// The runtime of the daemon and of each command: one thread runs all tasks.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        // Blocking work (files, cleaning up after children) runs on these threads, off the event loop.
        .max_blocking_threads(32)
        .thread_keep_alive(std::time::Duration::from_secs(2))
        .enable_all()
        .build()
}

//! The guard of a child: what the daemon tells it, and how both end processes.
//!
//! The program `switchboard-guard` (`main.rs`) is small on purpose: one runs for every local child. It starts no
//! runtime and reads no configuration.

pub mod container;
#[cfg(any(target_os = "macos", test))]
pub mod descendants;
pub mod kill_sequence;
#[cfg(any(target_os = "macos", test))]
pub mod look_times;
pub mod memory;
pub mod order;
pub mod process_tree;
pub mod ps;

/// Guard and daemon work together only if this is the same in both.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

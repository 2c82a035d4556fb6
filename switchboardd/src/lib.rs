//! The Switchboard daemon and its commands. `daemon::run` takes the daemon's state, its listeners and a future that stops
//! it; `daemon::simulation` makes all of these in memory.
//!
//! The modules are listed in the order in which a call passes through them. A module names only modules below
//! it; `tests/tidy.rs` checks that. `ARCHITECTURE.md` at the root of the repository has the map.

#![warn(clippy::print_stderr)]
#![allow(
    unreachable_pub,
    reason = "modules are private to the crate; `pub` in them means that other modules use it"
)]

// The commands, and the daemon as a process.
pub mod cli;

pub mod daemon;

// Entry points.
pub(crate) mod http;

pub(crate) mod reload;

// What hosts see.
pub(crate) mod face;

pub(crate) mod state;

pub(crate) mod changes;

pub(crate) mod session;

pub(crate) mod catalog;

pub(crate) mod suite;

// The servers.
pub(crate) mod pool;

pub mod oauth;

pub mod child;

pub(crate) mod caller;

// Shared by all of the above.
pub mod savings;

pub(crate) mod observe;

pub mod system;

pub(crate) mod args;

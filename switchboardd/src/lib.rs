//! The Switchboard daemon and its commands.
//!
//! The modules stand in the order of a call's way: a module names only modules below it, and `tests/tidy.rs` checks
//! that. `ARCHITECTURE.md` at the root of the repository has the map.

#![warn(clippy::print_stderr)]
#![allow(
    unreachable_pub,
    reason = "modules are private to the crate; `pub` in them means that other modules use it"
)]

pub mod cli;
pub mod daemon;

pub(crate) mod http;
pub(crate) mod reload;

pub(crate) mod caller;
pub(crate) mod catalog;
pub(crate) mod changes;
pub mod child;
pub(crate) mod face;
pub mod oauth;
pub(crate) mod pool;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod suite;

pub(crate) mod args;
pub(crate) mod observe;
pub mod savings;
pub mod system;

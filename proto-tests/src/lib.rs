//! The harness of the black-box tests: real processes, real sockets, real files, and a child that misbehaves
//! on demand.
//!
//! Everything here blocks, and panics on failure, which fails the test. Each test has its own [`Home`],
//! starts a [`DaemonProcess`] and [`Shim`]s in it, and fails if any process of that home outlives it.
#![allow(clippy::unwrap_used, reason = "a harness that panics is a test that fails")]

pub use bins::bins;
pub use daemon::DaemonProcess;
pub use home::Home;
pub use http::{Endpoint, Request, Response};
pub use project::Project;
pub use shim::{Shim, ShimOptions};
pub use terminal::Terminal;
pub use wait::TEST_TIMEOUT;

pub mod activator;
pub mod adapter;
pub mod authority;
pub mod bench;
pub mod bins;
pub mod conformance;
pub mod daemon;
pub mod era_child;
pub mod evil;
pub mod finding;
pub mod forwarder;
pub mod home;
pub mod http;
pub mod markdown;
pub mod procs;
pub mod project;
pub mod proof;
pub mod proofs;
pub mod scripted_server;
pub mod shim;
pub mod streamable;
pub mod terminal;
pub mod transcript;
pub mod wait;

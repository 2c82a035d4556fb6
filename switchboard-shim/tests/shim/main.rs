//! Drives the real binary as a host would, against a fake daemon that each test controls.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic wherever it is")]

mod cancel;
mod daemon;
mod death;
mod drain;
mod end;
mod frames;
mod host;
mod order;
mod shortage;
mod small;
mod start;

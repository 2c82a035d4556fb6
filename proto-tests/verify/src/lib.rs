//! Builds the tests and runs them: what `cargo verify` and the proofs of `proto-tests` share.

#![expect(clippy::print_stdout, reason = "tells a person how far it is")]

pub mod build;
pub mod job;

//! Logins to remote servers: found in every way there is, safe against the answers of others, renewed once, kept, and
//! gone when they are to be.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

mod asking;
mod commands;
mod finding;
mod keeping;
mod person;
mod refusing;
mod renewing;

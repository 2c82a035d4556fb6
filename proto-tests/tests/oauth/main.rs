//! Logins to remote servers: discovery in all its forms, hostile answers, one renewal for all callers,
//! storage, and logout.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

mod asking;
mod commands;
mod finding;
mod keeping;
mod person;
mod refusing;
mod renewing;

//! Measures what a model has to read until it has found and called the right subtool, with real servers' own lists and
//! with intents in people's words.
//!
//! The servers are recorded ([`recorded`]) and played by `replay-child` ([`replay`]). A real daemon shows them; the
//! program is its host ([`measure`]). [`before`] holds what suites said and found before they described themselves.

pub mod answer;
pub mod before;
pub mod choice;
pub mod cost;
pub mod hosts;
pub mod long;
pub mod measure;
pub mod recorded;
pub mod replay;
pub mod report;
pub mod tokens;

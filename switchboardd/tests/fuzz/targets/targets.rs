//! Everything that parses input of others: one list, with two drivers. `main.rs` runs each target with random input in
//! every test run; the package `fuzz` at the root is guided by coverage.

pub(crate) mod definitions;
pub(crate) mod hosts;
pub(crate) mod http;
pub(crate) mod remote;
pub(crate) mod schemas;
pub(crate) mod stored;
pub(crate) mod toml;
pub(crate) mod wire;

/// Something that parses bytes. It panics if it did so wrongly.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// What random inputs are made of, and the dictionary of the guided driver.
    pub(crate) parts: &'static [&'static str],
    /// How many parts a random input has at most.
    pub(crate) most: usize,
    /// Proper inputs to begin with.
    pub(crate) seeds: fn() -> Vec<String>,
    pub(crate) run: fn(&[u8]),
}

pub(crate) const ALL: &[&Target] = &[
    &wire::FRAMING,
    &wire::ENVELOPE,
    &wire::VALUES,
    &definitions::DOCUMENTS,
    &definitions::PROJECT_FILES,
    &toml::TOML,
    &definitions::EXPANSION,
    &definitions::ENV_FILES,
    &definitions::GLOBS,
    &definitions::CONFIG,
    &stored::TRUST,
    &stored::MANIFESTS,
    &hosts::FILES,
    &schemas::SCHEMAS,
    &schemas::HEADERS,
    &remote::EVENTS,
    &remote::CHALLENGES,
    &remote::METADATA,
    &remote::CALLBACKS,
    &http::REQUESTS,
];

fn no_seeds() -> Vec<String> {
    Vec::new()
}

//! Finds settings for servers that do not exist; often a suite's name was written instead of its server's.

use switchboard_definitions::config::ConfigSource;
use switchboard_definitions::document::{Document, Problem, nearest};
use switchboard_definitions::suite_name;

use switchboardd::Layer;

/// One problem per key of `suites` that names no server of this layer or of `other`.
pub(super) fn unused_settings(layer: &Layer, other: Option<&Layer>) -> Vec<Problem> {
    let config = &layer.config;
    if config.basis != ConfigSource::Whole {
        return Vec::new();
    }
    let own: Vec<&str> = names(layer).collect();
    let is_known =
        |key: &str| own.contains(&key) || other.is_some_and(|other| names(other).any(|name| name == key));
    let document = Document::from_text(&config.file, &config.text);
    let places = document.visit(|fields| {
        let suites = fields.get("suites").and_then(|node| node.object());
        let keys = suites.iter().flat_map(|suites| suites.entries());
        keys.map(|(key, node)| (key.to_owned(), node.at())).collect::<Vec<_>>()
    });
    let unknown = places.made.unwrap_or_default().into_iter().filter(|(key, _)| !is_known(key));
    unknown
        .map(|(key, at)| {
            let by_suite = own.iter().copied().find(|name| {
                suite_name::derived(name) == key
                    || config.suite(name).suite_name.as_deref() == Some(key.as_str())
            });
            let hint = by_suite.or_else(|| nearest(&key, own.iter().copied()));
            let hint = hint.map_or(String::new(), |name| format!("; did you mean `{name}`?"));
            document.problem_at(at, format!("suites.{key}: no server of this name{hint}"))
        })
        .collect()
}

fn names(layer: &Layer) -> impl Iterator<Item = &str> {
    let definitions = layer.entries.iter().map(|entry| &entry.definition).chain(&layer.denied);
    definitions.map(|definition| definition.name.as_str())
}

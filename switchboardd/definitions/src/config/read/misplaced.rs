//! Settings in the wrong place or under a misspelled key. Each may be meant to restrict something, so the strictest
//! value of the part that it may belong to applies.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::{Config, ConfigSource, Describe, DriftPolicy, Http, Mode, RecordMode, Scope, TrustConfig};
use super::{
    AGGREGATE, BUDGET, CLIENT, CONFLICTS, EXPOSE, HTTP, INTROSPECTION, OAUTH, POOL, SUITE, TIMEOUTS, TRUST,
};
use crate::document::{Fields, Node, Problem, nearest};

/// Keys that users often put one level too high, with the key that they belong under.
pub(super) const NESTED_KEYS: [(&str, &str); 13] = [
    ("expose", "suites"),
    ("allow", "suites"),
    ("deny", "suites"),
    ("redact", "suites"),
    ("confirm", "suites"),
    ("workspaces", "suites"),
    ("scope", "pool"),
    ("elicit", "trust"),
    ("roots", "trust"),
    ("drift", "trust"),
    ("listen", "http"),
    ("openDiscovery", "http"),
    ("mode", "introspection"),
];

/// Root keys that can restrict or hide something.
pub(super) const RESTRICTING_KEYS: [&str; 7] =
    ["suites", "introspection", "http", "trust", "discoverGlobs", "projectFiles", "record"];

/// Handles an unknown key that may be a misspelled known one.
pub(super) fn mistyped(config: &mut Config, name: &str, near: Option<&str>, node: &Node<'_>) {
    let inner = nearest(name, NESTED_KEYS.iter().map(|(inner, _)| *inner));
    let outer =
        inner.and_then(|inner| NESTED_KEYS.iter().find(|(name, _)| *name == inner)).map(|(_, outer)| *outer);
    // `suite` names the servers it is about; a misplaced `expose` does not.
    if near == Some("suites") && node.is_object() {
        for (child, node) in node.object().iter().flat_map(Fields::entries) {
            config.suites.entry(child.to_owned()).or_default().unusable_reason =
                Some(misplaced_reason(&node.location()));
        }
        return restrict_misplaced_in_suites(config, node);
    }
    for key in [near, outer].into_iter().flatten() {
        strictest(config, key, &node.location());
    }
    restrict_misplaced(config, node, &[]);
}

/// The keys that the object at `key` may have.
pub(super) fn inside(key: &str) -> &'static [&'static str] {
    match key {
        "timeouts" => &TIMEOUTS,
        "introspection" => &INTROSPECTION,
        "conflicts" => &CONFLICTS,
        "http" => &HTTP,
        "budget" => &BUDGET,
        "trust" => &TRUST,
        "oauth" => &OAUTH,
        "aggregate" => &AGGREGATE,
        "expose" => &EXPOSE,
        "pool" => &POOL,
        _ => &[],
    }
}

/// Parts of the config, each with a setting that belongs to it but is in the wrong place.
type MisplacedSettings<'d> = BTreeMap<&'static str, Node<'d>>;

/// Finds settings in the wrong place, such as a level too deep, in and below a value: keys of the config that
/// are not `known` there.
pub(super) fn find_misplaced<'d>(node: &Node<'d>, known: &[&str], found: &mut MisplacedSettings<'d>) {
    if node.is_array() {
        node.items().iter().flatten().for_each(|item| find_misplaced(item, &[], found));
    }
    let members = if node.is_object() { node.object() } else { None };
    for (key, node) in members.iter().flat_map(Fields::entries) {
        if !known.contains(&key) {
            find_misplaced(&node, &[], found);
            if let Some(part) = part_of(key) {
                found.entry(part).or_insert(node);
            }
        } else if key == "clients" && node.is_object() {
            // The keys of `clients` are names of servers.
            for (_, client) in node.object().iter().flat_map(Fields::entries) {
                find_misplaced(&client, &CLIENT, found);
            }
        } else {
            find_misplaced(&node, inside(key), found);
        }
    }
}

/// The part of the config that a key belongs to, if that part can restrict or hide something.
pub(super) fn part_of(key: &str) -> Option<&'static str> {
    let inner =
        NESTED_KEYS.iter().find(|(inner, _)| inner.eq_ignore_ascii_case(key)).map(|(_, outer)| *outer);
    inner.or_else(|| RESTRICTING_KEYS.into_iter().find(|guarding| guarding.eq_ignore_ascii_case(key)))
}

pub(super) fn restrict_misplaced(config: &mut Config, node: &Node<'_>, known: &[&str]) {
    let mut found = MisplacedSettings::new();
    find_misplaced(node, known, &mut found);
    found.iter().for_each(|(part, setting)| strictest(config, part, &setting.location()));
}

/// The keys of `suites` are names of servers. A misplaced setting inside one may hide tools of that server.
pub(super) fn restrict_misplaced_in_suites(config: &mut Config, suites: &Node<'_>) {
    let mut of_all = MisplacedSettings::new();
    for (child, node) in suites.object().iter().flat_map(Fields::entries) {
        let mut found = MisplacedSettings::new();
        find_misplaced(&node, &SUITE, &mut found);
        let (hides, shares) = (found.remove("suites"), found.remove("pool"));
        of_all.append(&mut found);
        if hides.is_none() && shares.is_none() {
            continue;
        }
        let suite = config.suites.entry(child.to_owned()).or_default();
        suite.unusable_reason = suite
            .unusable_reason
            .take()
            .or_else(|| hides.map(|setting| misplaced_reason(&setting.location())));
        if shares.is_some() && suite.pool.scope != Some(Scope::Call) {
            suite.pool.scope = Some(Scope::Session);
        }
    }
    of_all.iter().for_each(|(part, setting)| strictest(config, part, &setting.location()));
}

/// Applies the strictest value of a part that cannot be understood.
pub(super) fn strictest(config: &mut Config, key: &str, place: &str) {
    match key {
        "suites" => config.unusable_reason = Some(misplaced_reason(place)),
        "introspection" => {
            config.introspection.mode = Mode::Redacted;
            config.introspection.describe = Describe::Off;
        }
        "http" => config.http = closed(),
        "trust" => config.trust = STRICTEST_TRUST,
        "pool" => config.scope = Some(Scope::Session),
        "discoverGlobs" => config.discover_globs.clear(),
        "projectFiles" => config.project_files = false,
        "record" => config.record = RecordMode::Off,
        _ => {}
    }
}

pub(super) fn misplaced_reason(place: &str) -> String {
    format!("what is set for it at {place} cannot be understood, and may hide some of its tools")
}

pub(super) fn closed() -> Http {
    Http { listen: "off".to_owned(), is_any_port: false, open_discovery: false, allowed_origins: Vec::new() }
}

pub(super) const STRICTEST_TRUST: TrustConfig =
    TrustConfig { elicit: false, roots: Vec::new(), drift: DriftPolicy::Hold };

pub(super) fn mentions(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|one| one == word)
}

/// For a file that is not JSON or cannot be read: the defaults, and the strictest value of each part that the
/// text mentions; without text, of every part.
pub(in super::super) fn unread(folder: &Path, text: Option<&str>, problem: &Problem) -> Config {
    let mut config = Config { basis: ConfigSource::Partial, ..Config::defaults(folder) };
    let place = Problem { message: String::new(), ..problem.clone() }.to_string();
    let place = place.trim_end_matches(": ");
    for (inner, outer) in NESTED_KEYS {
        if text.is_none_or(|text| mentions(text, inner)) {
            strictest(&mut config, outer, place);
        }
    }
    // Without any text, the globs stay: no server can be used, and each is listed with the reason.
    if text.is_some_and(|text| mentions(text, "discoverGlobs")) {
        strictest(&mut config, "discoverGlobs", place);
    }
    if text.is_some_and(|text| mentions(text, "projectFiles")) {
        strictest(&mut config, "projectFiles", place);
    }
    if text.is_none_or(|text| mentions(text, "record")) {
        strictest(&mut config, "record", place);
    }
    Config { file: problem.file.clone(), ..config }
}

//! Which tools of a server changed, and how.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::difference::{clipped, difference, name, quoted};
use super::known_tool::KnownTool;
use super::{Drift, ListedText, MAX_SHOWN};
use crate::digest;

/// A longer name is kept by its digest.
const MAX_NAME: usize = 256;
/// How many differences of a tool are named in short, and how much of each.
const MAX_IN_SHORT: usize = 2;
const MAX_SHORT_TEXT: usize = 160;
/// More changes than this have one mark together.
const MAX_MARKS: usize = 500;

/// What was accepted of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AcceptedTool {
    /// The last is the latest.
    pub(super) versions: Vec<KnownTool>,
    /// The user accepted a list without it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) may_be_absent: bool,
}

pub(super) type AcceptedTools = BTreeMap<String, AcceptedTool>;

/// One tool that is not as it was accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolChange {
    /// Its name, visible and clipped.
    pub tool: String,
    pub kind: ToolChangeKind,
    /// The differences, in words.
    pub details: Vec<String>,
    pub becomes_destructive: bool,
    /// It said that it only reads, and does not now.
    pub loses_read_only: bool,
    /// It said that it destroys nothing, and does not now, nor that it only reads.
    pub loses_harmless: bool,
    /// It said nothing or that it writes, and now says that it only reads.
    pub gains_read_only: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChangeKind {
    Added,
    Removed,
    /// Another name for the same definition; has the old name.
    Renamed(String),
    #[default]
    Changed,
}

impl ToolChangeKind {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Renamed(_) => "renamed",
            Self::Changed => "changed",
        }
    }
}

impl ToolChange {
    /// The change in a few words, the serious part first.
    pub fn headline(&self) -> String {
        let tool = &self.tool;
        let mut text = match &self.kind {
            ToolChangeKind::Added => format!("new tool {tool}"),
            ToolChangeKind::Removed => format!("no more tool {tool}"),
            ToolChangeKind::Renamed(from) => format!("tool {from} is now called {tool}"),
            ToolChangeKind::Changed => format!("tool {tool} changed"),
        };
        match (&self.kind, self.becomes_destructive) {
            (_, false) => {}
            (ToolChangeKind::Added, true) => text.push_str(", which says that it is destructive"),
            (_, true) => text.push_str(" and now says that it is destructive"),
        }
        if self.loses_read_only {
            text.push_str(" and no longer says that it only reads");
        }
        if self.loses_harmless {
            text.push_str(" and no longer says that it destroys nothing");
        }
        if self.gains_read_only {
            text.push_str(" and now says that it only reads");
        }
        text
    }

    /// The most serious changes have the lowest rank.
    pub(super) fn rank(&self) -> (bool, bool, bool) {
        let loses = self.loses_read_only || self.loses_harmless;
        (!self.becomes_destructive, !loses, !self.gains_read_only)
    }

    /// The change with the first of its differences.
    pub fn in_short(&self) -> String {
        let some = self.details.iter().take(MAX_IN_SHORT).map(|detail| clipped(detail, MAX_SHORT_TEXT));
        let some: Vec<String> = some.collect();
        if some.is_empty() { self.headline() } else { format!("{}: {}", self.headline(), some.join(", ")) }
    }
}

/// Under which name a tool is kept.
pub(super) fn key(name: &str) -> String {
    if name.len() <= MAX_NAME { name.to_owned() } else { format!("sha256:{}", digest::hex(name.as_bytes())) }
}

/// Compares a server's tools with what was accepted. Also returns a mark for each change, by which a change that was
/// reported before is known.
pub(super) fn compare(accepted: &AcceptedTools, tools: &[ListedText<'_>]) -> (Drift, Vec<String>) {
    let mut drift = Drift::default();
    let (mut changes, mut marks): (Vec<ToolChange>, Vec<String>) = (Vec::new(), Vec::new());
    let mut seen = HashSet::with_capacity(tools.len());
    let mut new: Vec<(&str, KnownTool)> = Vec::new();
    for tool in tools {
        let key = key(tool.name);
        let known = KnownTool::of(*tool);
        let before = accepted.get(&key);
        seen.insert(key);
        let Some(before) = before else {
            drift.unaccepted.insert(tool.name.into());
            drift.added.insert(tool.name.into());
            new.push((tool.name, known));
            continue;
        };
        if known.read_only == Some(true) && before.versions.iter().any(|one| one.read_only == Some(true)) {
            drift.read_only.insert(tool.name.into());
        }
        if before.versions.iter().any(|one| one.digest == known.digest) {
            continue;
        }
        drift.unaccepted.insert(tool.name.into());
        marks.push(mark(tool.name, &known.digest));
        changes.extend(before.versions.last().map(|before| changed(tool.name, before, &known)));
    }
    drift.read_before = accepted
        .iter()
        .filter(|(_, tool)| !tool.may_be_absent)
        .filter(|(_, tool)| tool.versions.last().is_some_and(|last| last.read_only == Some(true)))
        .map(|(key, _)| key.as_str().into())
        .collect();
    let gone = accepted.iter().filter(|(key, tool)| !tool.may_be_absent && !seen.contains(*key));
    let mut gone: Vec<(&String, &AcceptedTool)> = gone.collect();
    // A new tool with the definition of one that is gone has been renamed.
    let mut by_digest: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, (_, tool)) in gone.iter().enumerate().rev() {
        for version in &tool.versions {
            by_digest.entry(&version.digest).or_default().push(at);
        }
    }
    let mut renamed = HashSet::new();
    for (new_name, known) in &new {
        marks.push(mark(new_name, &known.digest));
        let from = by_digest.get_mut(&*known.digest).and_then(Vec::pop).filter(|at| renamed.insert(*at));
        changes.push(match from {
            Some(at) => renamed_from(new_name, gone[at].0),
            None => added(new_name, known),
        });
    }
    let mut at = 0;
    gone.retain(|_| (!renamed.contains(&at), at += 1).0);
    for (key, _) in gone {
        marks.push(mark(key, "gone"));
        changes.push(ToolChange { tool: name(key), kind: ToolChangeKind::Removed, ..ToolChange::default() });
    }
    if marks.len() > MAX_MARKS {
        marks = vec![mark("", &marks.join(" "))];
    }
    // A stable sort: the server's order otherwise.
    changes.sort_by_key(ToolChange::rank);
    drift.more = changes.len().saturating_sub(MAX_SHOWN);
    changes.truncate(MAX_SHOWN);
    drift.changes = changes;
    (drift, marks)
}

fn mark(name: &str, digest: &str) -> String {
    digest::hex(format!("{digest} {name}").as_bytes())[..16].to_owned()
}

fn changed(tool: &str, before: &KnownTool, after: &KnownTool) -> ToolChange {
    let details = match (&before.definition, &after.definition) {
        (Some(before), Some(after)) => difference(before, after),
        _ => vec![format!(
            "its definition is too long to be shown: {} bytes → {} bytes",
            before.bytes, after.bytes
        )],
    };
    let becomes_destructive = after.destructive == Some(true) && before.destructive != Some(true);
    ToolChange {
        tool: name(tool),
        kind: ToolChangeKind::Changed,
        details,
        loses_read_only: before.read_only == Some(true) && after.read_only != Some(true),
        loses_harmless: before.destructive == Some(false)
            && after.destructive != Some(false)
            && after.read_only != Some(true)
            && !becomes_destructive,
        becomes_destructive,
        gains_read_only: after.read_only == Some(true) && before.read_only != Some(true),
    }
}

fn renamed_from(tool: &str, from: &str) -> ToolChange {
    ToolChange { tool: name(tool), kind: ToolChangeKind::Renamed(name(from)), ..ToolChange::default() }
}

fn added(tool: &str, known: &KnownTool) -> ToolChange {
    let description = known.definition.as_ref().and_then(|definition| definition["description"].as_str());
    let mut details: Vec<String> = description
        .map(|text| format!("`description`: {}", quoted(&clipped(text, 400))))
        .into_iter()
        .collect();
    if known.read_only == Some(true) {
        details.push("says that it only reads".to_owned());
    }
    ToolChange {
        tool: name(tool),
        kind: ToolChangeKind::Added,
        details,
        becomes_destructive: known.destructive == Some(true),
        ..ToolChange::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(tools: &[(&'static str, &'static str)]) -> Vec<ListedText<'static>> {
        tools.iter().map(|(name, raw)| ListedText { name, raw }).collect()
    }

    fn accepted(tools: &[(&'static str, &'static str)]) -> AcceptedTools {
        let one = |tool: &ListedText<'_>| {
            (key(tool.name), AcceptedTool { versions: vec![KnownTool::of(*tool)], may_be_absent: false })
        };
        texts(tools).iter().map(one).collect()
    }

    #[track_caller]
    fn check(
        before: &[(&'static str, &'static str)],
        after: &[(&'static str, &'static str)],
        expected: &[&str],
    ) {
        let (drift, marks) = compare(&accepted(before), &texts(after));
        let told: Vec<String> = drift.changes.iter().map(ToolChange::headline).collect();
        assert_eq!(told, expected);
        assert_eq!(marks.len(), expected.len());
    }

    #[test]
    fn changes_are_named() {
        let a = ("a", r#"{"description":"A"}"#);
        check(&[a], &[a], &[]);
        check(&[a], &[a, ("b", "{}")], &["new tool `b`"]);
        check(&[a, ("b", "{}")], &[a], &["no more tool `b`"]);
        check(&[a], &[("b", r#"{"description":"A"}"#)], &["tool `a` is now called `b`"]);
        check(&[a], &[("a", r#"{"description":"B"}"#)], &["tool `a` changed"]);
        // Two tools of the same definition, one of which gets another name.
        check(&[("a", "{}"), ("b", "{}")], &[("a", "{}"), ("c", "{}")], &["tool `b` is now called `c`"]);
        check(&[("a", "{}")], &[("b", "{}"), ("c", "{}")], &["tool `a` is now called `b`", "new tool `c`"]);
        let destroys = r#"{"annotations":{"destructiveHint":true}}"#;
        check(
            &[("a", "{}"), a],
            &[("a", destroys)],
            &["tool `a` changed and now says that it is destructive"],
        );
        check(
            &[a],
            &[("z", "{}"), a, ("b", destroys)],
            &["new tool `b`, which says that it is destructive", "new tool `z`"],
        );
    }

    #[test]
    fn a_tool_that_stops_saying_that_it_is_harmless_is_named_first() {
        let reads = r#"{"annotations":{"readOnlyHint":true}}"#;
        let adds = r#"{"annotations":{"readOnlyHint":false,"destructiveHint":false}}"#;
        let destroys = r#"{"annotations":{"destructiveHint":true}}"#;
        let a = ("a", r#"{"description":"A"}"#);
        let lost_reading = "tool `b` changed and no longer says that it only reads";
        let lost_harmless = "tool `b` changed and no longer says that it destroys nothing";
        check(&[a, ("b", reads)], &[("a", "{}"), ("b", "{}")], &[lost_reading, "tool `a` changed"]);
        check(&[a, ("b", adds)], &[("a", "{}"), ("b", "{}")], &[lost_harmless, "tool `a` changed"]);
        check(&[("b", reads)], &[("b", adds)], &[lost_reading]);
        check(&[("b", adds)], &[("b", reads)], &["tool `b` changed and now says that it only reads"]);
        check(&[("b", adds)], &[("b", destroys)], &["tool `b` changed and now says that it is destructive"]);
        check(
            &[("b", reads)],
            &[("b", destroys)],
            &["tool `b` changed and now says that it is destructive and no longer says that it only reads"],
        );
    }

    #[test]
    fn what_only_read_when_it_was_accepted_is_known() {
        let reads = r#"{"annotations":{"readOnlyHint":true}}"#;
        let names = |accepted: &AcceptedTools| {
            let (drift, _) = compare(accepted, &texts(&[("x", "{}")]));
            let mut names: Vec<String> = drift.read_before.iter().map(|name| name.to_string()).collect();
            names.sort();
            names
        };
        let mut before = accepted(&[("a", reads), ("b", "{}"), ("c", reads)]);
        assert_eq!(names(&before), ["a", "c"]);
        // The user accepted it as one that writes, and a list without the other.
        let silent = KnownTool::of(ListedText { name: "a", raw: "{}" });
        before.get_mut("a").unwrap().versions.push(silent);
        before.get_mut("c").unwrap().may_be_absent = true;
        assert!(names(&before).is_empty());
    }

    #[test]
    fn only_an_accepted_reader_is_a_reader() {
        let reads = r#"{"annotations":{"readOnlyHint":true}}"#;
        let (drift, _) = compare(
            &accepted(&[("a", reads), ("b", "{}"), ("c", reads)]),
            &texts(&[("a", reads), ("b", reads), ("c", "{}"), ("new", reads)]),
        );
        let names: Vec<&str> = drift.read_only.iter().map(|name| &**name).collect();
        assert_eq!(names, ["a"]);
        let change = drift.changes.iter().find(|change| change.tool == "`b`").unwrap();
        assert!(change.gains_read_only && change.headline().contains("now says that it only reads"));
        // A reader that only changes its description stays one.
        let (drift, _) = compare(
            &accepted(&[("a", reads)]),
            &texts(&[("a", r#"{"description":"x","annotations":{"readOnlyHint":true}}"#)]),
        );
        assert!(drift.read_only.contains("a") && drift.unaccepted.contains("a"));
    }

    #[test]
    fn ten_thousand_changes_are_counted() {
        let names: Vec<String> = (0..10_000).map(|at| format!("t{at}")).collect();
        let tools: Vec<ListedText<'_>> = names.iter().map(|name| ListedText { name, raw: "{}" }).collect();
        let (drift, marks) = compare(&AcceptedTools::new(), &tools);
        assert_eq!((drift.changes.len(), drift.more), (MAX_SHOWN, 10_000 - MAX_SHOWN));
        assert!(drift.summary().len() < 500, "{}", drift.summary());
        assert_eq!(marks.len(), 1);
        assert_eq!(drift.unaccepted.len(), 10_000);
    }
}

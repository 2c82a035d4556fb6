//! What a server says of its tools, compared with what the user has accepted.
//!
//! The first list of a server is its baseline. It is kept on disk by the file and name of the definition, so that it
//! survives restarts and new versions. A definition that differs from every accepted one is a change, until the user
//! accepts it. Texts of servers are made visible and are clipped here, before anybody shows them.

mod changes;
mod difference;
mod known_tool;
mod store;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

pub use changes::{ToolChange, ToolChangeKind};
pub use known_tool::KnownTool;
pub use store::{BaselineError, Compared, ToolStore};

/// How many changes are named in a log line.
const MAX_LOGGED: usize = 6;
/// How many changes are shown with their differences; the others are counted.
const MAX_SHOWN: usize = 40;

/// One tool as its server wrote it.
#[derive(Debug, Clone, Copy)]
pub struct ListedText<'a> {
    pub name: &'a str,
    /// The whole definition.
    pub raw: &'a str,
}

/// A server's tools compared with what was accepted of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drift {
    /// The most serious first; at most `MAX_SHOWN`.
    pub changes: Vec<ToolChange>,
    /// How many changes there are beyond those.
    pub more: usize,
    /// The names of tools whose definition is not accepted: new ones and changed ones.
    pub unaccepted: HashSet<Box<str>>,
    /// Those of them that are new.
    pub added: HashSet<Box<str>>,
    /// The names of tools that say that they only read, and were accepted as such.
    pub read_only: HashSet<Box<str>>,
    /// The names of tools that only read in the list that the user accepted last. What was shown to users as
    /// read-only may not write before they accept that.
    pub read_before: HashSet<Box<str>>,
    /// The server's version when its tools were accepted, and now, if it differs.
    pub versions: Option<(String, String)>,
    /// Why the record of its tools cannot be used; then no tool counts as accepted.
    pub damaged: Option<String>,
}

impl Drift {
    /// The outcomes of several lists of one server: a tool counts as accepted if it is so in each list. `None` without
    /// any.
    pub fn together(drifts: Vec<Arc<Self>>) -> Option<Arc<Self>> {
        let mut drifts = drifts.into_iter();
        let first = drifts.next()?;
        let rest: Vec<Arc<Self>> = drifts.filter(|other| **other != *first).collect();
        if rest.is_empty() {
            return Some(first);
        }
        let mut all = (*first).clone();
        for other in rest {
            all.changes.extend(
                other.changes.iter().filter(|one| !all.changes.contains(one)).cloned().collect::<Vec<_>>(),
            );
            all.more = all.more.max(other.more);
            all.unaccepted.extend(other.unaccepted.iter().cloned());
            all.added.extend(other.added.iter().cloned());
            all.read_only.retain(|tool| other.read_only.contains(tool));
            all.read_before.extend(other.read_before.iter().cloned());
            all.versions = all.versions.or_else(|| other.versions.clone());
            all.damaged = all.damaged.or_else(|| other.damaged.clone());
        }
        all.changes.sort_by_key(ToolChange::rank);
        all.more += all.changes.len().saturating_sub(MAX_SHOWN);
        all.changes.truncate(MAX_SHOWN);
        Some(Arc::new(all))
    }

    pub fn is_none(&self) -> bool {
        self.changes.is_empty() && self.damaged.is_none()
    }

    /// The version before and now, in words: an upgrade is the usual cause.
    pub fn versions_text(&self) -> String {
        let versions = self.versions.as_ref();
        versions.map_or(String::new(), |(was, is)| format!(" (version {was} → {is})"))
    }

    /// One line for the log and the status: how many tools changed, and the most serious of them.
    pub fn summary(&self) -> String {
        if let Some(why) = &self.damaged {
            return format!("what was accepted of its tools is not known: {why}");
        }
        let count = self.changes.len() + self.more;
        let noun = if count == 1 { "tool" } else { "tools" };
        let mut text = format!("{count} {noun} changed{}: ", self.versions_text());
        for (at, change) in self.changes.iter().take(MAX_LOGGED).enumerate() {
            let _ = write!(text, "{}{}", if at > 0 { "; " } else { "" }, change.in_short());
        }
        let unnamed = count - self.changes.len().min(MAX_LOGGED);
        if unnamed > 0 {
            let _ = write!(text, "; and {unnamed} more");
        }
        text
    }

    /// Every change with its difference, line by line.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.damaged.iter().map(|_| self.summary()).collect();
        if let Some((was, is)) = &self.versions {
            lines.push(format!("its version: {was} → {is}"));
        }
        for change in &self.changes {
            lines.push(change.headline());
            lines.extend(change.details.iter().map(|detail| format!("  {detail}")));
        }
        if self.more > 0 {
            lines.push(format!("and {} more", self.more));
        }
        lines
    }

    pub fn to_json(&self, holds: bool) -> Value {
        let changes: Vec<Value> = self
            .changes
            .iter()
            .map(|change| {
                json!({
                    "tool": change.tool,
                    "what": change.kind.as_str(),
                    "text": change.headline(),
                    "details": change.details,
                    "becomesDestructive": change.becomes_destructive,
                    "losesReadOnly": change.loses_read_only,
                    "losesHarmless": change.loses_harmless,
                    "gainsReadOnly": change.gains_read_only,
                })
            })
            .collect();
        let (was, is) = self.versions.clone().unzip();
        json!({
            "summary": self.summary(),
            "changes": changes,
            "more": self.more,
            "versionBefore": was,
            "version": is,
            "damaged": self.damaged,
            "held": holds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_counts_as_accepted_if_it_is_so_in_each_list() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).into()).collect::<HashSet<Box<str>>>();
        let change = |tool: &str, becomes_destructive| ToolChange {
            tool: tool.to_owned(),
            becomes_destructive,
            ..ToolChange::default()
        };
        let none = Arc::new(Drift { read_only: names(&["a", "b"]), ..Drift::default() });
        let one = Arc::new(Drift {
            changes: vec![change("a", false)],
            unaccepted: names(&["a"]),
            read_only: names(&["b"]),
            ..Drift::default()
        });
        let other = Arc::new(Drift {
            changes: vec![change("a", false), change("c", true)],
            unaccepted: names(&["a", "c"]),
            ..Drift::default()
        });
        assert!(Drift::together(Vec::new()).is_none());
        assert_eq!(Drift::together(vec![one.clone(), one.clone()]), Some(one.clone()));
        for order in [[&none, &one, &other], [&other, &none, &one]] {
            let all = Drift::together(order.into_iter().cloned().collect()).unwrap();
            assert_eq!(all.unaccepted, names(&["a", "c"]));
            assert!(all.read_only.is_empty());
            let changed: Vec<&str> = all.changes.iter().map(|change| change.tool.as_str()).collect();
            assert_eq!(changed, ["c", "a"]);
        }
    }
}

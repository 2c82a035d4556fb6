//! What a file of a project says of the tools of its own servers: in globs, as `expose` and `confirm` have them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::tool_globs::{ALL, are_apart, common, covers};

/// The tools that may be used, and those that the user is asked about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnLimits {
    /// Only these; `None`: all.
    pub allow: Option<BTreeSet<String>>,
    /// Never these.
    pub deny: BTreeSet<String>,
    /// These after a question.
    pub confirm: BTreeSet<String>,
}

impl OwnLimits {
    /// Whether every tool may be used without a question.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Whether no tool may be used.
    pub fn is_closed(&self) -> bool {
        self.allow.as_ref().is_some_and(BTreeSet::is_empty) || self.deny.contains(ALL)
    }

    /// Whether it may permit something that `other` does not, as far as that can be told.
    pub fn is_looser_than(&self, other: &Self) -> bool {
        let is_covered = |glob: &String, by: &BTreeSet<String>| by.iter().any(|large| covers(large, glob));
        let is_apart = |denied: &String, allow: &BTreeSet<String>| {
            allow.iter().all(|allowed| are_apart(allowed, denied))
        };
        let adds = other.allow.as_ref().is_some_and(|others| {
            self.allow.as_ref().is_none_or(|own| !own.iter().all(|glob| is_covered(glob, others)))
        });
        let stays_out = |denied: &String| {
            is_covered(denied, &self.deny) || self.allow.as_ref().is_some_and(|own| is_apart(denied, own))
        };
        adds || !other.deny.iter().all(stays_out)
            || !other.confirm.iter().all(|asked| is_covered(asked, &self.confirm) || stays_out(asked))
    }

    /// Permits only these, of what was permitted. False if no list of globs says that.
    pub fn allow_only(&mut self, globs: BTreeSet<String>) -> bool {
        let joined = match &self.allow {
            Some(known) => common(known, &globs),
            None => Some(globs),
        };
        let is_joined = joined.is_some();
        self.allow = Some(joined.unwrap_or_default());
        is_joined
    }

    /// Takes other limits in: only what both permit is left.
    pub fn restrict(&mut self, other: &Self) {
        if let Some(allow) = &other.allow {
            self.allow_only(allow.clone());
        }
        self.deny.extend(other.deny.iter().cloned());
        self.confirm.extend(other.confirm.iter().cloned());
    }
}

/// For a user: `only: read; not: rm`.
impl std::fmt::Display for OwnLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |globs: &BTreeSet<String>| globs.iter().cloned().collect::<Vec<_>>().join(", ");
        let mut parts: Vec<String> =
            self.allow.iter().map(|allow| format!("only: {}", list(allow))).collect();
        if !self.deny.is_empty() {
            parts.push(format!("not: {}", list(&self.deny)));
        }
        if !self.confirm.is_empty() {
            parts.push(format!("after a question: {}", list(&self.confirm)));
        }
        if parts.is_empty() {
            parts.push("all".to_owned());
        }
        f.write_str(&parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(allow: Option<&[&str]>, deny: &[&str], confirm: &[&str]) -> OwnLimits {
        let set = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
        OwnLimits { allow: allow.map(set), deny: set(deny), confirm: set(confirm) }
    }

    #[test]
    fn what_permits_more_is_looser() {
        let open = OwnLimits::default();
        for (before, now, expect) in [
            (open.clone(), limits(None, &["rm"], &[]), false),
            (limits(None, &["rm"], &[]), open.clone(), true),
            (limits(None, &["rm"], &[]), limits(None, &["r*"], &[]), false),
            (limits(None, &["r*"], &[]), limits(None, &["rm"], &[]), true),
            (limits(None, &["rm"], &[]), limits(Some(&["read"]), &[], &[]), false),
            (limits(Some(&["read"]), &[], &[]), limits(Some(&["read", "rm"]), &[], &[]), true),
            (limits(Some(&["read", "rm"]), &[], &[]), limits(Some(&["rm"]), &[], &[]), false),
            (limits(Some(&["read"]), &[], &[]), limits(None, &["rm"], &[]), true),
            (limits(None, &[], &["*"]), open.clone(), true),
            (limits(None, &[], &["rm"]), limits(None, &[], &["*"]), false),
            (limits(None, &[], &["rm"]), limits(None, &["rm"], &[]), false),
        ] {
            assert_eq!(now.is_looser_than(&before), expect, "{before} → {now}");
            assert!(!now.is_looser_than(&now));
        }
    }

    #[test]
    fn limits_of_two_files_hold_together() {
        let mut both = limits(Some(&["a", "b"]), &["c"], &[]);
        both.restrict(&limits(Some(&["b", "d"]), &["e"], &["f"]));
        assert_eq!(both, limits(Some(&["b"]), &["c", "e"], &["f"]));
        assert_eq!(both.to_string(), "only: b; not: c, e; after a question: f");
        assert_eq!(OwnLimits::default().to_string(), "all");
    }
}

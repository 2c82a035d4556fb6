//! What the tools stand for that a host was shown. Its calls are judged by that, also if the list is another one now.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use switchboard_definitions::digest;

use crate::suite::{ListedName, SuitePart};

/// How many tools a token has: it is a header. Those beyond are judged by the list of the day.
const MAX_IN_TOKEN: usize = 500;
/// Of each: so many digits of a digest, and a letter for what it reaches.
const DIGITS: usize = 16;

#[derive(Debug, Default)]
pub struct ShownTools {
    /// By name.
    tools: BTreeMap<String, ShownTarget>,
    /// What tools reached in a list that an earlier daemon showed, by [`print_of`].
    earlier: HashMap<String, SuitePart>,
}

/// What a tool of a list stands for.
#[derive(Debug, Clone)]
pub struct ShownTarget {
    pub child: Box<str>,
    pub part: SuitePart,
    /// The child's own tool that it is, if it is no suite.
    pub own: Option<Box<str>>,
}

impl ShownTools {
    pub(super) fn new(tools: BTreeMap<String, ShownTarget>) -> Self {
        Self { tools, earlier: HashMap::new() }
    }

    /// From the token of an earlier daemon; what is no token says nothing.
    pub fn of_token(token: &str) -> Self {
        let entries = token.as_bytes().chunks_exact(DIGITS + 1);
        let earlier = entries.take(MAX_IN_TOKEN).filter_map(|entry| {
            let (print, part) = entry.split_at(DIGITS);
            Some((std::str::from_utf8(print).ok()?.to_owned(), part_of(part[0])?))
        });
        Self { tools: BTreeMap::new(), earlier: earlier.collect() }
    }

    /// Tells a later daemon what these tools reach. It has no text of a server.
    pub fn token(&self) -> String {
        let mut token = String::new();
        let (own, suites): (Vec<_>, Vec<_>) = self.tools.iter().partition(|(_, target)| target.own.is_some());
        for (name, target) in suites.into_iter().chain(own).take(MAX_IN_TOKEN) {
            let print = print_of(name, &target.child, target.own.as_deref());
            let _ = write!(token, "{print}{}", letter_of(target.part));
        }
        token
    }

    /// What a tool reached in the list of an earlier daemon.
    pub fn earlier_part(&self, name: &str, child: &str, own: Option<&str>) -> Option<SuitePart> {
        if self.earlier.is_empty() { None } else { self.earlier.get(&print_of(name, child, own)).copied() }
    }

    /// The listed tool that calls the child's tool `own`: that tool itself, or its suite's. `reads`: whether `own` only
    /// reads.
    pub fn reaching(&self, child: &str, own: &str, reads: bool) -> Option<ListedName> {
        let of_child = || self.tools.iter().filter(|(_, target)| &*target.child == child);
        if let Some((name, _)) = of_child().find(|(_, target)| target.own.as_deref() == Some(own)) {
            return Some(ListedName::OwnTool(name.clone()));
        }
        let reaches = |part: SuitePart| match part {
            SuitePart::Whole => true,
            SuitePart::ReadOnly => reads,
            SuitePart::Writing => !reads,
            SuitePart::Found => false,
        };
        let mut suites = of_child().filter(|(_, target)| target.own.is_none());
        suites.find(|(_, target)| reaches(target.part)).map(|(name, _)| ListedName::Suite(name.clone()))
    }

    /// Whether it names no tools, as after a restart of the daemon.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<&ShownTarget> {
        self.tools.get(name)
    }
}

fn letter_of(part: SuitePart) -> char {
    match part {
        SuitePart::Whole => 'a',
        SuitePart::ReadOnly => 'r',
        SuitePart::Writing => 'w',
        SuitePart::Found => 'f',
    }
}

fn part_of(letter: u8) -> Option<SuitePart> {
    let all = [SuitePart::Whole, SuitePart::ReadOnly, SuitePart::Writing];
    all.into_iter().find(|part| letter_of(*part) == char::from(letter))
}

fn print_of(name: &str, child: &str, own: Option<&str>) -> String {
    let text = serde_json::json!([name, child, own]).to_string();
    digest::hex(text.as_bytes())[..DIGITS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_what_each_tool_reached() {
        let target =
            |part, own: Option<&str>| ShownTarget { child: "k".into(), part, own: own.map(Into::into) };
        let shown = ShownTools::new(BTreeMap::from([
            ("k_suite".to_owned(), target(SuitePart::ReadOnly, None)),
            ("k_suite_write".to_owned(), target(SuitePart::Writing, None)),
            ("k_rm".to_owned(), target(SuitePart::Whole, Some("rm"))),
        ]));
        let token = shown.token();
        assert!(token.len() == 3 * 17 && token.chars().all(|c| c.is_ascii_alphanumeric()), "{token}");
        let resumed = ShownTools::of_token(&token);
        assert_eq!(resumed.earlier_part("k_suite", "k", None), Some(SuitePart::ReadOnly));
        assert_eq!(resumed.earlier_part("k_suite_write", "k", None), Some(SuitePart::Writing));
        assert_eq!(resumed.earlier_part("k_rm", "k", Some("rm")), Some(SuitePart::Whole));
        // Another server or tool of that name is another tool.
        for (name, child, own) in [("k_suite", "j", None), ("k_rm", "k", None), ("k_rm", "k", Some("mv"))] {
            assert_eq!(resumed.earlier_part(name, child, own), None);
        }
        let suite = |name: &str| Some(ListedName::Suite(name.to_owned()));
        assert_eq!(shown.reaching("k", "rm", true), Some(ListedName::OwnTool("k_rm".to_owned())));
        assert_eq!(shown.reaching("k", "ls", true), suite("k_suite"));
        assert_eq!(shown.reaching("k", "mv", false), suite("k_suite_write"));
        assert_eq!(shown.reaching("j", "ls", true), None);
        for wrong in ["", "x", "é".repeat(40).as_str(), &"0".repeat(17 * 3)] {
            assert!(ShownTools::of_token(wrong).earlier.is_empty(), "{wrong}");
        }
    }
}

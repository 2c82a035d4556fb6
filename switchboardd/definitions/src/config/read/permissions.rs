//! Reads `split`, `show` and `confirm` of a suite.

use std::collections::BTreeSet;

use super::super::{Restrictions, Show, Split, glob_set};
use super::EXPOSE;
use crate::document::{Fields, Node, UnknownMembers};

/// `true`, `false` or `"auto"`. If the meaning is unclear, reading and writing are kept apart.
pub(super) fn split(fields: &Fields<'_>, unknown: &UnknownMembers<'_, '_>) -> Split {
    let Some(node) = fields.get("split") else {
        let is_mistyped = unknown.are_more || unknown.first.iter().any(|(_, near)| *near == Some("split"));
        return if is_mistyped { Split::Always } else { Split::Auto };
    };
    if node.is_flag() {
        return if node.flag() == Some(false) { Split::Never } else { Split::Always };
    }
    if node.is_text() && node.text().as_deref() == Some("auto") {
        return Split::Auto;
    }
    node.complain("`split` must be true, false or \"auto\"");
    Split::Always
}

/// `"suite"`, `"tools"` or `"auto"`.
pub(super) fn show(fields: &Fields<'_>) -> Show {
    let words = Show::ALL.map(|show| (show.as_str(), show));
    fields.get("show").and_then(|node| node.word(&words)).unwrap_or_default()
}

/// `"destructive"`, or globs on the names of tools: reads them into `restrictions`.
pub(super) fn confirm(node: &Node<'_>, restrictions: &mut Restrictions) {
    if !node.is_array() {
        if !node.is_text() || node.text().as_deref() != Some("destructive") {
            node.complain("`confirm` must be \"destructive\" or a list of globs");
        }
        restrictions.confirm_destructive = true;
        return;
    }
    restrictions.confirm = globs(node).unwrap_or_default();
}

/// `allow` and `deny`, as globs on the names of tools.
pub(super) fn expose(node: &Node<'_>, restrictions: &mut Restrictions) {
    let Some(fields) = node.object() else { return };
    fields.reject_unknown(&EXPOSE);
    restrictions.allow = fields.get("allow").and_then(|node| globs(&node)).into_iter().collect();
    restrictions.deny = fields.get("deny").and_then(|node| globs(&node)).unwrap_or_default();
}

fn globs(node: &Node<'_>) -> Option<BTreeSet<String>> {
    let globs = node.texts()?;
    match glob_set(&globs) {
        Ok(_) => Some(globs.into_iter().collect()),
        Err(error) => {
            node.complain(format!("not a glob: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Config, ConfigOwner, SuiteConfig};
    use crate::document::Document;

    fn read(suite: &str) -> (SuiteConfig, Vec<String>) {
        let text = format!(r#"{{"suites": {{"a": {suite}}}}}"#);
        let document = Document::from_text(Path::new("/c.json"), &text);
        let (config, problems) = Config::of_document(&document, Path::new("/"), ConfigOwner::Personal);
        (config.suite("a"), problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn an_unclear_split_keeps_reading_and_writing_apart() {
        for (suite, expect) in [
            ("{}", Split::Auto),
            (r#"{"split": "auto"}"#, Split::Auto),
            (r#"{"split": true}"#, Split::Always),
            (r#"{"split": false}"#, Split::Never),
        ] {
            let (config, problems) = read(suite);
            assert_eq!((config.split, problems.len()), (expect, 0), "{suite}: {problems:?}");
        }
        for suite in [
            r#"{"split": "true"}"#,
            r#"{"split": null}"#,
            r#"{"split": ["auto"]}"#,
            r#"{"split": 0}"#,
            r#"{"splt": true}"#,
        ] {
            let (config, problems) = read(suite);
            assert_eq!((config.split, problems.len()), (Split::Always, 1), "{suite}: {problems:?}");
            assert_eq!(config.unusable_reason, None, "{suite}");
        }
    }

    #[test]
    fn a_server_whose_confirm_is_unclear_is_not_used() {
        let asks = |suite: &str, tool: &str, harmless| {
            let (config, problems) = read(suite);
            assert!(problems.is_empty(), "{problems:?}");
            config.confirm.asks_about(tool, || harmless)
        };
        assert!(asks(r#"{"confirm": ["delete_*", "x"]}"#, "delete_all", true));
        assert!(!asks(r#"{"confirm": ["delete_*", "x"]}"#, "get", false));
        assert!(asks(r#"{"confirm": "destructive"}"#, "x", false));
        assert!(!asks(r#"{"confirm": "destructive"}"#, "x", true));
        assert!(!asks(r#"{"confirm": []}"#, "x", false) && !asks("{}", "x", false));
        for suite in [
            r#"{"confirm": "delete_*"}"#,
            r#"{"confirm": true}"#,
            r#"{"confirm": null}"#,
            r#"{"confirm": [1]}"#,
            r#"{"confirm": ["["]}"#,
            r#"{"confrim": ["x"]}"#,
            r#"{"expose": {"confirm": ["x"]}}"#,
        ] {
            let (config, problems) = read(suite);
            assert!(config.unusable_reason.is_some() && problems.len() == 1, "{suite}: {problems:?}");
        }
    }
}

//! Reads what suites say of themselves and what `introspect` shows.

use super::super::{Describe, Introspection, Mode};
use super::count;
use crate::document::Node;

pub(in crate::config) const INTROSPECTION: [&str; 5] =
    ["mode", "summaryMaxChars", "maxBytes", "describe", "describeMaxChars"];

/// Least and most.
const SUMMARY: (u64, u64) = (8, 4096);
const DESCRIBE_CHARS: (u64, u64) = (80, 4096);
const INTROSPECTED: (u64, u64) = (500, 10_000_000);

pub(super) fn introspection(node: &Node<'_>, base: Introspection) -> Introspection {
    let Some(fields) = node.object() else {
        return Introspection { mode: Mode::Redacted, describe: Describe::Off, ..base };
    };
    fields.reject_unknown(&INTROSPECTION);
    let modes = [
        ("summary", Mode::Summary),
        ("compact", Mode::Compact),
        ("full", Mode::Full),
        ("redacted", Mode::Redacted),
    ];
    let describes = [Describe::Full, Describe::Names, Describe::Off].map(|much| (much.as_str(), much));
    let near = |(_, near): &(&str, Option<&str>)| {
        !matches!(near, Some("summaryMaxChars" | "describeMaxChars" | "maxBytes"))
    };
    let strangers = fields.unknown_members(&INTROSPECTION);
    let mistyped = strangers.are_more || strangers.first.iter().any(near);
    Introspection {
        mode: match fields.get("mode") {
            Some(node) => node.word(&modes).unwrap_or(Mode::Redacted),
            None if mistyped => Mode::Redacted,
            None => base.mode,
        },
        summary_max_chars: fields
            .get("summaryMaxChars")
            .and_then(|node| summary(&node))
            .unwrap_or(base.summary_max_chars),
        describe: match fields.get("describe") {
            Some(node) => node.word(&describes).unwrap_or(Describe::Off),
            None if mistyped => Describe::Off,
            None => base.describe,
        },
        describe_max_chars: fields
            .get("describeMaxChars")
            .and_then(|node| count(&node, DESCRIBE_CHARS.0, DESCRIBE_CHARS.1))
            .unwrap_or(base.describe_max_chars),
        max_bytes: fields
            .get("maxBytes")
            .and_then(|node| count(&node, INTROSPECTED.0, INTROSPECTED.1))
            .unwrap_or(base.max_bytes),
    }
}

pub(super) fn summary(node: &Node<'_>) -> Option<usize> {
    count(node, SUMMARY.0, SUMMARY.1)
}

//! One vocabulary and one spelling in what users read: README, docs, changelog, security page, and the help texts and
//! man pages (through `docs/commands.md`, which is made from them) and settings (through `docs/configuration.md`).
//!
//! British spelling, except for words that are part of a protocol or of code: `initialize`, authorization server.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fmt::Write as _;

use proto_tests::markdown::{Page, pages};

/// Words that are not used in prose, and what is written instead. Text between backticks and in code blocks is not
/// looked at.
const BANNED: &[(&str, &str)] = &[
    ("child", "server"),
    ("children", "servers"),
    ("subtool", "tool"),
    ("subtools", "tools"),
    ("person", "user, or you"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("mended", "fixed"),
    ("elsewhere", "remote, or in another place"),
    ("serves on", "keeps running"),
    ("goes on", "continues, or keeps running"),
    ("go on", "continue"),
    ("but for", "except for"),
    ("by itself", "automatically, or alone"),
    ("by themselves", "automatically, or alone"),
    ("at once", "immediately, or at the same time"),
    ("is told", "is notified, or gets"),
    ("are told", "are notified, or get"),
    ("hears", "is notified"),
    ("hear", "are notified"),
    ("anew", "again"),
    ("unasked", "without asking"),
    ("nevertheless", "still"),
    ("in spite of", "although"),
    ("has its place", "belongs"),
    ("for good", "permanently"),
    ("time-out", "timeout"),
    ("time-outs", "timeouts"),
    ("makes room", "exits, or stops"),
    ("taken over", "imported"),
    ("consent", "approval"),
    ("without a word", "without saying why"),
    ("let go", "stopped"),
    ("became of", "happened to"),
    ("becomes of", "happens to"),
    ("came of", "the outcome of"),
    ("last words", "last lines of stderr"),
    ("needs no word", "needs no approval"),
    ("front door", "HTTP API"),
    ("is no JSON", "is not JSON"),
    ("takes over the servers", "imports the servers"),
    ("behavior", "behaviour"),
    ("color", "colour"),
    ("colors", "colours"),
    ("canceled", "cancelled"),
    ("recognized", "recognised"),
    ("initialized", "initialised"),
    ("organization", "organisation"),
    ("summarize", "summarise"),
    ("center", "centre"),
    ("favorite", "favourite"),
    ("e.g.", "for example, such as"),
    ("i.e.", "that is"),
    ("simply", "(leave it out)"),
    ("easily", "(leave it out)"),
];

/// Pages for contributors speak of the code, and use its words.
const ABOUT_CODE: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md"];
const WORDS_OF_CODE: &[&str] = &["child", "children", "subtool", "subtools", "by itself"];

/// Pages that explain a word, or are not ours.
const EXCEPTIONS: &[(&str, &str)] =
    &[("docs/suites.md", "subtool"), ("docs/glossary.md", "subtool"), ("CODE_OF_CONDUCT.md", "")];

fn is_allowed(page: &Page, word: &str) -> bool {
    (ABOUT_CODE.contains(&&*page.name) && WORDS_OF_CODE.contains(&word))
        || EXCEPTIONS.iter().any(|(name, free)| *name == page.name && (free.is_empty() || *free == word))
}

/// Whether the words stand in the line, as whole words.
fn contains(line: &str, words: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '/'));
    line.match_indices(words).any(|(at, _)| {
        !is_part(line[..at].chars().next_back()) && !is_part(line[at + words.len()..].chars().next())
    })
}

#[test]
fn users_read_one_word_for_one_thing() {
    let mut found = String::new();
    for page in pages() {
        for (line, text) in page.prose() {
            // Targets of links are no prose.
            let text: String = text
                .split("](")
                .enumerate()
                .map(
                    |(at, part)| {
                        if at == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) }
                    },
                )
                .collect::<Vec<_>>()
                .join("]");
            let text = text.to_lowercase();
            for (word, instead) in BANNED.iter().filter(|(word, _)| !is_allowed(&page, word)) {
                if contains(&text, &word.to_lowercase()) {
                    writeln!(found, "{}:{line}: `{word}`; write: {instead}", page.name).unwrap();
                }
            }
        }
    }
    assert!(found.is_empty(), "\n{found}");
}

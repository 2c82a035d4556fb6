//! Sessions in files: who sends what, in which order, byte for byte.
//!
//! One message per line, `host >` and `host <` from the host's side, `child <` and `child >` from the
//! child's; blank lines and lines that begin with `#` are comments. The child of a transcript is
//! `evil-child script FILE`, which plays its half of the same file. Handshakes and lists that a transcript
//! does not mention are handled automatically.
//!
//! Ids and progress tokens that Switchboard issues cannot be known in advance. Towards the child, the file's
//! own values stand for them; towards the host, `$name` does.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use serde_json::value::RawValue;

pub use check::check;

mod check;

/// One line of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    HostSends(String),
    HostReceives(String),
    ChildReceives(String),
    ChildSends(String),
}

/// The file in which the script child reports its result: `done`, or what differed.
pub(crate) const REPORT: &str = "EVIL_REPORT";

pub fn read(path: &Path) -> Vec<Step> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().map(str::trim_end).enumerate();
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(at, line)| {
            step(line).unwrap_or_else(|| panic!("{}:{}: not a step: {line}", path.display(), at + 1))
        })
        .collect()
}

fn step(line: &str) -> Option<Step> {
    let (who, rest) = line.split_once(' ')?;
    let rest = rest.trim_start();
    let message = || rest[1..].trim_start().to_owned();
    Some(match (who, rest.as_bytes().first()?) {
        ("host", b'>') => Step::HostSends(message()),
        ("host", b'<') => Step::HostReceives(message()),
        ("child", b'<') => Step::ChildReceives(message()),
        ("child", b'>') => Step::ChildSends(message()),
        _ => return None,
    })
}

/// The position of the member at `path` in a message.
pub(crate) fn place(message: &str, path: &[&str]) -> Option<Range<usize>> {
    let (mut start, mut end) = (0, message.len());
    for name in path {
        let members: HashMap<String, &RawValue> = serde_json::from_str(&message[start..end]).ok()?;
        let inner = members.get(*name)?.get();
        start = inner.as_ptr() as usize - message.as_ptr() as usize;
        end = start + inner.len();
    }
    Some(start..end)
}

/// The values of the `$name`s in a transcript.
#[derive(Debug, Default)]
pub struct Names {
    real: HashMap<String, String>,
}

impl Names {
    /// Compares, and lets each `$name` of `expected` stand for the value at its place in `actual`. The error
    /// shows the difference.
    pub fn learn(&mut self, expected: &str, actual: &str) -> Result<(), String> {
        let differ = || Err(format!("expected: {expected}\n     got: {actual}"));
        let (mut pattern, mut rest) = (expected, actual);
        while let Some(at) = pattern.find('$') {
            let (before, behind) = pattern.split_at(at);
            let Some(tail) = rest.strip_prefix(before) else { return differ() };
            let length = behind[1..].find(|c: char| !c.is_alphanumeric()).map_or(behind.len(), |end| end + 1);
            let (name, after) = behind.split_at(length);
            let end = match tail.strip_prefix('"') {
                Some(text) => text.find('"').map(|quote| quote + 2),
                None => tail.find(|c: char| !c.is_ascii_digit()),
            };
            let Some(end) = end else { return differ() };
            let value = &tail[..end];
            if self.real.insert(name.to_owned(), value.to_owned()).is_some_and(|earlier| earlier != value) {
                return differ();
            }
            (pattern, rest) = (after, &tail[end..]);
        }
        if pattern == rest { Ok(()) } else { differ() }
    }

    /// The message with every `$name` replaced by its value.
    pub fn fill(&self, message: &str) -> String {
        self.real.iter().fold(message.to_owned(), |message, (name, value)| message.replace(name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_first_value() {
        let mut names = Names::default();
        names.learn(r#"{"id":$q,"a":1}"#, r#"{"id":"boot-1","a":1}"#).unwrap();
        assert_eq!(names.fill(r#"{"id":$q}"#), r#"{"id":"boot-1"}"#);
        assert!(names.learn(r#"{"id":$q}"#, r#"{"id":"boot-2"}"#).is_err());
        assert!(names.learn(r#"{"a":1}"#, r#"{"a":1.0}"#).is_err());
    }

    #[test]
    fn a_step_names_its_side_and_direction() {
        assert_eq!(step("host   > {}"), Some(Step::HostSends("{}".into())));
        assert_eq!(step("child  < {}"), Some(Step::ChildReceives("{}".into())));
        assert_eq!(step("nobody < {}"), None);
    }

    #[test]
    fn a_member_is_found_at_its_path() {
        let message = r#"{"a":{"id":1},"params":{"_meta":{"progressToken":"x"}},"id":2}"#;
        assert_eq!(&message[place(message, &["id"]).unwrap()], "2");
        assert_eq!(&message[place(message, &["params", "_meta", "progressToken"]).unwrap()], "\"x\"");
        assert_eq!(place(message, &["nothing"]), None);
    }
}

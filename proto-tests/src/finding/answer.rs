//! Reads which subtools an answer of `introspect` or `find` shows, and in which order.
//!
//! An answer is JSON (`{"tools":[{"name":…}]}`, or strings that begin with a signature) or lines, one signature
//! each, or JSON with lines after it. What a model could call at once is *shown*; a bare name in the list of the others
//! is *named*.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::recorded::RecordedServer;

/// The subtools in an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Subtools {
    /// With schema or signature, in order.
    pub shown: Vec<String>,
    /// Only by name.
    pub named: Vec<String>,
}

/// Where the right subtool stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    First,
    AmongThree,
    /// Shown, but not among the first three.
    Lower,
    /// Only its name is there.
    Named,
    Missing,
}

impl Subtools {
    /// `names`: all subtools that the answer could be about.
    pub fn read(text: &str, names: &[&str]) -> Self {
        let mut parts = Parts::default();
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let mut rest = 0;
        if text.trim_start().starts_with(['{', '['])
            && let Some(Ok(value)) = values.next()
        {
            rest = values.byte_offset();
            parts.value(&value);
        }
        parts.lines(&text[rest..]);
        let mut read = Self::default();
        for part in parts.entries {
            match names.iter().find(|name| part == **name || is_signature(&part, name)) {
                Some(name) if !read.shown.iter().any(|shown| shown == name) => {
                    read.shown.push((*name).to_owned())
                }
                Some(_) => {}
                None => parts.others.push(part),
            }
        }
        let listed = |name: &&&str| parts.others.iter().any(|text| contains_name(text, name));
        let is_shown = |name: &&&str| read.shown.iter().any(|shown| shown == **name);
        let named = names.iter().filter(|name| !is_shown(name)).filter(listed);
        read.named = named.map(|name| (*name).to_owned()).collect();
        read
    }

    /// Where the best of the right subtools stands.
    pub fn place(&self, right: &[String]) -> Place {
        match self.shown.iter().position(|name| right.contains(name)) {
            Some(0) => Place::First,
            Some(1 | 2) => Place::AmongThree,
            Some(_) => Place::Lower,
            None if self.named.iter().any(|name| right.contains(name)) => Place::Named,
            None => Place::Missing,
        }
    }

    /// The right subtool that stands first.
    pub fn best(&self, right: &[String]) -> Option<&str> {
        let mut all = self.shown.iter().chain(&self.named);
        all.find(|name| right.contains(name)).map(String::as_str)
    }
}

/// An answer, split into what may be the entry of one subtool and everything else.
#[derive(Default)]
struct Parts {
    entries: Vec<String>,
    others: Vec<String>,
}

impl Parts {
    fn value(&mut self, value: &Value) {
        let Some(members) = value.as_object() else { return };
        for (name, member) in members {
            match member {
                Value::Array(entries) if name == "tools" => {
                    entries.iter().for_each(|entry| self.entry(entry))
                }
                Value::String(text) if name == "tools" => self.lines(text),
                Value::String(text) => self.others.push(text.clone()),
                other => self.others.push(other.to_string()),
            }
        }
    }

    fn entry(&mut self, entry: &Value) {
        match entry {
            Value::String(text) => self.entries.push(text.clone()),
            entry => {
                let name = entry["name"].as_str().or_else(|| entry["subtool"].as_str());
                self.entries.extend(name.map(ToOwned::to_owned));
            }
        }
    }

    fn lines(&mut self, text: &str) {
        let lines = text.lines().map(|line| line.trim_start_matches(['-', '*', ' ', '`']));
        self.entries.extend(lines.filter(|line| line.contains('(')).map(ToOwned::to_owned));
        self.others.extend(text.lines().filter(|line| !line.contains('(')).map(ToOwned::to_owned));
    }
}

/// The bytes that show one subtool, by which a model could call it.
pub fn entry(text: &str, name: &str) -> Option<String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<BTreeMap<String, Box<RawValue>>>();
    if let Some(Ok(members)) = values.next()
        && let Some(tools) = members.get("tools")
        && let Ok(entries) = serde_json::from_str::<Vec<Box<RawValue>>>(tools.get())
    {
        let is_it = |raw: &&str| match serde_json::from_str::<Value>(raw) {
            Ok(Value::String(line)) => is_signature(&line, name),
            Ok(entry) => entry["name"] == name,
            Err(_) => false,
        };
        if let Some(raw) = entries.iter().map(|raw| raw.get()).find(is_it) {
            return Some(raw.to_owned());
        }
    }
    let mut lines =
        text.lines().filter(|line| is_signature(line.trim_start_matches(['-', '*', ' ', '`']), name));
    lines.next().map(ToOwned::to_owned)
}

/// The subtools of all suites in an answer of `find`, in order: server and name. An entry names its suite, or stands
/// below a line that does.
pub fn found(text: &str, servers: &[RecordedServer]) -> Vec<(String, String)> {
    let mut entries = Vec::new();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut rest = 0;
    if text.trim_start().starts_with(['{', '['])
        && let Some(Ok(value)) = values.next()
    {
        rest = values.byte_offset();
        let list = value.as_object().and_then(|members| members.values().find_map(Value::as_array));
        entries.extend(list.into_iter().flatten().map(|entry| match entry {
            Value::String(line) => line.clone(),
            entry => entry.to_string(),
        }));
    }
    entries.extend(text[rest..].lines().map(ToOwned::to_owned));
    let mut found = Vec::new();
    let mut current = None;
    for entry in entries {
        let named = servers.iter().find(|server| contains_name(&entry, &server.suite()));
        current = named.or(current);
        let Some(server) = current else { continue };
        let shows = |name: &&str| {
            let signature = format!("{name}(");
            let begins = |(at, _): (usize, &str)| !entry[..at].ends_with(is_part_of_name);
            entry.match_indices(&signature).any(begins)
                || ["name", "subtool"].iter().any(|member| entry.contains(&format!(r#""{member}":"{name}""#)))
        };
        if let Some(name) = server.names().into_iter().find(shows) {
            found.push((server.id.clone(), name.to_owned()));
        }
    }
    found
}

/// Whether a line is `name(…`.
fn is_signature(line: &str, name: &str) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
}

/// Whether a text has this name, not as part of another.
pub fn contains_name(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(is_part_of_name) && !text[at + name.len()..].starts_with(is_part_of_name)
    })
}

fn is_part_of_name(char: char) -> bool {
    char.is_alphanumeric() || char == '_' || char == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["git_add", "git_diff", "git_diff_staged", "git_reset"];

    #[track_caller]
    fn check(text: &str, shown: &[&str], named: &[&str]) {
        let read = Subtools::read(text, &NAMES);
        assert_eq!(
            (read.shown.as_slice(), read.named.as_slice()),
            (&*owned(shown), &*owned(named)),
            "{text}"
        );
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn entries_are_read_in_every_form() {
        check(
            r#"{"tools":[{"name":"git_reset","summary":"not git_add"},{"name":"git_add"}]}"#,
            &["git_reset", "git_add"],
            &[],
        );
        check(
            r#"{"tools":["git_reset(a: string): unstages","git_add()"],"others":["git_diff"]}"#,
            &["git_reset", "git_add"],
            &["git_diff"],
        );
        check(
            "git_diff_staged(repo_path: string) — what git_add staged\nOther subtools: git_add, git_diff",
            &["git_diff_staged"],
            &["git_add", "git_diff"],
        );
        check(
            "{\"tools\":[{\"name\":\"git_reset\"}]}\ngit_add(a)\nothers: git_diff_staged",
            &["git_reset", "git_add"],
            &["git_diff_staged"],
        );
        check(
            r#"{"tools":[],"hint":"no subtool matches; there are: git_add, git_diff_staged"}"#,
            &[],
            &["git_add", "git_diff_staged"],
        );
        check("Other subtools (3): git_add, git_diff", &[], &["git_add", "git_diff"]);
    }

    #[test]
    fn the_place_is_that_of_the_best_right_subtool() {
        let read = Subtools::read("git_add()\ngit_diff()\ngit_reset()\nothers: git_diff_staged", &NAMES);
        let place = |names: &[&str]| read.place(&owned(names));
        assert_eq!(place(&["git_add"]), Place::First);
        assert_eq!(place(&["git_reset", "git_diff"]), Place::AmongThree);
        assert_eq!(place(&["git_diff_staged"]), Place::Named);
        assert_eq!(place(&["git_log"]), Place::Missing);
    }
}

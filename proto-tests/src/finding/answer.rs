//! Reads which subtools an answer of `introspect` or `find` shows, and in which order.
//!
//! An answer is JSON (`{"tools":[{"name":…}]}`, or strings that begin with a signature), or lines that begin with a
//! name or a signature, perhaps after a number, or JSON with lines after it. What has an entry of its own is *shown*; a
//! bare name in the list of the others is *named*.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::recorded::{RecordedServer, RecordedTool};

/// The subtools in an answer.
#[derive(Debug, Default)]
pub struct Subtools {
    /// With an entry, in order.
    pub shown: Vec<Entry>,
    /// Only by name.
    pub named: Vec<String>,
}

/// What an answer says about one subtool.
#[derive(Debug)]
pub struct Entry {
    pub name: String,
    /// As it stands in the answer.
    pub text: String,
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

impl Place {
    pub fn of_rank(rank: usize) -> Self {
        match rank {
            0 => Self::First,
            1 | 2 => Self::AmongThree,
            _ => Self::Lower,
        }
    }
}

impl Subtools {
    /// `names`: all subtools that the answer could be about.
    pub fn read(text: &str, names: &[&str]) -> Self {
        let (entries, lines) = split_json(text);
        let mut read = Self::default();
        let mut others: Vec<String> = Vec::new();
        for (kind, entry) in entries {
            match (kind, shown_name(&entry, names)) {
                (JsonPart::Entry, Some(name)) => read.show(name, entry),
                _ => others.push(entry),
            }
        }
        let mut is_open = false;
        for line in lines.lines() {
            if line.starts_with("Other") {
                others.push(line.to_owned());
                is_open = false;
            } else if let Some(name) = shown_name(line, names) {
                read.show(name, line.to_owned());
                is_open = true;
            } else if is_open && let Some(entry) = read.shown.last_mut() {
                entry.text = format!("{}\n{line}", entry.text);
            }
        }
        let listed = |name: &&&str| others.iter().any(|text| contains_name(text, name));
        let is_shown = |name: &&&str| read.shown.iter().any(|entry| entry.name == **name);
        let named = names.iter().filter(|name| !is_shown(name)).filter(listed);
        read.named = named.map(|name| (*name).to_owned()).collect();
        read
    }

    fn show(&mut self, name: &str, text: String) {
        if !self.shown.iter().any(|entry| entry.name == name) {
            self.shown.push(Entry { name: name.to_owned(), text });
        }
    }

    /// Where the best of the right subtools stands.
    pub fn place(&self, right: &[String]) -> Place {
        match self.shown.iter().position(|entry| right.contains(&entry.name)) {
            Some(rank) => Place::of_rank(rank),
            None if self.named.iter().any(|name| right.contains(name)) => Place::Named,
            None => Place::Missing,
        }
    }

    /// The right subtool that stands first.
    pub fn best(&self, right: &[String]) -> Option<&str> {
        let mut all = self.shown.iter().map(|entry| &entry.name).chain(&self.named);
        all.find(|name| right.contains(name)).map(String::as_str)
    }

    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.shown.iter().find(|entry| entry.name == name)
    }
}

impl Entry {
    /// Whether a model can call the subtool by this entry: every required argument is named.
    pub fn is_callable(&self, tool: &RecordedTool) -> bool {
        let schema: Value = serde_json::from_str(&tool.schema).unwrap();
        let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        required.all(|name| contains_name(&self.text, name))
    }
}

/// The subtools of all suites in an answer of `find`, in order, each with its server. A line names its suite, or
/// stands below a line that does.
pub fn found(text: &str, servers: &[RecordedServer]) -> Vec<(String, Entry)> {
    // A suite that is split has two tools.
    let text = text.replace("_suite_write", "_suite");
    let (entries, lines) = split_json(&text);
    let entries = entries.into_iter().map(|(_, entry)| entry).chain(lines.lines().map(ToOwned::to_owned));
    let mut found: Vec<(String, Entry)> = Vec::new();
    let mut current = None;
    for text in entries.take_while(|line| !line.starts_with("Other")) {
        let named = servers.iter().find(|server| contains_name(&text, &server.suite()));
        current = named.or(current);
        let Some(server) = current else { continue };
        let suite = server.suite();
        // `suite.name(`, `suite: name(`, `suite name - …`
        let rest = text
            .split_once(&suite)
            .map_or(&*text, |(_, rest)| rest.trim_start_matches(['.', ':', '/', ' ', '`']));
        let is_new = |name: &&str| !found.iter().any(|(id, entry)| *id == server.id && entry.name == *name);
        match shown_name(rest, &server.names()).or_else(|| shown_name(&text, &server.names())).filter(is_new)
        {
            Some(name) => found.push((server.id.clone(), Entry { name: name.to_owned(), text })),
            None => {
                if let Some((_, entry)) = found.last_mut() {
                    entry.text = format!("{}\n{text}", entry.text);
                }
            }
        }
    }
    found
}

#[derive(Clone, Copy)]
enum JsonPart {
    /// An element of `tools`.
    Entry,
    /// Any other member.
    Other,
}

/// The parts of the JSON that a text begins with, and the rest of the text.
fn split_json(text: &str) -> (Vec<(JsonPart, String)>, &str) {
    type Members = BTreeMap<String, Box<RawValue>>;
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Members>();
    let Some(Ok(members)) = values.next() else { return (Vec::new(), text) };
    let rest = &text[values.byte_offset()..];
    let mut parts = Vec::new();
    for (name, member) in members {
        match serde_json::from_str::<Vec<Box<RawValue>>>(member.get()) {
            Ok(entries) if name == "tools" => {
                parts.extend(entries.iter().map(|entry| (JsonPart::Entry, entry.get().to_owned())));
            }
            _ => parts.push((JsonPart::Other, member.get().to_owned())),
        }
    }
    (parts, rest)
}

/// The name of the subtool that an entry or a line begins with.
fn shown_name<'n>(entry: &str, names: &[&'n str]) -> Option<&'n str> {
    if entry.starts_with('{') {
        let value: Value = serde_json::from_str(entry).ok()?;
        let name = value["name"].as_str().or_else(|| value["subtool"].as_str())?;
        return names.iter().copied().find(|known| *known == name);
    }
    let line = entry.trim_start_matches(|char: char| char.is_ascii_digit());
    let line = if line.len() < entry.len() { line.strip_prefix(['.', ')'])? } else { line };
    let line = line.trim_start_matches(['-', '*', ' ', '`', '"']);
    let begins = |name: &&&str| {
        let Some(rest) = line.strip_prefix(**name) else { return false };
        rest.is_empty() || ["(", " - ", " [", ": ", "`", "\""].iter().any(|next| rest.starts_with(next))
    };
    names.iter().find(begins).copied()
}

/// Whether a text has this name, not as part of another.
pub fn contains_name(text: &str, name: &str) -> bool {
    let is_part = |char: char| char.is_alphanumeric() || char == '_' || char == '-';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["git_add", "git_diff", "git_diff_staged", "git_reset"];

    #[track_caller]
    fn check(text: &str, shown: &[&str], named: &[&str]) {
        let read = Subtools::read(text, &NAMES);
        let names: Vec<&str> = read.shown.iter().map(|entry| &*entry.name).collect();
        assert_eq!((&*names, read.named.as_slice()), (shown, &*owned(named)), "{text}");
        assert!(read.shown.iter().all(|entry| text.contains(&entry.text)), "{read:?}");
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
            "git_diff_staged(repo_path: string) - what git_add staged\nOther subtools: git_add, git_diff",
            &["git_diff_staged"],
            &["git_add", "git_diff"],
        );
        check(
            "1. git_reset - Unstages (all)\nargs: {\"git_diff\":1}\n2. git_add(a)\nOther subtools: git_diff_staged",
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
        let read = Subtools::read("git_add()\ngit_diff()\ngit_reset()\nOthers: git_diff_staged", &NAMES);
        let place = |names: &[&str]| read.place(&owned(names));
        assert_eq!(place(&["git_add"]), Place::First);
        assert_eq!(place(&["git_reset", "git_diff"]), Place::AmongThree);
        assert_eq!(place(&["git_diff_staged"]), Place::Named);
        assert_eq!(place(&["git_log"]), Place::Missing);
    }

    #[test]
    fn an_entry_without_a_required_argument_is_not_callable() {
        let git = RecordedServer::read("git");
        let entry = |text: &str| Entry { name: "git_commit".to_owned(), text: text.to_owned() };
        assert!(entry("git_commit(repo_path: string, message: string)").is_callable(git.tool("git_commit")));
        assert!(!entry("git_commit(…2 arguments)").is_callable(git.tool("git_commit")));
    }

    #[test]
    fn the_suite_of_what_find_shows_stands_in_its_line_or_above() {
        let servers = [RecordedServer::read("git"), RecordedServer::read("time")];
        let check = |text: &str| {
            let found = found(text, &servers);
            let names: Vec<(&str, &str)> =
                found.iter().map(|(server, entry)| (server.as_str(), entry.name.as_str())).collect();
            assert_eq!(names, [("git", "git_reset"), ("time", "convert_time")], "{text}");
        };
        check(
            "1. git_suite: git_reset(repo_path: string)\n2. time_suite.convert_time(time: string)\nOther suites: x",
        );
        check("git_suite\n- git_reset - Unstages\ntime_suite\n- convert_time(time: string)");
        check(
            r#"{"tools":[{"suite":"git_suite","subtool":"git_reset"},{"suite":"time_suite","name":"convert_time"}]}"#,
        );
    }
}

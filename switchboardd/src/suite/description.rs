//! What hosts read about a suite in `tools/list`: what its server is for, whether it can be used, and which
//! subtools it has; and the same for hosts that search tools by `_meta`.
//!
//! Everything is made from `SuiteFacts`, so the catalog formats a suite again only when they change.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use switchboard_definitions::config::Describe;
use switchboard_definitions::definition::Launch;
use switchboard_wire::envelope::{quoted, string};
use switchboard_wire::members::Members;

use super::obstacle::{self, HELD_TEXT, PROGRAM_HELD_TEXT};
use super::purpose::{self, OwnPurpose, words};
use super::{Suite, SuitePart, own_words, summary};
use crate::child::Tool;
use crate::child::value_resolver::NotLaunchable;
use crate::pool::PoolError;
use crate::pool::manifest::Manifest;

const ACTIONS: &str = "Actions: 'introspect' | 'call'";
/// How much of the user's description of a definition is shown.
const MAX_USER_CHARS: usize = 400;
/// The longest summary of a subtool in a description.
const MAX_TOOL_SUMMARY: usize = 90;
/// How long a search hint is. No model reads it.
const MAX_HINT_CHARS: usize = 400;
/// How many subtools are searched for words of a hint.
const MAX_HINT_TOOLS: usize = 64;
/// From how many subtools the shown ones are chosen: each choice looks at all of them.
const MAX_CHOICES: usize = 200;
/// What is known about a server without asking it.
#[derive(Debug, Clone, Default)]
pub struct SuiteFacts {
    pub manifest: Option<Arc<Manifest>>,
    /// Why no child can be used.
    pub obstacle: Option<PoolError>,
}

impl SuiteFacts {
    pub fn is_same(&self, other: &Self) -> bool {
        let same_manifest = match (&self.manifest, &other.manifest) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same_manifest && self.obstacle == other.obstacle
    }

    /// Whether its program is not the one that was allowed: nothing of its own words is shown.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.obstacle, Some(PoolError::NotLaunchable(NotLaunchable::Held { .. })))
    }
}

/// An entry of a server in `tools/list`.
#[derive(Debug, PartialEq, Eq)]
pub struct ListedTool {
    pub name: String,
    /// What its calls may reach. A tool that was shown as read-only reaches nothing else later.
    pub part: SuitePart,
    /// The server's own tool that it is, if the server is not shown as a suite.
    pub own: Option<Box<str>>,
    /// The JSON object.
    pub tool: Box<str>,
    /// The same for legacy hosts, if it differs.
    pub legacy: Option<Box<str>>,
    /// Its member `_meta`, for hosts that use it.
    pub meta: Option<Box<str>>,
}

impl Suite {
    pub fn facts(&self) -> SuiteFacts {
        let (manifest, obstacle) = self.pool.as_ref().map(|pool| pool.outlook()).unwrap_or_default();
        SuiteFacts { manifest, obstacle }
    }

    /// Whether both run the same program with the same arguments, or reach the same address.
    pub fn is_same_server(&self, other: &Self) -> bool {
        match (&self.definition.launch, &other.definition.launch) {
            (Ok(Launch::Process(one)), Ok(Launch::Process(other))) => {
                one.cmd == other.cmd && one.args == other.args
            }
            (Ok(Launch::Remote(one)), Ok(Launch::Remote(other))) => one.url == other.url,
            _ => false,
        }
    }

    /// What a model reads about it.
    pub fn description(&self, facts: &SuiteFacts) -> String {
        self.describe(facts).0
    }

    /// The description, and the words of subtools that are not in it.
    pub(super) fn describe(&self, facts: &SuiteFacts) -> (String, String) {
        if self.is_held() {
            return (HELD_TEXT.to_owned(), String::new());
        }
        if facts.is_held() {
            return (PROGRAM_HELD_TEXT.to_owned(), String::new());
        }
        let tools = if self.describe == Describe::Off { Vec::new() } else { self.described_tools(facts) };
        let mut text = self.why_unavailable(facts).map_or_else(String::new, |sentence| sentence + " ");
        if let Some(given) = &self.settings.description {
            text.push_str(given);
            let hint = search_hint(&tools, given);
            return (text, hint);
        }
        text.push_str(&self.purpose(facts));
        text.push(' ');
        text.push_str(ACTIONS);
        append_tools(&mut text, &tools, self.describe == Describe::Full, self.describe_max_chars);
        let hint = search_hint(&tools, &text);
        (text, hint)
    }

    /// A sentence about why it cannot be used, if that is known.
    pub(super) fn why_unavailable(&self, facts: &SuiteFacts) -> Option<String> {
        match &self.definition.launch {
            Err(why) => {
                Some(obstacle::misconfigured(why, &format!("the user fixes `{}`", self.file_to_fix())))
            }
            Ok(_) => facts.obstacle.as_ref().and_then(|error| obstacle::sentence(&self.name, error)),
        }
    }

    /// The subtools that a host may know of.
    pub(super) fn described_tools<'f>(&self, facts: &'f SuiteFacts) -> Vec<&'f Tool> {
        let Some(manifest) = &facts.manifest else { return Vec::new() };
        manifest.tools.tools.iter().filter(|tool| self.shows_of(&manifest.tools, &tool.name)).collect()
    }

    /// A sentence: the user's own words, else the server's, else its name.
    fn purpose(&self, facts: &SuiteFacts) -> String {
        let name = &self.definition.name;
        if let Some(given) = &self.definition.description {
            let given = summary::summary(given, MAX_USER_CHARS);
            return format!("Use this tool for {}.", given.trim_end_matches('.'));
        }
        let manifest = facts.manifest.as_ref().filter(|_| self.describe == Describe::Full);
        let said = manifest.and_then(|manifest| {
            purpose::own_purpose(&manifest.server_info, name, self.describe_max_chars.div_ceil(2).min(160))
        });
        match said {
            Some(OwnPurpose::Sentence(text)) if text.ends_with(['…', '!', '?']) => text,
            Some(OwnPurpose::Sentence(text)) => format!("{text}."),
            Some(OwnPurpose::Title(text)) => format!("Use this tool for {text}."),
            None => {
                let name = summary::summary(name, 100);
                let shared = manifest.and_then(|_| {
                    let tools = self.described_tools(facts);
                    purpose::shared_phrase(&tools).or_else(|| purpose::topics(&tools, &name))
                });
                match shared {
                    Some(phrase) if phrase.to_lowercase().contains(&name.to_lowercase()) => {
                        format!("Use this tool for {phrase}.")
                    }
                    Some(phrase) => format!("Use this tool for {name} ({phrase})."),
                    None => format!("Use this tool for {}.", name.trim_end_matches('.')),
                }
            }
        }
    }

    /// What its server says about its use, as one line.
    pub fn own_instructions(&self, facts: &SuiteFacts) -> Option<String> {
        if self.is_held() || facts.is_held() {
            return None;
        }
        let said = facts
            .manifest
            .as_ref()
            .and_then(|manifest| string(&**manifest.server_info.instructions.as_ref()?))?;
        let line = own_words::one_line(&said);
        // The description has its first sentence already.
        let shown = self.purpose(facts);
        let rest = line.strip_prefix(shown.trim_end_matches(['.', '…'])).unwrap_or(&line);
        Some(rest.trim_start_matches(['.', ' ']).to_owned()).filter(|rest| !rest.is_empty())
    }

    /// `_meta` for hosts that search tools, or load some of them at once.
    pub(super) fn meta(&self, facts: &SuiteFacts, hint: &str) -> Option<Box<str>> {
        let mut members = Vec::new();
        if !hint.is_empty() {
            members.push(format!(r#""anthropic/searchHint":{}"#, quoted(hint)));
        }
        if self.settings.always_load && !self.is_held() {
            members.push(r#""anthropic/alwaysLoad":true"#.to_owned());
        }
        let longest = self.described_tools(facts).into_iter().filter_map(max_result_chars).max();
        if let Some(longest) = longest.filter(|_| !self.is_held() && !facts.is_held()) {
            members.push(format!(r#""anthropic/maxResultSizeChars":{longest}"#));
        }
        (!members.is_empty()).then(|| format!(r#""_meta":{{{}}}"#, members.join(",")).into())
    }

    /// The end of the path of the file in which its definition is mistaken.
    fn file_to_fix(&self) -> String {
        let file = self.definition.to_fix();
        let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
        summary::summary(&parts[parts.len().saturating_sub(2)..].join("/"), 80)
    }
}

/// Adds the subtools, in at most `most` characters together with `text`: with their summaries if all of them
/// fit, else as many names as fit and the number of the others.
fn append_tools(text: &mut String, tools: &[&Tool], summaries: bool, most: usize) {
    if tools.is_empty() {
        return;
    }
    let room = most.saturating_sub(text.chars().count());
    if summaries && let Some(whole) = with_summaries(tools).filter(|whole| whole.chars().count() <= room) {
        text.push_str(&whole);
        return;
    }
    let names: Vec<String> = tools.iter().map(|tool| shown_name(&tool.name)).collect();
    let prefix = common_prefix(&names);
    let head = if prefix.is_empty() { ". Tools: ".to_owned() } else { format!(". Tools {prefix}*: ") };
    let names: Vec<&str> = names.iter().map(|name| &name[prefix.len()..]).collect();
    let all = names.join(", ");
    if head.chars().count() + all.chars().count() <= room {
        let _ = write!(text, "{head}{all}");
        return;
    }
    let count = |left: usize| format!(" … (+{left})");
    let rest = room.saturating_sub(head.chars().count() + count(names.len()).chars().count());
    let chosen = choose(&names, rest);
    if chosen.is_empty() {
        let _ = write!(text, ". {} tools", names.len());
        return;
    }
    let shown: Vec<&str> = chosen.iter().map(|at| names[*at]).collect();
    let _ = write!(text, "{head}{}{}", shown.join(", "), count(names.len() - shown.len()));
}

fn with_summaries(tools: &[&Tool]) -> Option<String> {
    // More would not fit; a server with hundreds of subtools is not tried.
    if tools.len() > 12 || tools.iter().all(|tool| tool.description.is_none()) {
        return None;
    }
    let mut text = ". Tools: ".to_owned();
    for (at, tool) in tools.iter().enumerate() {
        text.push_str(if at > 0 { ", " } else { "" });
        text.push_str(&shown_name(&tool.name));
        let said =
            tool.description.as_deref().and_then(|said| own_words::first_sentence(said, MAX_TOOL_SUMMARY));
        if let Some(said) = said {
            let _ = write!(text, " ({said})");
        }
    }
    Some(text)
}

/// A subtool's name as one word of a list.
fn shown_name(name: &str) -> String {
    summary::summary(name, 64).replace(", ", ",")
}

/// The first part that all names have in common, up to a separator; empty if that saves nothing.
fn common_prefix(names: &[String]) -> &str {
    let [first, others @ ..] = names else { return "" };
    if others.len() < 2 {
        return "";
    }
    let same = others.iter().fold(first.len(), |length, name| {
        let both = first.bytes().zip(name.bytes());
        length.min(both.take_while(|(one, other)| one == other).count())
    });
    let end = (0..=same)
        .rev()
        .find(|end| first.is_char_boundary(*end) && first[..*end].ends_with(['_', '-', '.', '/', ':']));
    let prefix = &first[..end.unwrap_or(0)];
    // A name that is nothing but the prefix would vanish.
    if names.iter().any(|name| name.len() == prefix.len()) { "" } else { prefix }
}

/// Indices of the names to show in `room` characters, in order: first those that say most per character, then
/// what still fits. A word that a chosen name has says nothing again.
fn choose(names: &[&str], room: usize) -> Vec<usize> {
    let names = &names[..names.len().min(MAX_CHOICES)];
    let words: Vec<HashSet<String>> = names.iter().map(|name| words(name).collect()).collect();
    let lengths: Vec<usize> = names.iter().map(|name| name.chars().count() + 2).collect();
    // No separator follows the last name.
    let (mut known, mut chosen, mut left) = (HashSet::new(), Vec::new(), room + 2);
    loop {
        let fits = |at: &usize| lengths[*at] <= left && !chosen.contains(at);
        let news = |at: usize| words[at].iter().filter(|word| !known.contains(*word)).count();
        // New words per character; of equal ones the first.
        let best = (0..names.len()).filter(fits).map(|at| (news(at), at)).reduce(|best, other| {
            if other.0 * lengths[best.1] > best.0 * lengths[other.1] { other } else { best }
        });
        let Some((_, at)) = best else { break };
        known.extend(&words[at]);
        chosen.push(at);
        left -= lengths[at];
    }
    chosen.sort_unstable();
    chosen
}

/// The words of subtools' names that are not in `text`, then those of what they say, for hosts that search.
pub(super) fn search_hint(tools: &[&Tool], text: &str) -> String {
    let mut known: HashSet<String> = text.split_whitespace().flat_map(words).collect();
    let (mut hint, mut count) = (String::new(), 0);
    let said = purpose::said_words(&tools[..tools.len().min(MAX_HINT_TOOLS)]);
    // As they are written: hosts compare whole words.
    let said: Vec<String> =
        said.into_iter().filter(|said| !known.contains(&said.stem)).map(|said| said.word).collect();
    for word in tools.iter().flat_map(|tool| words(&tool.name)).chain(said) {
        let length = word.chars().count() + 1;
        if count + length > MAX_HINT_CHARS || !known.insert(word.clone()) {
            continue;
        }
        hint.push_str(if hint.is_empty() { "" } else { " " });
        hint.push_str(&summary::summary(&word, 64));
        count += length;
    }
    hint
}

/// The longest result that a server announces for its tool.
fn max_result_chars(tool: &Tool) -> Option<u64> {
    let meta = Members::of(&*tool.raw)?.get("_meta").and_then(Members::of)?;
    meta.get("anthropic/maxResultSizeChars")?.get().parse().ok()
}

#[cfg(test)]
mod tests;

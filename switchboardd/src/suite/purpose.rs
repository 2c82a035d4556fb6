//! What a server is for: in its own words, or by what its tools have in common. Pure.

use std::collections::{HashMap, HashSet};

use switchboard_wire::envelope::string;
use switchboard_wire::members::Members;

use super::own_words;
use crate::child::{ServerInfo, Tool};

/// How many subtools are compared for what they have in common.
const MAX_COMPARED_TOOLS: usize = 32;
/// How much of what a subtool says is compared, in characters.
const MAX_COMPARED_CHARS: usize = 90;
/// How many words are shown that several subtools share, and which part of the subtools must have one.
const MAX_TOPICS: usize = 3;
const TOPIC_PART: usize = 8;
/// Words that many subtools have in their names, and that say little about one.
const COMMON_WORDS: [&str; 13] =
    ["get", "list", "set", "a", "an", "the", "to", "of", "by", "with", "and", "or", "for"];
/// Words that tools of all servers say of themselves. A pair with one of them does not say what a server is for.
const GENERIC_WORDS: &str = " able about across action actions additional after allow allowed allows already always amount another \
    argument arguments array available based basic before below between boolean called caller calls check contain contained \
    containing contains content contents create created creates current currently default defined delete deletes deprecated detail \
    detailed details different either empty error errors every example exist existing exists failed fails false field fields \
    first following found given includes including information input inputs instead items large latest least list lists \
    matching metadata method more multiple names needed number object objects operation operations optional optionally other \
    output outputs parameter parameters particular perform performs possible previous properties property provide provided \
    provides query request requests required requires response responses result results retrieve retrieves return returned \
    returning returns schema search server servers should shown single some specific specified specify status string \
    support supported supports their there these things this those through together tools type types under unique update \
    updates using value values various version which while whole within without ";

/// Words that say nothing about what a server is for, however many of its tools say them.
const NO_TOPICS: &str = " \
    against also among because been being both cannot could does doing done down during each either else even \
    ever from have having here into itself just like made make makes many more most much must need needs never \
    next nothing often once only onto onwards over same several since some somewhere still such take takes than \
    that their theirs them themselves then they this thus unless until upon used uses very want wants were what \
    whatever when whenever where whether whose will would your yours ";

/// Whether a word says nothing about one server.
pub(super) fn is_generic(word: &str) -> bool {
    GENERIC_WORDS.contains(&format!(" {} ", word.to_lowercase()))
}

/// Two words that stand side by side in what more than half of the tools say of themselves, such as `knowledge graph`.
pub(super) fn shared_phrase(tools: &[&Tool]) -> Option<String> {
    let tools = &tools[..tools.len().min(MAX_COMPARED_TOOLS)];
    if tools.len() < 3 {
        return None;
    }
    let mut counts: Vec<(String, usize)> = Vec::new();
    for tool in tools {
        let said = tool.description.as_deref();
        let Some(said) = said.and_then(|said| own_words::first_sentence(said, MAX_COMPARED_CHARS)) else {
            continue;
        };
        let words: Vec<&str> = said.split(|c: char| !c.is_alphanumeric()).collect();
        let mut seen = HashSet::new();
        let says_something = |word: &&str| {
            word.len() > 4 && !is_generic(word) && !NO_TOPICS.contains(&format!(" {} ", word.to_lowercase()))
        };
        for pair in words.windows(2).filter(|pair| pair.iter().all(says_something)) {
            let phrase = pair.join(" ");
            if !seen.insert(phrase.to_lowercase()) {
                continue;
            }
            match counts.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&phrase)) {
                Some((_, count)) => *count += 1,
                None => counts.push((phrase, 1)),
            }
        }
    }
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count)?;
    Some(most).filter(|(_, count)| count * 2 > tools.len()).map(|(phrase, _)| phrase)
}

/// The words that most of what the tools say has in common, and neither their names nor `name` has.
pub(super) fn topics(tools: &[&Tool], name: &str) -> Option<String> {
    let tools = &tools[..tools.len().min(MAX_COMPARED_TOOLS)];
    let named = tools.iter().flat_map(|tool| words(&tool.name));
    let known: HashSet<String> = named.chain(words(name)).collect();
    let said = said_words(tools).into_iter().filter(|word| !known.contains(&word.stem));
    // A word that ends so is rarely what a tool is about.
    let said = said.filter(|word| !NO_TOPICS.contains(&format!(" {} ", word.word)));
    let said = said.filter(|word| !["ing", "ed", "ly"].iter().any(|end| word.word.ends_with(end)));
    let shared = said.filter(|word| word.tools > 1 && word.tools * TOPIC_PART >= tools.len());
    let topics: Vec<String> = shared.take(MAX_TOPICS).map(|word| word.word).collect();
    (!topics.is_empty()).then(|| topics.join(", "))
}

/// A word of what tools say of themselves.
pub(super) struct SaidWord {
    /// As it was first written, in lower case.
    pub(super) word: String,
    pub(super) stem: String,
    /// How many tools say it.
    pub(super) tools: usize,
}

/// The words of the tools' first sentences that are not generic, the most common first.
pub(super) fn said_words(tools: &[&Tool]) -> Vec<SaidWord> {
    let mut all: Vec<SaidWord> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for tool in tools {
        let said = tool.description.as_deref();
        let Some(said) = said.and_then(|said| own_words::first_sentence(said, MAX_COMPARED_CHARS)) else {
            continue;
        };
        let mut seen = HashSet::new();
        // The first word is the verb.
        for word in said.split(|c: char| !c.is_alphanumeric()).skip(1) {
            let word = word.to_lowercase();
            if word.chars().count() < 4 || is_generic(&word) || !word.chars().all(char::is_alphabetic) {
                continue;
            }
            let Some(stem) = words(&word).next().filter(|stem| !is_generic(stem)) else {
                continue;
            };
            if !seen.insert(stem.clone()) {
                continue;
            }
            match places.get(&stem) {
                Some(at) => all[*at].tools += 1,
                None => {
                    places.insert(stem.clone(), all.len());
                    all.push(SaidWord { word, stem, tools: 1 });
                }
            }
        }
    }
    // A stable sort.
    all.sort_by_key(|word| std::cmp::Reverse(word.tools));
    all
}

pub(super) enum OwnPurpose {
    Sentence(String),
    Title(String),
}

/// What a server is for, in its own words, if they say more than `name`.
pub(super) fn own_purpose(info: &ServerInfo, name: &str, most: usize) -> Option<OwnPurpose> {
    let server = Members::of(&*info.server)?;
    let sentence = |text: &str| own_words::first_sentence(text, most).map(OwnPurpose::Sentence);
    let title = |key: &str| {
        server.text(key).and_then(|text| own_words::title(&text, name, most)).map(OwnPurpose::Title)
    };
    let instructions = || info.instructions.as_ref().and_then(|text| string(&**text));
    server
        .text("description")
        .and_then(|text| sentence(&text))
        .or_else(|| title("title"))
        .or_else(|| instructions().and_then(|text| sentence(&text)))
        .or_else(|| title("name"))
}

/// The words of a name, in lower case, without those that say little and without a plural's `s`.
pub(super) fn words(name: &str) -> impl Iterator<Item = String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_lower) {
            parts.push(String::new());
        }
        if c.is_alphanumeric() {
            parts.last_mut().into_iter().for_each(|part| part.extend(c.to_lowercase()));
        }
        was_lower = c.is_lowercase();
    }
    let stem = |word: String| match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem.to_owned(),
        _ => word,
    };
    parts.into_iter().filter(|word| !word.is_empty() && !COMMON_WORDS.contains(&word.as_str())).map(stem)
}

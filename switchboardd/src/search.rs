//! Finds the tools that a query means. Pure: texts in, an order out.
//!
//! The method is BM25 over weighted fields (name, description, arguments), with stems instead of words,
//! replacements for words that tools do not use, mistyped words, and less weight for a tool that does the opposite of
//! what is wanted. Nothing is kept but one [`ToolWords`] per tool; the frequencies of words are counted per query,
//! among the tools that may be seen.

mod actions;
mod intent;
mod opposites;
mod query;
mod synonyms;
mod words;

use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use actions::ToolActions;
pub use actions::are_opposite_names;
use intent::Intent;
use query::{Query, Wanted};
use words::{is_plural, is_stop_word, stem, words};

/// How much of a query, of a description and of the description of an argument is read, in characters.
const QUERY_CHARS: usize = 300;
const DESCRIPTION_CHARS: usize = 2000;
const ARGUMENT_CHARS: usize = 160;
/// How many arguments and how many enum values of one argument are read.
const MAX_ARGUMENTS: usize = 64;
const MAX_VALUES: usize = 24;
/// How many different words of one tool are kept.
const MAX_WORDS: usize = 300;

/// Where a word stands in a tool's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchField {
    Name,
    /// The first word of the description: nearly always the verb.
    Verb,
    FirstSentence,
    Description,
    ArgumentName,
    ArgumentText,
}

const FIELDS: usize = 6;
/// How much a word counts by its field, and how strongly the field's length counts against it.
const WEIGHTS: [(f32, f32); FIELDS] =
    [(3.0, 0.5), (1.6, 0.0), (1.6, 0.5), (0.4, 0.5), (0.5, 0.4), (0.12, 0.5)];
/// At which weighted frequency a word has half of its effect.
const SATURATION: f32 = 1.6;

/// A variant of more weight means the same as the word itself.
const SAME_MEANING: f32 = 0.7;
/// How much the rarity of a word counts, beside the rarity of what it means.
const OWN_RARITY: f32 = 0.5;

/// How much of a score depends on how many of the wanted words a tool meets.
const COVER: f32 = 0.6;
/// How much a word counts that is not wanted.
const UNWANTED: f32 = 0.7;
/// How much a tool counts that has a word of the opposite.
const OPPOSITE: f32 = 0.4;

/// The words of one tool.
#[derive(Debug, Default)]
pub struct ToolWords {
    /// Sorted by stem.
    words: Vec<(Box<str>, [u8; FIELDS])>,
    lengths: [u16; FIELDS],
    /// Stems of the name that stand there in the plural.
    plurals: Vec<Box<str>>,
    is_deprecated: bool,
    intent: Option<Intent>,
    actions: ToolActions,
}

/// The parts of a tool's definition that are searched.
#[derive(Debug, Clone, Copy)]
pub struct ToolText<'a> {
    pub name: &'a str,
    pub title: Option<&'a str>,
    pub description: &'a str,
    pub schema: Option<Raw<'a>>,
}

impl ToolWords {
    pub fn of(tool: ToolText<'_>) -> Self {
        let mut all = Collected::default();
        let mut plurals = Vec::new();
        let name = words(tool.name);
        for word in &name {
            if is_plural(word) {
                plurals.push(stem(word).into());
            }
            all.push(word, SearchField::Name);
        }
        // `log_in` is found by "login".
        let mut verbs = name.clone();
        for at in 1..name.len() {
            if let Some(joined) = actions::joined_particle(&name[at - 1], &name[at]) {
                all.push(&joined, SearchField::Name);
                verbs[at - 1] = joined;
            }
        }
        let description = first(tool.description, DESCRIPTION_CHARS);
        for word in tool.title.iter().flat_map(|title| words(first(title, ARGUMENT_CHARS))) {
            all.push(&word, SearchField::FirstSentence);
        }
        let (sentence, rest) = split_sentence(description);
        let mut lead = None;
        for word in words(sentence) {
            if lead.is_none() && !is_stop_word(&word) {
                all.push(&word, SearchField::Verb);
                lead = Some(word.clone());
            }
            all.push(&word, SearchField::FirstSentence);
        }
        for word in words(rest) {
            all.push(&word, SearchField::Description);
        }
        if let Some(schema) = tool.schema {
            all.push_schema(schema);
        }
        let lower = description.to_lowercase();
        let is_deprecated = lower.contains("deprecated") || lower.contains("obsolete");
        let mut words: Vec<_> = all.words.into_iter().collect();
        words.sort_by(|(one, _), (other, _)| one.cmp(other));
        let intent = Intent::of_tool(tool.name, lead.as_deref());
        let actions = ToolActions::of(&verbs, sentence);
        Self { words, lengths: all.lengths, plurals, is_deprecated, intent, actions }
    }

    fn counts(&self, stem: &str) -> Option<&[u8; FIELDS]> {
        let at = self.words.binary_search_by(|(word, _)| (**word).cmp(stem)).ok()?;
        Some(&self.words[at].1)
    }

    fn is_named(&self, stem: &str) -> bool {
        self.counts(stem).is_some_and(|counts| counts[SearchField::Name as usize] > 0)
    }

    /// Whether the name or the verb means the opposite of what is wanted.
    fn is_named_against(&self, query: &Query) -> bool {
        self.words.iter().any(|(word, counts)| {
            counts[SearchField::Name as usize] + counts[SearchField::Verb as usize] > 0
                && query.actions.is_against(word)
        })
    }

    /// Whether the stem stands in the name or the first sentence.
    fn is_for(&self, stem: &str) -> bool {
        let counts = self.counts(stem);
        counts.is_some_and(|counts| {
            counts[SearchField::Name as usize].max(counts[SearchField::FirstSentence as usize]) > 0
        })
    }
}

#[derive(Default)]
struct Collected {
    words: std::collections::HashMap<Box<str>, [u8; FIELDS]>,
    lengths: [u16; FIELDS],
}

impl Collected {
    fn push(&mut self, word: &str, field: SearchField) {
        if is_stop_word(word) && field != SearchField::Name {
            return;
        }
        let field = field as usize;
        self.lengths[field] = self.lengths[field].saturating_add(1);
        let stem = stem(word);
        if self.words.len() >= MAX_WORDS && !self.words.contains_key(&*stem) {
            return;
        }
        let counts = self.words.entry(stem.into()).or_default();
        counts[field] = counts[field].saturating_add(1);
    }

    fn push_schema(&mut self, schema: Raw<'_>) {
        let properties = Members::of(schema).and_then(|schema| schema.get("properties"));
        for (name, property) in
            properties.and_then(Members::of).unwrap_or_default().0.into_iter().take(MAX_ARGUMENTS)
        {
            for word in words(first(&name, ARGUMENT_CHARS)) {
                self.push(&word, SearchField::ArgumentName);
            }
            let Some(property) = Members::of(property) else { continue };
            let text = property.text("description").unwrap_or_default();
            for word in words(first(&text, ARGUMENT_CHARS)) {
                self.push(&word, SearchField::ArgumentText);
            }
            let values = property.get("enum").and_then(|values| strings(values));
            for word in values.iter().flatten().take(MAX_VALUES).flat_map(|value| words(value)) {
                self.push(&word, SearchField::ArgumentText);
            }
        }
    }
}

/// The strings of a short array.
fn strings(values: Raw<'_>) -> Option<Vec<String>> {
    let short = values.get().len() <= 4096;
    let values: Vec<serde_json::Value> = short.then(|| serde_json::from_str(values.get()).ok()).flatten()?;
    Some(values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect())
}

/// Which tools a query may be compared with by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Searched {
    All,
    /// Not the arguments: the user hides the schemas.
    WithoutArguments,
}

/// One tool that matches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Match {
    /// The index of the tool.
    pub at: usize,
    pub score: f32,
}

/// What a query means among some tools.
#[derive(Debug, Default, PartialEq)]
pub struct Ranking {
    /// The tools that match, best first. Equal ones stay in their order.
    pub matches: Vec<Match>,
    /// The tools that do the opposite. They are no matches. Those with most words of the query come first.
    pub opposites: Vec<Match>,
}

pub fn rank(tools: &[&ToolWords], query: &str, searched: Searched) -> Ranking {
    let vocabulary = |stem: &str| tools.iter().any(|tool| tool.counts(stem).is_some());
    let is_named = |stem: &str| tools.iter().any(|tool| tool.is_named(stem));
    let query = Query::read(first(query, QUERY_CHARS), &vocabulary, &is_named, &mut |seen| {
        tools.iter().for_each(|tool| tool.words.iter().for_each(|(word, _)| seen(word)));
    });
    let statistics = Statistics::of(tools, searched);
    let mut scores = vec![0.0_f32; tools.len()];
    let mut total = 0.0;
    let mut covered = vec![0.0_f32; tools.len()];
    for wanted in &query.wanted {
        let effects = effects(tools, wanted, &statistics);
        let most = effects.iter().map(|effect| effect.cover).fold(0.0, f32::max);
        total += most;
        for (at, effect) in effects.into_iter().enumerate() {
            scores[at] += effect.score;
            covered[at] += effect.cover;
        }
    }
    let mut said = scores.clone();
    for unwanted in &query.unwanted {
        for (at, effect) in effects(tools, unwanted, &statistics).into_iter().enumerate() {
            scores[at] -= UNWANTED * effect.score;
            said[at] += effect.score;
        }
    }
    let mut is_opposite = vec![false; tools.len()];
    for (at, tool) in tools.iter().enumerate() {
        if total > 0.0 {
            let cover = covered[at] / total;
            scores[at] *= 1.0 - COVER + COVER * cover;
        }
        scores[at] *= name_cover(tool, &query);
        if let (Some(wanted), Some(offered)) = (query.intent, tool.intent) {
            scores[at] *= wanted.agreement(offered);
        }
        let is_named = |stem: &str| tool.is_named(stem);
        if tool.is_named_against(&query) && !query.actions.are_told(&tool.actions, &is_named) {
            scores[at] *= OPPOSITE;
        }
        is_opposite[at] = query.actions.is_opposite(&tool.actions, &is_named, &|stem| tool.is_for(stem));
        if tool.is_deprecated {
            scores[at] *= 0.6;
        }
    }
    let mut found: Vec<Match> =
        scores.into_iter().enumerate().map(|(at, score)| Match { at, score }).collect();
    found.retain(|found| found.score > 0.0 && !is_opposite[found.at]);
    found.sort_by(|one, other| other.score.total_cmp(&one.score));
    let of_opposite = |at: usize| Match { at, score: said[at] };
    let mut opposites: Vec<Match> = (0..tools.len()).filter(|at| is_opposite[*at]).map(of_opposite).collect();
    opposites.sort_by(|one, other| other.score.total_cmp(&one.score));
    Ranking { matches: found, opposites }
}

/// The indexes of so many tools that no match names.
pub fn unmatched(count: usize, matches: &[Match]) -> impl Iterator<Item = usize> {
    let mut is_matched = vec![false; count];
    matches.iter().for_each(|found| is_matched[found.at] = true);
    (0..count).filter(move |at| !is_matched[*at])
}

/// What is counted over all tools of a query.
struct Statistics {
    tools: f32,
    average: [f32; FIELDS],
    fields: usize,
}

impl Statistics {
    fn of(tools: &[&ToolWords], searched: Searched) -> Self {
        let count = tools.len().max(1) as f32;
        let mut average = [0.0; FIELDS];
        for tool in tools {
            for (sum, length) in average.iter_mut().zip(tool.lengths) {
                *sum += f32::from(length) / count;
            }
        }
        let fields = match searched {
            Searched::All => FIELDS,
            Searched::WithoutArguments => SearchField::ArgumentName as usize,
        };
        Self { tools: tools.len() as f32, average, fields }
    }

    /// How rare a word is that so many tools have. A tool that only mentions it counts as a part of one.
    fn rarity(&self, having: f32) -> f32 {
        (1.0 + (self.tools - having + 0.5) / (having + 0.5)).ln()
    }

    fn frequency(&self, tool: &ToolWords, counts: &[u8; FIELDS]) -> f32 {
        let mut sum = 0.0;
        for field in 0..self.fields {
            if counts[field] == 0 {
                continue;
            }
            let (weight, by_length) = WEIGHTS[field];
            let length = f32::from(tool.lengths[field]) / self.average[field].max(1.0);
            sum += weight * f32::from(counts[field]) / (1.0 - by_length + by_length * length);
        }
        sum
    }
}

/// What one wanted word does for one tool.
#[derive(Debug, Clone, Copy, Default)]
struct Effect {
    score: f32,
    /// How well the tool meets it, however common it is.
    cover: f32,
}

/// What a wanted word adds to each tool's score: the best of its variants.
fn effects(tools: &[&ToolWords], wanted: &Wanted, statistics: &Statistics) -> Vec<Effect> {
    let mut best = vec![Effect::default(); tools.len()];
    let mut has_any = vec![0.0_f32; tools.len()];
    let mut found = Vec::with_capacity(wanted.variants.len());
    for (stem, weight) in &wanted.variants {
        let tools = tools.iter().enumerate().filter_map(|(at, tool)| {
            let counts = tool.counts(stem)?;
            let frequency = statistics.frequency(tool, counts);
            (frequency > 0.0).then_some((at, frequency, counts[SearchField::Name as usize] > 0))
        });
        let tools: Vec<(usize, f32, bool)> = tools.collect();
        if *weight > SAME_MEANING {
            tools.iter().for_each(|(at, frequency, _)| has_any[*at] = has_any[*at].max(frequency.min(1.0)));
        }
        found.push((stem, weight, tools));
    }
    let of_meaning = statistics.rarity(has_any.iter().sum());
    for (stem, weight, having) in found {
        let own = statistics.rarity(having.iter().map(|(_, frequency, _)| frequency.min(1.0)).sum());
        let rarity = OWN_RARITY * own + (1.0 - OWN_RARITY) * own.min(of_meaning);
        for (at, frequency, is_in_name) in having {
            let mut effect = wanted.weight * weight * rarity * frequency / (SATURATION + frequency);
            if is_in_name {
                let is_plural = tools[at].plurals.iter().any(|plural| **plural == **stem);
                effect *= if is_plural == wanted.is_plural { 1.05 } else { 0.95 };
            }
            let best = &mut best[at];
            best.score = best.score.max(effect);
            best.cover = best.cover.max(wanted.weight * weight * frequency.min(1.0));
        }
    }
    best
}

/// More for a tool whose name says nothing but what is wanted.
fn name_cover(tool: &ToolWords, query: &Query) -> f32 {
    let (mut all, mut met) = (0.0_f32, 0.0_f32);
    for (word, counts) in &tool.words {
        if counts[SearchField::Name as usize] == 0 {
            continue;
        }
        all += 1.0;
        let best = query.wanted.iter().flat_map(|wanted| &wanted.variants);
        met +=
            best.filter(|(stem, _)| **stem == **word).map(|(_, weight)| *weight).fold(0.0, f32::max).min(1.0);
    }
    if all == 0.0 { 1.0 } else { 0.85 + 0.3 * met / all }
}

/// The first sentence of a text, and the rest.
fn split_sentence(text: &str) -> (&str, &str) {
    let end = text
        .match_indices(['.', '\n', '!', ';'])
        .find(|(at, found)| *found == "\n" || text[at + 1..].starts_with([' ', '\n']))
        .map_or(text.len(), |(at, found)| at + found.len());
    // A heading or a one-word sentence is not yet the description.
    let end = if text[..end].trim().len() < 12 { text.len().min(end_of_second(text, end)) } else { end };
    text.split_at(end)
}

fn end_of_second(text: &str, first: usize) -> usize {
    text[first..].find(['.', '\n']).map_or(text.len(), |at| first + at + 1)
}

/// The first `count` characters of a text.
fn first(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests;

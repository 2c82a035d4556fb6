//! Reads a query: which words are wanted, what else they may be called, and which are not wanted.

use super::actions::{QueryActions, with_prefixes};
use super::intent::Intent;
use super::opposites::{are_opposite, is_verb};
use super::synonyms::{AS_EQUAL, is_negation, is_weak, replacements, without_phrases};
use super::words::{is_plural, is_stop_word, stem, words};

/// How many words of a query are used.
const MAX_WANTED: usize = 16;
/// How much a variant counts: a verb that says little, a word that begins alike, a mistyped word, part of a word.
const WEAK: f32 = 0.6;
const SHORTENED: f32 = 0.7;
const MISTYPED: f32 = 0.8;
const NEGATED: f32 = 1.4;
/// How much a thing counts that something is to be undone of.
const UNDONE: f32 = 0.4;

/// Passes every stem of every tool.
type EachWord<'a> = dyn FnMut(&mut dyn FnMut(&str)) + 'a;

/// One word that is wanted, with the stems that count as it.
pub(super) struct Wanted {
    pub(super) weight: f32,
    /// Whether the query has it in the plural; unknown for words that are not nouns.
    pub(super) is_plural: bool,
    pub(super) variants: Vec<(String, f32)>,
}

pub(super) struct Query {
    pub(super) wanted: Vec<Wanted>,
    /// Words that the query says it does not want.
    pub(super) unwanted: Vec<Wanted>,
    pub(super) actions: QueryActions,
    pub(super) intent: Option<Intent>,
}

impl Query {
    /// `is_known`: whether a tool has the stem; `is_named`: whether it is in the name of one; `each_word` passes every stem
    /// of every tool.
    pub(super) fn read(
        text: &str,
        is_known: &dyn Fn(&str) -> bool,
        is_named: &dyn Fn(&str) -> bool,
        each_word: &mut EachWord<'_>,
    ) -> Self {
        let spoken = with_prefixes(words(text));
        let intent = Intent::of_query(&spoken);
        let spoken = without_phrases(&spoken);
        let actions = QueryActions::of(&spoken, is_known);
        // A tool that is named by the verb does it to what comes next.
        let undoes = !actions.undoing.iter().any(|verb| is_named(verb));
        let is_undone = |stem: &str| undoes && actions.undone().any(|undone| undone == stem);
        let (mut stems, mut negated, mut is_negated) = (Vec::<String>::new(), Vec::<String>::new(), false);
        let (mut weights, mut plural) = (Vec::new(), Vec::new());
        for word in &spoken {
            is_negated |= is_negation(word);
            if is_stop_word(word) || (is_negation(word) && !is_known(&stem(word))) {
                continue;
            }
            let stem = stem(word);
            let is_verbal = || word.ends_with("ing") || is_verb(&stem) || is_known(&format!("un{stem}"));
            let is_object = is_undone(&stem) && !is_verbal();
            if (is_negated && !is_negation(word)) || (is_undone(&stem) && !is_object) {
                is_negated = false;
                if !negated.contains(&stem) {
                    negated.push(stem);
                }
                continue;
            }
            if !stems.contains(&stem) && stems.len() < MAX_WANTED {
                weights.push(if is_object {
                    UNDONE
                } else if is_weak(word) {
                    WEAK
                } else {
                    1.0
                });
                plural.push(is_plural(word));
                stems.push(stem);
            }
        }
        // A query of stop words only is searched for what it has.
        if stems.is_empty() && negated.is_empty() {
            stems = spoken.iter().map(|word| stem(word)).take(MAX_WANTED).collect();
        }
        let mut wanted: Vec<Wanted> = stems
            .iter()
            .zip(replacements(&stems))
            .enumerate()
            .map(|(at, (stem, equal))| {
                let mut variants = vec![(stem.clone(), 1.0)];
                variants.extend(equal.into_iter().filter(|(word, _)| !are_opposite(stem, word)));
                if !is_known(stem) {
                    let only_typo = variants.len() == 1;
                    each_word(&mut |word| {
                        let weight = likeness(stem, word, only_typo);
                        if let Some(weight) = weight.filter(|_| !are_opposite(stem, word)) {
                            let has_room = variants.len() < MAX_VARIANTS;
                            match variants.iter_mut().find(|(known, _)| known == word) {
                                Some((_, before)) => *before = before.max(weight),
                                None if has_room => {
                                    variants.push((word.to_owned(), weight));
                                }
                                None => {}
                            }
                        }
                    });
                }
                let weight = weights.get(at).copied().unwrap_or(1.0);
                Wanted { weight, is_plural: plural.get(at) == Some(&true), variants }
            })
            .collect();
        wanted.extend(compounds(&stems, is_known));
        let instead: Vec<(String, f32)> =
            actions.instead().into_iter().filter(|_| undoes).map(|stem| (stem, AS_EQUAL)).collect();
        if !instead.is_empty() {
            wanted.push(Wanted { weight: 1.0, is_plural: false, variants: instead });
        }
        for stem in &negated {
            let prefixed = ["un", "de", "dis", "non"].map(|prefix| (format!("{prefix}{stem}"), NEGATED));
            wanted.push(Wanted { weight: 1.0, is_plural: false, variants: prefixed.to_vec() });
        }
        let unwanted = negated
            .into_iter()
            .map(|stem| Wanted { weight: 1.0, is_plural: false, variants: vec![(stem, 1.0)] })
            .collect();
        Self { wanted, unwanted, actions, intent }
    }
}

/// How many words of tools stand for one word of the query.
const MAX_VARIANTS: usize = 24;

/// Two words that a tool writes as one.
fn compounds(stems: &[String], is_known: &dyn Fn(&str) -> bool) -> Vec<Wanted> {
    let joined = stems.windows(2).map(|pair| pair.concat()).filter(|word| is_known(word));
    joined.map(|word| Wanted { weight: 1.0, is_plural: false, variants: vec![(word, 1.0)] }).collect()
}

/// How much a tool's word counts for a word that no tool has: one begins with the other, or it was mistyped.
fn likeness(wanted: &str, word: &str, may_be_mistyped: bool) -> Option<f32> {
    let (short, long) = if wanted.len() <= word.len() { (wanted, word) } else { (word, wanted) };
    if short.len() >= 4 && long.starts_with(short) {
        return Some(SHORTENED);
    }
    if short.len() >= 4 && long.len() > short.len() + 2 && long.ends_with(short) {
        return Some(SHORTENED * 0.7);
    }
    let allowed = match wanted.len() {
        0..4 => return None,
        4..8 => 1,
        _ => 2,
    };
    let is_near = may_be_mistyped && long.len() - short.len() <= allowed && distance(wanted, word) <= allowed;
    is_near.then_some(MISTYPED)
}

/// Insertions, deletions, replacements and swaps of neighbours between two short words.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let width = other.len() + 1;
    let mut table: Vec<usize> = vec![0; (one.len() + 1) * width];
    for (at, cell) in table.iter_mut().enumerate() {
        if at < width {
            *cell = at;
        } else if at % width == 0 {
            *cell = at / width;
        }
    }
    for i in 1..=one.len() {
        for j in 1..=other.len() {
            let replaced = table[(i - 1) * width + j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut best = replaced.min(table[(i - 1) * width + j] + 1).min(table[i * width + j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                best = best.min(table[(i - 2) * width + j - 2] + 1);
            }
            table[i * width + j] = best;
        }
    }
    table[one.len() * width + other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_no_tool_has_stands_for_few_words() {
        let words: Vec<String> = (0..1000).map(|number| format!("config{number}")).collect();
        let query = Query::read("config", &|_| false, &|_| false, &mut |each| {
            words.iter().for_each(|word| each(word))
        });
        let counts: Vec<usize> = query.wanted.iter().map(|wanted| wanted.variants.len()).collect();
        assert_eq!(counts, [MAX_VARIANTS]);
    }
}

//! What a query wants done and what a tool does, to tell a tool that would do the opposite.

use super::intent::Intent;
use super::opposites::{are_opposite, is_verb, of_place, of_verb, without_prefix};
use super::synonyms::{is_negation, replacements};
use super::words::{is_plural, is_stop_word, stem, words};

/// Verbs that undo what is said next.
const UNDOING: &str = " undo revert reverse cancel rollback rescind retract ";
/// Verbs that undo what is said next if that is a verb: "stop sharing".
const STOPPING: &str = " stop quit avoid cease ";
/// Words that end what is undone.
const BOUNDARIES: &str =
    " on from in of to for with by at into onto that which who and or so because before after since without ";
/// Verbs that say nothing in "get the door closed".
const CAUSING: &str = " get have want need make see ";
const JOINING: &str = " and or then ";
const PREFIXES: &str = " un de dis ";
const PARTICLES: &str = " in out on off ";
/// How many words of a description may be verbs at its beginning.
const MAX_VERBS: usize = 8;

fn is_in(list: &str, word: &str) -> bool {
    list.contains(&format!(" {word} "))
}

fn is_participle(word: &str) -> bool {
    word.len() > 4 && word.ends_with("ed")
}

/// Whether a word says what is done, in any of the ways that are known here.
fn is_action(word: &str) -> bool {
    !is_participle(word) && (is_verb(&stem(word)) || Intent::is_known(word))
}

/// The word that `log_in` and the like are written as elsewhere.
pub(super) fn joined_particle(verb: &str, particle: &str) -> Option<String> {
    let joined = format!("{verb}{particle}");
    (is_in(PARTICLES, particle) && is_verb(&stem(&joined))).then_some(joined)
}

/// The words of a query with those as one that a hyphen parts: "un-publish".
pub(super) fn with_prefixes(words: Vec<String>) -> Vec<String> {
    let mut all = Vec::<String>::with_capacity(words.len());
    for word in words {
        match all.last_mut() {
            Some(before) if is_in(PREFIXES, before) && is_verb(&stem(&format!("{before}{word}"))) => {
                before.push_str(&word);
            }
            _ => all.push(word),
        }
    }
    all
}

/// What a tool does.
#[derive(Debug, Default)]
pub(super) struct ToolActions {
    /// The words of its name that may say it.
    by_name: Vec<Box<str>>,
    has_named_verb: bool,
    /// The verbs that its description begins with.
    by_text: Vec<Box<str>>,
}

impl ToolActions {
    pub(super) fn of(name: &[String], sentence: &str) -> Self {
        let by_text = first_verbs(sentence);
        let place = match by_text.first() {
            Some(first) => name.iter().position(|word| stem(word) == **first && is_action(word)),
            None => None,
        };
        let first = place.or_else(|| name.iter().position(|word| is_action(word)));
        let told = match (place, first) {
            (Some(at), _) => &name[at..=at],
            (None, Some(at)) => &name[..=at],
            (None, None) => name,
        };
        let mut by_name: Vec<Box<str>> = told
            .iter()
            .filter(|word| !is_plural(word) && !is_participle(word))
            .map(|word| stem(word).into())
            .collect();
        if let Some(next) = first.and_then(|at| name.get(at + 1..))
            && let [joins, verb, ..] = next
            && is_in(JOINING, joins)
        {
            by_name.push(stem(verb).into());
        }
        Self { by_name, has_named_verb: first.is_some(), by_text }
    }

    /// Whether all that it does is among `verbs`.
    fn only(&self, verbs: &[String]) -> bool {
        let is_among = |verb: &str| verbs.iter().any(|one| one == verb);
        if self.by_name.iter().any(|verb| is_among(verb)) {
            return true;
        }
        !self.has_named_verb && !self.by_text.is_empty() && self.by_text.iter().all(|verb| is_among(verb))
    }
}

/// The verbs at the beginning of a sentence, as stems: two in "Opens or closes a tab".
fn first_verbs(sentence: &str) -> Vec<Box<str>> {
    let (mut verbs, mut goes_on) = (Vec::<Box<str>>::new(), true);
    for token in sentence.split_whitespace().take(MAX_VERBS) {
        let is_last = !token.ends_with([',', '/']);
        for word in words(token) {
            if is_in(JOINING, &word) {
                goes_on = true;
                continue;
            }
            if is_stop_word(&word) && verbs.is_empty() {
                continue;
            }
            if goes_on && (verbs.is_empty() || is_action(&word)) {
                verbs.push(stem(&word).into());
            }
            goes_on = false;
        }
        goes_on |= !is_last;
    }
    verbs
}

/// What a query wants done.
#[derive(Debug, Default)]
pub(super) struct QueryActions {
    /// The verbs that are wanted.
    wanted: Vec<String>,
    /// What undoes them.
    against: Vec<String>,
    /// What it wants undone, each with the words of the same meaning.
    undone: Vec<(String, Vec<String>)>,
    places: Vec<String>,
    pub(super) undoing: Vec<String>,
}

impl QueryActions {
    /// `is_known`: whether a tool has the stem.
    pub(super) fn of(spoken: &[String], is_known: &dyn Fn(&str) -> bool) -> Self {
        // "lock" is a verb beside a tool that unlocks.
        let has_opposite = |word: &str| {
            let stem = stem(word);
            is_verb(&stem) || (of_verb(&stem).iter().any(|opposite| is_known(opposite)))
        };
        let mut all = Self::default();
        let (mut has_verb, mut undone) = (false, Vec::new());
        for (at, word) in spoken.iter().enumerate() {
            let before = at.checked_sub(1).map_or("", |before| spoken[before].as_str());
            let next = spoken.get(at + 1).map_or("", String::as_str);
            all.places.extend(Some(stem(word)).filter(|stem| !of_place(stem).is_empty()));
            if is_in(UNDOING, word) {
                let rest = spoken[at + 1..].iter().take_while(|word| !is_in(BOUNDARIES, word));
                undone.extend(rest.filter(|word| !is_stop_word(word)).map(|word| stem(word)));
                all.undoing.push(stem(word));
            } else if (is_in(STOPPING, word) || is_negation(word)) && next.ends_with("ing") {
                undone.push(stem(next));
                all.undoing.push(stem(word));
            } else if is_negation(before) {
                continue;
            }
            let is_adjective = is_participle(word) && !next.is_empty() && !is_stop_word(next);
            let is_noun = word == "pull" && next.starts_with("request");
            let is_first = !has_verb && (has_opposite(word) || is_action(word)) && !is_stop_word(word);
            if (is_first || (is_in(JOINING, before) && has_opposite(word)) || is_in(UNDOING, word))
                && !is_adjective
                && !is_noun
            {
                has_verb = !is_in(CAUSING, word);
                all.wanted.push(stem(word));
            }
        }
        all.undone = undone
            .iter()
            .zip(replacements(&undone))
            .map(|(stem, same)| (stem.clone(), same.into_iter().map(|(word, _)| word).collect()))
            .collect();
        let mut against: Vec<String> = all.wanted.iter().flat_map(|verb| of_verb(verb)).collect();
        // As in "enable or disable".
        if all.wanted.iter().any(|verb| against.contains(verb)) {
            against.clear();
        }
        all.against = against;
        all
    }

    pub(super) fn undone(&self) -> impl Iterator<Item = &str> {
        self.undone.iter().map(|(stem, _)| stem.as_str())
    }

    /// The words that mean what is wanted, where something is to be undone.
    pub(super) fn instead(&self) -> Vec<String> {
        self.undone().flat_map(of_verb).collect()
    }

    /// Whether a word of a tool means the opposite.
    pub(super) fn is_against(&self, stem: &str) -> bool {
        self.against.iter().any(|verb| verb == stem)
            || self.places.iter().any(|place| of_place(place).iter().any(|other| other == stem))
    }

    /// Whether a tool says one of the verbs itself.
    pub(super) fn are_told(&self, tool: &ToolActions, is_named: &dyn Fn(&str) -> bool) -> bool {
        self.wanted.iter().any(|verb| is_named(verb) || tool.by_text.iter().any(|told| **told == **verb))
    }

    /// Whether a tool does only what undoes the query. `is_named`: whether a stem is in its name; `is_for`: in its name or
    /// first sentence.
    pub(super) fn is_opposite(
        &self,
        tool: &ToolActions,
        is_named: &dyn Fn(&str) -> bool,
        is_for: &dyn Fn(&str) -> bool,
    ) -> bool {
        let is_place = |place: &String| {
            let has_other =
                of_place(place).iter().any(|other| is_named(other) && !self.places.contains(other));
            has_other && !is_for(place)
        };
        if self.places.iter().any(is_place) {
            return true;
        }
        if self.are_told(tool, is_named) {
            return false;
        }
        // "unstage" is against what stages, and what adds to the stage.
        let of_prefix = self.wanted.iter().filter_map(|verb| without_prefix(verb));
        let same = |stem: &str| replacements(&[stem.to_owned()]).into_iter().flatten().map(|(word, _)| word);
        tool.only(&self.against)
            || self.undone.iter().any(|(stem, same)| {
                tool.only(std::slice::from_ref(stem)) || (is_for(stem) && tool.only(same))
            })
            || of_prefix
                .into_iter()
                .any(|verb| is_for(verb) && tool.only(&same(verb).collect::<Vec<String>>()))
    }
}

/// Whether two names say opposite things: one has a verb that the other undoes.
pub fn are_opposite_names(one: &str, other: &str) -> bool {
    let (one, other) = (words(one), words(other));
    let stems = |all: &[String]| -> Vec<String> { all.iter().map(|word| stem(word)).collect() };
    let (stems_one, stems_other) = (stems(&one), stems(&other));
    let undoes = |all: &[String]| all.iter().any(|word| is_in(UNDOING, word));
    let only_one = |one: &String| !stems_other.contains(one);
    let only_other = |other: &&String| !stems_one.contains(other);
    undoes(&one) != undoes(&other)
        || stems_one
            .iter()
            .filter(|one| only_one(one))
            .any(|one| stems_other.iter().filter(only_other).any(|other| are_opposite(one, other)))
}

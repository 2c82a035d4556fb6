//! What kind of action a query asks for and a tool performs. Somebody who wants to see something does not want to
//! delete it.

use super::words::words;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    View,
    Create,
    Change,
    Delete,
}

const VIEW: &str = " list lists show shows get gets read reads view views see fetch fetches retrieve retrieves display \
    displays describe describes search searches find finds look lookup query returns return check what which who when \
    where how explain count counts compare dump inspect ";
const CREATE: &str = " create creates make makes new add adds insert inserts append appends generate build register \
    store write writes save post fork start ";
const CHANGE: &str = " update updates change changes modify modifies edit edits rename renames patch replace set rewrite alter ";
const DELETE: &str = " delete deletes remove removes erase drop drops destroy destroys discard purge forget clear \
    unlink uninstall ";

impl Intent {
    fn of_word(word: &str) -> Option<Self> {
        let word = format!(" {word} ");
        let kinds =
            [(VIEW, Self::View), (CREATE, Self::Create), (CHANGE, Self::Change), (DELETE, Self::Delete)];
        kinds.into_iter().find(|(all, _)| all.contains(&word)).map(|(_, kind)| kind)
    }

    /// Whether the word says what is done.
    pub(super) fn is_known(word: &str) -> bool {
        Self::of_word(word).is_some()
    }

    /// The first word of a query that says it.
    pub(super) fn of_query(words: &[String]) -> Option<Self> {
        words.iter().find_map(|word| Self::of_word(word))
    }

    pub(super) fn of_tool(name: &str, verb: Option<&str>) -> Option<Self> {
        let of_verb = verb.and_then(Self::of_word);
        of_verb.or_else(|| words(name).iter().find_map(|word| Self::of_word(word)))
    }

    /// The factor for a tool of this kind when that kind is wanted.
    pub(super) fn agreement(self, offered: Self) -> f32 {
        match (self, offered) {
            (one, other) if one == other => 1.15,
            (Self::Create, Self::Change) | (Self::Change, Self::Create) => 0.9,
            (Self::View, _) => 0.75,
            (Self::Create, Self::Delete) | (Self::Delete, Self::Create) => 0.4,
            _ => 0.7,
        }
    }
}

//! Words that mean the opposite of each other. General English; nothing here is about one server.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::words::stem;

/// Verbs of which one undoes the other, as lists of words on both sides.
const VERBS: &[(&str, &str)] = &[
    (
        "add create insert append make new write build generate save store put",
        "delete remove drop erase destroy clear purge trash discard forget wipe",
    ),
    ("commit save apply keep persist", "discard abandon undo revert rollback"),
    ("schedule book reserve order", "cancel"),
    ("open", "close shut"),
    ("start begin launch boot", "stop end finish quit terminate halt kill shutdown"),
    ("resume continue unpause", "pause suspend"),
    ("enable activate turnon switchon", "disable deactivate turnoff switchoff"),
    ("show reveal", "hide"),
    ("connect attach", "disconnect detach"),
    ("join enter", "leave"),
    ("login signin", "logout signout logoff"),
    ("checkin", "checkout"),
    ("zoomin", "zoomout"),
    ("upload", "download"),
    ("push", "pull"),
    ("import", "export"),
    ("subscribe follow", "unsubscribe unfollow"),
    ("expand", "collapse"),
    ("send", "receive"),
    ("compress zip", "decompress unzip"),
    ("encrypt", "decrypt"),
    ("encode", "decode"),
    ("accept approve", "reject dismiss decline deny"),
    ("grant allow permit", "revoke deny forbid disallow"),
    ("block ban", "unblock unban allow"),
    ("increase raise", "decrease reduce lower"),
    ("promote", "demote"),
    ("merge combine", "split"),
    ("maximize", "minimize"),
    ("include", "exclude"),
    ("buy", "sell"),
    ("deposit", "withdraw"),
    ("lend", "borrow"),
];

/// Words for places and for an order.
const PLACES: &[(&str, &str)] = &[
    ("back previous", "forward next"),
    ("first oldest", "last latest newest"),
    ("up", "down"),
    ("left", "right"),
];

/// Verbs that `de` or `dis` turns into the opposite. With `un`, nearly every verb has one.
const WITH_DE: &str = " activate allocate authorize commission compile compress escalate fragment frost list mute \
    normalize obfuscate provision register select serialize stabilize throttle ";
const WITH_DIS: &str =
    " able allow approve arm assemble associate connect continue credit engage like mount own qualify ";
/// Words that only begin like an opposite.
const NOT_PREFIXED: &str =
    " until unit unite union unique unify universe universal university unix unicode unless unread ";

/// The shortest verb that a prefix turns into its opposite.
const MIN_PREFIXED: usize = 3;

type Pairs = HashMap<String, Vec<String>>;

fn pairs(table: &[(&str, &str)]) -> Pairs {
    let mut all = Pairs::new();
    for (one, other) in table {
        for (from, to) in [(one, other), (other, one)] {
            for word in from.split(' ') {
                all.entry(stem(word)).or_default().extend(to.split(' ').map(stem));
            }
        }
    }
    all
}

static VERB_PAIRS: LazyLock<Pairs> = LazyLock::new(|| pairs(VERBS));
static PLACE_PAIRS: LazyLock<Pairs> = LazyLock::new(|| pairs(PLACES));
static UNPREFIXED: LazyLock<HashSet<String>> =
    LazyLock::new(|| NOT_PREFIXED.split_whitespace().map(stem).collect());
static PREFIXED: LazyLock<Pairs> = LazyLock::new(|| {
    let of = |prefix: &'static str, all: &'static str| {
        all.split_whitespace().map(move |word| (stem(word), stem(&format!("{prefix}{word}"))))
    };
    let mut all = Pairs::new();
    for (word, opposite) in of("de", WITH_DE).chain(of("dis", WITH_DIS)) {
        all.entry(word.clone()).or_default().push(opposite.clone());
        all.entry(opposite).or_default().push(word);
    }
    all
});

/// The verb in `unlock` and its like.
pub(super) fn without_prefix(stem: &str) -> Option<&str> {
    let verb = stem.strip_prefix("un").filter(|verb| verb.len() >= MIN_PREFIXED && stem.is_ascii());
    verb.filter(|_| !UNPREFIXED.contains(stem) && !stem.starts_with("under"))
}

/// The stems of what undoes a verb.
pub(super) fn of_verb(stem: &str) -> Vec<String> {
    let mut all: Vec<String> = VERB_PAIRS.get(stem).cloned().unwrap_or_default();
    all.extend(PREFIXED.get(stem).into_iter().flatten().cloned());
    match without_prefix(stem) {
        Some(verb) => all.push(verb.to_owned()),
        None => {
            let opposite = format!("un{stem}");
            all.extend(without_prefix(&opposite).is_some().then_some(opposite));
        }
    }
    all
}

pub(super) fn of_place(stem: &str) -> &'static [String] {
    PLACE_PAIRS.get(stem).map_or(&[], Vec::as_slice)
}

/// Whether it is a verb with an opposite, by itself and not only because a prefix would turn it.
pub(super) fn is_verb(stem: &str) -> bool {
    VERB_PAIRS.contains_key(stem) || PREFIXED.contains_key(stem) || without_prefix(stem).is_some()
}

/// Whether one undoes the other.
pub(super) fn are_opposite(one: &str, other: &str) -> bool {
    of_verb(one).iter().any(|opposite| opposite == other)
        || of_place(one).iter().any(|opposite| opposite == other)
}

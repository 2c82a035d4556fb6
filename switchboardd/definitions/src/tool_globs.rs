//! Globs on the names of tools: those of hosts written as `expose` reads them, and what two lists have in common.

use std::collections::BTreeSet;

use globset::Glob;

/// All tools.
pub const ALL: &str = "*";

/// What a glob of `expose` treats specially.
const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

/// The glob that matches this name and nothing else.
pub fn literal(name: &str) -> String {
    let mut glob = String::new();
    for c in name.chars() {
        if SPECIAL.contains(&c) {
            glob.push('\\');
        }
        glob.push(c);
    }
    glob
}

/// A host's pattern, in which only `*` (and `?`, if the host has it) is special.
fn glob(pattern: &str, has_question_mark: bool) -> String {
    let is_wild = |c: char| c == '*' || (c == '?' && has_question_mark);
    let one = |c: char| if is_wild(c) { c.to_string() } else { literal(c.encode_utf8(&mut [0; 4])) };
    pattern.chars().map(one).collect()
}

/// Whether a glob of `expose` matches a name.
pub fn glob_matches(glob: &str, name: &str) -> bool {
    Glob::new(glob).is_ok_and(|glob| glob.compile_matcher().is_match(name))
}

/// What a pattern for whole names says about names behind a prefix: the globs for the rest. Empty if it matches
/// no name with this prefix.
pub fn behind(pattern: &str, prefix: &str, has_question_mark: bool) -> BTreeSet<String> {
    let pattern: Vec<char> = pattern.chars().collect();
    let is_star = |at: usize| pattern.get(at) == Some(&'*');
    // Where in the pattern a match may stand; behind a star it may also stand.
    let with_stars = |places: BTreeSet<usize>| -> BTreeSet<usize> {
        let mut all = places.clone();
        for mut at in places {
            while is_star(at) {
                at += 1;
                all.insert(at);
            }
        }
        all
    };
    let mut places = with_stars(BTreeSet::from([0]));
    for c in prefix.chars() {
        let step = |at: usize| match pattern.get(at) {
            Some('*') => Some(at),
            Some('?') if has_question_mark => Some(at + 1),
            Some(wanted) if *wanted == c => Some(at + 1),
            _ => None,
        };
        places = with_stars(places.into_iter().filter_map(step).collect());
    }
    let rest = |at: usize| glob(&pattern[at..].iter().collect::<String>(), has_question_mark);
    let rests: BTreeSet<String> = places.into_iter().map(rest).filter(|rest| !rest.is_empty()).collect();
    if rests.iter().any(|rest| covers_all(rest)) {
        return BTreeSet::from([ALL.to_owned()]);
    }
    rests
}

pub fn covers_all(glob: &str) -> bool {
    !glob.is_empty() && glob.chars().all(|c| c == '*')
}

/// The name that a glob matches, if it matches only one.
fn only_name(glob: &str) -> Option<String> {
    let (mut name, mut chars) = (String::new(), glob.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?),
            c if SPECIAL.contains(&c) => return None,
            c => name.push(c),
        }
    }
    Some(name)
}

/// The text before the first wildcard.
fn beginning(glob: &str) -> String {
    let (mut text, mut chars) = (String::new(), glob.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.extend(chars.next()),
            c if SPECIAL.contains(&c) => break,
            c => text.push(c),
        }
    }
    text
}

/// Whether every name that `small` matches is matched by `large`, as far as that can be told.
pub fn covers(large: &str, small: &str) -> bool {
    if large == small || covers_all(large) {
        return true;
    }
    if let Some(name) = only_name(small) {
        return glob_matches(large, &name);
    }
    let prefix = large.strip_suffix('*').and_then(only_name);
    prefix.is_some_and(|prefix| beginning(small).starts_with(&prefix))
}

/// Whether no name is matched by both, as far as that can be told.
pub fn are_apart(one: &str, other: &str) -> bool {
    match (only_name(one), only_name(other)) {
        (Some(one), _) => !glob_matches(other, &one),
        (None, Some(other)) => !glob_matches(one, &other),
        (None, None) => {
            let (one, other) = (beginning(one), beginning(other));
            !one.starts_with(&other) && !other.starts_with(&one)
        }
    }
}

/// Globs for the names that both lists match; `None` if no list of globs says that.
pub fn common(one: &BTreeSet<String>, other: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
        if covers(a, b) {
            all.insert(b.clone());
        } else if covers(b, a) {
            all.insert(a.clone());
        } else if !are_apart(a, b) {
            return None;
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(globs: &[&str]) -> BTreeSet<String> {
        globs.iter().map(|glob| (*glob).to_owned()).collect()
    }

    #[test]
    fn a_pattern_for_whole_names_becomes_one_for_tools() {
        for (pattern, rest) in [
            ("fs_write_file", &["write_file"][..]),
            ("fs_*", &["*"]),
            ("fs*", &["*"]),
            ("*", &["*"]),
            ("*_file", &["*_file", "_file", "file"]),
            ("f?_delete", &["delete"]),
            ("fs_get?", &["get?"]),
            ("fs_a[b]", &["a\\[b\\]"]),
            ("gh_*", &[]),
            ("fs", &[]),
            ("fs_", &[]),
        ] {
            assert_eq!(behind(pattern, "fs_", true), set(rest), "{pattern}");
        }
        assert_eq!(behind("mcp__fs__get?", "mcp__fs__", false), set(&["get\\?"]));
    }

    #[test]
    fn lists_are_intersected_where_globs_can_say_it() {
        let check = |one: &[&str], other: &[&str], expect: Option<&[&str]>| {
            assert_eq!(common(&set(one), &set(other)), expect.map(set), "{one:?} {other:?}");
            assert_eq!(common(&set(other), &set(one)), expect.map(set), "{other:?} {one:?}");
        };
        check(&["a", "b"], &["b", "c"], Some(&["b"]));
        check(&["read_*"], &["read_file", "write_file"], Some(&["read_file"]));
        check(&["read_*"], &["read_file_*", "write_*"], Some(&["read_file_*"]));
        check(&["a"], &["b"], Some(&[]));
        check(&["*"], &["a", "b*"], Some(&["a", "b*"]));
        check(&["*_file"], &["read_*"], None);
        check(&["a\\*"], &["a*"], Some(&["a\\*"]));
    }
}

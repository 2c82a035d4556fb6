//! Splits text into words and reduces each to its stem, so that `listing`, `Lists` and `list_files` meet.

/// Words that say nothing about what is wanted.
const STOP_WORDS: &str = " a an the this that these those it its is are was were be been being am do does did done \
    i me my mine we us our you your they them their he she his her and or but if then than so as at by for from in \
    into of on onto to with about via per there here please can could would should will shall may might must want \
    wants need needs like let lets have has had any some such just only also too very really what which who whom \
    whose when where why how s t re ve ll d m it's i'd i'm something anything thing things one ones use using used \
    tool server give way able certain given provided specified specific own ";

/// Forms that no rule of [`stem`] covers, with the word they belong to.
const IRREGULAR: &[(&str, &str)] = &[
    ("made", "make"),
    ("making", "make"),
    ("took", "take"),
    ("taken", "take"),
    ("ran", "run"),
    ("wrote", "write"),
    ("written", "write"),
    ("sent", "send"),
    ("got", "get"),
    ("gotten", "get"),
    ("found", "find"),
    ("went", "go"),
    ("gone", "go"),
    ("saw", "see"),
    ("seen", "see"),
    ("told", "tell"),
    ("said", "say"),
    ("kept", "keep"),
    ("built", "build"),
    ("chose", "choose"),
    ("chosen", "choose"),
    ("people", "person"),
    ("persons", "person"),
    ("children", "child"),
    ("indices", "index"),
    ("indexes", "index"),
    ("indexing", "index"),
    ("queries", "query"),
    ("data", "data"),
    ("news", "news"),
    ("css", "css"),
    ("js", "js"),
    ("javascript", "javascript"),
    ("status", "status"),
    ("address", "address"),
    ("process", "process"),
    ("access", "access"),
    ("analyses", "analysis"),
    ("analyze", "analyse"),
    ("analyzes", "analyse"),
    ("analyzing", "analyse"),
    ("modified", "modify"),
    ("modification", "modify"),
    ("modifications", "modify"),
    ("description", "describe"),
    ("descriptions", "describe"),
    ("subscription", "subscribe"),
    ("subscriptions", "subscribe"),
    ("removal", "remove"),
    ("comparison", "compare"),
    ("response", "response"),
    ("responses", "response"),
    ("permission", "permission"),
    ("permissions", "permission"),
];

/// A word of a text, in lower case and not yet stemmed. `camelCase` and `snake_case` are split.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(char) = rest.next() {
        let is_apostrophe = matches!(char, '\'' | '’') && before.is_alphabetic();
        let begins_word = char.is_uppercase()
            && (before.is_lowercase()
                // `JSONSchema`: the last capital letter begins the next word.
                || (before.is_uppercase() && rest.peek().is_some_and(|next| next.is_lowercase())));
        if begins_word || !(char.is_alphanumeric() || is_apostrophe) {
            words.push(String::new());
        }
        before = char;
        if char.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(char.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty() && word.len() <= MAX_WORD);
    words
}

/// No word that somebody searches for is longer, in bytes.
const MAX_WORD: usize = 40;

pub(super) fn is_stop_word(word: &str) -> bool {
    word.len() <= 12 && STOP_WORDS.contains(&format!(" {word} "))
}

/// A light stemmer for English. Other languages pass nearly unchanged.
pub(super) fn stem(word: &str) -> String {
    if let Some((_, base)) = IRREGULAR.iter().find(|(form, _)| *form == word) {
        return without_last_e(base).to_owned();
    }
    if !word.is_ascii() || word.len() <= 3 || word.bytes().any(|byte| byte.is_ascii_digit()) {
        return word.to_owned();
    }
    let singular = if let Some(base) = word.strip_suffix("ies").filter(|base| base.len() > 1) {
        format!("{base}y")
    } else if let Some(base) = word
        .strip_suffix("es")
        .filter(|base| ["ss", "x", "ch", "sh", "zz"].iter().any(|end| base.ends_with(end)))
    {
        base.to_owned()
    } else {
        let plural = word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end));
        word[..word.len() - usize::from(plural)].to_owned()
    };
    let base = without_ending(&singular);
    without_last_e(&base).to_owned()
}

/// Whether a word looks like a plural, or a verb of the third person.
pub(super) fn is_plural(word: &str) -> bool {
    word == "people"
        || (word.len() > 3
            && word.ends_with('s')
            && !["ss", "us", "is"].iter().any(|end| word.ends_with(end)))
}

fn without_ending(word: &str) -> String {
    for ending in ["ing", "ed"] {
        let Some(base) = word.strip_suffix(ending) else { continue };
        if base.len() < 2 || !has_vowel(base) {
            break;
        }
        if let Some(base) = base.strip_suffix('i') {
            return format!("{base}y");
        }
        let bytes = base.as_bytes();
        // "stopped", but "added".
        let is_double = bytes.len() > 3 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
        let stays = base.ends_with("ll") || base.ends_with("ss") || base.ends_with("zz");
        return base[..base.len() - usize::from(is_double && !stays)].to_owned();
    }
    if let Some(base) = word.strip_suffix("ion").filter(|base| base.len() > 3 && base.ends_with(['t', 's'])) {
        return base.to_owned();
    }
    if let Some(base) = word.strip_suffix("ly").filter(|base| base.len() > 3) {
        return base.to_owned();
    }
    word.to_owned()
}

fn without_last_e(word: &str) -> &str {
    word.strip_suffix('e').filter(|base| base.len() > 2).unwrap_or(word)
}

fn has_vowel(text: &str) -> bool {
    text.contains(['a', 'e', 'i', 'o', 'u', 'y'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sentences_are_split_alike() {
        assert_eq!(words("listOpenIssues"), ["list", "open", "issues"]);
        assert_eq!(words("API-post-page_byID"), ["api", "post", "page", "by", "id"]);
        assert_eq!(words("getJSONSchema, don't"), ["get", "json", "schema", "dont"]);
        assert_eq!(words("Überprüfe «x»"), ["überprüfe", "x"]);
        assert!(words(&"x".repeat(100)).is_empty());
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for forms in [
            &["list", "lists", "listing", "listed"][..],
            &["create", "creates", "creating", "created", "creation"],
            &["run", "running", "runs", "ran"],
            &["directory", "directories"],
            &["navigate", "navigation", "navigating"],
            &["switch", "switches", "switching"],
            &["stage", "staged", "staging", "stages"],
            &["query", "queries"],
            &["stop", "stopped", "stopping"],
            &["index", "indexes", "indices"],
            &["make", "made", "making"],
            &["add", "adds", "adding", "added"],
        ] {
            let stems: Vec<String> = forms.iter().map(|form| stem(form)).collect();
            assert!(stems.iter().all(|one| *one == stems[0]), "{forms:?}: {stems:?}");
        }
    }

    #[test]
    fn different_words_keep_different_stems() {
        for (one, other) in [("status", "state"), ("news", "new"), ("process", "progress"), ("user", "use")] {
            assert_ne!(stem(one), stem(other));
        }
    }
}

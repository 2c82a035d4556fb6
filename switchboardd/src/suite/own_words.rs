//! What a server says of itself, made fit for one line of a suite's description: no markup, no hidden
//! characters, no emoji, cut at the end of a sentence or a word. Pure.

use switchboard_wire::visible::without_hidden;
use unicode_segmentation::UnicodeSegmentation;

/// How much of a text is looked at: descriptions are made on the event loop.
const MAX_READ_BYTES: usize = 4096;

/// Words of a server's name or title that say nothing about it.
const EMPTY_WORDS: [&str; 12] =
    ["mcp", "server", "servers", "the", "a", "an", "of", "for", "official", "protocol", "service", "v1"];

/// The first sentence of a text in Markdown, at most `most` characters; `None` if it has no words.
pub fn first_sentence(text: &str, most: usize) -> Option<String> {
    let text = paragraphs(text).into_iter().find(|text| has_words(text))?;
    let text = &text[..sentence_end(&text)];
    let line = cut(text.trim_end_matches(['.', ':', ';', ',', ' ', '。']), most);
    has_words(&line).then_some(line)
}

/// All of a text in Markdown, as one line.
pub fn one_line(text: &str) -> String {
    paragraphs(text).join(" ")
}

/// A server's title or name without what every server has in it: `secure-filesystem-server` becomes
/// `secure filesystem`. `None` if it says no more than `known`.
pub fn title(text: &str, known: &str, most: usize) -> Option<String> {
    let line = paragraphs(text).into_iter().next()?;
    let is_label = !line.contains(' ');
    let spaced = if is_label { line.replace(['-', '_', '/', '.', '@', ':'], " ") } else { line };
    let words: Vec<&str> = spaced
        .split(' ')
        .filter(|word| !word.is_empty() && !EMPTY_WORDS.contains(&word.to_lowercase().as_str()))
        .collect();
    let known = known.to_lowercase();
    let says_more = |word: &&str| !known.contains(&word.to_lowercase()) && has_words(word);
    if !words.iter().any(says_more) {
        return None;
    }
    Some(cut(words.join(" ").trim_end_matches(['.', ':', ',', ';']), most))
}

/// `text` in at most `most` characters, cut after a word; `…` marks the cut.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let (mut kept, mut count, mut word_end) = (String::new(), 1, 0);
    for grapheme in text.graphemes(true) {
        count += grapheme.chars().count();
        if count > most {
            break;
        }
        if grapheme == " " {
            word_end = kept.len();
        }
        kept.push_str(grapheme);
    }
    // A word longer than half of the text is cut: otherwise too little would be left.
    if word_end * 2 > kept.len() {
        kept.truncate(word_end);
    }
    kept.truncate(kept.trim_end_matches([' ', ',', ';', ':', '-', '–']).len());
    kept.push('…');
    kept
}

/// Whether there is a letter in it.
fn has_words(text: &str) -> bool {
    text.chars().any(char::is_alphabetic)
}

/// The paragraphs of a text in Markdown, each as one line without markup. Headings, tables, code blocks and
/// comments are left out; if nothing else is there, headings are used.
fn paragraphs(text: &str) -> Vec<String> {
    let read = text.char_indices().map(|(at, _)| at).find(|at| *at > MAX_READ_BYTES).unwrap_or(text.len());
    let (mut all, mut headings, mut current) = (Vec::new(), Vec::new(), String::new());
    let mut in_code = false;
    for line in text[..read].lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            in_code = !in_code;
            continue;
        }
        let is_heading = line.starts_with('#') || is_rule(line);
        if in_code || is_heading || line.is_empty() || line.starts_with(['|', '<']) {
            all.push(std::mem::take(&mut current));
            headings.extend(Some(plain(line.trim_start_matches('#'))).filter(|_| is_heading && !in_code));
            continue;
        }
        let item = ["- ", "* ", "+ ", "> ", "• "].iter().find_map(|mark| line.strip_prefix(mark));
        if item.is_some() {
            all.push(std::mem::take(&mut current));
        }
        current.push(' ');
        current.push_str(item.unwrap_or(line));
    }
    all.push(current);
    let all: Vec<String> = all.iter().map(|text| plain(text)).filter(|text| !text.is_empty()).collect();
    if all.iter().any(|text| has_words(text)) { all } else { headings }
}

/// Whether a line only separates: `---`, `===`.
fn is_rule(line: &str) -> bool {
    line.len() >= 3 && line.chars().all(|c| matches!(c, '-' | '=' | '*' | '_' | ' '))
}

/// One line without inline markup, hidden characters and emoji.
fn plain(text: &str) -> String {
    let seen = without_hidden(text);
    let mut shown = String::with_capacity(seen.len());
    let mut rest = seen.as_str();
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            // `[words](address)` and `![words](address)`.
            '[' => {
                match after.split_once("](").and_then(|(words, more)| Some((words, more.split_once(')')?))) {
                    Some((words, (_, more))) if !words.contains('[') => {
                        shown.push_str(&words.replace(['*', '`'], ""));
                        more
                    }
                    _ => {
                        shown.push(c);
                        after
                    }
                }
            }
            '!' if after.starts_with('[') => after,
            // A tag of HTML.
            '<' if after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '!') => {
                after.split_once('>').map_or("", |(_, more)| more)
            }
            '*' | '`' => after,
            '_' if after.starts_with('_') => &after[1..],
            c if is_pictograph(c) => after,
            c => {
                shown.push(c);
                after
            }
        };
    }
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Emoji and dingbats, with what joins and colours them.
fn is_pictograph(c: char) -> bool {
    matches!(u32::from(c),
        0x200D | 0x20E3 | 0x2139 | 0x231A..=0x23FF | 0x25AA..=0x27BF | 0x2B05..=0x2B55 | 0xFE0F
        | 0x1F000..=0x1FAFF)
}

/// Where the first sentence ends.
fn sentence_end(text: &str) -> usize {
    let mut before = "";
    for (at, word) in text.split_word_bound_indices() {
        let end = at + word.len();
        let closes = word.ends_with(['.', '!', '?']) && text[end..].starts_with([' ', '"', ')']);
        let is_letter = before.len() == 1 && before.starts_with(char::is_alphabetic);
        let is_abbreviation = is_letter || ["e.g", "i.e", "etc", "vs", "incl"].contains(&before);
        if end == text.len() || word.ends_with(['。', '！', '？']) || (closes && !is_abbreviation) {
            return end;
        }
        before = word;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(first_sentence(text, 120).unwrap_or_default(), expect, "{text:?}");
    }

    #[test]
    fn the_first_sentence_is_found() {
        check("Finds things. Very fast.", "Finds things");
        check("Finds things", "Finds things");
        check("Reads files, e.g. text. Fast.", "Reads files, e.g. text");
        check("Version 1.5 of it! More.", "Version 1.5 of it!");
        check("Is it up? Maybe.", "Is it up?");
        check("检索文件。很快。", "检索文件");
        check("Lists:\n- a\n- b", "Lists");
        check("One\ntwo\n\nthree.", "One two");
        check("", "");
        check(" \n\t", "");
        check("...", "");
        check("123 456", "");
    }

    #[test]
    fn markup_is_removed() {
        check(
            "# Title\n\n**Bold** and `code` with a [link](https://x.example/a_b). More.",
            "Bold and code with a link",
        );
        check("# Only a title", "Only a title");
        check("```\nlet x;\n```\nDoes it.", "Does it");
        check("| a | b |\n|---|---|\n\nSearches tables.", "Searches tables");
        check("<p align=\"center\"><b>Fast</b></p>\n\nSearches <b>all</b> mail.", "Searches all mail");
        check("![logo](x.png) Sends mail.", "logo Sends mail");
        check("> Quoted words.", "Quoted words");
        check("keep snake_case and a*b", "keep snake_case and ab");
        check("---\nAfter a rule.", "After a rule");
    }

    #[test]
    fn hidden_characters_and_emoji_are_removed() {
        check("🚀 Fast\u{200b} \u{202e}search\u{1b}[0m 👩‍👩‍👧‍👦.", "Fast search[0m");
        check("\u{e0041}\u{e0042}Hi there.", "Hi there");
        // Right-to-left letters are kept, without the marks that would turn the rest of the line.
        check("\u{202b}חיפוש קבצים\u{202c}. More", "חיפוש קבצים");
        check("🚀🔥", "");
    }

    #[test]
    fn a_long_text_is_cut_after_a_word() {
        assert_eq!(cut("one two three", 13), "one two three");
        assert_eq!(cut("one two three", 12), "one two…");
        assert_eq!(cut("one two, three", 10), "one two…");
        assert_eq!(cut(&"x".repeat(50), 10), "xxxxxxxxx…");
        let giant = "word ".repeat(1_000_000);
        assert_eq!(first_sentence(&giant, 20).unwrap(), "word word word…");
    }

    #[test]
    fn a_title_is_used_if_it_says_more_than_the_name() {
        let check = |text: &str, known: &str, expect: Option<&str>| {
            assert_eq!(title(text, known, 60).as_deref(), expect, "{text}");
        };
        check("Chrome DevTools MCP server", "devtools", Some("Chrome DevTools"));
        check("secure-filesystem-server", "files", Some("secure filesystem"));
        check("mcp-servers/everything", "everything", None);
        check("mcp-git", "git", None);
        check("Notion API", "notion", Some("Notion API"));
        check("github-mcp-server", "gh", Some("github"));
        check("MCP Server", "x", None);
        check("  ", "x", None);
        check("\u{202e}evil\u{200b}", "x", Some("evil"));
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "\\PC{0,300}", most in 8usize..100) {
            if let Some(line) = first_sentence(&text, most) {
                prop_assert!(line.chars().count() <= most && !line.contains('\n'));
            }
            prop_assert!(cut(&text, most).chars().count() <= most);
        }
    }
}

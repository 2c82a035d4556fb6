//! One line that says what a subtool is for.

use unicode_segmentation::UnicodeSegmentation;

/// `text` as one line of at most `most` characters, cut between graphemes.
pub fn summary(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|char| !is_hidden(*char)).collect();
    if line.chars().count() <= most {
        return line;
    }
    let mut cut = String::new();
    let mut count = 1;
    for grapheme in line.graphemes(true) {
        count += grapheme.chars().count();
        if count > most {
            break;
        }
        cut.push_str(grapheme);
    }
    cut.truncate(cut.trim_end().len());
    cut.push('…');
    cut
}

/// Characters that change how a line reads without being seen: no business in a summary.
fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(char, '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_texts_become_one_line() {
        assert_eq!(summary("Find\n  things\t fast ", 40), "Find things fast");
    }

    #[test]
    fn a_grapheme_is_never_split() {
        let family = "👩‍👩‍👧‍👦";
        assert_eq!(summary(&format!("ab {family} cd"), 8), "ab…");
        assert_eq!(summary("e\u{301}e\u{301}e\u{301}", 4), "e\u{301}…");
    }

    #[test]
    fn hidden_characters_are_left_out() {
        assert_eq!(summary("safe\u{202e}txt\u{200b}.\u{1b}[31m", 40), "safetxt.[31m");
    }

    proptest! {
        #[test]
        fn never_longer_than_asked(text in "\\PC{0,300}", most in 8usize..100) {
            prop_assert!(summary(&text, most).chars().count() <= most);
        }
    }
}

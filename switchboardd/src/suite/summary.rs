//! Shortens a text to one line.

use unicode_segmentation::UnicodeSegmentation;

use switchboard_wire::visible::without_hidden;

/// `text` as one line of at most `most` characters, cut between graphemes. Characters that a user would not
/// see are removed, because a model reads the result.
pub fn summary(text: &str, most: usize) -> String {
    let seen = without_hidden(text);
    let line = seen.split_whitespace().collect::<Vec<_>>().join(" ");
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
        assert_eq!(summary("a \u{200b} b", 40), "a b");
    }

    #[test]
    fn every_character_of_the_table_is_left_out() {
        for hidden in ['\u{ad}', '\u{61c}', '\u{3164}', '\u{feff}', '\u{e0041}', '\u{e0100}']
            .into_iter()
            .chain('\u{200b}'..='\u{200f}')
            .chain('\u{2061}'..='\u{2064}')
            .chain('\u{fe00}'..='\u{fe0f}')
        {
            assert_eq!(summary(&format!("a{hidden}b"), 40), "ab", "{hidden:?}");
        }
    }

    proptest! {
        #[test]
        fn never_longer_than_asked(text in "\\PC{0,300}", most in 8usize..100) {
            prop_assert!(summary(&text, most).chars().count() <= most);
        }
    }
}

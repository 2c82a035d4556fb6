//! Quotes words of commands that users copy.

use std::ffi::OsStr;
use std::fmt::Write;

use switchboard_wire::visible::is_hidden;

/// Quotes a word for a shell if needed: it stays one word, and nothing in it is executed.
pub(super) fn shell_word(word: &(impl AsRef<OsStr> + ?Sized)) -> String {
    let word = word.as_ref().to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./@+=:".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    if !word.chars().any(is_hidden) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    // Hidden characters become numeric escapes, which only `$'…'` supports.
    let mut quoted = String::from("$'");
    for c in word.chars() {
        match c {
            '\\' | '\'' => quoted.extend(['\\', c]),
            _ if is_hidden(c) => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
            _ => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word() {
        for (word, typed) in [
            ("plain-1.json", "plain-1.json"),
            ("", "''"),
            ("two words", "'two words'"),
            ("x;touch y", "'x;touch y'"),
            ("it's", r"'it'\''s'"),
            ("a\x1bb'c\\", r"$'a\U0000001bb\'c\\'"),
        ] {
            assert_eq!(shell_word(word), typed);
        }
    }
}

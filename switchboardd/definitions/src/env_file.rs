//! Files of `NAME=value` lines: the `envFile` of a definition, and the user's own `env`.
//!
//! Deliberately absent: substitution of variables or commands.

use std::collections::BTreeMap;
use std::path::Path;

use crate::files::private;

/// More than any environment that a system passes on.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The variables, where the last of a repeated name wins; or the number of the bad line, and why. No error
/// quotes the text, which may be part of a secret.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, (usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let mut all = BTreeMap::new();
    let mut rest = text.as_str();
    while let Some(entry) = next_entry(rest) {
        let line = || 1 + newlines(&text[..text.len() - entry.len()]);
        let (name, value, after) = assignment(entry).map_err(|why| (line(), why))?;
        all.insert(name.to_owned(), value);
        rest = after;
    }
    Ok(all)
}

/// Reads the user's own file, which has to be private; `None` if there is none.
pub fn read_private(file: &Path) -> Result<Option<BTreeMap<String, String>>, String> {
    let Some(body) = private::read(file, MAX_FILE_BYTES).map_err(|unfit| unfit.to_string())? else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&body).map_err(|error| {
        let line = 1 + body[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        format!("{}:{line}: not UTF-8", file.display())
    })?;
    parse(text).map(Some).map_err(|(line, why)| format!("{}:{line}: {why}", file.display()))
}

/// Skips blank lines and comments to the next assignment.
fn next_entry(mut text: &str) -> Option<&str> {
    loop {
        text = text.trim_start();
        if text.is_empty() {
            return None;
        }
        if !text.starts_with('#') {
            return Some(text);
        }
        text = after_line(text);
    }
}

/// One assignment: its name, its value, and the text after its line.
fn assignment(text: &str) -> Result<(&str, String, &str), String> {
    let line = text.lines().next().unwrap_or_default();
    let (name, _) = line.split_once('=').ok_or("no `=`: a line is `NAME=value`")?;
    let behind = &text[name.len() + 1..];
    let value = behind.trim_start_matches(is_blank);
    let name = name.strip_prefix("export").filter(|name| name.starts_with(is_blank)).unwrap_or(name).trim();
    if !is_name(name) {
        return Err(
            "what is before `=` is not a valid name: letters, digits, `_`, `.` and `-`, not a digit first"
                .into(),
        );
    }
    let (value, after) = match value.chars().next() {
        Some('\'') => literal(&value[1..]),
        Some('"') => escaped(&value[1..]),
        _ => return bare(behind).map(|(value, after)| (name, value, after)),
    }
    .ok_or_else(|| format!("the quote that begins the value of `{name}` is never closed"))?;
    let tail = after.lines().next().unwrap_or_default().trim_start_matches(is_blank);
    if !tail.trim_end().is_empty() && !tail.starts_with('#') {
        return Err(format!("there is text behind the closing quote of `{name}`"));
    }
    free_of_nul(value).map(|value| (name, value, after_line(after)))
}

/// An unquoted value: to the end of the line, or to a `#` after a blank.
fn bare(text: &str) -> Result<(String, &str), String> {
    let line = text.split('\n').next().unwrap_or_default();
    let comment = line
        .match_indices('#')
        .map(|(at, _)| at)
        .find(|&at| line[..at].ends_with(is_blank))
        .unwrap_or(line.len());
    free_of_nul(line[..comment].trim().to_owned()).map(|value| (value, after_line(text)))
}

/// A single-quoted value, without escapes.
fn literal(text: &str) -> Option<(String, &str)> {
    text.split_once('\'').map(|(value, after)| (value.to_owned(), after))
}

/// A double-quoted value with a few escapes; a backslash before any other character is literal.
fn escaped(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => {
                let (_, next) = chars.next()?;
                match next {
                    'n' => value.push('\n'),
                    't' => value.push('\t'),
                    'r' => value.push('\r'),
                    '"' | '\\' | '$' => value.push(next),
                    other => value.extend(['\\', other]),
                }
            }
            other => value.push(other),
        }
    }
    None
}

fn free_of_nul(value: String) -> Result<String, String> {
    if value.contains('\0') { Err("a NUL, which no variable can hold".into()) } else { Ok(value) }
}

/// Whether a variable or secret can have this name.
pub fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '.' | '-'))
}

fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t')
}

fn after_line(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, after)| after)
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::processor_time::processor_time;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let expected: BTreeMap<_, _> =
            expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(parse(text), Ok(expected), "{text:?}");
    }

    #[test]
    fn assignments_are_parsed_without_substitution() {
        check("", &[]);
        check("\n  \n# A=1\n\t# B=2\n", &[]);
        check("A=1", &[("A", "1")]);
        check("A=1\nB=2\nA=3\n", &[("A", "3"), ("B", "2")]);
        check("\u{feff}A=1\r\nB=2\r\n", &[("A", "1"), ("B", "2")]);
        check("A=\nB= \nC=''\nD=\"\"\n", &[("A", ""), ("B", ""), ("C", ""), ("D", "")]);
        check(
            "  export  A=1\nexport\tB=2\nexported=3\nexport=4",
            &[("A", "1"), ("B", "2"), ("exported", "3"), ("export", "4")],
        );
        check("A = 1 \nB\t=\t'2'\n", &[("A", "1"), ("B", "2")]);
        check("_a.b-C9=x", &[("_a.b-C9", "x")]);
        check("A=b=c==", &[("A", "b=c==")]);
        check(
            "A=two words  # said\nB=a#b\nC=#d\nD= # e\n",
            &[("A", "two words"), ("B", "a#b"), ("C", "#d"), ("D", "")],
        );
        check("A=$HOME ${B} $(rm) `ls` \\n", &[("A", "$HOME ${B} $(rm) `ls` \\n")]);
        check("A=it's \"so\"", &[("A", "it's \"so\"")]);
        check("A=grüße 🎉", &[("A", "grüße 🎉")]);
    }

    #[test]
    fn quoted_values_are_parsed() {
        check(r#"A='a #b \n "$C" ' # said"#, &[("A", r#"a #b \n "$C" "#)]);
        check(r#"A="a #b" #said"#, &[("A", "a #b")]);
        check(r#"A="\n\t\r\"\\\$\x\a'" "#, &[("A", "\n\t\r\"\\$\\x\\a'")]);
        check("A=\"one\r\ntwo\nthree\"\r\nB=2", &[("A", "one\ntwo\nthree"), ("B", "2")]);
        check("A='one\ntwo'\nB=2", &[("A", "one\ntwo"), ("B", "2")]);
        check("A=\"$B $(rm)\"", &[("A", "$B $(rm)")]);
    }

    #[test]
    fn a_bad_line_is_reported_without_its_text() {
        for (text, line, part) in [
            ("A=1\n\nhunter2", 3, "no `=`"),
            ("hunter2\nA=1", 1, "no `=`"),
            ("1A=hunter2", 1, "not a valid name"),
            ("=hunter2", 1, "not a valid name"),
            ("A hunter2=1", 1, "not a valid name"),
            ("A=\"x\ny\"\n#\nB=\"hunter2\n\n", 4, "`B` is never closed"),
            ("A='hunter2", 1, "`A` is never closed"),
            ("A=\"hunter2\\", 1, "`A` is never closed"),
            ("A='x' hunter2", 1, "behind the closing quote of `A`"),
            ("A=hunter2\0", 1, "NUL"),
            ("A='hunter2\0'", 1, "NUL"),
        ] {
            let (at, why) = parse(text).unwrap_err();
            assert_eq!(at, line, "{text:?}: {why}");
            assert!(why.contains(part) && !why.contains("hunter2"), "{text:?}: {why}");
        }
    }

    #[test]
    fn a_long_file_is_parsed_quickly() {
        let text: String = (0..100_000).map(|n| format!("A{n}=\n")).collect();
        let start = processor_time();
        assert_eq!(parse(&text).map(|all| all.len()), Ok(100_000));
        let used = processor_time() - start;
        assert!(used.as_secs() < 5, "{used:?}");
    }

    #[test]
    fn a_private_file_names_its_place_in_errors() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("env");
        assert_eq!(read_private(&file), Ok(None));
        crate::files::replace(&file, b"A=1\n").unwrap();
        assert_eq!(read_private(&file).unwrap().unwrap()["A"], "1");
        crate::files::replace(&file, b"A=1\nB\n").unwrap();
        assert!(read_private(&file).unwrap_err().contains("env:2: no `=`"));
        crate::files::replace(&file, b"A=1\nB=\xff\n").unwrap();
        assert!(read_private(&file).unwrap_err().contains("env:2: not UTF-8"));
        crate::files::replace(&file, &vec![b'\n'; 1024 * 1024 + 1]).unwrap();
        assert!(read_private(&file).unwrap_err().contains("1048576"));
    }

    proptest! {
        #[test]
        fn parse_never_panics(text in any::<String>()) {
            let _ = parse(&text);
        }

        #[test]
        fn an_error_names_a_line_of_the_text(text in r#"([AB=#'"\\ \t\r\n$]|export |é|\x{feff}){0,40}"#) {
            if let Err((line, _)) = parse(&text) {
                prop_assert!(line >= 1 && line <= 1 + newlines(&text));
            }
        }

        #[test]
        fn a_quoted_value_is_returned_unchanged(value in "[^'\0\r]*") {
            let text = format!("A='{value}'");
            prop_assert_eq!(&parse(&text).unwrap()["A"], &value);
        }
    }
}

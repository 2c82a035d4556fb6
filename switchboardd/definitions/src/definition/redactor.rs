//! Hides the values that a server was given from what it prints or says. Pure.

use std::borrow::Cow;
use std::sync::Arc;

use url::form_urlencoded::{byte_serialize, parse};

use super::LaunchCommand;
use crate::expand::{PlaceholderValues, Template};
use crate::mask::{MASK, is_secret, masked_parts, masked_path, masked_value, password};

/// In bytes. Shorter values are not hidden: they are no secrets, and occur in many words.
const MIN_BYTES: usize = 4;

/// A value of several lines is also hidden line by line, for lines of at least this many bytes.
const MIN_LINE_BYTES: usize = 8;

/// Values that are settings, not secrets. They occur in many log lines.
const SETTINGS: [&str; 17] = [
    "true",
    "false",
    "none",
    "null",
    "auto",
    "trace",
    "debug",
    "info",
    "warn",
    "warning",
    "error",
    "stdio",
    "http",
    "https",
    "localhost",
    "production",
    "development",
];

/// Variables of every login shell that name the user and their folders: no secrets, and messages need paths.
const PUBLIC_VARIABLES: [&str; 13] = [
    "HOME", "USER", "LOGNAME", "SHELL", "PATH", "PWD", "LANG", "LC_ALL", "TERM", "TMPDIR", "HOSTNAME",
    "DISPLAY", "EDITOR",
];

/// Pairs of hidden text and its replacement, longest text first.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Redactor(Arc<[(String, String)]>);

/// Does not print the values that it hides.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Redactor").field(&self.0.len()).finish()
    }
}

impl Redactor {
    /// Takes each value with its replacement. Also hides other encodings of a value.
    pub fn new(values: impl Iterator<Item = (String, String)>) -> Self {
        let mut hidden: Vec<(String, String)> = values.flat_map(spellings).collect();
        hidden.sort_by(|one, other| other.0.len().cmp(&one.0.len()).then_with(|| one.cmp(other)));
        hidden.dedup_by(|later, earlier| later.0 == earlier.0);
        Self(hidden.into())
    }

    /// Hides what a local server is given: values for `${NAME}`, variables passed on, its env file, and texts
    /// in its definition that look like secrets.
    pub(super) fn of_launch(launch: &LaunchCommand, values: &PlaceholderValues) -> Self {
        let named = |name: &str, value: &str| {
            let name = format!("${{{name}}}");
            whole_and_parts(value).into_iter().map(move |part| (part, name.clone()))
        };
        let gaps = launch.placeholders();
        let given = gaps.iter().filter(|name| !is_public(name));
        let given = given.filter_map(|name| Some((name, values.get(name)?)));
        let file = launch.env_file.iter().filter(|(name, _)| !is_public(name));
        let filled = given.chain(file).filter(|(_, value)| !is_setting(value));
        let filled = filled.flat_map(|(name, value)| named(name, value));
        let written = literals(launch).into_iter().map(|text| (text, MASK.to_owned()));
        Self::new(filled.chain(written))
    }

    /// Replaces every value in a text by its name.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for (value, name) in self.0.iter() {
            if text.contains(value.as_str()) {
                text = Cow::Owned(text.replace(value.as_str(), name));
            }
        }
        text
    }

    /// Like [`Self::redact`], for a text that was cut off, perhaps in the middle of a value.
    pub fn redact_cut<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let text = self.redact(text);
        let whole = text.trim_end_matches('\u{fffd}');
        let begun = self.0.iter().filter_map(|(value, name)| Some((partial_match_len(whole, value)?, name)));
        match begun.max_by_key(|(length, _)| *length) {
            Some((length, name)) => Cow::Owned(format!("{}{name}", &whole[..whole.len() - length])),
            None => text,
        }
    }

    /// Whether a text contains no hidden value.
    pub fn is_clean(&self, text: &str) -> bool {
        !self.0.iter().any(|(value, _)| text.contains(value.as_str()))
    }
}

/// How many bytes at the end of a text are the beginning of a value.
fn partial_match_len(text: &str, value: &str) -> Option<usize> {
    let ends = value.char_indices().map(|(at, _)| at).filter(|at| *at >= MIN_BYTES).rev();
    ends.into_iter().find(|end| text.ends_with(&value[..*end]))
}

fn is_setting(value: &str) -> bool {
    SETTINGS.iter().any(|word| word.eq_ignore_ascii_case(value.trim()))
}

fn is_public(name: &str) -> bool {
    PUBLIC_VARIABLES.contains(&name) || name.starts_with("XDG_")
}

/// A value, its lines if it has several, and the secret parts of a URL.
fn whole_and_parts(value: &str) -> Vec<String> {
    let value = value.trim();
    let mut all = vec![value.to_owned()];
    if value.contains('\n') {
        let lines = value.lines().map(str::trim);
        all.extend(lines.filter(|line| line.len() >= MIN_LINE_BYTES).map(ToOwned::to_owned));
    }
    if let Some(at) = password(value) {
        let written = &value[at];
        let query = format!("x={}", written.replace('+', "%2B"));
        all.extend(parse(query.as_bytes()).next().map(|(_, decoded)| decoded.into_owned()));
        all.push(written.to_owned());
    }
    if let Ok(url) = url::Url::parse(value) {
        all.extend(url.password().map(ToOwned::to_owned));
        all.extend(url.query_pairs().map(|(_, value)| value.into_owned()).filter(|value| !is_setting(value)));
        let segments = url.path_segments().into_iter().flatten();
        all.extend(segments.filter(|part| masked_path(part) != *part).map(ToOwned::to_owned));
    }
    all
}

/// Texts in the definition itself that look like secrets.
fn literals(launch: &LaunchCommand) -> Vec<String> {
    let mut all = Vec::new();
    for (name, value) in launch.env.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        if let Some(text) = value.literal() {
            if is_secret(name, text) {
                all.extend(whole_and_parts(text));
            }
            all.extend(masked_parts(text, &masked_value(name, value)));
        }
        let defaults = value.defaults().filter(|(gap, text)| is_secret(name, text) || is_secret(gap, text));
        all.extend(defaults.flat_map(|(_, text)| whole_and_parts(text)));
    }
    let words: Vec<&Template> = std::iter::once(&launch.cmd).chain(&launch.args).collect();
    let written: Vec<String> = words.iter().map(ToString::to_string).collect();
    let masked = crate::mask::masked_words(&written);
    all.extend(written.iter().zip(&masked).flat_map(|(word, shown)| masked_parts(word, shown)));
    let defaults = words.into_iter().chain([&launch.cwd]).flat_map(Template::defaults);
    let defaults = defaults.filter(|(gap, text)| is_secret(gap, text));
    all.extend(defaults.flat_map(|(_, text)| whole_and_parts(text)));
    all
}

/// A value as written in a URL's path, query or host, in a form, and in JSON.
fn spellings((value, name): (String, String)) -> Vec<(String, String)> {
    let form: String = byte_serialize(value.as_bytes()).collect();
    let path = url::Url::parse("http://x/").ok().map(|mut url| {
        url.set_path(&value);
        url.path().trim_start_matches('/').to_owned()
    });
    let json = serde_json::Value::from(value.as_str()).to_string();
    let json = json[1..json.len() - 1].to_owned();
    let all = [Some(value.to_ascii_lowercase()), Some(form), path, Some(json), Some(value)];
    let fit = all.into_iter().flatten().filter(|text| text.len() >= MIN_BYTES);
    fit.map(|text| (text, name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expand::ExpansionContext;

    fn parsed(text: &str) -> Template {
        Template::parse(text, &ExpansionContext::default()).unwrap()
    }

    fn hidden(env: &[(&str, &str)], args: &[&str], values: &[(&str, &str)]) -> Redactor {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), Some(parsed(value))));
        let launch = LaunchCommand {
            cmd: parsed("server"),
            args: args.iter().map(|arg| parsed(arg)).collect(),
            env: env.collect(),
            env_file: [("IN_FILE".to_owned(), "from-the-file".to_owned())].into(),
            ..LaunchCommand::default()
        };
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Redactor::of_launch(&launch, &values.collect())
    }

    #[test]
    fn values_that_were_filled_in_are_replaced_by_their_names() {
        let values = [("KEY", "hunter2hunter"), ("MODE", "debug"), ("HOME", "/home/me"), ("TINY", "abc")];
        let hidden = hidden(
            &[("A", "x${KEY}"), ("B", "${MODE}"), ("C", "${HOME}/x"), ("API_TOKEN", "literal-one")],
            &["--t=${TINY}", "--password", "literal-two", "--dsn=postgres://u:p%40ss-word@h/d"],
            &values,
        );
        for (said, shown) in [
            ("key hunter2hunter!", "key ${KEY}!"),
            ("HUNTER2HUNTER hunter2hunter", "HUNTER2HUNTER ${KEY}"),
            ("debug: /home/me abc", "debug: /home/me abc"),
            ("from-the-file", "${IN_FILE}"),
            ("literal-one literal-two", "••• •••"),
            ("p%40ss-word", "•••"),
        ] {
            assert_eq!(hidden.redact(said), shown);
        }
        assert!(!format!("{hidden:?}").contains("hunter"));
        assert!(matches!(hidden.redact("nothing of it"), Cow::Borrowed(_)));
    }

    #[test]
    fn parts_of_a_value_are_hidden_as_well() {
        let url = "postgres://me:p%40ss%2Bword@db.example/d?sslkey=another-one";
        let pem = "-----BEGIN KEY-----\nMIIBVQIBADANBgkq\nhkiG9w0B==\n-----END KEY-----";
        let hidden = hidden(&[("A", "${URL}${PEM}")], &[], &[("URL", url), ("PEM", pem)]);
        for said in ["p%40ss%2Bword", "p@ss+word", "another-one", url] {
            assert_eq!(hidden.redact(said), "${URL}", "{said}");
        }
        assert_eq!(hidden.redact("hkiG9w0B=="), "${PEM}");
        assert_eq!(hidden.redact(&pem.replace('\n', "\\n")), "${PEM}");
        assert_eq!(hidden.redact("no db.example"), "no db.example");
    }

    #[test]
    fn a_value_that_was_cut_off_is_hidden() {
        let hidden = hidden(&[("A", "${KEY}")], &[], &[("KEY", "hunter2-é-hunter3")]);
        for said in ["it is hunt", "it is hunter2", "it is hunter2-\u{fffd}", "it is hunter2-é-hunter3"] {
            assert_eq!(hidden.redact_cut(said), "it is ${KEY}", "{said}");
        }
        assert_eq!(hidden.redact_cut("it is hun"), "it is hun");
        assert_eq!(hidden.redact("it is hunter2"), "it is hunter2");
    }

    #[test]
    fn a_default_that_looks_like_a_secret_is_hidden() {
        let hidden = hidden(&[("A", "${API_KEY:-hunter2hunter}"), ("B", "${MODE:-plain-one}")], &[], &[]);
        assert_eq!(hidden.redact("hunter2hunter plain-one"), "••• plain-one");
    }
}

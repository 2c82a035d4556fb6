//! Shows a host's file without the secrets in it.

use std::collections::BTreeSet;

use serde_json::Value;
use switchboard_definitions::mask::{
    MASK, is_harmless, is_secret_name, looks_secret, masked_parts, masked_words, without_passwords,
};

use super::{Host, PlaceholderSyntax};

/// Shorter values are hidden only where they stand alone: `home` is a part of many words.
const ANYWHERE: usize = 8;

/// Two versions of a host's file with their secrets masked and their lines unchanged. What is hidden in one is hidden
/// in the other, so that a comparison shows no difference that is none.
pub fn masked(host: &Host, before: Option<&str>, after: Option<&str>) -> (Option<String>, Option<String>) {
    let mut hidden = BTreeSet::new();
    for text in [before, after].into_iter().flatten() {
        collect_declared(host, text, &mut hidden);
        by_looks(host, &without_passwords(text), &mut hidden);
    }
    // A value may contain another.
    let mut hidden: Vec<String> = hidden.into_iter().collect();
    hidden.sort_by_key(|value| std::cmp::Reverse(value.len()));
    let one = |text: &str| {
        let shown = by_looks(host, &without_passwords(text), &mut BTreeSet::new());
        let shown = without_quoted(&hidden, &shown);
        hidden.iter().fold(shown, |shown, value| without(value, &shown))
    };
    (before.map(one), after.map(one))
}

/// Collects the values that entries declare for variables and headers.
fn collect_declared(host: &Host, text: &str, hidden: &mut BTreeSet<String>) {
    let Ok(contents) = host.format.read(text) else { return };
    for entry in &contents.entries {
        for part in ["env", "environment", "headers", "http_headers"] {
            for holder in [&entry.value, &entry.value["transport"], &entry.value["requestOptions"]] {
                let values = holder[part].as_object().into_iter().flat_map(|values| values.values());
                let is_shown = |text: &&str| is_harmless(text) || is_reference(host, text);
                hidden.extend(
                    values.filter_map(Value::as_str).filter(|text| !is_shown(text)).map(ToOwned::to_owned),
                );
            }
        }
    }
}

/// The text without this value: as it is, and as JSON escapes it.
fn without(value: &str, text: &str) -> String {
    let escaped = Value::from(value).to_string();
    let escaped = escaped.trim_matches('"');
    if value.len() >= ANYWHERE {
        return text.replace(escaped, MASK).replace(value, MASK);
    }
    // Unquoted in YAML, as the value of a key or an item of a list; perhaps before a comment or within `{}` or `[]`.
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(value) {
        let (before, after) = (&rest[..at], &rest[at + value.len()..]);
        let begins = before.trim_end_matches([' ', '\t']);
        let is_begun = begins.len() < before.len() && begins.ends_with([':', '-', ',', '[', '{'])
            || begins.ends_with(['[', ',']);
        let ends = after.trim_start_matches([' ', '\t']);
        let is_ended = ends.is_empty()
            || ends.starts_with(['\n', '\r', ',', ']', '}'])
            || ends.starts_with('#') && ends.len() < after.len();
        shown.push_str(before);
        shown.push_str(if is_begun && is_ended { MASK } else { value });
        rest = after;
    }
    shown + rest
}

/// The text without quoted values that are hidden ones, however they are escaped, or contain a long one.
fn without_quoted(hidden: &[String], text: &str) -> String {
    let is_hidden = |token: &str| {
        let said = match token.strip_prefix('\'') {
            Some(inner) => inner.trim_end_matches('\'').replace("''", "'"),
            None => serde_json::from_str(token).unwrap_or_else(|_| token.trim_matches('"').to_owned()),
        };
        let is_it = |value: &String| said == *value || value.len() >= ANYWHERE && said.contains(&**value);
        // What can be replaced in place keeps what stands around it.
        hidden.iter().any(is_it)
            && !hidden.iter().any(|value| value.len() >= ANYWHERE && token.contains(&**value))
    };
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['"', '\'']) {
        let (before, from) = rest.split_at(at);
        shown.push_str(before);
        let quote = if from.starts_with('"') { '"' } else { '\'' };
        let token = quoted(from, quote);
        match token.len() > 1 && is_hidden(token) {
            true => shown.extend([quote.to_string().as_str(), MASK, quote.to_string().as_str()]),
            false => shown.push_str(token),
        }
        rest = &from[token.len()..];
    }
    shown + rest
}

/// What the next word is.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    /// Anything.
    Any,
    /// The value of a secret, if a `:` or `=` comes first.
    AfterSign,
    /// The value of a secret: `token: …`, `--token …`, `["--token", "…"]`.
    Value { of_flag: bool },
}

/// Masks values after a secret's name, and text that looks like a secret. Notes what it hid.
fn by_looks(host: &Host, text: &str, hidden: &mut BTreeSet<String>) -> String {
    let (mut shown, mut next) = (String::with_capacity(text.len()), Next::Any);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_value = matches!(next, Next::Value { .. });
        let (token, is_quoted) = match first {
            '"' | '\'' => (quoted(rest, first), true),
            c if is_word(c) || is_value && c == '{' && rest.starts_with("{env:") => {
                (unquoted(rest, is_value), false)
            }
            c => (&rest[..c.len_utf8()], false),
        };
        rest = &rest[token.len()..];
        let bare = token.trim_matches(['"', '\'']);
        if bare.is_empty() || bare == "-" || !(is_quoted || is_word(first) || token.len() > 1) {
            next = match (next, first) {
                (Next::AfterSign, ':' | '=') => Next::Value { of_flag: false },
                (Next::Value { of_flag: false }, ',') => Next::Any,
                (_, ':' | '=' | ',' | '-' | '"' | '\'') => next,
                (_, c) if c.is_whitespace() => next,
                _ => Next::Any,
            };
            if matches!((next, first), (Next::AfterSign, ',' | '-')) {
                next = Next::Any;
            }
            shown.push_str(token);
            continue;
        }
        let is_key = rest.trim_start_matches([' ', '\t']).starts_with(':') && (is_quoted || ends_key(rest));
        let mut hide = |part: &str, shown: &mut String| {
            hidden.extend((!is_harmless(part)).then(|| part.to_owned()));
            shown.push_str(&token.replace(part, MASK));
        };
        if is_key || is_reference(host, bare) {
            shown.push_str(token);
        } else if is_value && !is_harmless(bare) && !is_authorization_scheme(bare) || looks_secret(bare) {
            hide(bare, &mut shown);
            next = Next::Any;
            continue;
        } else if let Some(last) = bare.rsplit([' ', '=']).next().filter(|last| looks_secret(last)) {
            hide(last, &mut shown);
        } else if let [masked] = masked_words(&[bare.to_owned()]).as_slice()
            && masked != bare
            && !bare.contains('{')
        {
            hidden.extend(masked_parts(bare, masked).into_iter().filter(|part| !is_harmless(part)));
            shown.push_str(&token.replace(bare, masked));
        } else {
            shown.push_str(token);
        }
        // An authorization scheme is followed by its credentials.
        if !(is_value && !is_key && is_authorization_scheme(bare)) {
            next = match is_secret_name(bare)
                && bare.len() < 64
                && !names_a_variable(bare)
                && !bare.contains('=')
            {
                true if bare.starts_with('-') => Next::Value { of_flag: true },
                true => Next::AfterSign,
                false => Next::Any,
            };
        }
    }
    shown
}

/// Whether the name before this `:` is a key of YAML, not the beginning of a value such as `user:password`.
fn ends_key(rest: &str) -> bool {
    rest.trim_start_matches([' ', '\t'])
        .strip_prefix(':')
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// Such as Codex's `bearer_token_env_var`: its value is a name.
fn names_a_variable(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("env_var") || name.ends_with("envvar")
}

fn is_authorization_scheme(word: &str) -> bool {
    matches!(word.to_ascii_lowercase().as_str(), "bearer" | "basic" | "token")
}

/// Whether a value only says where it comes from, such as `Bearer ${input:key}`. One with a default may hold a secret.
fn is_reference(host: &Host, text: &str) -> bool {
    let text = match text.split_once(' ') {
        Some((scheme, rest)) if is_authorization_scheme(scheme) => rest,
        _ => text,
    };
    let braced = [("${{", "}}"), ("${", "}"), ("{env:", "}")]
        .into_iter()
        .find_map(|(begin, end)| text.strip_prefix(begin)?.strip_suffix(end));
    let plain = text.strip_prefix('$').filter(|_| host.placeholders == PlaceholderSyntax::Dollar);
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.contains(":-")
            && name.chars().all(|c| c.is_alphanumeric() || "_-.:/ ".contains(c))
    };
    braced.or(plain).is_some_and(is_name)
}

/// A word; as a value, all up to a space or the end of a flow.
fn unquoted(text: &str, is_value: bool) -> &str {
    if is_value && (text.starts_with("${") || text.starts_with("{env:")) {
        let end = text.find(['}', '\n']).map_or(text.len(), |end| end + 1);
        let end = end + usize::from(text[end..].starts_with('}'));
        return text[..end].trim_end();
    }
    let is_end = |c: char| match is_value {
        true => c.is_whitespace() || ",}]\"'".contains(c),
        false => !is_word(c),
    };
    let end = text.find(is_end).unwrap_or(text.len());
    // The `:` of a key of YAML.
    text[..end].strip_suffix(':').filter(|word| !word.is_empty()).unwrap_or(&text[..end])
}

fn quoted(text: &str, quote: char) -> &str {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return &text[..1],
            _ if is_escaped => is_escaped = false,
            '\\' if quote == '"' => is_escaped = true,
            // YAML writes `'` as `''`.
            '\'' if quote == '\'' && text[at + 1..].starts_with('\'') => is_escaped = true,
            c if c == quote => return &text[..=at],
            _ => {}
        }
    }
    &text[..1]
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || "_-./+@$%&*~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::super::table::by_id;
    use super::*;

    fn shown(host: &str, text: &str) -> String {
        masked(by_id(host).unwrap(), Some(text), None).0.unwrap()
    }

    #[test]
    fn a_file_is_shown_without_its_secrets() {
        let text = "{\n  \"apiKey\":\n    \"hunter2\",\n  \"mcpServers\": {\n    \"a\": { \"env\": { \"PLAIN\": \"hunter3\" }, \"args\": [\"--token\", \"hunter4\", \"sk-0123456789abcdefgh\", \"--key=hunter6\", \"MY_TOKEN=hunter7\"] }\n  },\n  \"headers\": { \"Authorization\": \"Bearer hunter5\" }, \"theme\": \"dark\"\n}\n";
        let shown_text = shown("cursor", text);
        assert!(!shown_text.contains("hunter") && !shown_text.contains("0123456789"), "{shown_text}");
        assert!(
            shown_text.contains("\"theme\": \"dark\"") && shown_text.lines().count() == text.lines().count(),
            "{shown_text}"
        );
        for (text, expect) in [
            (
                "models:\n  - apiKey: hunter2 # mine\n    model: gpt\n",
                "models:\n  - apiKey: ••• # mine\n    model: gpt\n",
            ),
            (
                "a: postgres://u:hunter2@h/d # http://x:hunter3@h\n",
                "a: postgres://u:•••@h/d # http://x:•••@h\n",
            ),
            ("token: user:hunter2\nx: y\n", "token: •••\nx: y\n"),
            ("token:\n  inner: x\n", "token:\n  inner: x\n"),
            ("args:\n  - --token\n  - hunter2\n  - x\n", "args:\n  - --token\n  - •••\n  - x\n"),
            ("authorization: Bearer hunter2\n", "authorization: Bearer •••\n"),
        ] {
            assert_eq!(shown("continue", text), expect);
        }
    }

    #[test]
    fn keys_references_and_harmless_values_are_shown() {
        let unchanged = |host: &str, text: &str| assert_eq!(shown(host, text), text);
        unchanged(
            "vscode",
            "{ \"inputs\": [{ \"type\": \"promptString\", \"id\": \"perplexity-key\", \"description\": \"Perplexity API Key\", \"password\": true }],\n\"servers\": { \"p\": { \"env\": { \"PERPLEXITY_API_KEY\": \"${input:perplexity-key}\", \"DEBUG\": \"true\", \"AUTH\": \"Bearer ${env:A}\" }, \"on\": true } } }\n",
        );
        unchanged("continue", "apiKey: ${{ secrets.MY_KEY }}\nname: a key\n");
        unchanged(
            "codex",
            "[mcp_servers.a]\nurl = \"https://a.example\"\nbearer_token_env_var = \"A_TOKEN\"\n",
        );
        unchanged("gemini", "{ \"mcpServers\": { \"a\": { \"env\": { \"TOKEN\": \"$TOKEN\" } } } }");
        // Elsewhere, a dollar sign is one of the value.
        assert!(
            !shown("cursor", "{ \"mcpServers\": { \"a\": { \"env\": { \"TOKEN\": \"$ecret\" } } } }")
                .contains("$ecret")
        );
        assert!(!shown("cursor", "{ \"token\": \"${A:-hunter2}\" }").contains("hunter2"));
        let text = "{ \"mcpServers\": { \"a\": { \"command\": \"/home/me/a\", \"env\": { \"WHERE\": \"home\" } } } }";
        assert_eq!(shown("cursor", text), text.replace("\"home\"", "\"•••\""));
    }

    #[test]
    fn a_declared_value_is_hidden_however_it_is_written() {
        let entry = |value: &str| {
            format!("mcpServers:\n  - name: a\n    command: a\n    env:\n      WHERE: {value}\n")
        };
        for (value, expect) in [
            ("home", "•••"),
            ("home   # where I live", "•••   # where I live"),
            ("'home'", "'•••'"),
            ("\"h\\u006fme\"", "\"•••\""),
            ("'it''s'", "'•••'"),
        ] {
            assert_eq!(shown("continue", &entry(value)), entry(expect), "{value}");
        }
        let flow = "mcpServers:\n  - {name: a, command: a, env: {WHERE: home, ALSO: root}}\n";
        assert_eq!(shown("continue", flow), flow.replace("home", "•••").replace("root", "•••"));
        for value in ["h\\u006fme", "a\\/b", "hunter\\u0032hunter"] {
            let text = format!(r#"{{"mcpServers":{{"a":{{"command":"a","env":{{"WHERE":"{value}"}}}}}}}}"#);
            assert_eq!(shown("cursor", &text), text.replace(value, "•••"));
        }
        // A part of another word is none.
        let text = r#"{"mcpServers":{"a":{"command":"/home/me/a","args":["homes"],"env":{"WHERE":"home"}}}}"#;
        assert_eq!(shown("cursor", text), text.replace(r#":"home""#, r#":"•••""#));
    }

    #[test]
    fn what_one_version_hides_is_hidden_in_the_other() {
        let entry =
            "\"a\": { \"command\": \"a\", \"env\": { \"WHERE\": \"/srv\", \"X\": \"hunter2hunter\" } }";
        let other = "\"b\": { \"command\": \"b\", \"args\": [\"hunter2hunter\"] }";
        let before = format!("{{ \"mcpServers\": {{\n{entry},\n{other}\n}} }}");
        let after = format!("{{ \"mcpServers\": {{\n{other}\n}} }}");
        let (before, after) = masked(by_id("cursor").unwrap(), Some(&before), Some(&after));
        let (before, after) = (before.unwrap(), after.unwrap());
        assert!(!before.contains("hunter") && !after.contains("hunter"), "{before}\n{after}");
        assert!(before.contains(after.lines().nth(1).unwrap()), "{before}\n{after}");
    }
}

//! Recognises secrets, so that they are stored as such and never shown.

mod consent;

use crate::expand::{ExpansionContext, Template};

pub use consent::{masked_for_consent, masked_in_env_file, name_is_executable};

pub const MASK: &str = "•••";

/// Parts of the names of secrets.
const NAMES: [&str; 15] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "APIKEY",
    "ACCESSKEY",
    "PRIVATEKEY",
    "CREDENTIAL",
    "AUTHORIZATION",
    "BEARER",
    "COOKIE",
    "SIGNINGKEY",
    "CONNECTIONSTRING",
    "SESSIONID",
];
/// Whole words of names that secrets have.
const WORDS: [&str; 7] = ["KEY", "PAT", "PWD", "PASS", "AUTH", "DSN", "JWT"];
/// Prefixes of well-known tokens, with their minimum lengths.
const SHAPES: [(&str, usize); 27] = [
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("sk-", 16),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("xoxb-", 16),
    ("xoxp-", 16),
    ("xoxa-", 16),
    ("xapp-", 16),
    ("AKIA", 20),
    ("ASIA", 20),
    ("AIza", 30),
    ("ya29.", 20),
    ("npm_", 20),
    ("pypi-", 20),
    ("hf_", 20),
    ("SG.", 20),
    ("figd_", 16),
    ("lin_api_", 16),
    ("ntn_", 20),
    ("-----BEGIN", 20),
];

/// Whether this is the name of a secret.
pub fn is_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let joined: String = upper.chars().filter(char::is_ascii_alphanumeric).collect();
    let mut words = upper.split(|c: char| !c.is_ascii_alphanumeric());
    NAMES.iter().any(|part| joined.contains(part)) || words.any(|word| WORDS.contains(&word))
}

/// Whether a text looks like a secret.
pub fn looks_secret(text: &str) -> bool {
    is_shape(text) || (is_scheme(text) && password(text).is_some())
}

/// Whether a text is a token of a well-known kind.
fn is_shape(text: &str) -> bool {
    let is_jwt = text.starts_with("eyJ") && text.len() > 40 && text.matches('.').count() == 2;
    is_jwt || SHAPES.iter().any(|(begin, least)| text.starts_with(begin) && text.len() >= *least)
}

/// Masks the segments of a URL's path that look like secrets or follow a secret's name. Services that
/// identify users by such a segment make it of random letters and digits.
pub fn masked_path(path: &str) -> String {
    let mut is_next = false;
    let hide = |segment: &str| {
        let was_next = std::mem::replace(&mut is_next, is_secret_name(segment));
        let is_secret = !segment.contains("${")
            && (looks_secret(segment) || looks_random(segment) || was_next && segment.len() >= 8);
        if is_secret { MASK.to_owned() } else { segment.to_owned() }
    };
    path.split('/').map(hide).collect::<Vec<_>>().join("/")
}

/// Masks the values in a URL's query that are secrets by name or look. A user who is asked for consent sees
/// no more: nothing executes a query.
pub fn masked_query(query: &str) -> String {
    split_outside_placeholders(query, '&').into_iter().map(masked_pairs).collect::<Vec<_>>().join("&")
}

/// Some servers also accept `;` as a separator. A secret may contain one: it is masked with all that follows.
fn masked_pairs(pairs: &str) -> String {
    let mut shown = Vec::new();
    let mut rest = pairs;
    for pair in split_outside_placeholders(pairs, ';') {
        let (name, value) = split_pair(pair);
        if is_secret_name(&decoded(name)) {
            shown.push(masked_pair(rest));
            break;
        }
        let masked = masked_pair(pair);
        let is_hidden = !value.is_empty() && masked.ends_with(MASK);
        shown.push(masked);
        if is_hidden {
            break;
        }
        rest = rest.get(pair.len() + 1..).unwrap_or_default();
    }
    shown.join(";")
}

fn masked_pair(pair: &str) -> String {
    let (name, value) = split_pair(pair);
    let shown = match Template::parse(value, &ExpansionContext::default()) {
        Ok(value) if !value.literal().is_some_and(looks_random) => masked_value(&decoded(name), &value),
        _ => MASK.to_owned(),
    };
    format!("{}{shown}", &pair[..pair.len() - value.len()])
}

fn split_pair(pair: &str) -> (&str, &str) {
    pair.split_once('=').unwrap_or(("", pair))
}

fn decoded(name: &str) -> std::borrow::Cow<'_, str> {
    url::form_urlencoded::parse(name.as_bytes()).next().map_or(name.into(), |(name, _)| name)
}

/// Splits a text at a character, but not within a placeholder: the default of `${NAME:-a&b}` is one value.
fn split_outside_placeholders(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let open = rest.find("${").unwrap_or(rest.len());
        let end = rest[open..].find('}').map_or(rest.len(), |close| open + close + 1);
        let braced = Template::parse(&rest[open..end], &ExpansionContext::default());
        // An invalid placeholder is plain text.
        let plain = if braced.is_ok_and(|braced| braced.literal().is_some()) { end } else { open };
        for (found, _) in rest[..plain].match_indices(separator) {
            parts.push(&text[start..at + found]);
            start = at + found + separator.len_utf8();
        }
        at += end;
    }
    parts.push(&text[start..]);
    parts
}

/// Whether a word looks random, unlike a name: a long run of letters and digits, or a UUID.
fn looks_random(word: &str) -> bool {
    let is_random = |piece: &str| {
        piece.len() >= 16
            && piece.bytes().any(|c| c.is_ascii_digit())
            && piece.bytes().any(|c| c.is_ascii_alphabetic())
    };
    let hex = word.bytes().filter(u8::is_ascii_hexdigit).count();
    let is_uuid = word.len() == 36 && hex == 32 && word.bytes().filter(|c| *c == b'-').count() == 4;
    is_uuid || word.split(|c: char| !c.is_ascii_alphanumeric()).any(is_random)
}

/// The range of the first password in a URL within the text: `scheme://user:password@host`.
pub fn password(text: &str) -> Option<std::ops::Range<usize>> {
    let mut from = 0;
    while let Some(at) = text[from..].find("://") {
        from += at + 3;
        let rest = &text[from..];
        let end = rest.find(|c: char| c.is_whitespace() || "/?#\"'`<>,".contains(c)).unwrap_or(rest.len());
        let Some((user, password)) =
            rest[..end].rsplit_once('@').and_then(|(person, _)| person.split_once(':'))
        else {
            continue;
        };
        if !password.is_empty() && password != MASK && !password.contains("${") {
            let start = from + user.len() + 1;
            return Some(start..start + password.len());
        }
    }
    None
}

fn is_scheme(text: &str) -> bool {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// Masks secrets among the words of a command.
pub fn masked_words(words: &[String]) -> Vec<String> {
    let mut is_next = false;
    let hide = |word: &String| {
        let (shown, was_next) = (without_passwords(word), std::mem::take(&mut is_next));
        let is_bare = !word.contains("${");
        match word.split_once('=') {
            Some((name, value)) if name.starts_with('-') || !value.is_empty() && is_secret_name(name) => {
                if is_bare && is_secret(name, value) {
                    format!("{name}={}", hidden(value))
                } else {
                    shown
                }
            }
            _ if word.starts_with('-') => {
                is_next = is_secret_name(word);
                shown
            }
            _ if is_bare && (looks_secret(word) || (was_next && !is_harmless(word))) => hidden(word),
            // Such as `--header "Authorization: Bearer …"`.
            _ => match word.split_once([':', '=']) {
                Some((name, value)) if is_bare && is_secret(name, value.trim()) => {
                    format!("{}{}", &word[..=name.len()], hidden(value))
                }
                _ => shown,
            },
        }
    };
    words.iter().map(hide).collect()
}

/// The parts of `text` that are masked in `shown`.
pub fn masked_parts(text: &str, shown: &str) -> Vec<String> {
    let mut pieces = shown.split(MASK);
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return Vec::new() };
    let mut parts = Vec::new();
    for piece in pieces {
        // A mask at the end reaches to the end of the text.
        let end = if piece.is_empty() { Some(rest.len()) } else { rest.find(piece) };
        let Some(end) = end else { break };
        parts.push(rest[..end].trim().to_owned());
        rest = &rest[end + piece.len()..];
    }
    parts
}

/// Masks a value; of a URL only the password.
fn hidden(value: &str) -> String {
    let shown = without_passwords(value);
    if shown == value || !is_scheme(value) { MASK.to_owned() } else { shown }
}

/// Masks the value of a variable or header: placeholders stay, what looks like a secret is hidden.
pub fn masked_value(name: &str, value: &Template) -> String {
    if let Some(text) = value.literal() {
        return if is_secret(name, text) { hidden(text) } else { without_passwords(text) };
    }
    value.shown(|text| {
        let word = text.trim();
        match is_authorization_scheme(word) || !is_secret(name, word) {
            true => without_passwords(text),
            false => MASK.to_owned(),
        }
    })
}

/// A value of the user's own: its placeholders and authorization scheme as written, all other text masked.
pub fn placeholders_of(value: &Template) -> String {
    if value.literal().is_some() {
        return MASK.to_owned();
    }
    value.shown(|text| if is_authorization_scheme(text.trim()) { text.to_owned() } else { MASK.to_owned() })
}

fn is_authorization_scheme(word: &str) -> bool {
    ["", "Bearer", "Basic", "Token"].iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// The text with every password of a URL masked.
pub fn without_passwords(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(at) = password(&text) {
        text.replace_range(at, MASK);
    }
    text
}

/// Whether the value of a variable or header is a secret, which must not stay in a file.
pub fn is_secret(name: &str, value: &str) -> bool {
    looks_secret(value) || (is_secret_name(name) && !is_harmless(value))
}

/// A path, a switch or a short number is no secret, whatever its name.
pub fn is_harmless(value: &str) -> bool {
    let is_path = value.starts_with(['/', '~', '.']) && !value.contains(char::is_whitespace);
    let is_switch =
        matches!(value.to_ascii_lowercase().as_str(), "" | "true" | "false" | "yes" | "no" | "none" | "null");
    is_path || is_switch || value.parse::<f64>().is_ok_and(|_| value.len() < 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_name_and_by_looks() {
        for name in [
            "GITHUB_TOKEN",
            "apiKey",
            "X-API-Key",
            "OPENAI_API_KEY",
            "Authorization",
            "db_password",
            "GH_PAT",
        ] {
            assert!(is_secret(name, "abcdefgh"), "{name}");
        }
        for name in ["PATH", "MONKEY", "KEYBOARD", "LOG_LEVEL", "PATTERN", "AUTHOR"] {
            assert!(!is_secret(name, "abcdefgh"), "{name}");
        }
        assert!(is_secret("X", "ghp_0123456789abcdefghij"));
        assert!(is_secret("DATABASE_URL", "postgres://u:hunter2@h/d"));
        for value in ["http://h:8080/@x", "https://u@h/", "postgres://u:${PW}@h/d", "git@h:x/y"] {
            assert!(!is_secret("URL", value), "{value}");
        }
        for value in ["/run/secrets/token", "~/.key", "true", "", "8080"] {
            assert!(!is_secret("API_KEY", value), "{value}");
        }
    }

    #[test]
    fn a_path_is_shown_without_its_secrets() {
        for (path, shown) in [
            ("/api/mcp/s/Y2FuYXJ5MDEyMzQ1Njc4OQ/mcp", "/api/mcp/s/•••/mcp"),
            ("/server/123e4567-e89b-12d3-a456-426614174000", "/server/•••"),
            ("/token/hunter2hunter/x", "/token/•••/x"),
            ("/s/ghp_0123456789abcdefghij", "/s/•••"),
            ("/v1/mcp", "/v1/mcp"),
            ("/token/mcp", "/token/mcp"),
            (
                "/my-servers/sequential-thinking-2025.12.18/sse",
                "/my-servers/sequential-thinking-2025.12.18/sse",
            ),
            ("/s/${HOOK_0123456789ABCDEF}/mcp", "/s/${HOOK_0123456789ABCDEF}/mcp"),
            ("", ""),
        ] {
            assert_eq!(masked_path(path), shown);
        }
    }

    #[test]
    fn a_command_is_shown_without_its_secrets() {
        let words = |line: &str| -> Vec<String> { line.split('|').map(ToOwned::to_owned).collect() };
        for (line, shown) in [
            ("npx|--api-key|hunter2|--verbose|x", "npx|--api-key|•••|--verbose|x"),
            ("x|--token=hunter2|--key|${KEY}|--auth=${A}", "x|--token=•••|--key|${KEY}|--auth=${A}"),
            ("x|postgresql://u:hunter2@h/d|sk-0123456789abcdefgh", "x|postgresql://u:•••@h/d|•••"),
            (
                "x|-e|DATABASE_URL=postgres://u:hunter2@h/d|-e|TOKEN=hunter2",
                "x|-e|DATABASE_URL=postgres://u:•••@h/d|-e|TOKEN=•••",
            ),
            (
                "x|--header|Authorization: Bearer hunter2|--port|8080",
                "x|--header|Authorization:•••|--port|8080",
            ),
        ] {
            assert_eq!(masked_words(&words(line)), words(shown));
        }
    }

    #[test]
    fn masked_parts_returns_the_hidden_text() {
        for (text, shown, parts) in [
            ("--token=hunter2", "--token=•••", &["hunter2"][..]),
            ("Authorization: Bearer x", "Authorization:•••", &["Bearer x"]),
            ("a://u:one@h b://u:two@h", "a://u:•••@h b://u:•••@h", &["one", "two"]),
            ("plain", "plain", &[]),
        ] {
            assert_eq!(masked_parts(text, shown), parts);
        }
    }

    #[test]
    fn values_are_shown_unless_they_look_like_secrets() {
        let template = |text: &str| Template::parse(text, &ExpansionContext::default()).unwrap();
        for (name, value, shown) in [
            ("MEMORY_FILE_PATH", "/etc/passwd", "/etc/passwd"),
            ("NODE_OPTIONS", "--require ./hook.js", "--require ./hook.js"),
            ("API_TOKEN", "abcdefgh", MASK),
            ("ANY", "ghp_abcdefghijklmnopqrstuvwx", MASK),
            ("NOTES_TOKEN", "${GITHUB_TOKEN}", "${GITHUB_TOKEN}"),
            ("authorization", "Bearer ${T}", "Bearer ${T}"),
            ("authorization", "Bearer abcdefgh${T}", "•••${T}"),
            ("DATABASE", "postgres://me:pw@${HOST}/x", "•••${HOST}/x"),
            ("DATABASE", "postgres://me:pw@h/x", "postgres://me:•••@h/x"),
        ] {
            assert_eq!(masked_value(name, &template(value)), shown, "{name}={value}");
        }
        for (value, shown) in [
            ("Bearer ${T}", "Bearer ${T}"),
            ("${input:key}", "${input:key}"),
            ("a${T:-b}", "•••${T:-•••}"),
            ("/plain", MASK),
        ] {
            assert_eq!(placeholders_of(&template(value)), shown, "{value}");
        }
    }
}

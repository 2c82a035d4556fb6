//! Names of suites: valid for every host, short enough for host prefixes, and stable.

/// Hosts add a prefix and limit the whole.
pub const MAX: usize = 48;

const SUFFIX: &str = "_suite";

pub fn is_valid(name: &str) -> bool {
    (1..=MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// `<child>_suite`, made valid.
pub fn derived(child: &str) -> String {
    let clean: String = child
        .chars()
        .map(|char| if char.is_ascii_alphanumeric() || char == '_' || char == '-' { char } else { '_' })
        .collect();
    // A name that was changed or cut gets a hash, so that two such children stay distinct.
    let most = MAX - SUFFIX.len();
    if clean == child && clean.len() <= most {
        return clean + SUFFIX;
    }
    marked(&clean, child)
}

/// A stable alternative for a child whose first choice is taken.
pub fn marked(clean: &str, child: &str) -> String {
    let room = MAX - SUFFIX.len() - 5;
    let clean = clean.strip_suffix(SUFFIX).unwrap_or(clean);
    let clean: String = clean.chars().take(room).collect();
    format!("{clean}_{:04x}{SUFFIX}", hash(child))
}

fn hash(text: &str) -> u16 {
    let wide =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (wide ^ (wide >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_are_kept() {
        assert_eq!(derived("github"), "github_suite");
    }

    #[test]
    fn every_name_becomes_valid_stable_and_distinct() {
        let names = ["a b", "a_b", "a.b", "ünïcode", &"x".repeat(64), &"x".repeat(63), ""];
        let derived: Vec<_> = names.iter().map(|name| derived(name)).collect();
        for (name, derived) in names.iter().zip(&derived) {
            assert!(is_valid(derived), "{name} ⇒ {derived}");
            assert_eq!(derived, &super::derived(name));
        }
        let mut unique = derived.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), derived.len(), "{derived:?}");
    }
}

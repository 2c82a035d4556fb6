//! Names of suites: valid for every host, short enough for host prefixes, and stable.

/// Hosts add a prefix and limit the whole.
pub const MAX: usize = 48;

/// The longest name of a server's own tool in the list of all tools.
pub const MAX_TOOL: usize = 64;

const SUFFIX: &str = "_suite";
const WRITE_SUFFIX: &str = "_write";

pub fn is_valid(name: &str) -> bool {
    (1..=MAX).contains(&name.len()) && has_valid_characters(name)
}

/// Whether a server's own tool can be listed under this name.
pub fn is_valid_tool(name: &str) -> bool {
    (1..=MAX_TOOL).contains(&name.len()) && has_valid_characters(name)
}

fn has_valid_characters(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn cleaned(name: &str) -> String {
    let clean =
        |char: char| if char.is_ascii_alphanumeric() || char == '_' || char == '-' { char } else { '_' };
    name.chars().map(clean).collect()
}

/// `<child>_suite`, made valid.
pub fn derived(child: &str) -> String {
    let clean = cleaned(child);
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

/// The name of the tool for what writes, beside the suite `name`. `is_taken` tells which names are in use.
pub fn of_writing(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let plain = format!("{name}{WRITE_SUFFIX}");
    if plain.len() <= MAX && !is_taken(&plain) {
        return plain;
    }
    let room = MAX - WRITE_SUFFIX.len() - 5;
    let begin: String = name.chars().take(room).collect();
    let mut salted = name.to_owned();
    loop {
        let marked = format!("{begin}_{:04x}{WRITE_SUFFIX}", hash(&salted));
        if !is_taken(&marked) {
            return marked;
        }
        salted.push('+');
    }
}

/// `<child>_<tool>`, made valid, for a tool that cannot be listed under its own name. `is_taken` tells which names are in
/// use.
pub fn of_tool(child: &str, tool: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let whole = format!("{child}_{tool}");
    if is_valid_tool(&whole) && !is_taken(&whole) {
        return whole;
    }
    let begin: String = cleaned(&whole).chars().take(MAX_TOOL - 5).collect();
    let mut salted = whole;
    loop {
        let marked = format!("{begin}_{:04x}", hash(&salted));
        if !is_taken(&marked) {
            return marked;
        }
        salted.push('+');
    }
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
    fn the_writing_tool_has_a_valid_name_of_its_own() {
        assert_eq!(of_writing("github_suite", |_| false), "github_suite_write");
        let long = "x".repeat(MAX);
        let names = [
            of_writing("github_suite", |name| name == "github_suite_write"),
            of_writing(&long, |_| false),
            of_writing(&long[1..], |_| false),
        ];
        assert!(names.iter().all(|name| is_valid(name) && name.ends_with("_write")), "{names:?}");
        assert!(names[0].starts_with("github_suite_") && names[1] != names[2], "{names:?}");
        assert_ne!(of_writing(&long, |name| name == names[1]), names[1]);
    }

    #[test]
    fn a_tool_that_clashes_gets_its_servers_name() {
        assert_eq!(of_tool("git", "log", |_| false), "git_log");
        let long = "x".repeat(90);
        let names = [
            of_tool("git", "log", |name| name == "git_log"),
            of_tool("git", "a.b", |_| false),
            of_tool("git", "a/b", |_| false),
            of_tool("git", &long, |_| false),
            of_tool("git", &long[1..], |_| false),
            of_tool("é", "", |_| false),
        ];
        assert!(names.iter().all(|name| is_valid_tool(name)), "{names:?}");
        let mut unique = names.to_vec();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), names.len(), "{names:?}");
        assert_ne!(of_tool("git", &long, |name| name == names[3]), names[3]);
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

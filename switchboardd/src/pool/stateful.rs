//! Servers that are known to keep state for one user at a time, or to follow the roots of one host: each session gets
//! its own.

use crate::definition::{Launch, Reach};

/// Parts of a command line that name such a server. A config's `pool.scope` overrides this.
const KNOWN: [Known; 9] = [
    Known::keeps_state("@playwright/mcp"),
    Known::keeps_state("mcp-server-playwright"),
    Known::keeps_state("playwright-mcp"),
    Known::keeps_state("server-puppeteer"),
    Known::keeps_state("puppeteer-mcp"),
    Known::keeps_state("chrome-devtools-mcp"),
    Known::keeps_state("browser-use"),
    // One history of thoughts for each process.
    Known::keeps_state("server-sequential-thinking"),
    // It serves the folders of its arguments until its host names roots, which replace them.
    Known { word: "server-filesystem", follows_roots: true },
];

struct Known {
    word: &'static str,
    follows_roots: bool,
}

impl Known {
    const fn keeps_state(word: &'static str) -> Self {
        Self { word, follows_roots: false }
    }

    fn of(reach: &Reach) -> Option<&'static Self> {
        match reach {
            Reach::Process(launch) => {
                let mut words = std::iter::once(&launch.cmd).chain(&launch.args).map(ToString::to_string);
                words.find_map(|word| KNOWN.iter().find(|known| word.contains(known.word)))
            }
            // A server that serves many clients at once separates their state itself.
            Reach::Remote(_) => None,
        }
    }
}

pub(super) fn is_stateful(reach: &Reach) -> bool {
    Known::of(reach).is_some()
}

/// Whether a server is known to follow its host's roots. A shared child is told none.
pub(super) fn follows_roots(reach: &Reach) -> bool {
    Known::of(reach).is_some_and(|known| known.follows_roots)
}

/// Whether the arguments already say which folders the server may use: a workspace that is lent as a root would
/// replace them.
pub(super) fn names_folders(reach: &Reach) -> bool {
    follows_roots(reach) && matches!(reach, Reach::Process(launch) if has_folders(launch))
}

fn has_folders(launch: &Launch) -> bool {
    launch.args.iter().map(ToString::to_string).any(|arg| arg.starts_with(['/', '~', '.', '$']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expand::Template;

    fn process(cmd: &str, args: &[&str]) -> Reach {
        Reach::Process(Launch {
            cmd: Template::text(cmd),
            args: args.iter().map(|arg| Template::text(*arg)).collect(),
            ..Launch::default()
        })
    }

    #[test]
    fn servers_with_state_are_recognised_however_they_are_started() {
        assert!(is_stateful(&process("npx", &["-y", "@playwright/mcp@0.0.1"])));
        assert!(is_stateful(&process("/usr/bin/chrome-devtools-mcp", &[])));
        assert!(is_stateful(&process("npx", &["-y", "@modelcontextprotocol/server-sequential-thinking"])));
        assert!(is_stateful(&process("npx", &["-y", "@modelcontextprotocol/server-filesystem", "/a"])));
        assert!(!is_stateful(&process("npx", &["-y", "@modelcontextprotocol/server-memory"])));
    }

    #[test]
    fn folders_in_the_arguments_are_kept() {
        let filesystem = "@modelcontextprotocol/server-filesystem@2026.8.31";
        assert!(names_folders(&process("npx", &["-y", filesystem, "/home/me/docs"])));
        assert!(!names_folders(&process("npx", &["-y", filesystem])));
        assert!(!names_folders(&process("npx", &["-y", "@playwright/mcp", "--output-dir", "/tmp"])));
    }
}

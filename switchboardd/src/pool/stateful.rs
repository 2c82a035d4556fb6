//! Servers that are known to keep state for one user at a time, or to use the roots of one host: each
//! session gets its own child.

use switchboard_definitions::definition::{Launch, LaunchCommand};

/// Parts of a command line that name such a server. A config's `pool.scope` overrides this.
const KNOWN: [KnownServer; 9] = [
    KnownServer::keeps_state("@playwright/mcp"),
    KnownServer::keeps_state("mcp-server-playwright"),
    KnownServer::keeps_state("playwright-mcp"),
    KnownServer::keeps_state("server-puppeteer"),
    KnownServer::keeps_state("puppeteer-mcp"),
    KnownServer::keeps_state("chrome-devtools-mcp"),
    KnownServer::keeps_state("browser-use"),
    // It keeps one history of thoughts per process.
    KnownServer::keeps_state("server-sequential-thinking"),
    // It serves the folders of its arguments until its host names roots, which replace them.
    KnownServer { word: "server-filesystem", follows_roots: true },
];

struct KnownServer {
    word: &'static str,
    follows_roots: bool,
}

impl KnownServer {
    const fn keeps_state(word: &'static str) -> Self {
        Self { word, follows_roots: false }
    }

    fn of(launch: &Launch) -> Option<&'static Self> {
        match launch {
            Launch::Process(launch) => {
                let mut words = std::iter::once(&launch.cmd).chain(&launch.args).map(ToString::to_string);
                words.find_map(|word| KNOWN.iter().find(|known| word.contains(known.word)))
            }
            // A server that serves many clients at once separates their state itself.
            Launch::Remote(_) => None,
        }
    }
}

pub(super) fn is_stateful(launch: &Launch) -> bool {
    KnownServer::of(launch).is_some()
}

/// Whether a server is known to use its host's roots. A shared child gets none.
pub(super) fn follows_roots(launch: &Launch) -> bool {
    KnownServer::of(launch).is_some_and(|known| known.follows_roots)
}

/// Whether the arguments already name the folders that the server may use: a workspace that is passed as a
/// root would replace them.
pub(super) fn names_folders(launch: &Launch) -> bool {
    follows_roots(launch) && matches!(launch, Launch::Process(launch) if has_folders(launch))
}

fn has_folders(launch: &LaunchCommand) -> bool {
    launch.args.iter().map(ToString::to_string).any(|arg| arg.starts_with(['/', '~', '.', '$']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_definitions::expand::Template;

    fn process(cmd: &str, args: &[&str]) -> Launch {
        Launch::Process(LaunchCommand {
            cmd: Template::text(cmd),
            args: args.iter().map(|arg| Template::text(*arg)).collect(),
            ..LaunchCommand::default()
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

//! Servers that are known to keep state for one user at a time: each session gets its own.

use crate::definition::{Launch, Reach};

/// Parts of a command line that give such a server away. A config's `pool.scope` overrides this.
const KNOWN: [&str; 7] = [
    "@playwright/mcp",
    "mcp-server-playwright",
    "playwright-mcp",
    "server-puppeteer",
    "puppeteer-mcp",
    "chrome-devtools-mcp",
    "browser-use",
];

pub(super) fn is_stateful(reach: &Reach) -> bool {
    match reach {
        Reach::Process(launch) => is_known(launch),
        // Who serves many at once keeps them apart.
        Reach::Remote(_) => false,
    }
}

fn is_known(launch: &Launch) -> bool {
    std::iter::once(&launch.cmd)
        .chain(&launch.args)
        .any(|word| KNOWN.iter().any(|known| word.to_string().contains(known)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expand::Template;

    #[test]
    fn browsers_are_recognised_however_they_are_started() {
        let launch = |cmd: &str, args: &[&str]| Launch {
            cmd: Template::text(cmd),
            args: args.iter().map(|arg| Template::text(*arg)).collect(),
            ..Launch::default()
        };
        assert!(is_known(&launch("npx", &["-y", "@playwright/mcp@0.0.1"])));
        assert!(is_known(&launch("/usr/bin/chrome-devtools-mcp", &[])));
        assert!(!is_known(&launch("npx", &["-y", "@modelcontextprotocol/server-memory"])));
    }
}

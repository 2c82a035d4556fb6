//! The servers that the user has, or will have: what an imported one may be a duplicate of.

use std::collections::{BTreeMap, BTreeSet};

use switchboard_definitions::definition::{Definition, Launch};

/// Words of a command that say how something is run, and not what.
const RUNNERS: [&str; 14] = [
    "npx", "uvx", "uv", "bunx", "pnpm", "dlx", "pipx", "python", "python3", "node", "docker", "podman",
    "run", "exec",
];

#[derive(Default)]
pub(super) struct KnownServers {
    /// The name of the server that has this signature.
    launches: BTreeMap<String, String>,
    /// What each server runs.
    subjects: BTreeMap<String, BTreeSet<String>>,
    /// The servers that are shown in the sessions of some projects only.
    limited: BTreeSet<String>,
}

impl KnownServers {
    pub(super) fn add(&mut self, definition: &Definition, signature: Option<String>) {
        self.launches.extend(signature.map(|signature| (signature, definition.name.clone())));
        self.subjects.insert(definition.name.clone(), subjects(definition));
    }

    /// Notes that a server is shown in the sessions of some projects only.
    pub(super) fn limit(&mut self, name: &str) {
        self.limited.insert(name.to_owned());
    }

    pub(super) fn is_limited(&self, name: &str) -> bool {
        self.limited.contains(name)
    }

    /// The server that an entry of this launch is a duplicate of. What is for all projects is no duplicate of what is
    /// shown in some.
    pub(super) fn same(&self, launch: &str, is_for_all: bool) -> Option<&String> {
        self.launches.get(launch).filter(|name| !(is_for_all && self.limited.contains(*name)))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.subjects.contains_key(name)
    }

    /// Whether the server of this name and another one run the same package or program, in whichever way.
    pub(super) fn runs_same(&self, name: &str, other: &Definition) -> bool {
        self.subjects.get(name).is_some_and(|known| !known.is_disjoint(&subjects(other)))
    }
}

fn subjects(definition: &Definition) -> BTreeSet<String> {
    match &definition.launch {
        Ok(Launch::Process(launch)) => {
            let words = std::iter::once(&launch.cmd).chain(&launch.args).map(ToString::to_string);
            words.filter_map(|word| subject(&word)).collect()
        }
        Ok(Launch::Remote(remote)) => {
            let url = remote.url.to_string();
            let address = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            address.split(['/', '?']).next().map(ToOwned::to_owned).into_iter().collect()
        }
        Err(_) => BTreeSet::new(),
    }
}

/// `@scope/mcp-server-time@1.2`, `mcp_server_time` and `/usr/bin/mcp-server-time` are one.
fn subject(word: &str) -> Option<String> {
    let last = word.rsplit('/').next()?;
    let bare = last.split(['@', '=', '[', ':']).next()?.to_ascii_lowercase().replace('_', "-");
    let bare = bare.strip_prefix("mcp-").unwrap_or(&bare);
    let is_one = bare.len() > 2 && !bare.starts_with('-') && !RUNNERS.contains(&bare);
    is_one.then(|| bare.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_package_is_known_however_it_is_run() {
        for word in [
            "@scope/mcp-server-time@1.2",
            "mcp_server_time",
            "/usr/bin/mcp-server-time",
            "mcp-server-time==2",
        ] {
            assert_eq!(subject(word).as_deref(), Some("server-time"), "{word}");
        }
        for word in ["-y", "npx", "/usr/bin/python3", "-m", "."] {
            assert_eq!(subject(word), None, "{word}");
        }
    }
}

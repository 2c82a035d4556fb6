//! Servers that work on the project that is open: how they are told, and which of them would run code of whatever
//! project that is.

use switchboard_definitions::trust::warnings::{is_interpreter, runs_arguments};

use super::super::placeholder_syntax::{PlaceholderReader, WORKSPACE};

/// Servers that work on the directory that they run in, unless an argument names another one.
const KNOWN: [ProjectServer; 4] = [
    ProjectServer {
        names: &["mcp-server-git", "@modelcontextprotocol/server-git", "mcp/git"],
        directory: true,
    },
    ProjectServer { names: &["mcp-server-sqlite"], directory: true },
    ProjectServer {
        names: &["serena", "serena-agent", "serena-mcp-server", "git+https://github.com/oraios/serena"],
        directory: true,
    },
    // It takes its folders from the roots.
    ProjectServer {
        names: &["@modelcontextprotocol/server-filesystem", "mcp-server-filesystem"],
        directory: false,
    },
];

struct ProjectServer {
    /// Whole names of its packages, programs and images. Many other servers have names that begin like these.
    names: &'static [&'static str],
    /// Whether it must be started there.
    directory: bool,
}

/// Programs that run an image; paths inside a container say nothing about the project.
const CONTAINERS: [&str; 3] = ["docker", "podman", "nerdctl"];

/// Programs that start another one, or run a project, in ways of their own.
const WRAPPERS: [&str; 14] = [
    "uv", "cargo", "go", "make", "just", "env", "nice", "nohup", "timeout", "setsid", "corepack", "mise",
    "direnv", "nix",
];

/// Words between a package runner or interpreter and what it runs.
const VERBS: [&str; 8] = ["run", "exec", "x", "dlx", "tool", "task", "-y", "--"];

/// Writes the directory `.` as the open project.
pub(super) fn name_directory(args: &mut [String], reader: &mut PlaceholderReader<'_>) {
    for arg in args {
        let (flag, value) = match arg.split_once('=') {
            Some((flag, value)) if flag.starts_with('-') => (format!("{flag}="), value),
            _ => (String::new(), arg.as_str()),
        };
        if matches!(value, "." | "./") {
            *arg = format!("{flag}{WORKSPACE}");
            reader.names_workspace = true;
        }
    }
}

/// Whether a server is known to work on the directory that it runs in, and no argument names another one.
pub(super) fn works_where_it_runs(cmd: &str, args: &[String]) -> bool {
    let in_container = CONTAINERS.contains(&program(cmd));
    let inside = |part: &str| {
        in_container && ["dst=", "destination=", "target="].iter().any(|key| part.starts_with(key))
    };
    let names_place = |arg: &String| {
        arg.split(',')
            .filter(|part| !inside(part))
            .map(|part| part.rsplit('=').next().unwrap_or(part))
            .any(|value| value.starts_with(['/', '~', '$']))
    };
    of(cmd, args).is_some() && !args.iter().any(names_place)
}

/// Whether such a server must be started in that directory.
pub(super) fn needs_directory(cmd: &str, args: &[String]) -> bool {
    of(cmd, args).is_some_and(|known| known.directory)
}

fn of(cmd: &str, args: &[String]) -> Option<&'static ProjectServer> {
    let name = program(cmd);
    let named = |word: &str| KNOWN.iter().find(|known| known.names.contains(&word));
    let runs_another = runs_arguments(cmd) || WRAPPERS.contains(&name) || CONTAINERS.contains(&name);
    named(name).or_else(|| {
        let args = args.iter().filter(|_| runs_another);
        args.map(|arg| package(arg)).find_map(|word| named(&word))
    })
}

/// The name of a program without its folder.
fn program(cmd: &str) -> &str {
    let name = cmd.rsplit(['/', '\\']).next().unwrap_or(cmd);
    [".exe", ".cmd"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// The name of a package, image or Python module, without its version.
fn package(arg: &str) -> String {
    let word = match arg.split_once('=') {
        // Such as `--from=mcp-server-git`; `mcp-server-git==1.0` is no flag.
        Some((flag, value)) if flag.starts_with('-') => value,
        _ => arg,
    };
    let is_address = word.contains("://");
    let end = |word: &str| match word.get(1..).and_then(|rest| rest.find(['@', '=', '>', '<', '~', '[', ':']))
    {
        Some(at) if !is_address => at + 1,
        _ => word.rfind('@').filter(|at| is_address && *at > 0).unwrap_or(word.len()),
    };
    let word = &word[..end(word)];
    if is_address {
        return word.trim_end_matches('/').trim_end_matches(".git").to_owned();
    }
    let word = word.strip_prefix("docker.io/").unwrap_or(word);
    word.to_ascii_lowercase().replace('_', "-")
}

/// Refuses what would run code of whatever project is open: that would be everybody's, unasked.
pub(super) fn check(cmd: &str, args: &[String], runs_there: bool) -> Result<(), String> {
    let refused = |what: &str| Err(format!("`{what}` would run code of whatever project is open"));
    if cmd.contains(WORKSPACE) || (runs_there && cmd.contains('/') && !cmd.starts_with(['/', '~', '$'])) {
        return refused(cmd);
    }
    // An interpreter loads modules from the directory that it runs in.
    if runs_there && is_interpreter(cmd) {
        return refused(cmd);
    }
    if WRAPPERS.contains(&program(cmd)) {
        let there = args.iter().find(|arg| runs_there || arg.contains(WORKSPACE));
        return there.map_or(Ok(()), |arg| refused(&format!("{cmd} {arg}")));
    }
    if !runs_arguments(cmd) {
        return Ok(());
    }
    for arg in args {
        if arg.contains(WORKSPACE) {
            return refused(&format!("{cmd} {arg}"));
        }
        if !arg.starts_with('-') && !VERBS.contains(&arg.as_str()) {
            // This is what it runs; the rest are arguments of that.
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(words: &[&str], runs_there: bool) -> bool {
        let args: Vec<String> = words[1..].iter().map(|word| (*word).to_owned()).collect();
        check(words[0], &args, runs_there).is_ok()
    }

    #[test]
    fn servers_of_the_open_project_are_known_by_their_whole_names() {
        for (words, expect) in [
            (&["uvx", "mcp-server-git"][..], Some(true)),
            (&["uvx", "mcp-server-git@2025.1"], Some(true)),
            (&["uvx", "mcp_server_git==1.0"], Some(true)),
            (&["uvx", "--from=mcp-server-git", "mcp-server-git"], Some(true)),
            (&["python3", "-m", "mcp_server_git"], Some(true)),
            (&["python3.12", "-m", "mcp_server_git"], Some(true)),
            (&["/opt/bin/mcp-server-git"], Some(true)),
            (&["mcp-server-git.exe"], Some(true)),
            (&["npx", "-y", "@modelcontextprotocol/server-git@latest"], Some(true)),
            (&["docker", "run", "-i", "--rm", "-v", ".:/repo", "mcp/git"], Some(true)),
            (
                &["docker", "run", "--mount", "type=bind,src=.,dst=/repo", "docker.io/mcp/git:latest"],
                Some(true),
            ),
            (
                &["uvx", "--from", "git+https://github.com/oraios/serena", "serena", "start-mcp-server"],
                Some(true),
            ),
            (&["uvx", "--from", "git+https://github.com/oraios/serena.git@v1", "start"], Some(true)),
            (&["uvx", "mcp-server-sqlite", "--db-path", "a.db"], Some(true)),
            (&["npx", "-y", "@modelcontextprotocol/server-filesystem"], Some(false)),
            (&["mcp-server-filesystem"], Some(false)),
            (&["/opt/bin/mcp-server-filesystem", "docs"], Some(false)),
            (&["npx", "-y", "@modelcontextprotocol/server-github"], None),
            (&["npx", "-y", "@modelcontextprotocol/server-gitlab"], None),
            (&["npx", "-y", "@modelcontextprotocol/server-github@2025.4.8", "--read-only"], None),
            (&["uvx", "mcp-server-github"], None),
            (&["mcp-server-gitlab"], None),
            (&["python3", "-m", "mcp_server_github"], None),
            (&["docker", "run", "-i", "mcp/github"], None),
            (&["docker", "run", "-i", "mcp/gitlab:1"], None),
            (&["uvx", "serenade"], None),
            (&["my-server", "--name", "serena"], None),
            (&["uvx", "mcp-server-git", "--repository", "/srv/one"], None),
            (&["docker", "run", "-v", "/srv/one:/repo", "mcp/git"], None),
            (&["docker", "run", "--mount", "type=bind,src=/srv/one,dst=/repo", "mcp/git"], None),
        ] {
            let args: Vec<String> = words[1..].iter().map(|word| (*word).to_owned()).collect();
            let found = works_where_it_runs(words[0], &args).then(|| needs_directory(words[0], &args));
            assert_eq!(found, expect, "{words:?}");
        }
    }

    #[test]
    fn nothing_of_an_open_project_is_run() {
        let root = WORKSPACE;
        for words in [
            &["npx", "-y", "server-filesystem", root][..],
            &["uvx", "mcp-server-git", "--repository", root],
            &["python3", "-m", "mcp_server_git", "--repository", root],
            &["node", "/opt/server.js", root],
            &["docker", "run", "-v", "${workspaceFolder}:/w", "image"],
            &["my-server", root],
            &["deno", "run", "/opt/server.ts", root],
        ] {
            assert!(checked(words, false), "{words:?}");
        }
        for words in [
            &["${workspaceFolder}/serve"][..],
            &["node", "${workspaceFolder}/server.js"],
            &["node", "--import", "${workspaceFolder}/hook.js", "/opt/server.js"],
            &["npx", root],
            &["npx", "-y", root],
            &["uvx", "--from", root, "server"],
            &["deno", "run", "${workspaceFolder}/server.ts"],
            &["sh", "-c", "cd ${workspaceFolder} && ./run"],
            &["uv", "run", "--directory", root, "server"],
        ] {
            assert!(!checked(words, false), "{words:?}");
        }
        assert!(checked(&["uvx", "mcp-server-git"], true) && checked(&["mcp-server-git"], true));
        assert!(!checked(&["python3", "-m", "mcp_server_git"], true) && !checked(&["bin/serve"], true));
    }
}

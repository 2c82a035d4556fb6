//! Servers that work on the project that is open: how they are told, and which of them would run code of whatever
//! project that is.

use switchboard_definitions::trust::warnings::{is_interpreter, runs_arguments};

use super::super::placeholder_syntax::{PlaceholderReader, WORKSPACE};

/// Servers that work on the directory that they run in, unless an argument names another one.
const KNOWN: [ProjectServer; 5] = [
    ProjectServer { word: "mcp-server-git", directory: true },
    ProjectServer { word: "server-git", directory: true },
    ProjectServer { word: "mcp-server-sqlite", directory: true },
    ProjectServer { word: "serena", directory: true },
    // It takes its folders from the roots.
    ProjectServer { word: "server-filesystem", directory: false },
];

struct ProjectServer {
    /// Part of the name of its package or program.
    word: &'static str,
    /// Whether it must be started there.
    directory: bool,
}

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
    let names_place = |arg: &String| {
        let value = arg.split_once('=').map_or(arg.as_str(), |(_, value)| value);
        value.starts_with(['/', '~', '$'])
    };
    of(cmd, args).is_some() && !args.iter().any(names_place)
}

/// Whether such a server must be started in that directory.
pub(super) fn needs_directory(args: &[String]) -> bool {
    of("", args).is_none_or(|known| known.directory)
}

fn of(cmd: &str, args: &[String]) -> Option<&'static ProjectServer> {
    let words = || std::iter::once(cmd).chain(args.iter().map(String::as_str));
    KNOWN.iter().find(|known| words().any(|word| word.contains(known.word)))
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
    let name = cmd.rsplit('/').next().unwrap_or(cmd);
    if WRAPPERS.contains(&name) {
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

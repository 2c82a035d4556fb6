//! Runners of packages (`npx` and the like) run what lies in the directory they start in, and in those above it:
//! programs below `node_modules`, a package of that name, a shell that an `.npmrc` names. A server's directory may be a
//! repository, whose code must not run that way. So a runner starts in a directory of ours; the server itself gets its
//! own directory where the runner has a way for that.
//!
//! `uvx` and `uv tool run` look at nothing there.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use switchboard_wire::place::private_folder;

use crate::definition::Filled;
use crate::event_loop::may_block;
use crate::files::state::check_child_folder;

/// Runners, the word after which they are one, and the family whose directory they share.
const RUNNERS: [(&str, &[&str], Family); 9] = [
    ("npx", &[], Family::Npm),
    ("npm", &["exec", "x"], Family::Npm),
    ("pnpx", &[], Family::Other("pnpm")),
    ("pnpm", &["dlx"], Family::Other("pnpm")),
    ("bunx", &[], Family::Other("bun")),
    ("bun", &["x"], Family::Other("bun")),
    ("yarn", &["dlx"], Family::Other("yarn")),
    ("pipx", &["run"], Family::Other("pipx")),
    ("yarnpkg", &["dlx"], Family::Other("yarn")),
];

/// Programs that run the one that follows in their arguments.
const WRAPPERS: [&str; 10] =
    ["env", "nice", "ionice", "nohup", "setsid", "stdbuf", "timeout", "corepack", "mise", "volta"];

/// The directory that a server is to have, for the shell below.
const DIRECTORY: &str = "SWITCHBOARD_CWD";

/// npm runs a package's program by the shell that its configuration names. `npm_lifecycle_event` tells that program from
/// the scripts of a package that is installed on the way.
const SHELL: &str = r#"#!/bin/sh
if [ "$npm_lifecycle_event" = npx ]; then
  cd -- "$SWITCHBOARD_CWD" || exit 126
  INIT_CWD=$SWITCHBOARD_CWD
  export INIT_CWD
  unset SWITCHBOARD_CWD npm_config_script_shell
fi
exec /bin/sh "$@"
"#;

const PROJECT: &str = "{\"private\":true}\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Npm,
    /// One that cannot be told which directory its program is to have.
    Other(&'static str),
}

/// Where runners start.
#[derive(Debug)]
pub struct Runners {
    folder: PathBuf,
    /// The person's own definitions are below it, with what belongs to them.
    own: PathBuf,
}

/// How a runner is started.
#[derive(Debug, Default)]
pub(super) struct Start {
    pub(super) cwd: PathBuf,
    pub(super) env: Vec<(&'static str, PathBuf)>,
}

impl Runners {
    pub fn new(state: &Path, own: &Path) -> Self {
        Self { folder: state.join("runners"), own: own.to_owned() }
    }

    /// Where and with what a launch starts, if it is a runner that must not look at its directory.
    pub(super) fn start(&self, filled: &Filled) -> std::io::Result<Option<Start>> {
        let Some(family) = self.family(&filled.cmd, &filled.args, filled.runs_in()) else { return Ok(None) };
        let cwd = self.directory(family);
        may_block();
        check_child_folder(&self.folder)?;
        private_folder(&cwd)?;
        let mut env = Vec::new();
        if family == Family::Npm {
            // npm looks for the root of a project; this is one, so it goes no further up.
            let shell = cwd.join("shell");
            write(&cwd.join("package.json"), PROJECT, 0o600)?;
            write(&shell, SHELL, 0o700)?;
            env = vec![("npm_config_script_shell", shell), (DIRECTORY, filled.runs_in().to_owned())];
        }
        Ok(Some(Start { cwd, env }))
    }

    /// What a person should know about where a runner starts.
    pub fn word(&self, cmd: &str, args: &[String], cwd: &Path) -> Option<String> {
        let name = program_name(cmd);
        let family = self.family(cmd, args, cwd)?;
        let folder = self.directory(family);
        Some(match family {
            Family::Npm => format!(
                "`{name}` looks for its package in `{}`, never in the server's directory",
                folder.display()
            ),
            Family::Other(_) => format!(
                "`{name}` would run what lies in its directory, so it and the server run in `{}`",
                folder.display()
            ),
        })
    }

    fn directory(&self, family: Family) -> PathBuf {
        self.folder.join(match family {
            Family::Npm => "npm",
            Family::Other(name) => name,
        })
    }

    fn family(&self, cmd: &str, args: &[String], cwd: &Path) -> Option<Family> {
        if cwd.starts_with(&self.own) {
            return None;
        }
        let is_runner = |word: &str| RUNNERS.iter().any(|(name, ..)| *name == program_name(word));
        let (cmd, args) = match args.iter().position(|word| is_runner(word)) {
            Some(at) if WRAPPERS.contains(&program_name(cmd)) => (args[at].as_str(), &args[at + 1..]),
            _ => (cmd, args),
        };
        let (_, verbs, family) = RUNNERS.iter().find(|(name, ..)| *name == program_name(cmd))?;
        let mut rest = args;
        if !verbs.is_empty() {
            let at = args.iter().position(|arg| !arg.starts_with('-'))?;
            if !verbs.contains(&args[at].as_str()) {
                return None;
            }
            rest = &args[at + 1..];
        }
        (!names_local_code(rest)).then_some(*family)
    }
}

fn program_name(cmd: &str) -> &str {
    cmd.rsplit('/').next().unwrap_or(cmd)
}

/// Whether the package, or an option before it, is a path: whoever wrote that means what lies there.
fn names_local_code(args: &[String]) -> bool {
    let is_path = |word: &str| {
        matches!(word, "." | "..")
            || ["./", "../", "/", "~/", "file:"].iter().any(|start| word.starts_with(start))
    };
    let value = |arg: &str| arg.split_once('=').map_or_else(|| arg.to_owned(), |(_, value)| value.to_owned());
    let mut takes_value = false;
    for arg in args {
        if is_path(&value(arg)) {
            return true;
        }
        let is_option = arg.starts_with('-') && arg != "--";
        // The first word that is neither an option nor the value of one is the package, and ends what is the runner's.
        if !is_option && arg != "--" && !takes_value {
            return false;
        }
        takes_value = matches!(arg.as_str(), "-p" | "--package" | "--spec" | "--python" | "-c" | "--call");
    }
    false
}

/// Unless it is there already: it may be in use.
fn write(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    if std::fs::read(path).ok().as_deref() == Some(text.as_bytes()) {
        return Ok(());
    }
    let draft = path.with_extension(std::process::id().to_string());
    let _ = std::fs::remove_file(&draft);
    let mut file = std::fs::OpenOptions::new().create_new(true).write(true).mode(mode).open(&draft)?;
    file.write_all(text.as_bytes())?;
    drop(file);
    std::fs::rename(draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_are_known_and_what_names_local_code_is_left_alone() {
        let runners = Runners::new(Path::new("/state"), Path::new("/home/me/.config/switchboard"));
        let family = |line: &str, cwd: &str| {
            let mut words = line.split(' ').map(ToOwned::to_owned);
            let cmd = words.next().unwrap();
            runners.family(&cmd, &words.collect::<Vec<_>>(), Path::new(cwd))
        };
        for line in [
            "npx -y @scope/x@1.2.3 ./data",
            "/usr/bin/npx x",
            "npx --package x -- y .",
            "npm exec x",
            "npm --yes x y",
            "npx -p x -p y z",
            "/usr/bin/env npx -y x",
            "env A=1 npx x",
            "nice -n 5 npx x",
        ] {
            assert_eq!(family(line, "/repo"), Some(Family::Npm), "{line}");
        }
        for (line, name) in [
            ("bunx x", "bun"),
            ("bun x y", "bun"),
            ("pnpm dlx x", "pnpm"),
            ("yarn dlx x", "yarn"),
            ("pipx run x", "pipx"),
        ] {
            assert_eq!(family(line, "/repo"), Some(Family::Other(name)), "{line}");
        }
        for line in [
            "node server.js",
            "npm start",
            "bun server.ts",
            "yarn run x",
            "uvx x",
            "npx .",
            "npx ./server",
            "npx --package=./x y",
            "npx -p ../x y",
            "npx file:x",
        ] {
            assert_eq!(family(line, "/repo"), None, "{line}");
        }
        assert_eq!(family("npx -y x", "/home/me/.config/switchboard/mcps/x"), None);
    }
}

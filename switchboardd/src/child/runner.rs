//! Runners of packages (`npx` and the like) run what lies in the directory they start in, and in those above it:
//! programs below `node_modules`, a package of that name, a shell that an `.npmrc` names. A server's directory may be a
//! repository, whose code must not run that way. So a runner starts in a directory of ours; the server itself gets its
//! own directory where the runner has a way for that.
//!
//! `uvx` and `uv tool run` look at nothing there.

use std::borrow::Cow;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use switchboard_wire::runtime_paths::private_folder;

use crate::definition::ResolvedCommand;
use crate::event_loop::may_block;
use crate::files::state::check_child_folder;

/// Runners, the word after which they are one, and the family whose directory they share.
const RUNNERS: [(&str, &[&str], RunnerKind); 9] = [
    ("npx", &[], RunnerKind::Npm),
    ("npm", &["exec", "x"], RunnerKind::Npm),
    ("pnpx", &[], RunnerKind::Other("pnpm")),
    ("pnpm", &["dlx"], RunnerKind::Other("pnpm")),
    ("bunx", &[], RunnerKind::Other("bun")),
    ("bun", &["x"], RunnerKind::Other("bun")),
    ("yarn", &["dlx"], RunnerKind::Other("yarn")),
    ("pipx", &["run"], RunnerKind::Other("pipx")),
    ("yarnpkg", &["dlx"], RunnerKind::Other("yarn")),
];

/// A program that runs the one that follows in its arguments.
struct Wrapper {
    name: &'static str,
    /// The word after which it is one.
    verbs: &'static [&'static str],
    /// Its options whose value may be the next word.
    valued: &'static [&'static str],
    /// Those of them by which the program starts in another directory.
    moves: &'static [&'static str],
    /// Those of them whose value is a command line.
    splits: &'static [&'static str],
    /// Whether a word is its own, so that the program comes later.
    owns: fn(&str) -> bool,
    /// Whether all words before a `--` are its own.
    dashes: bool,
    /// How many words of its own come in any case.
    words: usize,
}

impl Wrapper {
    const fn new(name: &'static str, valued: &'static [&'static str]) -> Self {
        Self { name, verbs: &[], valued, moves: &[], splits: &[], owns: |_| false, dashes: false, words: 0 }
    }
}

static WRAPPERS: [Wrapper; 10] = [
    Wrapper {
        moves: &["-C", "--chdir"],
        splits: &["-S", "--split-string"],
        owns: |word| word.contains('='),
        ..Wrapper::new(
            "env",
            &["-u", "--unset", "-C", "--chdir", "-S", "--split-string", "-a", "--argv0", "-P"],
        )
    },
    Wrapper::new("nice", &["-n", "--adjustment"]),
    Wrapper::new("ionice", &["-c", "--class", "-n", "--classdata"]),
    Wrapper::new("nohup", &[]),
    Wrapper::new("setsid", &[]),
    Wrapper::new("stdbuf", &["-i", "--input", "-o", "--output", "-e", "--error"]),
    // The duration comes before the program.
    Wrapper { words: 1, ..Wrapper::new("timeout", &["-k", "--kill-after", "-s", "--signal"]) },
    Wrapper::new("corepack", &[]),
    Wrapper {
        verbs: &["x", "exec"],
        moves: &["-C", "--cd"],
        splits: &["-c", "--command"],
        // The tools that the program is to find, `node@22`.
        owns: |word| word.contains('@'),
        dashes: true,
        ..Wrapper::new("mise", &["-C", "--cd", "-E", "--env", "-j", "--jobs", "-c", "--command"])
    },
    Wrapper { verbs: &["run"], ..Wrapper::new("volta", &["--node", "--npm", "--pnpm", "--yarn", "--env"]) },
];

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
enum RunnerKind {
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
/// A runner that would run what lies in a directory that a wrapper goes to.
#[derive(Debug, PartialEq, Eq)]
struct Moved {
    wrapper: String,
    runner: String,
}

impl std::fmt::Display for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { wrapper, runner } = self;
        write!(
            f,
            "`{wrapper}` would start `{runner}` in another directory, whose code it would run; `cwd` says where a server runs"
        )
    }
}

#[derive(Debug, Default)]
pub(super) struct RunnerStart {
    pub(super) cwd: PathBuf,
    pub(super) env: Vec<(&'static str, PathBuf)>,
}

impl Runners {
    pub fn new(state: &Path, own: &Path) -> Self {
        Self { folder: state.join("runners"), own: own.to_owned() }
    }

    /// Where and with what a launch starts, if it is a runner that must not look at its directory.
    pub(super) fn start(&self, filled: &ResolvedCommand) -> std::io::Result<Option<RunnerStart>> {
        let found = self.family(&filled.cmd, &filled.args, filled.runs_in());
        let Some((_, family)) = found.map_err(|moved| std::io::Error::other(moved.to_string()))? else {
            return Ok(None);
        };
        let cwd = self.directory(family);
        may_block();
        check_child_folder(&self.folder)?;
        private_folder(&cwd)?;
        let mut env = Vec::new();
        if family == RunnerKind::Npm {
            // npm looks for the root of a project; this is one, so it goes no further up.
            let shell = cwd.join("shell");
            write(&cwd.join("package.json"), PROJECT, 0o600)?;
            write(&shell, SHELL, 0o700)?;
            env = vec![("npm_config_script_shell", shell), (DIRECTORY, filled.runs_in().to_owned())];
        }
        Ok(Some(RunnerStart { cwd, env }))
    }

    /// What a person should know about where a runner starts.
    pub fn word(&self, cmd: &str, args: &[String], cwd: &Path) -> Option<String> {
        let (name, family) = match self.family(cmd, args, cwd) {
            Ok(found) => found?,
            Err(moved) => return Some(format!("does not start: {moved}")),
        };
        let folder = self.directory(family);
        Some(match family {
            RunnerKind::Npm => format!(
                "`{name}` looks for its package in `{}`, never in the server's directory",
                folder.display()
            ),
            RunnerKind::Other(_) => format!(
                "`{name}` would run what lies in its directory, so it and the server run in `{}`",
                folder.display()
            ),
        })
    }

    fn directory(&self, family: RunnerKind) -> PathBuf {
        self.folder.join(match family {
            RunnerKind::Npm => "npm",
            RunnerKind::Other(name) => name,
        })
    }

    /// The runner that is started, and its family; `None` if what is started is none, or may look at its directory.
    fn family(&self, cmd: &str, args: &[String], cwd: &Path) -> Result<Option<(String, RunnerKind)>, Moved> {
        let Command { program, args, moved_by } = unwrapped(cmd, args);
        let name = program_name(&program);
        let Some((name, verbs, family)) = RUNNERS.iter().find(|(runner, ..)| *runner == name) else {
            return Ok(None);
        };
        let mut rest = &args[..];
        if !verbs.is_empty() {
            let Some(at) = args.iter().position(|arg| !arg.starts_with('-')) else { return Ok(None) };
            if !verbs.contains(&&*args[at]) {
                return Ok(None);
            }
            rest = &args[at + 1..];
        }
        if names_local_code(rest) {
            return Ok(None);
        }
        if let Some(wrapper) = moved_by {
            return Err(Moved { wrapper, runner: (*name).to_owned() });
        }
        Ok((!cwd.starts_with(&self.own)).then(|| ((*name).to_owned(), *family)))
    }
}

/// What is started in the end.
struct Command<'a> {
    program: Cow<'a, str>,
    args: Vec<Cow<'a, str>>,
    /// A wrapper and its option that has it start elsewhere.
    moved_by: Option<String>,
}

/// A command without the programs that only run the one that follows. The first word after such a program that is
/// neither its own nor an option is the next program, whatever comes later.
fn unwrapped<'a>(cmd: &'a str, args: &'a [String]) -> Command<'a> {
    let mut program = Cow::Borrowed(cmd);
    let mut args: Vec<Cow<'a, str>> = args.iter().map(|arg| Cow::Borrowed(&**arg)).collect();
    let mut moved_by = None;
    while let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == program_name(&program)) {
        let Some((at, moves)) = wrapped(wrapper, &mut args) else { break };
        moved_by = moved_by.or_else(|| moves.map(|option| format!("{} {option}", wrapper.name)));
        let rest = args.split_off(at);
        let mut rest = rest.into_iter();
        let Some(next) = rest.next() else { break };
        // `corepack` runs a version of a runner.
        program = match next.split_once('@') {
            Some((name, _)) if wrapper.name == "corepack" => Cow::Owned(name.to_owned()),
            _ => next,
        };
        args = rest.collect();
    }
    Command { program, args, moved_by }
}

/// Where in the arguments of a wrapper the program is that it runs, and the option that has it start elsewhere. A
/// command line that is one argument is taken apart.
fn wrapped(wrapper: &Wrapper, args: &mut Vec<Cow<'_, str>>) -> Option<(usize, Option<&'static str>)> {
    let (mut verb, mut words) = (!wrapper.verbs.is_empty(), wrapper.words);
    let (mut at, mut moves) = (0, None);
    while let Some(word) = args.get(at) {
        at += 1;
        if word.starts_with('-') {
            let Some((option, value)) = valued(wrapper, word) else { continue };
            moves = moves.or_else(|| wrapper.moves.contains(&option).then_some(option));
            let value = value.map(ToOwned::to_owned).or_else(|| {
                let next = args.get(at).map(ToString::to_string);
                at += 1;
                next
            });
            if wrapper.splits.contains(&option) {
                let line = value.unwrap_or_default();
                let quotes = |word: &str| Cow::Owned(word.trim_matches(['"', '\'']).to_owned());
                let line: Vec<Cow<'_, str>> = line.split_whitespace().map(quotes).collect();
                at = at.min(args.len());
                args.splice(..at, line);
                at = 0;
            }
        } else if verb {
            if !wrapper.verbs.contains(&&**word) {
                return None;
            }
            verb = false;
        } else if words > 0 {
            words -= 1;
        } else if !((wrapper.owns)(word) || wrapper.dashes && args[at..].iter().any(|word| word == "--")) {
            return Some((at - 1, moves));
        }
    }
    None
}

/// The option of a wrapper that a word is, if it takes a value, and the value if that is in the same word.
fn valued<'a>(wrapper: &Wrapper, word: &'a str) -> Option<(&'static str, Option<&'a str>)> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        // GNU programs take the beginning of a name, too.
        let is_it = |option: &&&str| option.strip_prefix("--").is_some_and(|option| option.starts_with(name));
        let option = wrapper.valued.iter().filter(|_| !name.is_empty()).find(is_it)?;
        return Some((option, value));
    }
    // Several may stand in one word; the value of the last is the rest of it, or the next word.
    word.char_indices().skip(1).find_map(|(at, letter)| {
        let is_it =
            |option: &&&str| option.strip_prefix('-').is_some_and(|option| option == letter.to_string());
        let rest = &word[at + letter.len_utf8()..];
        let option = wrapper.valued.iter().find(is_it)?;
        Some((*option, Some(rest).filter(|rest| !rest.is_empty())))
    })
}

fn program_name(cmd: &str) -> &str {
    cmd.rsplit('/').next().unwrap_or(cmd)
}

/// Whether the package, or an option before it, is a path: whoever wrote that means what lies there.
fn names_local_code(args: &[Cow<'_, str>]) -> bool {
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
        takes_value = matches!(&**arg, "-p" | "--package" | "--spec" | "--python" | "-c" | "--call");
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
            let found = runners.family(&cmd, &words.collect::<Vec<_>>(), Path::new(cwd));
            found.unwrap().map(|(_, family)| family)
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
            "nice -5 npx x",
            "env -i -u NODE_ENV -- A=1 /usr/bin/npx x",
            "env -iu NODE_ENV npx x",
            "env --unset=A --ignore-environment npx x",
            "timeout -k 5 60 npx x",
            "timeout --signal=INT 60 nice npx x",
            "stdbuf -oL -e 0 npx x",
            "ionice -c2 -n 7 npx x",
            "nohup setsid npx x",
            "mise x -- npx x",
            "mise exec node@22 npm -- npx x",
            "mise x node@22 npx x",
            "volta run --node 22 npx x",
            "corepack npx@10 x",
        ] {
            assert_eq!(family(line, "/repo"), Some(RunnerKind::Npm), "{line}");
        }
        for (line, name) in [
            ("bunx x", "bun"),
            ("bun x y", "bun"),
            ("pnpm dlx x", "pnpm"),
            ("yarn dlx x", "yarn"),
            ("pipx run x", "pipx"),
            ("corepack pnpm@9.1.0 dlx x", "pnpm"),
            ("env A=1 nice bunx x", "bun"),
        ] {
            assert_eq!(family(line, "/repo"), Some(RunnerKind::Other(name)), "{line}");
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
            "env A=1 node server.js --with npx",
            "timeout 60 docker run img npx x",
            "nice ./run.sh bun x",
            "env -C npx node server.js",
            "env -u npx node server.js",
            "env -C /elsewhere npx ./server",
            "mise run npx",
            "volta list npx",
            "env",
            "timeout 60",
        ] {
            assert_eq!(family(line, "/repo"), None, "{line}");
        }
        assert_eq!(family("npx -y x", "/home/me/.config/switchboard/mcps/x"), None);
    }

    #[test]
    fn a_command_line_in_one_argument_is_taken_apart() {
        let runners = Runners::new(Path::new("/state"), Path::new("/own"));
        let family = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            runners.family("/usr/bin/env", &args, Path::new("/repo")).unwrap().map(|(name, _)| name)
        };
        assert_eq!(family(&["-S", "npx -y x"]).as_deref(), Some("npx"));
        assert_eq!(family(&["-iS", "A=1 'npx'", "x"]).as_deref(), Some("npx"));
        assert_eq!(family(&["--split-string=A=1 nice -n 5 bunx", "x"]).as_deref(), Some("bunx"));
        assert_eq!(family(&["-S", "node server.js npx"]), None);
        assert_eq!(family(&["-S"]), None);
        let mise = ["x", "node@22", "-c", "npx -y x"].map(ToOwned::to_owned);
        assert!(runners.family("mise", &mise, Path::new("/repo")).unwrap().is_some());
    }

    #[test]
    fn a_wrapper_leads_no_runner_into_another_directory() {
        // In the person's own folder, too: that is not where the runner would start.
        let runners = Runners::new(Path::new("/state"), Path::new("/own"));
        for (line, wrapper) in [
            ("env -C /repo npx x", "env -C"),
            ("env -iC/repo npx x", "env -C"),
            ("env --chdir=/repo npx x", "env --chdir"),
            ("env --chd /repo npx x", "env --chdir"),
            ("nice env -C /repo A=1 npx x", "env -C"),
            ("mise -C /repo x -- npx x", "mise -C"),
        ] {
            let mut words = line.split(' ').map(ToOwned::to_owned);
            let cmd = words.next().unwrap();
            let args: Vec<String> = words.collect();
            let moved = runners.family(&cmd, &args, Path::new("/own")).unwrap_err();
            assert_eq!(moved, Moved { wrapper: wrapper.to_owned(), runner: "npx".to_owned() }, "{line}");
            let word = runners.word(&cmd, &args, Path::new("/own")).unwrap();
            assert!(word.contains("does not start") && word.contains("`cwd`"), "{word}");
        }
    }

    #[test]
    fn a_person_is_told_of_the_runner_and_not_of_what_wraps_it() {
        let runners = Runners::new(Path::new("/state"), Path::new("/own"));
        let args = ["A=1", "npx", "x"].map(ToOwned::to_owned);
        let word = runners.word("env", &args, Path::new("/repo")).unwrap();
        assert!(word.starts_with("`npx` looks for its package"), "{word}");
    }
}

//! Package runners (`npx` and the like) run code from their working directory and its parents: programs below
//! `node_modules`, a package of that name, a shell that an `.npmrc` names. A server's directory may be a
//! repository, whose code must not run that way. So a runner starts in a directory of the daemon's; the
//! server itself gets its own directory if the runner can do that.
//!
//! `uvx` and `uv tool run` run nothing from there.

use std::borrow::Cow;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use switchboard_wire::runtime_paths::private_folder;

use switchboard_definitions::definition::ResolvedCommand;
use switchboard_definitions::files::state::check_child_folder;
use switchboard_wire::event_loop::may_block;

/// Runners, the subcommands that make them runners, and the kind, whose directory they share.
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

/// A program that runs another program, which its arguments name.
struct Wrapper {
    name: &'static str,
    /// The subcommands that make it a wrapper; empty if it always is one.
    verbs: &'static [&'static str],
    /// Options whose value may be the next word.
    valued: &'static [&'static str],
    /// Those of `valued` that start the program in another directory.
    moves: &'static [&'static str],
    /// Those of `valued` whose value is a command line.
    splits: &'static [&'static str],
    /// Whether a word belongs to the wrapper, so that the program comes later.
    owns: fn(&str) -> bool,
    /// Whether all words before a `--` belong to the wrapper.
    dashes: bool,
    /// How many words always belong to the wrapper.
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
        // The tools that the program is to find, such as `node@22`.
        owns: |word| word.contains('@'),
        dashes: true,
        ..Wrapper::new("mise", &["-C", "--cd", "-E", "--env", "-j", "--jobs", "-c", "--command"])
    },
    Wrapper { verbs: &["run"], ..Wrapper::new("volta", &["--node", "--npm", "--pnpm", "--yarn", "--env"]) },
];

/// Passes the server's directory to the shell script below.
const DIRECTORY: &str = "SWITCHBOARD_CWD";

/// npm runs a package's program with the shell that its configuration names. `npm_lifecycle_event`
/// distinguishes that program from the scripts of packages that are installed on the way.
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
    /// A runner that cannot start its program in another directory.
    Other(&'static str),
}

/// The directories that runners start in.
#[derive(Debug)]
pub struct Runners {
    folder: PathBuf,
    /// The folder of the user's own definitions. A runner that starts below it is left alone.
    own: PathBuf,
}

/// A wrapper would start a runner in another directory, whose code the runner would run.
#[derive(Debug, PartialEq, Eq)]
struct MovedRunner {
    wrapper: String,
    runner: String,
}

impl std::fmt::Display for MovedRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { wrapper, runner } = self;
        write!(
            f,
            "`{wrapper}` would start `{runner}` in another directory, whose code it would run; `cwd` says where a server runs"
        )
    }
}

/// How a runner is started.
#[derive(Debug, Default)]
pub(super) struct RunnerStart {
    pub(super) cwd: PathBuf,
    pub(super) env: Vec<(&'static str, PathBuf)>,
}

impl Runners {
    pub fn new(state: &Path, own: &Path) -> Self {
        Self { folder: state.join("runners"), own: own.to_owned() }
    }

    /// Where and with what a launch starts, if it is a runner that must not use its directory.
    pub(super) fn start(&self, filled: &ResolvedCommand) -> std::io::Result<Option<RunnerStart>> {
        let found = self.family(&filled.cmd, &filled.args, filled.working_dir());
        let Some((_, family)) = found.map_err(|moved| std::io::Error::other(moved.to_string()))? else {
            return Ok(None);
        };
        let cwd = self.directory(family);
        may_block();
        check_child_folder(&self.folder)?;
        private_folder(&cwd)?;
        let mut env = Vec::new();
        if family == RunnerKind::Npm {
            // npm searches upwards for the root of a project; `package.json` makes this directory one.
            let shell = cwd.join("shell");
            write(&cwd.join("package.json"), PROJECT, 0o600)?;
            write(&shell, SHELL, 0o700)?;
            env = vec![("npm_config_script_shell", shell), (DIRECTORY, filled.working_dir().to_owned())];
        }
        Ok(Some(RunnerStart { cwd, env }))
    }

    /// Tells the user where a runner starts.
    pub fn start_note(&self, cmd: &str, args: &[String], cwd: &Path) -> Option<String> {
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

    /// The runner that a command starts, and its kind; `None` if it starts none, or one that
    /// may use its directory.
    fn family(
        &self,
        cmd: &str,
        args: &[String],
        cwd: &Path,
    ) -> Result<Option<(String, RunnerKind)>, MovedRunner> {
        let UnwrappedCommand { program, args, moved_by } = unwrapped(cmd, args);
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
            return Err(MovedRunner { wrapper, runner: (*name).to_owned() });
        }
        Ok((!cwd.starts_with(&self.own)).then(|| ((*name).to_owned(), *family)))
    }
}

/// A command without its wrappers.
struct UnwrappedCommand<'a> {
    program: Cow<'a, str>,
    args: Vec<Cow<'a, str>>,
    /// The wrapper, and its option that starts the program in another directory.
    moved_by: Option<String>,
}

/// Removes the wrappers from a command. The first word after a wrapper that is neither its own nor an option
/// is the next program, whatever follows.
fn unwrapped<'a>(cmd: &'a str, args: &'a [String]) -> UnwrappedCommand<'a> {
    let mut program = Cow::Borrowed(cmd);
    let mut args: Vec<Cow<'a, str>> = args.iter().map(|arg| Cow::Borrowed(&**arg)).collect();
    let mut moved_by = None;
    while let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == program_name(&program)) {
        let Some((at, moves)) = wrapped(wrapper, &mut args) else { break };
        moved_by = moved_by.or_else(|| moves.map(|option| format!("{} {option}", wrapper.name)));
        let rest = args.split_off(at);
        let mut rest = rest.into_iter();
        let Some(next) = rest.next() else { break };
        // `corepack` runs a runner as `name@version`.
        program = match next.split_once('@') {
            Some((name, _)) if wrapper.name == "corepack" => Cow::Owned(name.to_owned()),
            _ => next,
        };
        args = rest.collect();
    }
    UnwrappedCommand { program, args, moved_by }
}

/// The index of the program in a wrapper's arguments, and the option that starts it in another directory. A
/// command line in one argument is split.
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

/// The wrapper's option that takes a value and is in this word, and the value if it is in the same word.
fn valued<'a>(wrapper: &Wrapper, word: &'a str) -> Option<(&'static str, Option<&'a str>)> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        // GNU programs also accept the beginning of a name.
        let is_it = |option: &&&str| option.strip_prefix("--").is_some_and(|option| option.starts_with(name));
        let option = wrapper.valued.iter().filter(|_| !name.is_empty()).find(is_it)?;
        return Some((option, value));
    }
    // Short options can be combined; the value of the last is the rest of the word, or the next word.
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

/// Whether the package, or an option before it, is a path: then the definition asks for local code.
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
        // The package is the first word that is neither an option nor the value of one. It ends the
        // runner's own arguments.
        if !is_option && arg != "--" && !takes_value {
            return false;
        }
        takes_value = matches!(&**arg, "-p" | "--package" | "--spec" | "--python" | "-c" | "--call");
    }
    false
}

/// Skips a file that already has this text: it may be in use.
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
    fn runners_are_recognised_and_local_code_is_left_alone() {
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
    fn a_command_line_in_one_argument_is_split() {
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
    fn a_wrapper_cannot_move_a_runner_to_another_directory() {
        // Even if `cwd` is in the user's own folder: the runner would not start there.
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
            assert_eq!(
                moved,
                MovedRunner { wrapper: wrapper.to_owned(), runner: "npx".to_owned() },
                "{line}"
            );
            let word = runners.start_note(&cmd, &args, Path::new("/own")).unwrap();
            assert!(word.contains("does not start") && word.contains("`cwd`"), "{word}");
        }
    }

    #[test]
    fn the_user_is_told_of_the_runner_and_not_of_its_wrapper() {
        let runners = Runners::new(Path::new("/state"), Path::new("/own"));
        let args = ["A=1", "npx", "x"].map(ToOwned::to_owned);
        let word = runners.start_note("env", &args, Path::new("/repo")).unwrap();
        assert!(word.starts_with("`npx` looks for its package"), "{word}");
    }
}

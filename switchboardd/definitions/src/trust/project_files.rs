//! Files of a workspace that a definition would run or read. Only their paths are part of what the user allows: what
//! is in them can change later.

use std::path::{Path, PathBuf};

use super::warnings::lexical;
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
/// What an interpreter runs if it is given a directory.
const RUN_IN_DIRECTORY: [&str; 3] = ["__main__.py", "index.js", "package.json"];
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
    for word in words(launch).iter().take(MAX_WORDS) {
        let path = lexical(&directory.join(word));
        let is_missing_script = || !word.contains(' ') && inside(&path) && is_script(&path) && !path.is_dir();
        if path.is_file() || is_missing_script() {
            // A link may lead out of the workspace: the link itself is the workspace's, and can change.
            add(path);
        } else if word != "." && path.is_dir() {
            RUN_IN_DIRECTORY
                .iter()
                .map(|name| path.join(name))
                .filter(|file| file.is_file())
                .for_each(&mut add);
        }
    }
    let name = launch.program_name();
    for (_, files) in RUN_BY.iter().filter(|(program, _)| *program == name) {
        files.iter().map(|file| directory.join(file)).filter(|file| file.is_file()).for_each(&mut add);
    }
    found
}

/// Everything in arguments and values that could be a path.
fn words(launch: &LaunchCommand) -> Vec<String> {
    let args = launch.args.iter().map(ToString::to_string);
    let values = launch.env.values().flatten().map(ToString::to_string);
    let values = values.chain(launch.env_file.values().cloned());
    let mut words = Vec::new();
    for text in args.chain(values) {
        let parts = text.split(|c: char| c.is_whitespace() || "=:;,'\"".contains(c));
        words.extend(parts.filter(|part| !part.is_empty() && !part.starts_with('-')).map(ToOwned::to_owned));
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
        let many: Vec<String> = (0..100).map(|at| format!("{at}.js")).collect();
        let argv: Vec<&str> = std::iter::once("x").chain(many.iter().map(String::as_str)).collect();
        check(&argv, &[], &argv[1..=MAX_FILES]);
    }
}

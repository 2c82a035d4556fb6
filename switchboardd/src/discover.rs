//! Finds definitions: the files that the globs name, and the servers in them.
//!
//! One bad file, or one bad entry, is reported and harms no neighbour.

mod shapes;

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::config::Config;
use crate::definition::Definition;
use crate::document::{Document, Problem};

/// Folders deeper than any glob of ours needs, and more files than anybody has.
const MAX_DEPTH: usize = 16;
const MAX_FILES: usize = 20_000;

#[derive(Debug, Default)]
pub struct Found {
    /// By name; of two with one name, the first file's.
    pub definitions: Vec<Definition>,
    pub problems: Vec<Problem>,
}

pub fn discover(config: &Config) -> Found {
    let mut found = Found::default();
    for file in files(&config.folder, &config.discover_globs) {
        let (definitions, problems) = match Document::read(&file) {
            Ok(Some(document)) => shapes::definitions(&document),
            Ok(None) => continue,
            Err(problem) => (Vec::new(), vec![problem]),
        };
        found.problems.extend(problems);
        for definition in definitions {
            match found.definitions.iter().find(|earlier| earlier.name == definition.name) {
                None => found.definitions.push(definition),
                Some(earlier) => found.problems.push(Problem {
                    file: definition.file.clone(),
                    at: None,
                    message: format!(
                        "`{}` is already defined in `{}`, which is used",
                        definition.name,
                        earlier.file.display()
                    ),
                }),
            }
        }
    }
    found.definitions.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The files that match, in a stable order.
fn files(folder: &Path, globs: &[String]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for glob in globs {
        // The config reader has refused what does not build.
        let Ok(matcher) = GlobBuilder::new(glob).literal_separator(true).build() else { continue };
        let parts: Vec<GlobMatcher> = glob
            .split('/')
            .filter_map(|part| GlobBuilder::new(part).build().ok())
            .map(|glob| glob.compile_matcher())
            .collect();
        let anywhere = glob.contains("**");
        walk(
            folder,
            Path::new(""),
            &Walk { whole: matcher.compile_matcher(), parts, anywhere },
            0,
            &mut files,
        );
    }
    files.sort();
    files.dedup();
    files
}

struct Walk {
    whole: GlobMatcher,
    /// One matcher per path component, so that only folders on the way are entered.
    parts: Vec<GlobMatcher>,
    anywhere: bool,
}

fn walk(root: &Path, below: &Path, walk_for: &Walk, depth: usize, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(root.join(below)) else { return };
    for entry in entries.flatten() {
        let path = below.join(entry.file_name());
        let wanted = |depth: usize| {
            walk_for.anywhere
                || walk_for.parts.get(depth).is_some_and(|part| part.is_match(entry.file_name()))
        };
        let is_folder = std::fs::metadata(root.join(&path)).is_ok_and(|meta| meta.is_dir());
        if is_folder && depth < MAX_DEPTH && depth + 1 < walk_for.parts.len().max(MAX_DEPTH) && wanted(depth)
        {
            walk(root, &path, walk_for, depth + 1, files);
        }
        if walk_for.whole.is_match(&path) && files.len() < MAX_FILES {
            files.push(root.join(path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    #[test]
    fn bad_files_are_reported_and_their_neighbours_work() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "mcps/good/.mcp.json", r#"{"name": "good", "command": {"cmd": "true"}}"#);
        write(folder.path(), "mcps/broken/.mcp.json", "{");
        write(folder.path(), "mcps/twin/.mcp.json", r#"{"name": "good", "command": {"cmd": "false"}}"#);
        write(folder.path(), "mcps/deeper/x/.mcp.json", r#"{"name": "deep", "command": {"cmd": "true"}}"#);
        std::fs::create_dir_all(folder.path().join("mcps/folder/.mcp.json")).unwrap();
        let found = discover(&Config::defaults(folder.path()));
        let names: Vec<_> = found.definitions.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["good"]);
        assert_eq!(found.definitions[0].launch.as_ref().unwrap().cmd, "true");
        let problems: Vec<_> = found.problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(problems.len(), 3, "{problems:?}");
    }

    #[test]
    fn globs_reach_as_deep_as_they_say() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/.mcp.json", "a/b/.mcp.json", "a/b/c/.mcp.json", "mcp.json"] {
            write(folder.path(), name, "{}");
        }
        let count = |glob: &str| files(folder.path(), &[glob.to_owned()]).len();
        assert_eq!(count("*/.mcp.json"), 1);
        assert_eq!(count("**/.mcp.json"), 3);
        assert_eq!(count("a/*/*/.mcp.json"), 1);
        assert_eq!(count("{mcp,x}.json"), 1);
    }
}

//! Finds definitions: the files that the globs name, and the servers in them.
//!
//! One bad file, or one bad entry, is reported and harms no neighbour.

mod shapes;

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::config::Config;
use crate::definition::Definition;
use crate::document::{Document, Problem};

/// Folders deeper than any glob of ours needs, and more of them and of files than anybody has.
const MAX_DEPTH: usize = 16;
const MAX_FOLDERS: usize = 20_000;
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
    for pattern in globs.iter().filter_map(|glob| Pattern::new(glob)) {
        pattern.walk(folder, &mut files);
    }
    files.sort();
    files.dedup();
    files
}

struct Pattern {
    whole: GlobMatcher,
    /// One matcher per path component, so that only folders on the way are entered. None where the glob
    /// does not say which component is which: `**`, or alternatives of different depth.
    parts: Option<Vec<GlobMatcher>>,
    /// How many folders deep a file can be.
    depth: usize,
}

impl Pattern {
    /// The config reader has refused what does not build.
    fn new(glob: &str) -> Option<Self> {
        let whole = GlobBuilder::new(glob).literal_separator(true).build().ok()?.compile_matcher();
        let anywhere = glob.contains("**");
        let parts = (!anywhere && !has_slash_in_braces(glob)).then(|| {
            let parts = glob.split('/').filter_map(|part| GlobBuilder::new(part).build().ok());
            parts.map(|glob| glob.compile_matcher()).collect()
        });
        let depth = if anywhere { MAX_DEPTH } else { glob.matches('/').count().min(MAX_DEPTH) };
        Some(Self { whole, parts, depth })
    }

    fn leads_through(&self, depth: usize, name: &OsStr) -> bool {
        let Some(parts) = &self.parts else { return true };
        parts.get(depth).is_some_and(|part| part.is_match(name))
    }

    /// Folders first, links to folders after them: one that can be reached both ways is found under its
    /// own name, and with `**` once.
    fn walk(&self, root: &Path, files: &mut Vec<PathBuf>) {
        let mut folders = VecDeque::from([(PathBuf::new(), 0)]);
        let mut links = VecDeque::new();
        let mut seen = HashSet::new();
        let mut entered = 0;
        while let Some((below, depth)) = folders.pop_front().or_else(|| links.pop_front()) {
            let folder = root.join(&below);
            if self.parts.is_none() && !identity(&folder).is_some_and(|folder| seen.insert(folder)) {
                continue;
            }
            entered += 1;
            if entered > MAX_FOLDERS || files.len() > MAX_FILES {
                tracing::warn!(target: "discover", "`{}` holds more than anybody has; the rest is left out", root.display());
                return;
            }
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let path = below.join(&name);
                if self.whole.is_match(&path) {
                    files.push(root.join(&path));
                }
                if depth >= self.depth || !self.leads_through(depth, &name) {
                    continue;
                }
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push_back((path, depth + 1)),
                    Ok(kind) if kind.is_symlink() && root.join(&path).is_dir() => {
                        links.push_back((path, depth + 1));
                    }
                    _ => {}
                }
            }
        }
    }
}

fn identity(folder: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(folder).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Such alternatives shift the components behind them.
fn has_slash_in_braces(glob: &str) -> bool {
    let mut open = 0_usize;
    let mut letters = glob.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '{' => open += 1,
            '}' => open = open.saturating_sub(1),
            '/' if open > 0 => return true,
            _ => {}
        }
    }
    false
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
        assert_eq!(count("{a/b,x}/.mcp.json"), 1);
        assert_eq!(count("{a/b,a}/*/.mcp.json"), 2);
        assert_eq!(count("{a,x}/b/.mcp.json"), 1);
    }

    #[test]
    fn links_that_lead_in_circles_are_followed_once() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c", "d"] {
            write(folder.path(), &format!("{name}/.mcp.json"), "{}");
            for link in ["up", "over", "round"] {
                std::os::unix::fs::symlink(folder.path(), folder.path().join(name).join(link)).unwrap();
            }
        }
        let outside = tempfile::tempdir().unwrap();
        write(outside.path(), "x/.mcp.json", "{}");
        std::os::unix::fs::symlink(outside.path(), folder.path().join("linked")).unwrap();
        let found = files(folder.path(), &["**/.mcp.json".to_owned()]);
        let names: Vec<_> = found.iter().map(|file| file.strip_prefix(folder.path()).unwrap()).collect();
        let expect = ["a", "b", "c", "d", "linked/x"].map(|name| Path::new(name).join(".mcp.json"));
        assert_eq!(names, expect);
        // Without `**` a link is as good as a folder, as often as the glob says.
        assert_eq!(files(folder.path(), &["*/up/*/.mcp.json".to_owned()]).len(), 16);
    }
}

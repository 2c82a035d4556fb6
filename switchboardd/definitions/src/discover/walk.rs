//! Finds the files that globs match, and the folders to watch for changes.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};

use super::host_files::{HostFileRule, identity, is_temporary};
use switchboard_wire::event_loop::may_block;

/// Limits on depth, folders and files, beyond any real use.
const MAX_DEPTH: usize = 16;
const MAX_FOLDERS: usize = 20_000;
const MAX_FILES: usize = 20_000;
/// The folder limit for a workspace, whose content is not trusted.
const MAX_CONFINED: usize = 2_000;

/// Folders of third-party files, which `**` does not enter.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// What the globs match.
#[derive(Debug, Default)]
pub struct WalkResult {
    /// In a stable order.
    pub files: Vec<PathBuf>,
    pub dirs: Vec<WatchedDir>,
    /// Links to folders, which may be redirected.
    pub links: Vec<PathBuf>,
    /// Whether a limit was reached.
    pub cut_short: bool,
    /// Folders that the system could not read now, below the root, and why: what they hold is unknown.
    pub unread: Vec<(PathBuf, io::Error)>,
}

/// A folder that a glob passes through.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchedDir {
    /// Its real path.
    pub folder: PathBuf,
    pub rule: WatchRule,
}

/// Decides whether something new in a folder is relevant.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchRule {
    Glob(GlobRule),
    /// The folder may have files in which hosts keep servers.
    HostFiles(HostFileRule),
}

/// How a glob passes through a folder.
#[derive(Debug, Clone)]
pub struct GlobRule {
    pattern: Arc<Pattern>,
    below: PathBuf,
    depth: usize,
}

impl PartialEq for GlobRule {
    fn eq(&self, other: &Self) -> bool {
        self.pattern.glob == other.pattern.glob && self.below == other.below && self.depth == other.depth
    }
}

impl WatchRule {
    /// Whether a file or folder of this name could change what is found.
    pub fn is_relevant(&self, name: &OsStr, may_be_folder: bool) -> bool {
        match self {
            Self::Glob(rule) => rule.is_relevant(name, may_be_folder),
            Self::HostFiles(rule) => rule.is_relevant(name),
        }
    }
}

impl GlobRule {
    fn is_relevant(&self, name: &OsStr, may_be_folder: bool) -> bool {
        self.pattern.is_match(&self.below.join(name))
            || (may_be_folder
                && self.depth < self.pattern.depth
                && self.pattern.leads_through(self.depth, name))
    }
}

/// Walks `root` for all globs. If `confined`, nothing outside of it is entered, even through links.
pub fn walk(root: &Path, globs: &[String], confined: bool) -> WalkResult {
    may_block();
    let mut walked = WalkResult::default();
    let real = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    for glob in globs {
        if let Some(pattern) = Pattern::new(glob) {
            let walk = Walk { root, real: &real, confined, pattern: Arc::new(pattern) };
            walk.run(&mut walked);
        }
    }
    walked.files.sort();
    walked.files.dedup();
    walked
}

#[derive(Debug)]
struct Pattern {
    glob: Box<str>,
    matcher: PathMatcher,
    /// How many folders deep a match can be.
    depth: usize,
}

/// What a glob requires of the folders on the way to a file.
#[derive(Debug)]
enum PathMatcher {
    /// One matcher per path component, so that only matching folders are entered.
    Components(Vec<ComponentMatcher>),
    /// For globs that cannot be split into components: `**`, or alternatives of different depth.
    Whole(GlobMatcher),
}

/// One component. Most are plain and need no compiled matcher, which would take memory for every workspace.
#[derive(Debug)]
enum ComponentMatcher {
    Name(String),
    Any,
    Glob(GlobMatcher),
}

impl ComponentMatcher {
    fn new(part: &str) -> Option<Self> {
        match part {
            "*" => Some(Self::Any),
            plain if !plain.contains(['*', '?', '[', ']', '{', '}', '\\', '!', ',']) => {
                Some(Self::Name(plain.to_owned()))
            }
            glob => GlobBuilder::new(glob).build().ok().map(|glob| Self::Glob(glob.compile_matcher())),
        }
    }

    fn is_match(&self, name: &OsStr) -> bool {
        match self {
            Self::Name(own) => name == own.as_str(),
            Self::Any => true,
            Self::Glob(glob) => glob.is_match(name),
        }
    }
}

impl Pattern {
    /// `None` only for an invalid glob, which the config reader has already refused.
    fn new(glob: &str) -> Option<Self> {
        let anywhere = glob.contains("**");
        // A part that is not a glob by itself, as in `[a/b]`, does not describe a single folder.
        let parts = (!anywhere && !has_slash_in_braces(glob))
            .then(|| glob.split('/').map(ComponentMatcher::new).collect());
        let matcher = match parts.flatten() {
            Some(parts) => PathMatcher::Components(parts),
            None => {
                let whole = GlobBuilder::new(glob).literal_separator(true).build().ok()?;
                PathMatcher::Whole(whole.compile_matcher())
            }
        };
        let depth = if anywhere { MAX_DEPTH } else { glob.matches('/').count().min(MAX_DEPTH) };
        Some(Self { glob: glob.into(), matcher, depth })
    }

    /// Whether the glob matches this path, relative to the root.
    fn is_match(&self, path: &Path) -> bool {
        match &self.matcher {
            PathMatcher::Components(parts) => {
                let mut names = path.iter();
                parts.iter().all(|part| names.next().is_some_and(|name| part.is_match(name)))
                    && names.next().is_none()
            }
            PathMatcher::Whole(whole) => whole.is_match(path),
        }
    }

    /// Whether a folder may be reached in several ways.
    fn leads_anywhere(&self) -> bool {
        matches!(self.matcher, PathMatcher::Whole(_))
    }

    fn leads_through(&self, depth: usize, name: &OsStr) -> bool {
        match &self.matcher {
            PathMatcher::Components(parts) => parts.get(depth).is_some_and(|part| part.is_match(name)),
            PathMatcher::Whole(_) => !SKIPPED.iter().any(|skipped| name == *skipped),
        }
    }
}

struct Walk<'w> {
    root: &'w Path,
    real: &'w Path,
    confined: bool,
    pattern: Arc<Pattern>,
}

/// A folder to enter: its path below the root, and its real path.
struct PendingFolder {
    below: PathBuf,
    real: PathBuf,
    depth: usize,
}

impl Walk<'_> {
    /// Visits folders before links to folders, so that a folder that can be reached both ways is found under
    /// its own name, and with `**` only once.
    fn run(&self, walked: &mut WalkResult) {
        let mut folders =
            VecDeque::from([PendingFolder { below: PathBuf::new(), real: self.real.to_owned(), depth: 0 }]);
        let mut links: VecDeque<PendingFolder> = VecDeque::new();
        let mut seen = HashSet::new();
        while let Some(next) = folders.pop_front().or_else(|| links.pop_front()) {
            let PendingFolder { below, real, depth } = next;
            if self.pattern.leads_anywhere() && !identity(&real).is_some_and(|folder| seen.insert(folder)) {
                continue;
            }
            // The limits are for all globs together, since each of them is a walk.
            if walked.dirs.len() >= if self.confined { MAX_CONFINED } else { MAX_FOLDERS }
                || walked.files.len() > MAX_FILES
            {
                walked.cut_short = true;
                return;
            }
            let entries = match std::fs::read_dir(&real) {
                Ok(entries) => entries,
                Err(error) => {
                    if is_temporary(&error) {
                        walked.unread.push((self.root.join(&below), error));
                    }
                    continue;
                }
            };
            let rule = GlobRule { pattern: self.pattern.clone(), below: below.clone(), depth };
            walked.dirs.push(WatchedDir { folder: real.clone(), rule: WatchRule::Glob(rule) });
            for entry in entries.flatten() {
                let name = entry.file_name();
                let path = below.join(&name);
                if self.pattern.is_match(&path) {
                    walked.files.push(self.root.join(&path));
                }
                if depth >= self.pattern.depth || !self.pattern.leads_through(depth, &name) {
                    continue;
                }
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => {
                        folders.push_back(PendingFolder {
                            below: path,
                            real: real.join(&name),
                            depth: depth + 1,
                        });
                    }
                    Ok(kind) if kind.is_symlink() => {
                        let link = real.join(&name);
                        if let Some(real) = self.leads_to(&link) {
                            walked.links.push(link);
                            links.push_back(PendingFolder { below: path, real, depth: depth + 1 });
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// The folder that a link points to, if it may be entered.
    fn leads_to(&self, link: &Path) -> Option<PathBuf> {
        let real = link.canonicalize().ok()?;
        (real.is_dir() && (!self.confined || real.starts_with(self.real))).then_some(real)
    }
}

/// Such alternatives may differ in the number of components.
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

    fn write(folder: &Path, name: &str) {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "{}").unwrap();
    }

    fn files(folder: &Path, glob: &str) -> Vec<PathBuf> {
        walk(folder, &[glob.to_owned()], false).files
    }

    #[test]
    fn globs_reach_as_deep_as_they_say() {
        let folder = tempfile::tempdir().unwrap();
        for name in
            ["a/.mcp.json", "a/b/.mcp.json", "a/b/c/.mcp.json", "mcp.json", "node_modules/x/.mcp.json"]
        {
            write(folder.path(), name);
        }
        let count = |glob: &str| files(folder.path(), glob).len();
        assert_eq!(count("*/.mcp.json"), 1);
        assert_eq!(count("**/.mcp.json"), 3);
        assert_eq!(count("a/*/*/.mcp.json"), 1);
        assert_eq!(count("{mcp,x}.json"), 1);
        assert_eq!(count("{a/b,x}/.mcp.json"), 1);
        assert_eq!(count("{a/b,a}/*/.mcp.json"), 2);
        assert_eq!(count("{a,x}/b/.mcp.json"), 1);
        assert_eq!(count("node_modules/*/.mcp.json"), 1);
        // No part of it is a valid glob by itself.
        assert_eq!(count("[a/b]/[a/b]/.mcp.json"), 1);
    }

    #[test]
    fn links_that_lead_in_circles_are_followed_once() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c", "d"] {
            write(folder.path(), &format!("{name}/.mcp.json"));
            for link in ["up", "over", "round"] {
                std::os::unix::fs::symlink(folder.path(), folder.path().join(name).join(link)).unwrap();
            }
        }
        let outside = tempfile::tempdir().unwrap();
        write(outside.path(), "x/.mcp.json");
        std::os::unix::fs::symlink(outside.path(), folder.path().join("linked")).unwrap();
        let found = files(folder.path(), "**/.mcp.json");
        let names: Vec<_> = found.iter().map(|file| file.strip_prefix(folder.path()).unwrap()).collect();
        let expect = ["a", "b", "c", "d", "linked/x"].map(|name| Path::new(name).join(".mcp.json"));
        assert_eq!(names, expect);
        assert_eq!(walk(folder.path(), &["**/.mcp.json".to_owned()], true).files.len(), 4);
        // Without `**`, links are entered like folders, as often as the glob says.
        assert_eq!(files(folder.path(), "*/up/*/.mcp.json").len(), 16);
    }

    #[test]
    fn watch_rules_match_only_relevant_names() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "mcps/a/.mcp.json");
        let walked = walk(folder.path(), &["mcps/*/.mcp.json".to_owned()], false);
        let cares =
            |at: usize, name: &str, folder| walked.dirs[at].rule.is_relevant(OsStr::new(name), folder);
        assert_eq!(walked.dirs.len(), 3);
        assert!(cares(0, "mcps", true) && !cares(0, "src", true) && !cares(0, "mcps", false));
        assert!(cares(1, "anything", true) && !cares(1, "file", false));
        assert!(cares(2, ".mcp.json", false) && !cares(2, "other", true));
    }
}

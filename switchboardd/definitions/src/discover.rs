//! Finds definitions: the files that the globs match, and the servers in them.
//!
//! A bad file or entry is reported and does not affect the others; its last good version stays in use.

pub mod entry;
pub mod host_files;
pub mod hosts;
pub mod shapes;
pub mod walk;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Config;
use crate::definition::Definition;
use crate::document::{Document, Problem, ReadTextError, read_text};
use crate::expand::ExpansionContext;
use entry::EntryLocation;
use host_files::{HostProjectFile, HostSet, NamesIn, names_in};
use walk::{WatchRule, WatchedDir};

/// Where to look.
#[derive(Debug, Clone, Copy)]
pub struct SearchScope<'a> {
    pub config: &'a Config,
    /// Reads nothing outside of the config's folder.
    pub confined: bool,
    pub home: &'a Path,
    /// Where plugins may store data.
    pub data: &'a Path,
}

#[derive(Debug, Default)]
pub struct Discovery {
    /// Sorted by name; equal names in the order of their files. Those that are as they were before are shared with the
    /// search before.
    pub definitions: Vec<Arc<Definition>>,
    pub problems: Vec<Problem>,
    pub watched: WatchedPaths,
    /// The files of a project that hosts read themselves, with these hosts.
    pub read_by: BTreeMap<PathBuf, HostSet>,
}

/// Paths whose change may change the result.
#[derive(Debug, Default, PartialEq)]
pub struct WatchedPaths {
    pub folders: Vec<WatchedDir>,
    pub files: Vec<PathBuf>,
    /// A folder could not be read, so that nobody knows what to watch in it.
    pub is_incomplete: bool,
}

/// The last good version of each file.
#[derive(Debug, Default)]
pub struct LastGoodDefinitions {
    good: HashMap<PathBuf, Vec<Arc<Definition>>>,
    /// How others could write each file when it was last seen; `None` if they could not.
    pub exposed: HashMap<PathBuf, Option<String>>,
    /// The last good config of a workspace.
    pub config: Option<Config>,
}

pub fn discover(search_scope: SearchScope<'_>, memory: &mut LastGoodDefinitions) -> Discovery {
    discover_with(search_scope, memory, names_in)
}

fn discover_with(
    search_scope: SearchScope<'_>,
    memory: &mut LastGoodDefinitions,
    names_in: NamesIn,
) -> Discovery {
    let walked =
        walk::walk(&search_scope.config.folder, &search_scope.config.discover_globs, search_scope.confined);
    let mut found = Discovery::default();
    found.watched.folders = walked.dirs;
    found.watched.files = walked.links;
    if walked.cut_short {
        let message = "its globs find too many files; the rest is left out";
        found.problems.push(Problem::of(&search_scope.config.file, message));
    }
    // What a folder holds that cannot be read now is not gone.
    let mut files = walked.files;
    for (folder, error) in walked.unread {
        let of_globs = |file: &&PathBuf| file.starts_with(&folder) && host_file(search_scope, file).is_none();
        files.extend(memory.good.keys().filter(of_globs).cloned());
        found.note_unread(&folder, &error);
    }
    files.sort();
    files.dedup();
    let host_files = host_files(search_scope, &files, memory, names_in, &mut found);
    let is_there = |file: &Path| {
        files.binary_search_by(|known| known.as_path().cmp(file)).is_ok()
            || host_files.iter().any(|(known, _)| known == file)
    };
    memory.good.retain(|file, _| is_there(file));
    memory.exposed.retain(|file, _| is_there(file));
    let files = files.iter().map(|file| (file, None));
    for (file, host_file) in files.chain(host_files.iter().map(|(file, known)| (file, Some(*known)))) {
        let definitions = definitions(file, host_file, search_scope, memory, &mut found);
        found.definitions.extend(definitions);
    }
    // Stable: of one name, those that the globs find come first.
    found.definitions.sort_by(|a, b| a.name.cmp(&b.name));
    // The system lists a folder in any order.
    found.watched.folders.sort_by(|a, b| a.folder.cmp(&b.folder));
    found.watched.files.sort();
    found.watched.files.dedup();
    found
}

/// The files of a workspace in which hosts keep its servers. What the globs find is not among them.
fn host_files(
    search_scope: SearchScope<'_>,
    walked: &[PathBuf],
    memory: &LastGoodDefinitions,
    names_in: NamesIn,
    found: &mut Discovery,
) -> Vec<(PathBuf, &'static HostProjectFile)> {
    if !search_scope.confined || !search_scope.config.project_files {
        return Vec::new();
    }
    let mut known = host_files::find(&search_scope.config.folder, search_scope.home, names_in);
    let rule = |(folder, rule)| WatchedDir { folder, rule: WatchRule::HostFiles(rule) };
    found.watched.folders.extend(known.dirs.into_iter().map(rule));
    found.watched.files.append(&mut known.links);
    found.problems.append(&mut known.problems);
    for (folder, error) in known.unread {
        let is_in = |file: &&PathBuf| file.parent() == Some(&folder);
        let mut kept: Vec<&PathBuf> = memory.good.keys().filter(is_in).collect();
        kept.sort();
        let kept = kept.into_iter().filter_map(|file| Some((file.clone(), host_file(search_scope, file)?)));
        known.files.extend(kept);
        found.note_unread(&folder, &error);
    }
    known.files.retain(|(file, _)| walked.binary_search(file).is_err());
    found.read_by = known.files.iter().map(|(file, known)| (file.clone(), known.hosts())).collect();
    known.files
}

/// The file of this project in which hosts keep its servers, if it is one.
fn host_file(search_scope: SearchScope<'_>, file: &Path) -> Option<&'static HostProjectFile> {
    let (known, root) = HostProjectFile::at(file)?;
    (search_scope.confined && root == search_scope.config.folder).then_some(known)
}

impl Discovery {
    fn note_unread(&mut self, folder: &Path, error: &std::io::Error) {
        self.problems.push(Problem::of(folder, format!("cannot be read: {error}")));
        self.watched.is_incomplete = true;
    }
}

/// The definitions in a file; broken ones are replaced by their last good version.
fn definitions(
    file: &Path,
    host_file: Option<&HostProjectFile>,
    search_scope: SearchScope<'_>,
    memory: &mut LastGoodDefinitions,
    found: &mut Discovery,
) -> Vec<Arc<Definition>> {
    let within = search_scope.confined.then_some(search_scope.config.folder.as_path());
    let document = match Document::read(file, within) {
        Ok(Some(document)) => document,
        Ok(None) => {
            memory.good.remove(file);
            return Vec::new();
        }
        Err(problem) => return last_good(file, vec![problem], memory, found),
    };
    // The target of a link can change without an event in the link's folder.
    if file.is_symlink() {
        found.watched.files.push(file.to_owned());
    }
    let env_files = RefCell::new(Vec::new());
    let variables = |env_file: &Path| {
        // A workspace that is not allowed yet cannot make us read or watch files outside of it.
        let variables = read_variables_within(env_file, within);
        if !matches!(&variables, Err(EnvFileError::Outside)) {
            env_files.borrow_mut().push(env_file.to_owned());
        }
        variables.map_err(|unread| unread.to_string())
    };
    let context = expansion_context(file, search_scope);
    let read = match host_file {
        None => shapes::read(&document, &EntryLocation { file, context, variables: &variables }),
        Some(known) => {
            let context = known.context(context);
            shapes::read_host_file(&document, known, &EntryLocation { file, context, variables: &variables })
        }
    };
    found.watched.files.append(&mut env_files.borrow_mut());
    if read.broken {
        return last_good(file, read.problems, memory, found);
    }
    found.problems.extend(read.problems);
    let before = memory.good.remove(file).unwrap_or_default();
    let mut good = Vec::new();
    let definitions = read.definitions.into_iter().map(|definition| {
        let kept = before.iter().find(|earlier| earlier.name == definition.name);
        let Err(why) = &definition.launch else {
            let unchanged = kept.filter(|earlier| ***earlier == definition).cloned();
            let definition = unchanged.unwrap_or_else(|| Arc::new(definition));
            good.push(definition.clone());
            return definition;
        };
        let kept_on = if kept.is_some() { "; its last valid version stays in use" } else { "" };
        let message = format!("`{}` is misconfigured: {why}{kept_on}", definition.name);
        found.problems.push(Problem { at: definition.at, ..Problem::of(file, message) });
        let Some(kept) = kept else { return Arc::new(definition) };
        good.push(kept.clone());
        kept.clone()
    });
    let definitions = definitions.collect();
    memory.good.insert(file.to_owned(), good);
    definitions
}

fn last_good(
    file: &Path,
    problems: Vec<Problem>,
    memory: &LastGoodDefinitions,
    found: &mut Discovery,
) -> Vec<Arc<Definition>> {
    let kept = memory.good.get(file).cloned().unwrap_or_default();
    found.problems.extend(problems.into_iter().map(|mut problem| {
        if !kept.is_empty() {
            problem.message.push_str("; its last valid version stays in use");
        }
        problem
    }));
    kept
}

/// The context for `${…}` in a file.
pub fn expansion_context(file: &Path, search_scope: SearchScope<'_>) -> ExpansionContext {
    let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
    let digest = crate::digest::hex(file.as_os_str().as_encoded_bytes());
    ExpansionContext {
        folder,
        root: search_scope.config.folder.clone(),
        home: search_scope.home.to_owned(),
        data: search_scope.data.join(&digest[..16]),
        personal: !search_scope.confined,
        ..ExpansionContext::default()
    }
}

pub fn read_variables(file: &Path) -> Result<BTreeMap<String, String>, String> {
    read_variables_within(file, None).map_err(|unread| unread.to_string())
}

/// Why an env file is not used. The messages continue its name.
#[derive(Debug, thiserror::Error)]
enum EnvFileError {
    #[error("is outside of the workspace")]
    Outside,
    #[error("{0}")]
    Wrong(String),
}

fn read_variables_within(
    file: &Path,
    within: Option<&Path>,
) -> Result<BTreeMap<String, String>, EnvFileError> {
    // Checked before the file system is asked about the path.
    if within.is_some_and(|root| !stays_below(file, root)) {
        return Err(EnvFileError::Outside);
    }
    let text = match read_text(file, within) {
        Ok(text) => text,
        Err(ReadTextError::Absent) => return Err(EnvFileError::Wrong("does not exist".to_owned())),
        Err(ReadTextError::Refused(why)) => return Err(EnvFileError::Wrong(why)),
    };
    crate::env_file::parse(&text).map_err(|(line, why)| EnvFileError::Wrong(format!("line {line}: {why}")))
}

/// Whether a path stays below a folder, judged by its components alone.
fn stays_below(path: &Path, root: &Path) -> bool {
    let Ok(below) = path.strip_prefix(root) else { return false };
    let mut depth = 0_i32;
    below.components().all(|part| {
        depth += match part {
            std::path::Component::ParentDir => -1,
            std::path::Component::Normal(_) => 1,
            _ => 0,
        };
        depth >= 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn look(folder: &Path, memory: &mut LastGoodDefinitions) -> (Vec<String>, Vec<String>) {
        let config = Config::defaults(folder);
        let search_scope =
            SearchScope { config: &config, confined: true, home: Path::new("/h"), data: Path::new("/s") };
        let found = discover(search_scope, memory);
        let shown = |definition: &Arc<Definition>| match definition.command() {
            Some(launch) => format!("{}={}", definition.name, launch.cmd),
            None => definition.name.clone(),
        };
        let problems = found.problems.iter().map(|problem| problem.message.clone()).collect();
        (found.definitions.iter().map(shown).collect(), problems)
    }

    #[test]
    fn bad_files_are_reported_and_their_neighbours_work() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "mcps/good/.mcp.json", r#"{"name": "good", "command": {"cmd": "true"}}"#);
        write(folder.path(), "mcps/broken/.mcp.json", "{");
        write(folder.path(), "mcps/twin/.mcp.json", r#"{"name": "good", "command": {"cmd": "false"}}"#);
        write(folder.path(), "mcps/deeper/x/.mcp.json", r#"{"name": "deep", "command": {"cmd": "true"}}"#);
        std::fs::create_dir_all(folder.path().join("mcps/folder/.mcp.json")).unwrap();
        let (found, problems) = look(folder.path(), &mut LastGoodDefinitions::default());
        assert_eq!(found, ["good=true", "good=false"]);
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn the_last_good_version_stays_while_a_file_is_broken() {
        let folder = tempfile::tempdir().unwrap();
        let memory = &mut LastGoodDefinitions::default();
        let file = "mcps/x/.mcp.json";
        let mut say = |text: &str| {
            write(folder.path(), file, text);
            let (found, problems) = look(folder.path(), memory);
            (found.join(" "), problems.len())
        };
        let good = r#"{"mcpServers": {"a": {"command": "one"}, "b": {"command": "two"}}}"#;
        assert_eq!(say(good), ("a=one b=two".to_owned(), 0));
        assert_eq!(say(""), ("a=one b=two".to_owned(), 1));
        assert_eq!(say(r#"{"mcpServers": {"a": {"command": "#), ("a=one b=two".to_owned(), 1));
        assert_eq!(say(r#"{"mcpServers": {}, "servers": {}}"#), ("a=one b=two".to_owned(), 1));
        // A single entry can be broken, too; an entry that was removed is gone.
        assert_eq!(say(r#"{"mcpServers": {"a": {"command": 7}}}"#), ("a=one".to_owned(), 2));
        assert_eq!(say(r#"{"mcpServers": {"a": {"command": "new"}}}"#), ("a=new".to_owned(), 0));
        std::fs::remove_file(folder.path().join(file)).unwrap();
        assert_eq!(look(folder.path(), memory).0.len(), 0);
        write(folder.path(), file, "{");
        assert_eq!(look(folder.path(), memory).0.len(), 0);
    }

    #[test]
    fn what_reads_as_before_is_shared_with_the_search_before() {
        let folder = tempfile::tempdir().unwrap();
        let memory = &mut LastGoodDefinitions::default();
        let config = Config::defaults(folder.path());
        let search_scope =
            SearchScope { config: &config, confined: true, home: Path::new("/h"), data: Path::new("/s") };
        let mut search = || discover(search_scope, memory).definitions;
        let same = |a: &[Arc<Definition>], b: &[Arc<Definition>]| -> Vec<bool> {
            a.iter().zip(b).map(|(a, b)| Arc::ptr_eq(a, b)).collect()
        };
        write(folder.path(), "mcps/a/.mcp.json", r#"{"name": "a", "command": {"cmd": "one"}}"#);
        write(folder.path(), "mcps/b/.mcp.json", r#"{"name": "b", "command": {"cmd": "one"}}"#);
        let first = search();
        write(folder.path(), "mcps/b/.mcp.json", r#"{"name": "b", "command": {"cmd": "two"}}"#);
        let second = search();
        assert_eq!(same(&first, &second), [true, false]);
        write(folder.path(), "mcps/b/.mcp.json", "{");
        assert_eq!(same(&second, &search()), [true, true], "the last good version goes on");
    }

    #[test]
    fn files_of_a_folder_that_cannot_be_read_now_stay() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        write(&folder, ".continue/mcpServers/a.json", r#"{"mcpServers": {"a": {"command": "one"}}}"#);
        write(&folder, ".continue/mcpServers/b.json", r#"{"mcpServers": {"b": {"command": "one"}}}"#);
        write(&folder, ".cursor/mcp.json", r#"{"mcpServers": {"c": {"command": "one"}}}"#);
        let memory = &mut LastGoodDefinitions::default();
        let config = Config::defaults(&folder);
        let search_scope =
            SearchScope { config: &config, confined: true, home: Path::new("/h"), data: Path::new("/s") };
        let mut search = |names_in: NamesIn| {
            let found = discover_with(search_scope, memory, names_in);
            let names: Vec<_> = found.definitions.iter().map(|definition| definition.name.clone()).collect();
            let readers = found.read_by.values().map(|hosts| hosts.to_string()).collect::<Vec<_>>();
            (names.join(" "), readers.join(" "), found.watched.is_incomplete, found.problems.len())
        };
        let expect = |is_incomplete, problems| {
            ("a b c".to_owned(), "Continue Continue Cursor".to_owned(), is_incomplete, problems)
        };
        assert_eq!(search(names_in), expect(false, 0));
        for _ in 0..2 {
            assert_eq!(search(|_| Err(std::io::Error::from_raw_os_error(24))), expect(true, 1));
        }
        assert_eq!(search(names_in), expect(false, 0));
        assert_eq!(search(|_| Ok(Vec::new())).0, "c");
    }

    #[test]
    fn a_confined_search_does_not_leave_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("w");
        write(folder.path(), "out.json", r#"{"name": "out", "command": {"cmd": "true"}}"#);
        std::fs::create_dir_all(root.join("mcps/x")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("out.json"), root.join("mcps/x/.mcp.json")).unwrap();
        let (found, problems) = look(&root, &mut LastGoodDefinitions::default());
        assert!(found.is_empty() && problems[0].contains("leads out"), "{problems:?}");
    }
}

//! The files in which hosts keep the servers of a project: where they are, how they are written, and which hosts read
//! them. What a host reads itself is not shown to it a second time.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::document::Problem;
use crate::expand::{Dialect, ExpansionContext};

/// Of the files of one folder, no more are read.
const MAX_FILES: usize = 256;

/// A host that reads servers from files of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectHost {
    ClaudeCode,
    Cursor,
    VsCode,
    CopilotCli,
    Codex,
    Gemini,
    Qwen,
    Roo,
    Zed,
    OpenCode,
    Junie,
    Continue,
}

use ProjectHost::{
    ClaudeCode, Codex, Continue, CopilotCli, Cursor, Gemini, Junie, OpenCode, Qwen, Roo, VsCode, Zed,
};

/// Each with its id, its name, and how the names begin that it gives itself in `clientInfo`.
const HOSTS: [(ProjectHost, &str, &str, &[&str]); 12] = [
    (ClaudeCode, "claude-code", "Claude Code", &["claude-code"]),
    (Cursor, "cursor", "Cursor", &["cursor"]),
    (VsCode, "vscode", "VS Code", &["visual-studio-code", "vscode", "vscodium", "code-oss"]),
    (
        CopilotCli,
        "copilot-cli",
        "Copilot CLI",
        &["github-copilot-developer", "github-copilot-cli", "copilot-cli"],
    ),
    (Codex, "codex", "Codex", &["codex"]),
    (Gemini, "gemini", "Gemini CLI", &["gemini-cli"]),
    (Qwen, "qwen", "Qwen Code", &["qwen"]),
    (Roo, "roo", "Roo Code", &["roo-code", "roo"]),
    (Zed, "zed", "Zed", &["zed"]),
    (OpenCode, "opencode", "OpenCode", &["opencode"]),
    (Junie, "junie", "Junie (JetBrains)", &["junie"]),
    (Continue, "continue", "Continue", &["continue"]),
];

impl ProjectHost {
    /// The host that gives itself this name in `clientInfo`.
    pub fn of_client(name: &str) -> Option<Self> {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = name.chars().map(plain).collect();
        let begins = |known: &&str| {
            name.strip_prefix(*known).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        HOSTS.iter().find(|(.., clients)| clients.iter().any(&begins)).map(|(host, ..)| *host)
    }

    /// As it is typed after `--host`.
    pub fn id(self) -> &'static str {
        HOSTS[self as usize].1
    }

    pub fn name(self) -> &'static str {
        HOSTS[self as usize].2
    }

    /// Whether it also reads the files of the folders above the one that it works in. Of one that does not, all files but
    /// those of its own folder are unread.
    pub fn searches_parents(self) -> bool {
        matches!(self, ClaudeCode | Codex | OpenCode)
    }
}

/// Some of the hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostSet(u16);

impl HostSet {
    pub fn of(hosts: &[ProjectHost]) -> Self {
        Self(hosts.iter().fold(0, |set, host| set | 1 << *host as u16))
    }

    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn contains(self, host: ProjectHost) -> bool {
        self.0 & (1 << host as u16) != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = ProjectHost> {
        HOSTS.iter().map(|(host, ..)| *host).filter(move |host| self.contains(*host))
    }
}

/// Names, for messages: `Cursor and Zed`.
impl std::fmt::Display for HostSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.iter().map(ProjectHost::name).collect();
        match names.split_last() {
            Some((last, [])) => f.write_str(last),
            Some((last, others)) => write!(f, "{} and {last}", others.join(", ")),
            None => Ok(()),
        }
    }
}

/// A file of a project in which hosts keep servers.
#[derive(Debug)]
pub struct HostProjectFile {
    /// Below the folder of the project. `*.json` stands for every such file.
    pub path: &'static str,
    /// The member that holds the servers.
    pub key: &'static str,
    readers: &'static [ProjectHost],
    dialect: Dialect,
    /// Whether it holds nothing but servers. Then it marks the folder of a project; settings are in many folders.
    is_mark: bool,
    /// Where the same host keeps what is for all projects, below HOME.
    of_user: &'static [&'static str],
}

const fn servers(path: &'static str, readers: &'static [ProjectHost]) -> HostProjectFile {
    HostProjectFile { path, key: "mcpServers", readers, dialect: Dialect::All, is_mark: true, of_user: &[] }
}

const fn settings(
    path: &'static str,
    key: &'static str,
    readers: &'static [ProjectHost],
    dialect: Dialect,
    of_user: &'static [&'static str],
) -> HostProjectFile {
    HostProjectFile { path, key, readers, dialect, is_mark: false, of_user }
}

/// The first file wins where two define different servers of one name.
pub static HOST_FILES: [HostProjectFile; 13] = [
    servers(".mcp.json", &[ClaudeCode, VsCode, CopilotCli]),
    HostProjectFile { of_user: &[".cursor/mcp.json"], ..servers(".cursor/mcp.json", &[Cursor]) },
    HostProjectFile { key: "servers", ..servers(".vscode/mcp.json", &[VsCode]) },
    servers(".github/mcp.json", &[CopilotCli]),
    settings(".codex/config.toml", "mcp_servers", &[Codex], Dialect::Literal, &[".codex/config.toml"]),
    settings(".gemini/settings.json", "mcpServers", &[Gemini], Dialect::Gemini, &[".gemini/settings.json"]),
    settings(".qwen/settings.json", "mcpServers", &[Qwen], Dialect::Gemini, &[".qwen/settings.json"]),
    servers(".roo/mcp.json", &[Roo]),
    settings(
        ".zed/settings.json",
        "context_servers",
        &[Zed],
        Dialect::Literal,
        &[".config/zed/settings.json"],
    ),
    settings(
        "opencode.json",
        "mcp",
        &[OpenCode],
        Dialect::OpenCode,
        &[".config/opencode/opencode.json", ".config/opencode/config.json"],
    ),
    settings("opencode.jsonc", "mcp", &[OpenCode], Dialect::OpenCode, &[".config/opencode/opencode.jsonc"]),
    HostProjectFile {
        dialect: Dialect::Literal,
        of_user: &[".junie/mcp/mcp.json"],
        ..servers(".junie/mcp/mcp.json", &[Junie])
    },
    HostProjectFile { is_mark: false, ..servers(".continue/mcpServers/*.json", &[Continue]) },
];

/// A folder with files of a kind that is not read, and the ends of their names.
const UNREAD: (&str, [&str; 2]) = (".continue/mcpServers", ["yaml", "yml"]);

impl HostProjectFile {
    /// The hosts that read it themselves.
    pub fn hosts(&self) -> HostSet {
        HostSet::of(self.readers)
    }

    /// The file of a project that this path may be, and the project's folder.
    pub fn at(file: &Path) -> Option<(&'static Self, PathBuf)> {
        HOST_FILES.iter().find_map(|known| {
            let mut names = file.iter().rev();
            let is_it =
                known.path.rsplit('/').all(|part| names.next().is_some_and(|name| is_named(name, part)));
            let root = file.ancestors().nth(known.path.split('/').count());
            root.filter(|_| is_it).map(|root| (known, root.to_owned()))
        })
    }

    /// The context for `${…}` in this file: hosts start its servers in the project's folder.
    #[must_use]
    pub fn context(&self, context: ExpansionContext) -> ExpansionContext {
        ExpansionContext { folder: context.root.clone(), dialect: self.dialect, ..context }
    }

    /// Whether this is the file that the host reads for all projects.
    fn is_of_user(&self, file: &Path, home: &Path) -> bool {
        let found = identity(file);
        found.is_some() && self.of_user.iter().any(|user| identity(&home.join(user)) == found)
    }
}

/// Whether a folder has a file that holds servers of a project and nothing else.
pub fn marks_project(folder: &Path) -> bool {
    HOST_FILES.iter().filter(|file| file.is_mark).any(|file| folder.join(file.path).is_file())
}

/// Files of a project that hold servers in a format that is not read.
pub fn unread_files(root: &Path) -> Vec<PathBuf> {
    let (folder, ends) = UNREAD;
    let is_one =
        |path: &PathBuf| path.extension().and_then(OsStr::to_str).is_some_and(|end| ends.contains(&end));
    let mut found: Vec<PathBuf> = names_in(&root.join(folder))
        .unwrap_or_default()
        .into_iter()
        .map(|name| root.join(folder).join(name))
        .filter(is_one)
        .take(MAX_FILES)
        .collect();
    found.sort();
    found
}

/// The files of a project, in the order of the table.
#[derive(Debug, Default)]
pub(super) struct FoundHostFiles {
    pub(super) files: Vec<(PathBuf, &'static HostProjectFile)>,
    /// The folders to watch, by their real paths.
    pub(super) dirs: Vec<(PathBuf, HostFileRule)>,
    /// Links to folders, which may be redirected.
    pub(super) links: Vec<PathBuf>,
    pub(super) problems: Vec<Problem>,
    /// Folders that the system could not read now, and why: which files they hold is unknown.
    pub(super) unread: Vec<(PathBuf, io::Error)>,
}

/// The rule of a folder: what of it leads to a file of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostFileRule {
    /// The folder, with `/` at its end; empty for the project's.
    below: &'static str,
}

impl HostFileRule {
    pub(super) fn is_relevant(self, name: &OsStr) -> bool {
        let next = |file: &HostProjectFile| file.path.strip_prefix(self.below)?.split('/').next();
        HOST_FILES.iter().any(|file| next(file).is_some_and(|part| is_named(name, part)))
    }
}

/// Finds the files below `root`. No folder outside of it is entered, also not through links. `names_in`: lists a folder.
pub(super) fn find(root: &Path, home: &Path, names_in: NamesIn) -> FoundHostFiles {
    let mut found = FoundHostFiles::default();
    let Ok(real_root) = root.canonicalize() else { return found };
    found.watch(&real_root, "");
    for known in &HOST_FILES {
        found.add(root, &real_root, home, known, names_in);
    }
    found
}

impl FoundHostFiles {
    fn watch(&mut self, folder: &Path, below: &'static str) {
        let rule = HostFileRule { below };
        if !self.dirs.iter().any(|(known, of)| known == folder && *of == rule) {
            self.dirs.push((folder.to_owned(), rule));
        }
    }

    fn add(
        &mut self,
        root: &Path,
        real_root: &Path,
        home: &Path,
        known: &'static HostProjectFile,
        names_in: NamesIn,
    ) {
        let mut real = real_root.to_owned();
        let mut end = 0;
        let mut parts = known.path.split('/').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                let names = match part.starts_with('*') {
                    true => names_in(&real),
                    false => Ok(vec![part.into()]),
                };
                let written = root.join(known.path);
                let written = written.parent().unwrap_or(root);
                return match names {
                    Ok(mut names) => {
                        names.retain(|name| is_named(name, part));
                        self.add_files(written, &real, home, known, names);
                    }
                    Err(error) if is_temporary(&error) => self.unread.push((written.to_owned(), error)),
                    Err(_) => {}
                };
            }
            end += part.len() + 1;
            let folder = real.join(part);
            if folder.is_symlink() {
                self.links.push(folder.clone());
            }
            match folder.canonicalize() {
                Ok(inside) if inside.is_dir() && inside.starts_with(real_root) => real = inside,
                _ => return,
            }
            self.watch(&real, &known.path[..end]);
        }
    }

    /// `written`: the folder as the project names it.
    fn add_files(
        &mut self,
        written: &Path,
        folder: &Path,
        home: &Path,
        known: &'static HostProjectFile,
        mut names: Vec<OsString>,
    ) {
        names.sort();
        if names.len() > MAX_FILES {
            let message = format!("more than {MAX_FILES} files with servers; the rest is left out");
            self.problems.push(Problem::of(written, message));
            names.truncate(MAX_FILES);
        }
        for name in names {
            let file = folder.join(&name);
            if file.symlink_metadata().is_ok() && !known.is_of_user(&file, home) {
                self.files.push((written.join(name), known));
            }
        }
    }
}

/// Device and inode.
pub(super) fn identity(folder: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(folder).ok()?;
    Some((meta.dev(), meta.ino()))
}

pub(super) type NamesIn = fn(&Path) -> io::Result<Vec<OsString>>;

pub(super) fn names_in(folder: &Path) -> io::Result<Vec<OsString>> {
    let entries = std::fs::read_dir(folder)?;
    // More than anybody has, so that a hostile folder costs little.
    entries.take(64 * MAX_FILES).map(|entry| Ok(entry?.file_name())).collect()
}

/// Whether the folder may be readable in a moment: no descriptors or no memory are left, or its disk did not answer.
pub(super) fn is_temporary(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    !matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

/// Whether a name is this part of a path; `*.json` stands for every name with that end.
fn is_named(name: &OsStr, part: &str) -> bool {
    match part.strip_prefix('*') {
        Some(end) => name.to_str().is_some_and(|name| name.ends_with(end) && !name.starts_with('.')),
        None => name == part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_hosts_is_in_the_order_of_the_hosts() {
        for (at, (host, id, ..)) in HOSTS.iter().enumerate() {
            assert_eq!((*host as usize, host.id()), (at, *id));
        }
        for file in &HOST_FILES {
            assert!(!file.hosts().is_empty(), "{}", file.path);
        }
        assert_eq!(HOST_FILES[0].hosts().to_string(), "Claude Code, VS Code and Copilot CLI");
    }

    #[test]
    fn hosts_are_known_by_the_names_they_give() {
        for (name, host) in [
            ("claude-code", Some(ClaudeCode)),
            ("claude-ai", None),
            ("cursor-vscode", Some(Cursor)),
            ("Cursor", Some(Cursor)),
            ("Visual Studio Code", Some(VsCode)),
            ("Visual-Studio-Code", Some(VsCode)),
            ("Visual Studio Code - Insiders", Some(VsCode)),
            ("Visual Studio", None),
            ("github-copilot-developer", Some(CopilotCli)),
            ("codex-mcp-client", Some(Codex)),
            ("gemini-cli-mcp-client-switchboard", Some(Gemini)),
            ("qwen-cli-mcp-client-switchboard", Some(Qwen)),
            ("Roo-Code", Some(Roo)),
            ("Roo Code", Some(Roo)),
            ("Cline", None),
            ("Zed", Some(Zed)),
            ("zedis", None),
            ("opencode", Some(OpenCode)),
            ("continue-cli-client", Some(Continue)),
            ("switchboard call", None),
            ("", None),
        ] {
            assert_eq!(ProjectHost::of_client(name), host, "{name}");
        }
    }

    #[test]
    fn a_path_tells_which_file_it_is() {
        for (file, expect) in [
            ("/w/.mcp.json", Some((".mcp.json", "/w"))),
            ("/w/.cursor/mcp.json", Some((".cursor/mcp.json", "/w"))),
            ("/w/x/.junie/mcp/mcp.json", Some((".junie/mcp/mcp.json", "/w/x"))),
            ("/w/.continue/mcpServers/a.json", Some((".continue/mcpServers/*.json", "/w"))),
            ("/w/.continue/mcpServers/a.yaml", None),
            ("/w/mcp.json", None),
            ("mcp.json", None),
        ] {
            let found = HostProjectFile::at(Path::new(file));
            let found = found.as_ref().map(|(known, root)| (known.path, root.to_str().unwrap()));
            assert_eq!(found, expect, "{file}");
        }
    }

    #[test]
    fn files_are_found_inside_of_the_project_only() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let (root, home) = (base.join("w"), base.join("home"));
        let write = |file: &Path| {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "{}").unwrap();
        };
        write(&root.join(".mcp.json"));
        write(&root.join(".continue/mcpServers/b.json"));
        write(&root.join(".continue/mcpServers/a.json"));
        write(&root.join(".continue/mcpServers/a.yaml"));
        write(&base.join("out/mcp.json"));
        std::os::unix::fs::symlink(base.join("out"), root.join(".cursor")).unwrap();
        // A repository with the user's own settings: the same file.
        write(&home.join(".gemini/settings.json"));
        std::fs::create_dir_all(root.join(".gemini")).unwrap();
        std::fs::hard_link(home.join(".gemini/settings.json"), root.join(".gemini/settings.json")).unwrap();
        let found = find(&root, &home, names_in);
        let files: Vec<_> = found.files.iter().map(|(file, _)| file.strip_prefix(&root).unwrap()).collect();
        let expect = [".mcp.json", ".continue/mcpServers/a.json", ".continue/mcpServers/b.json"];
        assert_eq!(files, expect.map(Path::new));
        assert_eq!(found.links, [root.join(".cursor")]);
        assert_eq!(unread_files(&root), [root.join(".continue/mcpServers/a.yaml")]);
        let cares = |folder: &str, name: &str| {
            let folder = root.join(folder);
            found.dirs.iter().any(|(known, rule)| *known == folder && rule.is_relevant(OsStr::new(name)))
        };
        for (folder, name, expect) in [
            ("", ".mcp.json", true),
            ("", ".cursor", true),
            ("", "opencode.jsonc", true),
            ("", "src", false),
            (".continue", "mcpServers", true),
            (".continue/mcpServers", "c.json", true),
            (".continue/mcpServers", "c.yaml", false),
            (".gemini", "settings.json", true),
            (".gemini", "other.json", false),
        ] {
            assert_eq!(cares(folder, name), expect, "{folder} {name}");
        }
    }
}

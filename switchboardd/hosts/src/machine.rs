//! Which hosts are on this machine, and where their files are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::table::HOSTS;
use super::{BaseFolder, Host, HostFile};

/// Determines where hosts keep their files.
#[derive(Debug, Clone)]
pub struct Machine {
    pub home: PathBuf,
    /// Absolute folders named by environment variables.
    pub variables: BTreeMap<&'static str, PathBuf>,
    /// The folders on PATH.
    pub path: Vec<PathBuf>,
    pub is_mac: bool,
}

/// The evidence that a host is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    File,
    Folder,
    Program,
}

/// A host found on this machine.
#[derive(Debug)]
pub struct InstalledHost {
    pub host: &'static Host,
    pub by: Evidence,
}

const VARIABLES: [&str; 5] =
    ["XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME", "CODEX_HOME", "CONTINUE_GLOBAL_DIR"];

impl Machine {
    /// From this process's environment.
    pub fn here(home: &Path) -> Self {
        let variable = |name: &&'static str| Some((*name, PathBuf::from(std::env::var_os(name)?)));
        let variables = VARIABLES.iter().filter_map(variable).filter(|(_, folder)| folder.is_absolute());
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self {
            home: home.to_owned(),
            variables: variables.collect(),
            path: std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect(),
            is_mac: cfg!(target_os = "macos"),
        }
    }

    /// The hosts on this machine.
    pub fn present(&self) -> Vec<InstalledHost> {
        HOSTS.iter().filter_map(|host| Some(InstalledHost { host, by: self.trace(host)? })).collect()
    }

    /// The evidence for one host, if there is any.
    pub fn trace(&self, host: &Host) -> Option<Evidence> {
        if host.places.iter().any(|place| self.file(place).exists()) {
            return Some(Evidence::File);
        }
        if host.places.iter().any(|place| self.is_shown(place)) {
            return Some(Evidence::Folder);
        }
        let runs = |name: &str| self.path.iter().any(|folder| folder.join(name).is_file());
        host.programs.iter().any(|name| runs(name)).then_some(Evidence::Program)
    }

    /// A host's files that exist.
    pub fn existing(&self, host: &Host) -> Vec<PathBuf> {
        // A dangling symlink is a user's file, too.
        let is_there = |file: &PathBuf| file.symlink_metadata().is_ok();
        host.places.iter().map(|place| self.file(place)).filter(is_there).collect()
    }

    /// A host's files with rules that exist: those for all projects, then those of single projects.
    pub fn rule_files(&self, host: &Host, projects: &[PathBuf]) -> Vec<(Option<PathBuf>, PathBuf)> {
        let wide = host.rules.iter().flat_map(|place| in_folder(self.file(place))).map(|file| (None, file));
        let of = |project: &PathBuf| {
            let project = project.clone();
            host.project_rules.iter().map(move |file| (Some(project.clone()), project.join(file)))
        };
        let is_there = |(_, file): &(Option<PathBuf>, PathBuf)| file.symlink_metadata().is_ok();
        wide.chain(projects.iter().flat_map(of)).filter(is_there).collect()
    }

    /// The files in which a host is set up, existing or not.
    pub fn targets(&self, host: &Host) -> Vec<PathBuf> {
        let existing = self.existing(host);
        if host.alternatives && !existing.is_empty() {
            return existing.into_iter().take(1).collect();
        }
        let is_used = |place: &&HostFile| existing.contains(&self.file(place)) || self.is_shown(place);
        let used: Vec<PathBuf> = host.places.iter().filter(is_used).map(|place| self.file(place)).collect();
        if used.is_empty() {
            return host.places.iter().take(1).map(|place| self.file(place)).collect();
        }
        used
    }

    fn file(&self, place: &HostFile) -> PathBuf {
        self.base(place.base).join(place.file)
    }

    fn is_shown(&self, place: &HostFile) -> bool {
        place.folder.is_some_and(|folder| self.base(place.base).join(folder).is_dir())
    }

    fn base(&self, base: BaseFolder) -> PathBuf {
        let config =
            || self.variables.get("XDG_CONFIG_HOME").cloned().unwrap_or_else(|| self.home.join(".config"));
        match base {
            BaseFolder::Home => self.home.clone(),
            BaseFolder::Config => config(),
            BaseFolder::Application if self.is_mac => self.home.join("Library/Application Support"),
            BaseFolder::Application => config(),
            BaseFolder::Managed if self.is_mac => "/Library/Application Support/ClaudeCode".into(),
            BaseFolder::Managed => "/etc/claude-code".into(),
            BaseFolder::Variable(name, folder) => {
                self.variables.get(name).cloned().unwrap_or_else(|| self.home.join(folder))
            }
        }
    }
}

/// The file itself; for `FOLDER/*.END`, those in the folder whose names end so, in the order of their names.
fn in_folder(file: PathBuf) -> Vec<PathBuf> {
    let name = file.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let Some(end) = name.as_deref().and_then(|name| name.strip_prefix('*')) else { return vec![file] };
    let all = file.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let mut files: Vec<PathBuf> = all.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end)));
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::super::table::by_id;
    use super::*;

    fn machine(home: &Path) -> Machine {
        Machine { home: home.to_owned(), variables: BTreeMap::new(), path: Vec::new(), is_mac: false }
    }

    #[test]
    fn a_host_shows_itself_by_file_folder_or_program() {
        let folder = tempfile::tempdir().unwrap();
        let mut machine = machine(folder.path());
        let cursor = by_id("cursor").unwrap();
        assert_eq!(machine.trace(cursor), None);
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        std::fs::write(folder.path().join("bin/cursor"), "").unwrap();
        machine.path = vec![folder.path().join("bin")];
        assert_eq!(machine.trace(cursor), Some(Evidence::Program));
        std::fs::create_dir(folder.path().join(".cursor")).unwrap();
        assert_eq!(machine.trace(cursor), Some(Evidence::Folder));
        std::fs::write(folder.path().join(".cursor/mcp.json"), "{}").unwrap();
        assert_eq!(machine.trace(cursor), Some(Evidence::File));
        assert_eq!(machine.present().len(), 1);
    }

    #[test]
    fn files_are_where_variables_and_systems_say() {
        let home = Path::new("/nonexistent/me");
        let mut machine = machine(home);
        let first = |machine: &Machine, id: &str| machine.targets(by_id(id).unwrap())[0].clone();
        for (id, file) in [
            ("claude-code", ".claude.json"),
            ("claude-desktop", ".config/Claude/claude_desktop_config.json"),
            ("vscode", ".config/Code/User/mcp.json"),
            ("codex", ".codex/config.toml"),
            ("copilot-cli", ".copilot/mcp-config.json"),
            ("continue", ".continue/config.yaml"),
            ("opencode", ".config/opencode/opencode.json"),
            ("zed", ".config/zed/settings.json"),
        ] {
            assert_eq!(first(&machine, id), home.join(file));
        }
        machine.is_mac = true;
        assert_eq!(first(&machine, "vscode"), home.join("Library/Application Support/Code/User/mcp.json"));
        assert_eq!(first(&machine, "zed"), home.join(".config/zed/settings.json"));
        machine.variables.insert("CODEX_HOME", "/x".into());
        machine.variables.insert("CLAUDE_CONFIG_DIR", "/c".into());
        assert_eq!(first(&machine, "codex"), Path::new("/x/config.toml"));
        assert_eq!(first(&machine, "claude-code"), Path::new("/c/.claude.json"));
    }

    #[test]
    fn an_existing_alternative_is_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let machine = machine(folder.path());
        let opencode = by_id("opencode").unwrap();
        std::fs::create_dir_all(folder.path().join(".config/opencode")).unwrap();
        let file = folder.path().join(".config/opencode/opencode.jsonc");
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(machine.targets(opencode), [file]);
    }
}

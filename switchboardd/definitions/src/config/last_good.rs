//! What is used while a config has a mistake: the last version of the file without one, else whatever can be
//! understood of the current one. So a mistake does not cost an editor its tools if an earlier version was
//! good.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use switchboard_wire::runtime_paths::private_folder;

use super::{Config, ConfigOwner};
use crate::document::{Document, Problem};
use crate::files::{private, replace};
use switchboard_wire::event_loop::may_block;

/// Where a config comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// The whole file, which has no mistake.
    Whole,
    /// An earlier version of the file, which has a mistake now.
    LastGood,
    /// The part of the file that can be understood.
    Partial,
}

/// The usable config of a file, and the file's problems.
#[derive(Debug)]
pub struct UsableConfig {
    pub config: Config,
    pub problems: Vec<Problem>,
}

/// The last version without a mistake of each file, stored in the state folder.
#[derive(Debug, Clone)]
pub struct LastGood {
    folder: PathBuf,
}

/// More than any user has projects with a config. Above it, the oldest go first.
const MAX_CONFIGS: usize = 256;
/// Longer than any config, even with its characters escaped in JSON.
const MAX_CONFIG_BYTES: u64 = 16 * 1024 * 1024;

impl LastGood {
    pub fn new(state: &Path) -> Self {
        Self { folder: state.join("configs") }
    }

    /// The config that the daemon works with.
    pub fn usable(&self, file: &Path, extent: ConfigOwner) -> UsableConfig {
        let (config, mut problems) = Config::read_usable(file, extent);
        if problems.is_empty() {
            return UsableConfig { config, problems };
        }
        let config = self.last_good(file, extent).unwrap_or(config);
        problems.push(config.in_place_of_the_file(file));
        UsableConfig { config, problems }
    }

    /// Stores a config without mistakes. If its file is gone, deletes the stored version.
    pub fn save(&self, config: &Config) {
        if config.basis != ConfigSource::Whole {
            return;
        }
        may_block();
        let kept = self.file(&config.file);
        if config.text.is_empty() {
            let _ = std::fs::remove_file(kept);
            return;
        }
        let body = json!({ "file": config.file, "text": config.text }).to_string();
        if std::fs::read(&kept).is_ok_and(|before| before == body.as_bytes()) {
            return;
        }
        let written = private_folder(&self.folder).and_then(|()| replace(&kept, body.as_bytes()));
        match written {
            Ok(()) => self.make_room(),
            Err(error) => {
                tracing::debug!(target: "config", "`{}` cannot be written: {error}", kept.display())
            }
        }
    }

    /// Parses the stored version again, by the current rules.
    pub fn last_good(&self, file: &Path, extent: ConfigOwner) -> Option<Config> {
        let kept = private::read(&self.file(file), MAX_CONFIG_BYTES).ok()??;
        let kept: Value = serde_json::from_slice(&kept).ok()?;
        if kept["file"].as_str().map(Path::new) != Some(file) {
            return None;
        }
        let document = Document::from_text(file, kept["text"].as_str()?);
        let config = Config::parse(&document, file.parent()?, extent).ok()?;
        Some(Config { basis: ConfigSource::LastGood, ..config })
    }

    fn file(&self, config: &Path) -> PathBuf {
        self.folder.join(format!("{}.json", crate::digest::hex(config.as_os_str().as_encoded_bytes())))
    }

    fn make_room(&self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        let age = |entry: std::fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
        let mut all: Vec<_> = entries.flatten().filter_map(age).collect();
        all.sort();
        for (_, oldest) in all.iter().take(all.len().saturating_sub(MAX_CONFIGS)) {
            let _ = std::fs::remove_file(oldest);
        }
    }
}

impl Config {
    /// The message that says what is used while the file has a mistake.
    pub fn in_place_of_the_file(&self, file: &Path) -> Problem {
        match self.basis {
            ConfigSource::Partial => Problem::of(
                self.to_fix(),
                "until this is fixed, the part of the file that can be understood is used",
            ),
            ConfigSource::Whole | ConfigSource::LastGood => Problem::of(
                file,
                "until this is fixed, the last version of the file without a mistake is used",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const FILE: &str = "switchboard.config.json";

    #[test]
    fn the_last_version_without_a_mistake_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let (file, kept) = (folder.path().join(FILE), LastGood::new(&folder.path().join("state")));
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        let usable = || kept.usable(&file, ConfigOwner::Personal);
        // Nothing is stored yet, so the partial config is used.
        write(r#"{"timeouts": {"rpcMs": 5, "maxMs": "x"}, "nonsense": 1}"#);
        let first = usable();
        assert_eq!((first.config.basis, first.config.timeouts.rpc_ms), (ConfigSource::Partial, 5));
        assert_eq!(first.config.timeouts.max_ms, 1_800_000);
        assert_eq!(first.problems.len(), 3, "{:?}", first.problems);
        kept.save(&first.config);
        assert_eq!(usable().config.basis, ConfigSource::Partial);
        write(r#"{"timeouts": {"rpcMs": 7}}"#);
        let good = usable();
        assert_eq!((good.config.basis, good.problems.len()), (ConfigSource::Whole, 0));
        kept.save(&good.config);
        for broken in [r#"{"timeouts": {"rpcMs": 9}, "nonsense": 1}"#, "{", ""] {
            write(broken);
            let usable = usable();
            assert_eq!(
                (usable.config.basis, usable.config.timeouts.rpc_ms),
                (ConfigSource::LastGood, 7),
                "{broken}"
            );
            assert!(usable.problems.last().unwrap().message.contains("last version"), "{broken}");
        }
        let stored = kept.file(&file);
        assert_eq!(std::fs::metadata(&stored).unwrap().permissions().mode() & 0o777, 0o600);
        // A stored version that others can read is not used: they may have written it.
        std::fs::set_permissions(&stored, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(usable().config.basis, ConfigSource::Partial);
        std::fs::set_permissions(&stored, std::fs::Permissions::from_mode(0o600)).unwrap();
        // A stored version does not survive the removal of its file.
        std::fs::remove_file(&file).unwrap();
        kept.save(&usable().config);
        write("{");
        assert_eq!(usable().config.basis, ConfigSource::Partial);
    }

    #[test]
    fn each_file_has_its_own_last_good_version() {
        let folder = tempfile::tempdir().unwrap();
        let kept = LastGood::new(folder.path());
        let (one, other) = (folder.path().join("a").join(FILE), folder.path().join("b").join(FILE));
        for file in [&one, &other] {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        }
        std::fs::write(&one, r#"{"watch": "poll"}"#).unwrap();
        kept.save(&kept.usable(&one, ConfigOwner::Personal).config);
        std::fs::write(&other, "{").unwrap();
        assert_eq!(kept.usable(&other, ConfigOwner::Personal).config.basis, ConfigSource::Partial);
        // A workspace cannot recall what only the user may set.
        assert!(kept.last_good(&one, ConfigOwner::Workspace).is_none());
        assert!(kept.last_good(&one, ConfigOwner::Personal).is_some());
    }
}

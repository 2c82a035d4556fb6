//! One source of definitions: the user's own config, or a workspace. It is read as a whole, with the trust
//! status of each definition.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use switchboard_definitions::config::{Config, ConfigOwner, FILE_NAME, LastGood, Restrictions, Split};
use switchboard_definitions::definition::{Definition, Launch};
use switchboard_definitions::discover::host_files::{HostSet, marks_project};
use switchboard_definitions::discover::{
    Discovery, LastGoodDefinitions, SearchScope, WatchedPaths, discover,
};
use switchboard_definitions::document::Problem;
use switchboard_definitions::files::{describe_path_error, others_can_write};
use switchboard_definitions::own_limits::OwnLimits;
use switchboard_definitions::trust::{JudgedDefinition, Provenance, Trust, TrustStatus, TrustStore};
use switchboard_wire::event_loop::may_block;

use crate::pool::manifest::{Manifest, Manifests};

#[derive(Debug)]
pub struct Layer {
    pub config: Config,
    pub entries: Vec<JudgedDefinition>,
    /// Definitions that the user denied.
    pub denied: Vec<Arc<Definition>>,
    /// Definitions that launch the same as another one, which stands for them.
    pub duplicates: Vec<DuplicateDefinition>,
    /// Held definitions whose name is that of another held one: the user may choose them instead.
    pub rivals: Vec<JudgedDefinition>,
    pub problems: Vec<Problem>,
    pub watched: WatchedPaths,
    /// The stored manifests of its servers, until a catalog has created their pools.
    // A leaf lock: held only to put them there or to take them.
    pub manifests: Mutex<Vec<Arc<Manifest>>>,
}

/// A definition in one file that launches the same as one in another.
#[derive(Debug)]
pub struct DuplicateDefinition {
    pub definition: Arc<Definition>,
    pub is_denied: bool,
    /// File and name of the one that stands for it.
    pub of: (PathBuf, String),
}

/// Locations shared by all layers.
#[derive(Debug, Clone)]
pub struct Locations {
    pub home: PathBuf,
    pub state: PathBuf,
    pub trust: TrustStore,
    /// Directories that the command line trusts.
    pub trust_roots: Vec<PathBuf>,
}

impl Locations {
    pub fn new(home: &Path, state: &Path, trust_roots: &[PathBuf]) -> Self {
        Self {
            home: home.to_owned(),
            state: state.to_owned(),
            trust: TrustStore::new(state),
            trust_roots: trust_roots.to_vec(),
        }
    }

    /// All decisions of the user; none if they cannot be read.
    pub fn trust(&self, personal: &Config) -> (Trust, Vec<Problem>) {
        may_block();
        let mut problems = Vec::new();
        let mut roots = self.trust_roots.clone();
        if !personal.trust.roots.is_empty() {
            let how = match personal.file.canonicalize() {
                Ok(real) => others_can_write(&real, &mut HashMap::new()),
                Err(error) => Some(describe_path_error(&personal.file, &error)),
            };
            match how {
                None => roots.extend(personal.trust.roots.iter().cloned()),
                Some(how) => {
                    problems.push(Problem::of(&personal.file, format!("`trust.roots` is not used: {how}")));
                }
            }
        }
        let roots = roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
        let records = self.trust.read().unwrap_or_else(|error| {
            problems.push(Problem::of(&self.trust.file(), error.to_string()));
            Default::default()
        });
        (Trust { records, roots }, problems)
    }

    /// The workspace that a folder belongs to, for sessions and commands alike: the nearest project at or
    /// above the folder, or the folder itself if there is none. `None` if the folder cannot be a workspace.
    /// The search stops at HOME, at the root of a repository, and below a folder of another user.
    ///
    /// A file in which hosts keep servers of a project marks it, too, unless `personal` says that these are not read; but a
    /// folder that has a config of ours or `mcps` comes first.
    pub fn workspace(&self, named: &Path, personal: &Config) -> Option<PathBuf> {
        may_block();
        // The path must be absolute: the daemon's own directory has nothing to do with the caller's.
        let root = Some(named).filter(|named| named.is_absolute())?.canonicalize().ok()?;
        if !root.is_dir() {
            return None;
        }
        let home = self.home.canonicalize().unwrap_or_else(|_| self.home.clone());
        let could_be = |folder: &Path| folder != Path::new("/") && folder != home;
        if !could_be(&root) {
            return None;
        }
        let own = rustix::process::getuid().as_raw();
        let mut marked = None;
        for folder in root.ancestors().take_while(|folder| could_be(folder)) {
            if is_project(folder) {
                return Some(folder.to_owned());
            }
            if marked.is_none() && personal.project_files && marks_project(folder) {
                marked = Some(folder.to_owned());
            }
            let above_is_ours = folder.parent().and_then(|above| above.metadata().ok());
            if folder.join(".git").exists() || above_is_ours.is_none_or(|above| above.uid() != own) {
                break;
            }
        }
        marked.or(Some(root))
    }
}

/// Whether a folder has a config or an `mcps` folder.
fn is_project(folder: &Path) -> bool {
    folder.join(FILE_NAME).is_file() || folder.join("mcps").is_dir()
}

/// Which hosts start a launch themselves, because files of the project say so.
#[derive(Default)]
struct Launches {
    /// By the digest of the launch. Empty where hosts keep no servers in files of the project.
    read_by: HashMap<String, HostSet>,
    of_files: BTreeMap<PathBuf, HostSet>,
}

impl Launches {
    fn of(found: &Discovery) -> Self {
        let mut launches = Self { of_files: found.read_by.clone(), ..Self::default() };
        if launches.of_files.is_empty() {
            return launches;
        }
        for definition in &found.definitions {
            if let Ok(launch) = &definition.launch {
                let hosts = launches.of_files.get(&definition.file).copied().unwrap_or_default();
                let known = launches.read_by.entry(launch.digest()).or_default();
                *known = known.union(hosts);
            }
        }
        launches
    }

    /// The hosts that read a definition themselves, and the digest of its launch if others may launch the same.
    fn readers(&self, definition: &Definition) -> (HostSet, Option<String>) {
        let of_file = self.of_files.get(&definition.file).copied().unwrap_or_default();
        let digest = definition.launch.as_ref().ok().filter(|_| !self.read_by.is_empty()).map(Launch::digest);
        let of_launch = digest.as_ref().and_then(|digest| self.read_by.get(digest)).copied();
        (
            of_launch.unwrap_or_default().union(of_file),
            digest.filter(|_| of_launch.is_some_and(|hosts| !hosts.is_empty())),
        )
    }
}

impl Layer {
    /// Reads the user's own layer.
    pub fn personal(
        config: Config,
        locations: &Locations,
        trust: &Trust,
        memory: &mut LastGoodDefinitions,
    ) -> Self {
        let mut folders = HashMap::new();
        let mut known = std::mem::take(&mut memory.exposed);
        let exposed = |file: &Path| {
            let how = match file.canonicalize() {
                Ok(real) => others_can_write(&real, &mut folders),
                // The file is gone and its last good version is used, so its last known state applies.
                Err(error) => known.remove(file).unwrap_or_else(|| Some(describe_path_error(file, &error))),
            };
            known.insert(file.to_owned(), how.clone());
            how.map_or(Provenance::Personal, Provenance::WritableByOthers)
        };
        let mut config = config;
        for folder in config.suites.values_mut().flat_map(|suite| suite.workspaces.iter_mut().flatten()) {
            // Roots of workspaces are real paths.
            *folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        }
        let layer = Self::read(config, false, locations, trust, memory, exposed);
        memory.exposed = known;
        layer
    }

    /// Reads a workspace's layer. If its config has a mistake, the last good version is used, else what can
    /// be understood of it.
    pub fn workspace(
        root: &Path,
        personal: &Config,
        locations: &Locations,
        trust: &Trust,
        memory: &mut LastGoodDefinitions,
    ) -> Self {
        let file = Self::config_file(root);
        let (mut config, mut problems) = Config::read_usable(&file, ConfigOwner::Workspace);
        if problems.is_empty() {
            memory.config = Some(config.clone());
        } else {
            let last = memory.config.clone();
            let last =
                last.or_else(|| LastGood::new(&locations.state).last_good(&file, ConfigOwner::Workspace));
            config = last.unwrap_or(config);
            problems.push(config.in_place_of_the_file(&file));
        }
        // A workspace can turn this off for itself, and not on.
        config.project_files &= personal.project_files;
        let mut layer = Self::read(config, true, locations, trust, memory, |_| Provenance::Workspace);
        layer.entries.iter_mut().for_each(|entry| restrict(entry, personal));
        layer.problems.splice(0..0, problems);
        layer
    }

    fn read(
        config: Config,
        confined: bool,
        locations: &Locations,
        trust: &Trust,
        memory: &mut LastGoodDefinitions,
        mut provenance: impl FnMut(&Path) -> Provenance,
    ) -> Self {
        let data = locations.state.join("data");
        let found =
            discover(SearchScope { config: &config, confined, home: &locations.home, data: &data }, memory);
        let launches = Launches::of(&found);
        let mut layer = Self {
            config,
            entries: Vec::new(),
            denied: Vec::new(),
            duplicates: Vec::new(),
            rivals: Vec::new(),
            problems: found.problems,
            watched: found.watched,
            manifests: Mutex::default(),
        };
        let mut judged = Vec::new();
        for definition in found.definitions {
            let provenance = provenance(&definition.file);
            let (read_by, launch) = launches.readers(&definition);
            let (mut definition, trust_status) = trust.judge(definition, &provenance);
            let wanted = layer.config.suite(&definition.name).restrictions();
            let (trust_status, settings) =
                trust.judge_settings(&definition, &provenance, trust_status, wanted);
            if let Some(why) = layer.config.unusable_reason(&definition.name) {
                let definition = Arc::make_mut(&mut definition);
                definition.launch = Err(why.to_owned());
                definition.unclear_in = Some(layer.config.to_fix().to_owned());
            }
            let why_held = match provenance {
                Provenance::WritableByOthers(how) if trust_status != TrustStatus::Allowed => Some(how),
                _ => None,
            };
            if let Some(how) = &why_held {
                let message = format!("`{}` is held: {how}", definition.name);
                layer.problems.push(Problem { at: definition.at, ..Problem::of(&definition.file, message) });
            }
            let other_limits = OwnLimits::default();
            let judged_definition =
                JudgedDefinition { definition, trust_status, why_held, read_by, settings, other_limits };
            judged.push((judged_definition, launch));
        }
        for entry in layer.drop_duplicates(judged) {
            match entry.trust_status {
                TrustStatus::Denied => layer.denied.push(entry.definition),
                _ => layer.entries.push(entry),
            }
        }
        layer.resolve_name_clashes();
        layer
    }

    /// Keeps one of the definitions that launch the same: one that the user denied, else the first of those that the
    /// user decided on furthest. Each comes with the digest of its launch; `None` if no other can be the same.
    fn drop_duplicates(&mut self, judged: Vec<(JudgedDefinition, Option<String>)>) -> Vec<JudgedDefinition> {
        let rank = |at: usize| match judged[at].0.trust_status {
            TrustStatus::Denied => 0,
            TrustStatus::Allowed => 1,
            TrustStatus::Outdated { .. } => 2,
            TrustStatus::Held => 3,
        };
        let mut kept: HashMap<&str, usize> = HashMap::new();
        for (at, (_, digest)) in judged.iter().enumerate() {
            let Some(digest) = digest else { continue };
            let best = kept.entry(digest).or_insert(at);
            if rank(at) < rank(*best) {
                *best = at;
            }
        }
        let place = |at: usize| {
            let Definition { file, name, .. } = &*judged[at].0.definition;
            (file.clone(), name.clone())
        };
        let standing = judged.iter().enumerate().map(|(at, (_, digest))| {
            let stands = digest.as_ref().and_then(|digest| kept.get(digest.as_str()).copied());
            stands.filter(|stands| *stands != at).map(place)
        });
        let standing: Vec<_> = standing.collect();
        let mut limits: HashMap<(PathBuf, String), OwnLimits> = HashMap::new();
        for ((entry, _), of) in judged.iter().zip(&standing) {
            if let Some(of) = of.as_ref().filter(|_| !entry.definition.limits.is_open()) {
                limits.entry(of.clone()).or_default().restrict(&entry.definition.limits);
            }
        }
        let mut stay = Vec::new();
        for ((entry, _), of) in judged.into_iter().zip(standing) {
            match of {
                None => {
                    let place = (entry.definition.file.clone(), entry.definition.name.clone());
                    let other_limits = limits.remove(&place).unwrap_or_default();
                    stay.push(JudgedDefinition { other_limits, ..entry });
                }
                Some(of) => {
                    let is_denied = entry.trust_status == TrustStatus::Denied;
                    let definition = entry.definition;
                    self.duplicates.push(DuplicateDefinition { definition, is_denied, of });
                }
            }
        }
        stay
    }

    /// Resolves duplicate names: the first definition wins, but a held one gives way to one that is not.
    fn resolve_name_clashes(&mut self) {
        let mut settled: Vec<JudgedDefinition> = Vec::with_capacity(self.entries.len());
        for entry in self.entries.drain(..) {
            let Some(rival) = settled.last_mut().filter(|last| last.definition.name == entry.definition.name)
            else {
                settled.push(entry);
                continue;
            };
            let wins = rival.trust_status == TrustStatus::Held && entry.trust_status != TrustStatus::Held;
            let loser = if wins { std::mem::replace(rival, entry) } else { entry };
            let (name, used) = (&rival.definition.name, rival.definition.file.display());
            let message = format!("`{name}` is already defined in `{used}`, which is used");
            let Definition { at, file, .. } = &*loser.definition;
            self.problems.push(Problem { at: *at, ..Problem::of(file, message) });
            if rival.trust_status == TrustStatus::Held {
                self.rivals.push(loser);
            }
        }
        self.entries = settled;
    }

    /// Reads the stored manifests of its servers, before the servers are shown.
    pub fn load_manifests(self, manifests: &Manifests) -> Self {
        let startable = self.entries.iter().filter(|entry| entry.trust_status != TrustStatus::Held);
        let known =
            manifests.preload(startable.clone().filter_map(|entry| entry.definition.launch.as_ref().ok()));
        for JudgedDefinition { definition, .. } in startable {
            let manifest = definition.launch.as_ref().ok().and_then(|launch| manifests.cached(launch));
            match manifest {
                Some(manifest) => {
                    manifests.baselines.load(definition, &manifest.tools, &manifest.server_info)
                }
                None => manifests.baselines.load_unlisted(definition),
            }
        }
        *self.manifests.lock().expect("BUG: a note panicked") = known;
        self
    }

    /// Whether both layers have the same content; then no host needs to be notified.
    pub fn is_same(&self, other: &Self) -> bool {
        // A refused config may have no text, like a missing one, so `basis` is compared too.
        self.config.text == other.config.text
            && self.config.basis == other.config.basis
            && self.entries == other.entries
            && self.denied == other.denied
            && self.problems == other.problems
            // A new folder is to be watched, also while it is empty.
            && self.watched == other.watched
    }

    pub fn config_file(root: &Path) -> PathBuf {
        root.join(FILE_NAME)
    }
}

/// What the user's own settings forbid of a server holds for one of that name in a project, too. If they are not clear, it
/// is not used.
fn restrict(entry: &mut JudgedDefinition, personal: &Config) {
    let own = personal.suite(&entry.definition.name);
    let split = match own.split {
        Split::Auto => entry.settings.in_force.split,
        own => own,
    };
    let suite_name = entry.settings.in_force.suite_name.clone();
    entry.settings.in_force =
        Restrictions { suite_name, split, ..entry.settings.in_force.and(&own.restrictions()) };
    if let Some(why) = own.unusable_reason {
        let definition = Arc::make_mut(&mut entry.definition);
        definition.launch = Err(why);
        definition.unclear_in = Some(personal.to_fix().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn config(text: &str) -> (tempfile::TempDir, Config) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE_NAME);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let config = Config::load(&file).unwrap();
        (folder, config)
    }

    #[test]
    fn a_missing_file_counts_as_writable_by_others() {
        let told = others_can_write(Path::new("/nonexistent/.mcp.json"), &mut HashMap::new());
        assert!(told.is_some_and(|told| told.contains("/nonexistent/.mcp.json")));
    }

    #[test]
    fn trust_roots_of_a_config_that_others_can_write_are_ignored() {
        let (folder, config) = config(r#"{"trust": {"roots": ["/usr"]}}"#);
        let locations = Locations::new(Path::new("/h"), folder.path(), &[]);
        assert_eq!(locations.trust(&config).0.roots, [Path::new("/usr")]);
        std::fs::set_permissions(&config.file, std::fs::Permissions::from_mode(0o606)).unwrap();
        let (trust, problems) = locations.trust(&config);
        assert!(trust.roots.is_empty());
        assert!(problems[0].message.contains("everybody can write it"), "{}", problems[0]);
    }

    #[test]
    fn a_refused_config_is_not_the_same_as_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        let locations = Locations::new(Path::new("/h"), &folder.path().join("s"), &[]);
        let definition = folder.path().join("mcps/k/.mcp.json");
        let read = || {
            let (config, _) = Config::read_usable(&folder.path().join(FILE_NAME), ConfigOwner::Personal);
            Layer::personal(config, &locations, &Trust::default(), &mut LastGoodDefinitions::default())
        };
        let missing = read();
        let program = folder.path().join("switchboard.config.js");
        std::fs::write(&program, "").unwrap();
        let refused = read();
        assert!(missing.is_same(&missing) && refused.is_same(&refused));
        assert!(!refused.is_same(&missing));
        // The server is listed with the file to fix.
        std::fs::create_dir_all(definition.parent().unwrap()).unwrap();
        std::fs::write(&definition, r#"{"mcpServers": {"k": {"command": "true"}}}"#).unwrap();
        assert_eq!(read().entries[0].definition.to_fix(), program);
    }

    #[test]
    fn only_a_folder_named_in_full_is_a_workspace() {
        let locations = Locations::new(Path::new("/tmp"), Path::new("/s"), &[]);
        let any = Config::defaults(Path::new("/c"));
        for none in ["", ".", "src", "/", "/tmp", "/tmp/", "/usr/..", "/etc/passwd", "/nonexistent"] {
            assert_eq!(locations.workspace(Path::new(none), &any), None, "{none}");
        }
        assert_eq!(locations.workspace(Path::new("/usr/./lib/.."), &any), Some("/usr".into()));
    }

    #[test]
    fn a_folder_belongs_to_the_nearest_project() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let home = base.join("home");
        let config = std::cell::RefCell::new(Config::defaults(&base));
        let of = |folder: &str| {
            let config = config.borrow();
            let locations = Locations::new(&home, Path::new("/s"), &[]);
            locations
                .workspace(&home.join(folder), &config)
                .map(|root| root.strip_prefix(&home).unwrap().to_owned())
        };
        for folder in ["app/deep/er", "app/mcps/x", "repo/.git", "repo/src", "other/src", "app/own/src"] {
            std::fs::create_dir_all(home.join(folder)).unwrap();
        }
        std::fs::write(home.join("app/own").join(FILE_NAME), "{}").unwrap();
        // HOME is never a project.
        std::fs::create_dir(home.join("mcps")).unwrap();
        for (folder, root) in [
            ("app", "app"),
            ("app/deep/er", "app"),
            ("app/mcps/x", "app"),
            ("app/own/src", "app/own"),
            ("other/src", "other/src"),
            ("repo/src", "repo/src"),
        ] {
            assert_eq!(of(folder), Some(root.into()), "{folder}");
        }
        // A repository inside of a project is not part of it.
        std::fs::create_dir_all(home.join("app/vendor/.git")).unwrap();
        std::fs::create_dir_all(home.join("app/vendor/src")).unwrap();
        assert_eq!(of("app/vendor/src"), Some("app/vendor/src".into()));
        assert_eq!(of(""), None);
        // Files of hosts mark a project where none of our own is; settings of hosts are in any folder.
        std::fs::create_dir_all(home.join("shop/.cursor")).unwrap();
        std::fs::create_dir_all(home.join("shop/.zed")).unwrap();
        std::fs::create_dir_all(home.join("shop/src/.zed")).unwrap();
        std::fs::create_dir_all(home.join(".cursor")).unwrap();
        for file in [
            "shop/.cursor/mcp.json",
            "shop/src/.zed/settings.json",
            "app/deep/.mcp.json",
            ".mcp.json",
            ".cursor/mcp.json",
        ] {
            std::fs::write(home.join(file), "{}").unwrap();
        }
        for (folder, root) in [
            ("shop/src", "shop"),
            ("shop/.cursor", "shop"),
            ("app/deep/er", "app"),
            ("other/src", "other/src"),
        ] {
            assert_eq!(of(folder), Some(root.into()), "{folder}");
        }
        assert_eq!(of(""), None);
        config.borrow_mut().project_files = false;
        assert_eq!(of("shop/src"), Some("shop/src".into()));
    }
}

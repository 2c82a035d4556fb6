//! `switchboard.config.json`: the accepted keys and the defaults.
//!
//! `switchboard.config.schema.json` describes exactly these; tests compare the two.

mod last_good;
mod permissions;
mod read;
#[cfg(test)]
mod reference;
mod restrictions;
#[cfg(test)]
mod schema;
mod show;

pub use last_good::{ConfigSource, LastGood, UsableConfig};
pub use permissions::{Confirm, Split};
pub use read::listen_problem;
pub use restrictions::Restrictions;
pub use show::Show;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::document::{Document, Problem};
use crate::expand::Template;
pub use crate::tool_globs::glob_matches;
use switchboard_wire::event_loop::may_block;

pub const FILE_NAME: &str = "switchboard.config.json";

/// Whether a file is the user's own or a workspace's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOwner {
    Personal,
    /// A workspace cannot set `http`, `budget`, `trust`, `oauth`, `watch`, `record` or `aggregate`.
    Workspace,
}

/// How long one child may take for each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the start to the end of the handshake.
    pub spawn: Duration,
    /// Time without progress on a call; suspended while the host answers a question.
    pub rpc: Duration,
    /// Total duration of a call, including progress and questions.
    pub max: Duration,
}

/// Configs that are programs are refused by name instead of silently ignored.
const REFUSED_FILES: [&str; 3] =
    ["switchboard.config.js", "switchboard.config.cjs", "switchboard.config.mjs"];

#[derive(Debug, Clone)]
pub struct Config {
    pub file: PathBuf,
    /// The program that was found in place of the file; it is not run.
    pub program: Option<PathBuf>,
    /// The file's text, verbatim.
    pub text: String,
    /// Whether this is the whole file, part of it, or an earlier version.
    pub basis: ConfigSource,
    /// Why no server can be used: the config may hide tools, but it cannot be understood.
    pub unusable_reason: Option<String>,
    /// The scope of servers that set none; set if a `pool` setting cannot be understood.
    pub scope: Option<Scope>,
    /// The folder of the file; globs are relative to it.
    pub folder: PathBuf,
    pub discover_globs: Vec<String>,
    /// Whether servers are read from the files in which hosts keep those of a project.
    pub project_files: bool,
    pub suites: BTreeMap<String, SuiteConfig>,
    pub timeouts: Timeouts,
    pub introspection: Introspection,
    /// `None` if the file does not set it.
    pub conflicts: Option<Conflicts>,
    pub http: Http,
    pub budget: BudgetConfig,
    pub trust: TrustConfig,
    pub oauth: OauthConfig,
    pub watch: Watch,
    /// What is recorded of calls.
    pub record: RecordMode,
    /// Whether hosts see a tool that searches all suites.
    pub find: bool,
}

/// Settings for logins to remote servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OauthConfig {
    /// The URL of our client metadata document, for authorization servers that read such.
    pub client_id_url: Option<String>,
    /// Per-server settings, by the name of the child.
    pub clients: BTreeMap<String, ClientConfig>,
}

/// A client that the user registered, and other settings for a login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientConfig {
    pub client_id: Option<String>,
    pub client_secret: Option<Template>,
    /// The only authorization server that receives the client's credentials.
    pub issuer: Option<String>,
    pub scopes: Option<Vec<String>>,
    /// The port of the redirect URI.
    pub callback_port: Option<u16>,
}

/// The `trust` settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustConfig {
    /// Whether the daemon may ask the user through the host.
    pub elicit: bool,
    /// Directories in which every definition is allowed.
    pub roots: Vec<PathBuf>,
    /// What happens to a tool whose definition changed.
    pub drift: DriftPolicy,
}

/// What happens to a tool that is not as the user accepted it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DriftPolicy {
    /// It is reported.
    #[default]
    Warn,
    /// It is reported and refused.
    Hold,
}

impl DriftPolicy {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Hold => "hold",
        }
    }
}

impl Default for TrustConfig {
    fn default() -> Self {
        Self { elicit: true, roots: Vec::new(), drift: DriftPolicy::Warn }
    }
}

/// How file changes are detected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Watch {
    /// File system events; polling where they are not available.
    #[default]
    Events,
    /// Polling.
    Poll,
}

impl Watch {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Poll => "poll",
        }
    }
}

/// What is recorded of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordMode {
    /// Nothing.
    Off,
    /// Who called what, when, for how long, and what came of it.
    #[default]
    Calls,
    /// Also the arguments, redacted.
    Arguments,
}

impl RecordMode {
    pub const ALL: [Self; 3] = [Self::Off, Self::Calls, Self::Arguments];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Calls => "calls",
            Self::Arguments => "arguments",
        }
    }
}

/// Limits over all children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetConfig {
    pub children: usize,
    /// `None`: no limit.
    pub memory_mb: Option<u64>,
}

impl Default for BudgetConfig {
    fn default() -> Self {
        Self { children: 64, memory_mb: None }
    }
}

/// Who shares a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Any session, with many calls at once.
    Shared,
    /// One session each; for children that keep state.
    Session,
    /// One call at a time.
    Call,
    /// Any session of one workspace, with many calls at once.
    Workspace,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Session => "session",
            Self::Call => "call",
            Self::Workspace => "workspace",
        }
    }
}

/// The `pool` settings of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolConfig {
    pub scope: Option<Scope>,
    pub warm: Option<usize>,
    pub max: Option<usize>,
    pub idle_ms: Option<u64>,
}

#[derive(Debug, Clone, Default)]
pub struct SuiteConfig {
    pub suite_name: Option<String>,
    pub description: Option<String>,
    pub expose: Expose,
    pub summary_max_chars: Option<usize>,
    /// Whether Claude Code loads the suite at once instead of searching for it.
    pub always_load: bool,
    pub timeouts: TimeoutsOverride,
    pub pool: PoolConfig,
    /// Argument fields whose values are never shown.
    pub redact: Vec<String>,
    /// Whether arguments are validated before a call is sent.
    pub validate: Option<bool>,
    /// Whether reading and writing tools are shown as two suites' tools.
    pub split: Split,
    /// Whether hosts see the server as a suite or as its own tools.
    pub show: Show,
    /// Which calls the user is asked about before they are sent.
    pub confirm: Confirm,
    /// `split`, `expose` and `confirm` as they are written; `restrict` replaces all of them.
    pub written: Restrictions,
    /// Why the server cannot be used: its settings cannot be understood, and may be meant to hide tools.
    pub unusable_reason: Option<String>,
    /// The folders in whose sessions hosts see the server; `None`: everywhere.
    pub workspaces: Option<Vec<PathBuf>>,
}

impl SuiteConfig {
    /// Whether hosts see the server in the sessions of this workspace, or in those without one.
    pub fn is_shown_in(&self, workspace: Option<&Path>) -> bool {
        let is_below = |folder: &PathBuf| workspace.is_some_and(|root| root.starts_with(folder));
        self.workspaces.as_ref().is_none_or(|folders| folders.iter().any(is_below))
    }
}

/// Which subtools may be seen and called.
#[derive(Debug, Clone, Default)]
pub struct Expose {
    /// A tool must match each of them.
    pub allow: Vec<GlobSet>,
    pub deny: Option<GlobSet>,
    /// What the definition's own file permits.
    pub of_file: Option<Arc<Expose>>,
}

impl Expose {
    pub fn permits(&self, subtool: &str) -> bool {
        self.allow.iter().all(|allow| allow.is_match(subtool))
            && !self.deny.as_ref().is_some_and(|deny| deny.is_match(subtool))
            && self.of_file.as_ref().is_none_or(|file| file.permits(subtool))
    }

    pub fn is_open(&self) -> bool {
        self.allow.is_empty() && self.deny.is_none() && self.of_file.is_none()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub child_spawn_ms: u64,
    pub rpc_ms: u64,
    pub max_ms: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct TimeoutsOverride {
    pub child_spawn_ms: Option<u64>,
    pub rpc_ms: Option<u64>,
    pub max_ms: Option<u64>,
}

impl Timeouts {
    pub fn limits(self, change: TimeoutsOverride) -> Limits {
        let millis = |change: Option<u64>, base| Duration::from_millis(change.unwrap_or(base));
        Limits {
            spawn: millis(change.child_spawn_ms, self.child_spawn_ms),
            rpc: millis(change.rpc_ms, self.rpc_ms),
            max: millis(change.max_ms, self.max_ms),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Summary,
    /// Every tool on one line.
    Compact,
    Full,
    Redacted,
}

/// What a suite's description says about its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Describe {
    /// What the server says of itself, and its subtools.
    Full,
    /// The names of its subtools, but none of its own sentences.
    Names,
    /// Nothing that only the server knows.
    Off,
}

impl Describe {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Names => "names",
            Self::Off => "off",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Introspection {
    pub mode: Mode,
    pub summary_max_chars: usize,
    pub describe: Describe,
    /// The longest description of a suite.
    pub describe_max_chars: usize,
    /// How long an introspection without a query may be, in bytes, before it becomes compact.
    pub max_bytes: usize,
}

/// How to resolve prompts and resources that several children offer under one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conflicts {
    pub strategy: Strategy,
    /// Children that come first in lists and win under [`Strategy::First`].
    pub order: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Each name is prefixed with the child's name.
    #[default]
    Prefix,
    /// Only the first child's is shown.
    First,
    /// None of them is shown.
    Refuse,
}

impl Strategy {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::First => "first",
            Self::Refuse => "refuse",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// `ADDRESS:PORT` or `off`.
    pub listen: String,
    /// Whether nobody wrote an address: then another port serves as well if this one is taken.
    pub is_any_port: bool,
    pub open_discovery: bool,
    pub allowed_origins: Vec<String>,
}

impl Config {
    /// The config of a folder without a file.
    pub fn defaults(folder: &Path) -> Self {
        Self {
            file: folder.join(FILE_NAME),
            program: None,
            text: String::new(),
            basis: ConfigSource::Whole,
            unusable_reason: None,
            scope: None,
            folder: folder.to_owned(),
            discover_globs: vec!["mcps/*/.mcp.json".to_owned()],
            project_files: true,
            suites: BTreeMap::new(),
            timeouts: Timeouts { child_spawn_ms: 8_000, rpc_ms: 60_000, max_ms: 1_800_000 },
            introspection: Introspection {
                mode: Mode::Summary,
                summary_max_chars: 160,
                max_bytes: 6000,
                describe: Describe::Full,
                describe_max_chars: 300,
            },
            conflicts: None,
            http: Http {
                listen: "127.0.0.1:7420".to_owned(),
                is_any_port: true,
                open_discovery: true,
                allowed_origins: Vec::new(),
            },
            budget: BudgetConfig::default(),
            trust: TrustConfig::default(),
            oauth: OauthConfig::default(),
            watch: Watch::default(),
            record: RecordMode::default(),
            find: false,
        }
    }

    /// Reads `file`; if it is missing, the defaults apply.
    pub fn load(file: &Path) -> Result<Self, Vec<Problem>> {
        let (config, problems) = Self::read_usable(file, ConfigOwner::Personal);
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    /// Reads as much of a file as can be understood, and what is wrong with it. If it is missing, the
    /// defaults apply. A workspace's settings apply to its own servers only.
    pub fn read_usable(file: &Path, extent: ConfigOwner) -> (Self, Vec<Problem>) {
        let folder = file.parent().unwrap_or(Path::new("."));
        if file.extension().is_some_and(|kind| kind != "json") {
            let problem = refusal(file);
            return (read::unread(folder, None, &problem), vec![problem]);
        }
        may_block();
        let within = (extent == ConfigOwner::Workspace).then_some(folder);
        match Document::read(file, within) {
            Ok(Some(document)) => Self::of_document(&document, folder, extent),
            Ok(None) => match REFUSED_FILES.iter().map(|name| folder.join(name)).find(|file| file.exists()) {
                None => (Self::defaults(folder), Vec::new()),
                Some(program) => {
                    let problem = refusal(&program);
                    let strict = read::unread(folder, None, &problem);
                    (Self { file: file.to_owned(), program: Some(program), ..strict }, vec![problem])
                }
            },
            // The file may contain anything, so the strictest settings apply.
            Err(problem) => (read::unread(folder, None, &problem), vec![problem]),
        }
    }

    pub fn parse(document: &Document, folder: &Path, extent: ConfigOwner) -> Result<Self, Vec<Problem>> {
        let (config, problems) = Self::of_document(document, folder, extent);
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    fn of_document(document: &Document, folder: &Path, extent: ConfigOwner) -> (Self, Vec<Problem>) {
        let visit = document.visit(|fields| read::config(fields, folder, extent));
        let config = match (visit.made, visit.problems.first()) {
            (Some(config), _) => config,
            (None, Some(problem)) => read::unread(folder, Some(document.text()), problem),
            (None, None) => Self::defaults(folder),
        };
        let basis = if visit.problems.is_empty() { ConfigSource::Whole } else { ConfigSource::Partial };
        let (file, text) = (document.file.clone(), document.text().to_owned());
        (Self { file, text, basis, ..config }, visit.problems)
    }

    /// The file that the user has to fix.
    pub fn to_fix(&self) -> &Path {
        self.program.as_ref().unwrap_or(&self.file)
    }

    pub fn suite(&self, child: &str) -> SuiteConfig {
        let mut suite = self.suites.get(child).cloned().unwrap_or_default();
        suite.pool.scope = suite.pool.scope.or(self.scope);
        suite
    }

    /// Why the config, and not its definition, keeps a server from being used.
    pub fn unusable_reason(&self, child: &str) -> Option<&str> {
        let suite = self.suites.get(child).and_then(|suite| suite.unusable_reason.as_deref());
        suite.or(self.unusable_reason.as_deref())
    }
}

fn refusal(file: &Path) -> Problem {
    let message = format!("configuration is plain JSON; put it into `{FILE_NAME}`, programs are not run");
    Problem::of(file, message)
}

/// The path of the user's own config.
pub fn personal_file(home: &Path) -> PathBuf {
    let base = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute())
        .unwrap_or_else(|| home.join(".config"));
    base.join("switchboard").join(FILE_NAME)
}

fn glob_set(patterns: &[String]) -> Result<GlobSet, globset::Error> {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        builder.add(Glob::new(pattern)?);
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Vec<String>> {
        let document = Document::from_text(Path::new("/c/switchboard.config.json"), text);
        Config::parse(&document, Path::new("/c"), ConfigOwner::Personal)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn values_are_merged_over_the_defaults() {
        let config = parse(
            r#"{"timeouts": {"rpcMs": 5}, "suites": {"gh": {"timeouts": {"maxMs": 9}, "expose": {"deny": ["rm*"]}}}}"#,
        )
        .unwrap();
        assert_eq!(config.timeouts.child_spawn_ms, 8_000);
        let limits = config.timeouts.limits(config.suite("gh").timeouts);
        assert_eq!((limits.rpc.as_millis(), limits.max.as_millis()), (5, 9));
        assert!(!config.suite("gh").expose.permits("rm_all"));
        assert!(config.suite("gh").expose.permits("ls"));
        assert!(config.suite("other").expose.is_open());
    }

    #[test]
    fn mistakes_are_named_with_place_key_and_nearest_key() {
        let wrong = |text| parse(text).unwrap_err();
        assert_eq!(
            wrong("{\n  \"timeouts\": {\"rcpMs\": 5}\n}"),
            ["/c/switchboard.config.json:2:16: unknown key `timeouts.rcpMs`; did you mean `rpcMs`?"]
        );
        assert_eq!(
            wrong(r#"{"introspection": {"mode": "loud"}}"#),
            [
                "/c/switchboard.config.json:1:28: `introspection.mode` must be \"summary\" or \"compact\" or \"full\" or \"redacted\""
            ]
        );
        assert_eq!(
            wrong(r#"{"suites": {"a": {"suiteName": "x"}, "b": {"suiteName": "x"}}}"#),
            ["/c/switchboard.config.json:1:57: two suites are named `x`"]
        );
        assert!(wrong(r#"{"suites": {"a": {"suiteName": "no spaces"}}}"#)[0].contains("letters, digits"));
        assert!(wrong(r#"{"suites": {"a": {"expose": {"allow": ["["]}}}}"#)[0].contains("not a glob"));
        assert!(wrong(r#"{"discoverGlobs": ["../x/.mcp.json"]}"#)[0].contains("stay inside"));
        assert!(wrong(r#"{"http": {"listen": "0.0.0.0:80"}}"#)[0].contains("loopback"));
    }

    #[test]
    fn a_server_can_be_shown_in_some_workspaces_only() {
        let config =
            parse(r#"{"suites": {"a": {"workspaces": ["/w", "/x/y"]}, "none": {"workspaces": []}}}"#)
                .unwrap();
        for (root, expect) in [
            (Some("/w"), true),
            (Some("/w/deep"), true),
            (Some("/x/y"), true),
            (Some("/x"), false),
            (Some("/w2"), false),
            (None, false),
        ] {
            assert_eq!(config.suite("a").is_shown_in(root.map(Path::new)), expect, "{root:?}");
            assert!(config.suite("b").is_shown_in(root.map(Path::new)));
            assert!(!config.suite("none").is_shown_in(root.map(Path::new)));
        }
    }

    #[test]
    fn a_workspace_cannot_set_personal_keys() {
        let parse = |text: &str| {
            let document = Document::from_text(Path::new("/w/switchboard.config.json"), text);
            Config::parse(&document, Path::new("/w"), ConfigOwner::Workspace)
        };
        assert!(parse(r#"{"suites": {"a": {"validate": false}}, "timeouts": {"rpcMs": 5}}"#).is_ok());
        for key in ["http", "budget", "trust", "watch"] {
            let problems = parse(&format!(r#"{{"{key}": {{}}}}"#)).unwrap_err();
            assert!(problems[0].message.contains("for the personal config only"), "{}", problems[0]);
        }
    }

    #[test]
    fn programs_are_refused_not_ignored() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("switchboard.config.js"), "module.exports = {}").unwrap();
        let problems = Config::load(&folder.path().join(FILE_NAME)).unwrap_err();
        assert!(problems[0].to_string().contains("programs are not run"), "{}", problems[0]);
        // Their content is unknown, so the strictest settings apply.
        for name in [FILE_NAME, "c.yaml", "c.jsonc"] {
            let file = folder.path().join(name);
            let (config, problems) = Config::read_usable(&file, ConfigOwner::Personal);
            assert_eq!(
                (&config.file, config.basis, problems.len()),
                (&file, ConfigSource::Partial, 1),
                "{name}"
            );
            assert!(config.unusable_reason.is_some(), "{name}");
            assert_eq!(config.to_fix(), problems[0].file, "{name}");
            assert_eq!((&*config.http.listen, config.trust.elicit), ("off", false), "{name}");
            assert_eq!(config.introspection.mode, Mode::Redacted, "{name}");
        }
    }
}

//! One server entry read from a `.mcp.json`: what it is called and how to start or reach it.

mod display_url;
mod redactor;
mod shared_launch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use display_url::{DisplayUrl, shown_url, shown_whole_url};
pub use redactor::Redactor;
pub use shared_launch::SharedLaunch;

use crate::expand::{MissingVariable, PlaceholderValues, Template};
use crate::own_limits::OwnLimits;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub name: String,
    pub description: Option<String>,
    /// `Err`: why it can be neither started nor reached.
    pub launch: Result<Launch, String>,
    /// How long a call may go without a message from the server.
    pub timeout: Option<Duration>,
    /// The file that defines it, and line and column in it.
    pub file: PathBuf,
    pub at: Option<(usize, usize)>,
    /// The config to fix, if that is what keeps the definition from being used.
    pub unclear_in: Option<PathBuf>,
    /// What its own file forbids of its tools, if that is a host's file of a project.
    pub limits: OwnLimits,
}

impl Definition {
    /// The file that the user has to fix if it can be neither started nor reached.
    pub fn to_fix(&self) -> &Path {
        self.unclear_in.as_ref().unwrap_or(&self.file)
    }
}

/// How to start or reach a child.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Launch {
    Process(LaunchCommand),
    Remote(Remote),
}

/// How to start a child. Equal commands may share a child.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaunchCommand {
    pub cmd: Template,
    pub args: Vec<Template>,
    /// `None` removes a variable.
    pub env: BTreeMap<String, Option<Template>>,
    /// The variables in the env file when it was read, and its path.
    pub env_file: BTreeMap<String, String>,
    pub env_file_path: Option<PathBuf>,
    /// Names of variables that are passed on from the login shell.
    pub pass_env: BTreeSet<String>,
    /// The working directory, relative to `base`.
    pub cwd: Template,
    pub base: PathBuf,
    /// `cwd` is `${workspaceFolder}` in the user's own file: a child with session scope runs in the workspace
    /// of its session, one with workspace scope in that workspace, every other one in `cwd`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cwd_is_workspace: bool,
    /// A data folder to create before the start.
    pub data: Option<PathBuf>,
    /// The program that the user allowed; `None` if no approval was needed.
    pub program: Option<PathBuf>,
}

/// How to reach a remote child.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Remote {
    pub transport: Transport,
    pub url: Template,
    pub headers: BTreeMap<String, Template>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    Http,
    Sse,
}

/// A command with all placeholders filled: what is executed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResolvedCommand {
    pub cmd: String,
    pub args: Vec<String>,
    /// `None` removes a variable.
    pub env: BTreeMap<String, Option<String>>,
    /// The folder for a relative command, and the working directory unless `workspace` is set.
    pub cwd: PathBuf,
    /// The workspace of the session that owns the child, if the child runs there.
    pub workspace: Option<PathBuf>,
    pub data: Option<PathBuf>,
    pub program: Option<PathBuf>,
    /// Command and directory as written in the file, for messages: filled-in values may be secrets.
    pub written: CommandText,
    /// Hides what the child was given from what it prints.
    pub redactor: Redactor,
}

/// A remote child with all placeholders filled: where its messages go.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResolvedRemote {
    pub transport: Transport,
    pub url: String,
    pub headers: BTreeMap<String, String>,
    /// Its URL for messages.
    pub shown: DisplayUrl,
}

/// Everything that a start needs, for local and remote children.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ResolvedLaunch {
    Process(ResolvedCommand),
    Remote(ResolvedRemote),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CommandText {
    pub cmd: String,
    pub cwd: String,
}

/// Names only: values may be secrets.
impl std::fmt::Debug for ResolvedCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.env.keys().collect();
        f.debug_struct("ResolvedCommand")
            .field("cmd", &self.written.cmd)
            .field("env", &names)
            .finish_non_exhaustive()
    }
}

/// Names only: values may be secrets, and so may parts of the URL.
impl std::fmt::Debug for ResolvedRemote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.headers.keys().collect();
        f.debug_struct("ResolvedRemote").field("headers", &names).finish_non_exhaustive()
    }
}

impl ResolvedLaunch {
    /// Hides the filled-in values.
    pub fn redactor(&self) -> &Redactor {
        match self {
            Self::Process(filled) => &filled.redactor,
            Self::Remote(to) => &to.shown.redactor,
        }
    }

    /// A one-way fingerprint.
    pub fn digest(&self) -> String {
        match self {
            Self::Process(filled) => filled.digest(),
            Self::Remote(to) => {
                crate::digest::hex(serde_json::json!([to.url, to.headers]).to_string().as_bytes())
            }
        }
    }
}

impl Remote {
    /// Fills all placeholders, or returns what is missing.
    pub fn fill(&self, values: &PlaceholderValues) -> Result<ResolvedRemote, BTreeSet<MissingVariable>> {
        let mut missing = BTreeSet::new();
        let mut fill = |template: &Template| template.fill(values, &mut missing);
        let url = fill(&self.url);
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), fill(value))).collect();
        let shown = DisplayUrl::new(self, values);
        let filled = ResolvedRemote { transport: self.transport, url, headers, shown };
        if missing.is_empty() { Ok(filled) } else { Err(missing) }
    }

    /// Names of all values that the user has to supply.
    pub fn placeholders(&self) -> BTreeSet<String> {
        let all = std::iter::once(&self.url).chain(self.headers.values());
        all.flat_map(Template::placeholders).map(|(name, _)| name.to_owned()).collect()
    }
}

impl ResolvedCommand {
    /// The working directory, for messages.
    pub fn shown_directory(&self) -> String {
        self.workspace
            .as_ref()
            .map_or_else(|| self.written.cwd.clone(), |folder| folder.display().to_string())
    }

    /// The working directory.
    pub fn working_dir(&self) -> &Path {
        self.workspace.as_deref().unwrap_or(&self.cwd)
    }

    /// The program that was found for the command, for messages.
    pub fn shown(&self, program: &Path) -> String {
        if self.cmd == self.written.cmd && self.cwd == Path::new(&self.written.cwd) {
            program.display().to_string()
        } else {
            self.written.cmd.clone()
        }
    }

    /// A one-way fingerprint.
    pub fn digest(&self) -> String {
        crate::digest::hex(
            serde_json::json!([self.cmd, self.args, self.env, self.cwd]).to_string().as_bytes(),
        )
    }
}

impl LaunchCommand {
    /// Names of all values that the user has to supply.
    pub fn placeholders(&self) -> BTreeSet<String> {
        let values = self.env.values().flatten();
        let all = [&self.cmd, &self.cwd].into_iter().chain(&self.args).chain(values);
        all.flat_map(Template::placeholders)
            .map(|(name, _)| name.to_owned())
            .chain(self.pass_env.iter().cloned())
            .collect()
    }

    /// Fills all placeholders, or returns what is missing.
    pub fn fill(&self, values: &PlaceholderValues) -> Result<ResolvedCommand, BTreeSet<MissingVariable>> {
        let mut missing = BTreeSet::new();
        let mut fill = |template: &Template| template.fill(values, &mut missing);
        let passed =
            self.pass_env.iter().filter_map(|name| Some((name.clone(), Some(values.get(name)?.clone()))));
        let mut env: BTreeMap<String, Option<String>> = passed.collect();
        env.extend(self.env_file.iter().map(|(name, value)| (name.clone(), Some(value.clone()))));
        env.extend(self.env.iter().map(|(name, value)| (name.clone(), value.as_ref().map(&mut fill))));
        let filled = ResolvedCommand {
            cmd: fill(&self.cmd),
            args: self.args.iter().map(&mut fill).collect(),
            env,
            cwd: self.base.join(fill(&self.cwd)),
            workspace: None,
            data: self.data.clone(),
            program: self.program.clone(),
            written: CommandText {
                cmd: self.cmd.to_string(),
                cwd: self.base.join(self.cwd.to_string()).display().to_string(),
            },
            redactor: Redactor::of_launch(self, values),
        };
        if missing.is_empty() { Ok(filled) } else { Err(missing) }
    }

    /// The working directory, for messages.
    pub fn shown_directory(&self) -> String {
        let folder = self.base.join(self.cwd.to_string());
        match self.cwd_is_workspace {
            true => {
                format!(
                    "the project that is open (`pool.scope` `session` or `workspace`); without one, {}",
                    folder.display()
                )
            }
            false => folder.display().to_string(),
        }
    }

    /// The command as written, without folders.
    pub fn program_name(&self) -> String {
        let written = self.cmd.to_string();
        written.rsplit('/').next().unwrap_or_default().to_owned()
    }
}

impl Launch {
    /// The launch for the children of one workspace: `${workspaceFolder}` is that workspace.
    #[must_use]
    pub fn in_workspace(&self, root: &Path) -> Self {
        let bound = |template: &Template| template.in_workspace(Some(root));
        match self {
            Self::Process(launch) => Self::Process(LaunchCommand {
                cmd: bound(&launch.cmd),
                args: launch.args.iter().map(bound).collect(),
                env: launch
                    .env
                    .iter()
                    .map(|(name, value)| (name.clone(), value.as_ref().map(bound)))
                    .collect(),
                cwd: bound(&launch.cwd),
                ..launch.clone()
            }),
            Self::Remote(remote) => Self::Remote(Remote {
                url: bound(&remote.url),
                headers: remote.headers.iter().map(|(name, value)| (name.clone(), bound(value))).collect(),
                ..remote.clone()
            }),
        }
    }

    /// Whether a child with session scope runs in its session's workspace.
    pub fn runs_in_workspace(&self) -> bool {
        matches!(self, Self::Process(launch) if launch.cwd_is_workspace)
    }

    /// Names of all values that the user has to supply.
    pub fn placeholders(&self) -> BTreeSet<String> {
        match self {
            Self::Process(launch) => launch.placeholders(),
            Self::Remote(remote) => remote.placeholders(),
        }
    }

    /// The program that the user allowed.
    pub fn allowed_program(&self) -> Option<&Path> {
        match self {
            Self::Process(launch) => launch.program.as_deref(),
            Self::Remote(_) => None,
        }
    }

    /// A one-way fingerprint of everything that decides what is executed or reached.
    pub fn digest(&self) -> String {
        let plain = match self {
            Self::Process(launch) => Self::Process(LaunchCommand { program: None, ..launch.clone() }),
            remote => remote.clone(),
        };
        let written = serde_json::to_vec(&plain).expect("BUG: a definition that cannot be written");
        crate::digest::hex(&written)
    }
}

impl Definition {
    /// How to start it; `None` if it is remote or misconfigured.
    pub fn command(&self) -> Option<&LaunchCommand> {
        match &self.launch {
            Ok(Launch::Process(launch)) => Some(launch),
            _ => None,
        }
    }
}

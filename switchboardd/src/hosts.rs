//! The hosts that people use: where each keeps its MCP servers and how it writes them down, so that commands can
//! read them, put Switchboard there, and take it out again. Nothing of this is on the way of a call.

mod change;
mod gaps;
pub mod import;
mod json;
pub mod machine;
pub mod mask;
pub mod record;
pub mod setup;
pub mod shim;
pub mod survey;
pub mod swap;
pub mod table;
mod toml;
mod tree;
mod yaml;

pub use change::Change;

use std::path::PathBuf;

use serde_json::Value;

use crate::document::Problem;

/// The name that Switchboard goes by in every host.
pub const KEY: &str = "switchboard";

/// A host, as data.
#[derive(Debug)]
pub struct Host {
    /// What is typed behind `--host`.
    pub id: &'static str,
    pub name: &'static str,
    /// On PATH where it is installed.
    pub programs: &'static [&'static str],
    /// Where it keeps its servers. None for a host that has no file of its own.
    pub places: &'static [HostFile],
    /// Whether the places stand for one another: what is written goes into the first that is there.
    pub alternatives: bool,
    pub format: Format,
    /// What it needs to know of a server that it starts.
    pub entry: &'static [(&'static str, Part)],
    /// How it writes what it fills in.
    pub gaps: Gaps,
    /// What its `timeout` counts.
    pub timeout: Unit,
}

/// A file, and what shows that its host looks there.
#[derive(Debug)]
pub struct HostFile {
    pub base: Base,
    pub file: &'static str,
    /// A folder below the same base. Without one, only the file itself does.
    pub folder: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
pub enum Base {
    Home,
    /// `$XDG_CONFIG_HOME` or `~/.config`, on macOS too.
    Config,
    /// The same, but `~/Library/Application Support` on macOS.
    Application,
    /// A folder that a variable names, or this one in HOME.
    Variable(&'static str, &'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comments and trailing commas included. The servers are members of an object under this key.
    Json {
        key: &'static str,
        /// Whether each of `projects` may have servers of its own.
        projects: bool,
    },
    /// `[mcp_servers.NAME]`
    Toml,
    /// A list `mcpServers`, each with its `name`.
    Yaml,
}

/// One value of the entry that is written.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// The path of the shim.
    Shim,
    /// The same as a list of one.
    Argv,
    Text(&'static str),
    True,
    /// An empty list.
    NoArgs,
    /// A list with one text.
    List(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gaps {
    /// None: every text is what it is.
    None,
    /// `${NAME}` and `${NAME:-default}`
    Plain,
    /// `${env:NAME}`, `${userHome}` and other places
    Env,
    /// `$NAME` and `${NAME}`
    Dollar,
    /// `{env:NAME}`
    Braces,
    /// `${{ secrets.NAME }}`
    Secrets,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Milliseconds,
    Seconds,
    /// Something else than how long a call may take.
    Nothing,
}

/// A server as a host has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub name: String,
    /// The project that it is for; `None` for all of them.
    pub project: Option<PathBuf>,
    pub value: Value,
}

/// What a host's file holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contents {
    pub entries: Vec<Entry>,
    /// What VS Code asks its person for.
    pub inputs: Value,
}

/// Why nothing is made of a file, or why it is not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Line and column, counted from 1.
    pub at: Option<(usize, usize)>,
    pub why: String,
}

impl Refusal {
    fn new(why: impl Into<String>) -> Self {
        Self { at: None, why: why.into() }
    }

    /// With the place of an offset.
    fn at(text: &str, offset: usize, why: impl Into<String>) -> Self {
        Self { at: Some(crate::document::place(text, offset)), why: why.into() }
    }

    pub fn of(self, file: &std::path::Path) -> Problem {
        Problem { at: self.at, ..Problem::of(file, self.why) }
    }
}

impl Format {
    /// The servers in a file's text.
    pub fn read(self, text: &str) -> Result<Contents, Refusal> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::Json { key, projects } => json::read(text, key, projects),
            Self::Toml => toml::read(text),
            Self::Yaml => yaml::read(text),
        }
    }
}

/// The words of a server's command, wherever its host keeps them.
pub fn words(entry: &Value) -> Vec<String> {
    let entry = entry.get("transport").filter(|nested| nested.is_object()).unwrap_or(entry);
    let texts = |value: &Value| match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().filter_map(|item| Some(item.as_str()?.to_owned())).collect(),
        // Zed once had the path and the arguments in an object of their own.
        Value::Object(nested) => {
            nested.get("path").and_then(Value::as_str).map(ToOwned::to_owned).into_iter().collect()
        }
        _ => Vec::new(),
    };
    let mut words = texts(&entry["command"]);
    words.extend(texts(&entry["args"]));
    words
}

/// Where a server is that its host does not start.
pub fn url(entry: &Value) -> Option<&str> {
    let entry = entry.get("transport").filter(|nested| nested.is_object()).unwrap_or(entry);
    ["url", "httpUrl", "serverUrl"].iter().find_map(|key| entry[*key].as_str())
}

/// Whether its host is told to leave it alone.
pub fn is_off(entry: &Value) -> bool {
    entry["disabled"] == true || entry["enabled"] == false
}

//! The known hosts: where each keeps its MCP servers and in which format, so that commands can read them, add
//! Switchboard and remove it again. No call passes through here.

mod change;
pub mod import;
mod json;
pub mod limits;
pub mod machine;
pub mod mask;
mod placeholder_syntax;
pub mod record;
pub mod setup;
pub mod shim;
pub mod suite_settings;
pub mod survey;
pub mod swap;
pub mod table;
mod toml;
mod tree;
mod yaml;

pub use change::Change;

use std::path::PathBuf;

use serde_json::Value;

use switchboard_definitions::document::Problem;

/// Switchboard's name in every host's file.
pub const KEY: &str = "switchboard";

/// What is known of a host.
#[derive(Debug)]
pub struct Host {
    /// Typed after `--host`.
    pub id: &'static str,
    pub name: &'static str,
    /// Programs on PATH that show that it is installed.
    pub programs: &'static [&'static str],
    /// The files with its servers. Empty for a host without a file of its own.
    pub places: &'static [HostFile],
    /// Whether the files are alternatives: only the first that exists is written.
    pub alternatives: bool,
    pub format: HostFileFormat,
    /// The members of the entry that starts the shim.
    pub entry: &'static [(&'static str, EntryValue)],
    /// Its placeholder syntax.
    pub placeholders: PlaceholderSyntax,
    /// The unit of its `timeout`.
    pub timeout: TimeoutUnit,
    /// Files with its rules about tools, beside those with its servers.
    pub rules: &'static [HostFile],
    /// The same below a project.
    pub project_rules: &'static [&'static str],
}

/// A file, and the evidence that its host uses it.
#[derive(Debug)]
pub struct HostFile {
    pub base: BaseFolder,
    pub file: &'static str,
    /// A folder below the same base that shows it. Without one, only the file itself does.
    pub folder: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
pub enum BaseFolder {
    Home,
    /// `$XDG_CONFIG_HOME` or `~/.config`, on macOS too.
    Config,
    /// Like `Config`, but `~/Library/Application Support` on macOS.
    Application,
    /// Where an administrator puts settings of Claude Code.
    Managed,
    /// The folder that a variable names, else this one in HOME.
    Variable(&'static str, &'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostFileFormat {
    /// With comments and trailing commas. The servers are members of the object under this key.
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
pub enum EntryValue {
    /// The path of the shim.
    Shim,
    /// The shim's path in a list.
    Argv,
    Text(&'static str),
    True,
    /// An empty list.
    NoArgs,
    /// A list with one text.
    List(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceholderSyntax {
    /// No placeholders: all text is literal.
    None,
    /// `${NAME}` and `${NAME:-default}`
    Plain,
    /// `${env:NAME}`, `${userHome}` and other paths
    Env,
    /// `$NAME` and `${NAME}`
    Dollar,
    /// `{env:NAME}`
    Braces,
    /// `${{ secrets.NAME }}`
    Secrets,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutUnit {
    Milliseconds,
    Seconds,
    /// Its `timeout` is not the timeout of a call.
    Nothing,
}

/// A server in a host's file.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerEntry {
    pub name: String,
    /// The project that it is for; `None` for all.
    pub project: Option<PathBuf>,
    pub value: Value,
}

/// The contents of a host's file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostFileContents {
    pub entries: Vec<ServerEntry>,
    /// Values that VS Code asks its user for.
    pub inputs: Value,
    /// The projects that it has settings for.
    pub projects: Vec<PathBuf>,
}

/// Why a file cannot be read or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFileError {
    /// Line and column, counted from 1.
    pub at: Option<(usize, usize)>,
    pub why: String,
}

impl HostFileError {
    fn new(why: impl Into<String>) -> Self {
        Self { at: None, why: why.into() }
    }

    /// With the line and column of an offset.
    fn at(text: &str, offset: usize, why: impl Into<String>) -> Self {
        Self { at: Some(switchboard_definitions::document::line_and_column(text, offset)), why: why.into() }
    }

    pub fn of(self, file: &std::path::Path) -> Problem {
        Problem { at: self.at, ..Problem::of(file, self.why) }
    }
}

impl HostFileFormat {
    /// The servers in a file's text.
    pub fn read(self, text: &str) -> Result<HostFileContents, HostFileError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::Json { key, projects } => json::read(text, key, projects),
            Self::Toml => toml::read(text),
            Self::Yaml => yaml::read(text),
        }
    }
}

/// The words of a server's command, whichever keys its host uses.
pub fn words(entry: &Value) -> Vec<String> {
    let entry = entry.get("transport").filter(|nested| nested.is_object()).unwrap_or(entry);
    let texts = |value: &Value| match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().filter_map(|item| Some(item.as_str()?.to_owned())).collect(),
        // Zed once kept the path and the arguments in a nested object.
        Value::Object(nested) => {
            nested.get("path").and_then(Value::as_str).map(ToOwned::to_owned).into_iter().collect()
        }
        _ => Vec::new(),
    };
    let mut words = texts(&entry["command"]);
    words.extend(texts(&entry["args"]));
    words
}

/// The URL of a remote server.
pub fn url(entry: &Value) -> Option<&str> {
    let entry = entry.get("transport").filter(|nested| nested.is_object()).unwrap_or(entry);
    ["url", "httpUrl", "serverUrl"].iter().find_map(|key| entry[*key].as_str())
}

/// Whether the entry is disabled in its host.
pub fn is_off(entry: &Value) -> bool {
    entry["disabled"] == true || entry["enabled"] == false
}

#[cfg(test)]
mod tests {
    use super::table::HOSTS;

    #[test]
    fn no_depth_of_nesting_overflows_the_stack() {
        let many = 100_000;
        let around = |open: &str, middle: &str, close: &str| open.repeat(many) + middle + &close.repeat(many);
        let dotted = vec!["a"; many].join(".");
        let steps: String = (0..2_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        let texts = [
            around("[", "", "]"),
            around(r#"{"a":"#, "1", "}"),
            format!(r#"{{"mcpServers":{}}}"#, around(r#"{"a":"#, "1", "}")),
            format!(r#"{{"projects":{}}}"#, around("[", "", "]")),
            around("// ", "\n{", ""),
            around("/*", "{", "*/"),
            format!("{dotted} = 1"),
            format!("[{dotted}]"),
            format!("[[{dotted}]]"),
            format!("x = {{ {dotted} = 1 }}"),
            format!("x = {}", around("{ a = ", "1", " }")),
            format!("mcpServers: {}", around("[", "", "]")),
            format!("mcpServers: {}", around("{a: ", "1", "}")),
            around("- ", "a", ""),
            around("? ", "a", ""),
            around("&a ", "a", ""),
            around("!t ", "a", ""),
            steps,
        ];
        let mut seen = Vec::new();
        for host in &HOSTS {
            if seen.contains(&host.format) {
                continue;
            }
            seen.push(host.format);
            for text in &texts {
                let _ = host.format.read(text);
                let _ = host.with_shim(text, "/opt/bin/switchboard");
                let _ = host.without_shim(text, 0);
            }
        }
    }
}

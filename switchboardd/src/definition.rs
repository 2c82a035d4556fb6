//! One server entry read from a `.mcp.json`: what it is called and how to start it.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// How to start a child. Two equal ones may share a child.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Launch {
    pub cmd: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub name: String,
    pub description: Option<String>,
    /// Or why it cannot be started.
    pub launch: Result<Launch, String>,
    /// The file it stands in.
    pub file: PathBuf,
}

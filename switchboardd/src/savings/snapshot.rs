//! Everything that `savings` counts: the texts that hosts see and would see, the sessions and the children.
//! Plain values, which `http/savings.rs` collects from the daemon.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Map, Value};
use switchboard_definitions::discover::host_files::HostSet;

use crate::savings::recorder::Fingerprint;

/// The parts of a tool that a host passes to a model. Titles, annotations and output schemas are not counted,
/// with or without Switchboard.
const COUNTED_MEMBERS: [&str; 3] = ["name", "description", "inputSchema"];

/// Hosts cut a server's instructions at about this length.
const MAX_INSTRUCTIONS: usize = 2048;

/// The state of the daemon at one moment.
#[derive(Debug, Default)]
pub struct SavingsSnapshot {
    pub texts: HashMap<Fingerprint, String>,
    pub suites: Vec<SuiteRow>,
    /// The user's own first, then one per workspace and for hosts that see less of it.
    pub views: Vec<WorkspaceView>,
    pub sessions: Vec<SessionRow>,
    /// Memory of the daemon itself, in bytes.
    pub daemon: Option<u64>,
}

#[derive(Debug)]
pub struct SuiteRow {
    pub name: String,
    pub child: String,
    /// The workspace that defines it; `None` if it is the user's own.
    pub workspace: Option<PathBuf>,
    pub known: ToolsKnown,
    pub shown: Fingerprint,
    /// False if its own tools are shown.
    pub is_suite: bool,
    pub pool_usage: Option<PoolUsage>,
}

#[derive(Debug)]
pub enum ToolsKnown {
    Yes(SuiteTools),
    /// It has not run yet.
    No,
    Held,
    /// It cannot be started.
    Misconfigured,
}

/// The tools behind a suite.
#[derive(Debug)]
pub struct SuiteTools {
    pub tools: usize,
    /// Tools that `expose` hides.
    pub hidden: usize,
    pub listed: Vec<Fingerprint>,
    pub introspection: Fingerprint,
}

/// The children of a suite.
#[derive(Debug)]
pub struct PoolUsage {
    pub fingerprint: Fingerprint,
    /// Those of the pools that workspaces have of it, with scope `workspace`.
    pub of_workspaces: Vec<Fingerprint>,
    pub is_remote: bool,
    pub children: usize,
    /// Memory of their processes, in bytes.
    pub memory: Option<u64>,
    /// Memory that a second set of these children would take, in bytes.
    pub copies: Option<u64>,
    pub start_ms: Option<u64>,
}

/// What the sessions of one workspace see.
#[derive(Debug)]
pub struct WorkspaceView {
    pub root: Option<PathBuf>,
    /// The hosts that see only this, because they read files of the project themselves; `None` for all others.
    pub hosts: Option<HostSet>,
    pub instructions: Fingerprint,
    /// Indexes into `SavingsSnapshot::suites`.
    pub suites: Vec<usize>,
}

#[derive(Debug)]
pub struct SessionRow {
    pub client: Option<String>,
    pub folder: Option<PathBuf>,
    /// Index into `SavingsSnapshot::views`.
    pub view: usize,
    /// The child, if the session sees a single child unchanged.
    pub child: Option<String>,
    pub used: Vec<Fingerprint>,
    pub fetched: Vec<(Fingerprint, u64)>,
    /// Memory of its shim, in bytes.
    pub shim: Option<u64>,
}

impl SavingsSnapshot {
    /// Adds a tool definition as a host shows it to a model.
    pub fn definition(&mut self, definition: &str) -> Fingerprint {
        self.text(seen(definition))
    }

    /// Adds the tools of one suite.
    pub fn definitions(&mut self, definitions: &[String]) -> Fingerprint {
        self.text(definitions.iter().map(|one| seen(one)).collect::<Vec<_>>().join(","))
    }

    /// Adds a server's instructions, as far as hosts use them.
    pub fn instructions(&mut self, instructions: &str) -> Fingerprint {
        let cut = instructions.char_indices().map(|(at, _)| at).find(|at| *at >= MAX_INSTRUCTIONS);
        self.text(instructions[..cut.unwrap_or(instructions.len())].to_owned())
    }

    pub fn text(&mut self, text: String) -> Fingerprint {
        let mark = Fingerprint::of(&text);
        self.texts.insert(mark, text);
        mark
    }
}

/// A tool as a host passes it to a model, in compact JSON, so that whitespace does not inflate the savings.
fn seen(definition: &str) -> String {
    let Ok(Value::Object(all)) = serde_json::from_str(definition) else { return definition.to_owned() };
    let seen: Map<String, Value> =
        all.into_iter().filter(|(name, _)| COUNTED_MEMBERS.contains(&name.as_str())).collect();
    Value::Object(seen).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_model_is_shown_is_counted() {
        let told = seen(r#"{ "title":"T", "name":"t", "outputSchema":{}, "inputSchema":{ "b":1, "a":2 } }"#);
        assert_eq!(told, r#"{"inputSchema":{"a":2,"b":1},"name":"t"}"#);
        assert_eq!(seen("no JSON"), "no JSON");
    }
}

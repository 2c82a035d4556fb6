//! Everything that is there to be counted: the texts that hosts see and would see, the sessions and the children. Plain
//! values, which `http/savings.rs` collects from the daemon.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::savings_recorder::Fingerprint;

/// What a host puts before a model of a tool. Titles, annotations and output schemas are not counted, on
/// either side.
const COUNTED_MEMBERS: [&str; 3] = ["name", "description", "inputSchema"];

/// Hosts cut what a server says of itself about there.
const MAX_INSTRUCTIONS: usize = 2048;

/// All there is, at one moment.
#[derive(Debug, Default)]
pub struct SavingsSnapshot {
    pub texts: HashMap<Fingerprint, String>,
    pub suites: Vec<SuiteRow>,
    /// The person's own first, then one for each workspace.
    pub views: Vec<WorkspaceView>,
    pub sessions: Vec<SessionRow>,
    /// What the daemon itself takes, in bytes.
    pub daemon: Option<u64>,
}

#[derive(Debug)]
pub struct SuiteRow {
    pub name: String,
    pub child: String,
    /// Whose it is; the person's own have none.
    pub workspace: Option<PathBuf>,
    pub known: ToolsKnown,
    pub shown: Fingerprint,
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

/// What stands behind a suite.
#[derive(Debug)]
pub struct SuiteTools {
    pub tools: usize,
    /// Of these, such as `expose` hides.
    pub hidden: usize,
    pub listed: Vec<Fingerprint>,
    pub introspection: Fingerprint,
}

/// The children of a suite.
#[derive(Debug)]
pub struct PoolUsage {
    pub fingerprint: Fingerprint,
    pub is_remote: bool,
    pub children: usize,
    /// What their processes take, in bytes.
    pub memory: Option<u64>,
    /// What so many more of them would take, in bytes.
    pub copies: Option<u64>,
    pub start_ms: Option<u64>,
}

/// What the sessions of one workspace see.
#[derive(Debug)]
pub struct WorkspaceView {
    pub root: Option<PathBuf>,
    pub instructions: Fingerprint,
    /// By their places in `SavingsSnapshot::suites`.
    pub suites: Vec<usize>,
}

#[derive(Debug)]
pub struct SessionRow {
    pub client: Option<String>,
    pub folder: Option<PathBuf>,
    /// Its place in `SavingsSnapshot::views`.
    pub view: usize,
    /// The one child that it sees as it is.
    pub child: Option<String>,
    pub used: Vec<Fingerprint>,
    pub fetched: Vec<(Fingerprint, u64)>,
    /// What its shim takes, in bytes.
    pub shim: Option<u64>,
}

impl SavingsSnapshot {
    /// A tool as a host puts it before a model.
    pub fn definition(&mut self, definition: &str) -> Fingerprint {
        self.text(seen(definition))
    }

    /// What a server says of itself, as far as hosts take it.
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

/// A definition as a host puts it before a model: written without spaces, so that nobody gains by writing more.
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

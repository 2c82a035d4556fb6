//! Everything that is there to be counted: the texts that hosts see and would see, the sessions and the children.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};
use switchboard_wire::envelope::string;

use crate::catalog::Catalog;
use crate::child::process_tree::{memory_of, memory_of_copy, proportional};
use crate::daemon_state::Daemon;
use crate::definition::Launch;
use crate::face::{self, Face};
use crate::savings_recorder::Fingerprint;
use crate::suite::Suite;

/// What a host puts before a model of a tool. Titles, annotations and output schemas are not counted, on
/// either side.
const COUNTED_MEMBERS: [&str; 3] = ["name", "description", "inputSchema"];

/// Hosts cut what a server says of itself about there.
const MAX_INSTRUCTIONS: usize = 2048;

/// All there is, at one moment.
pub(super) struct SavingsSnapshot {
    pub(super) texts: HashMap<Fingerprint, String>,
    pub(super) suites: Vec<SuiteRow>,
    /// The person's own first, then one for each workspace.
    pub(super) views: Vec<WorkspaceView>,
    pub(super) sessions: Vec<SessionRow>,
    /// What the daemon itself takes, in bytes.
    pub(super) daemon: Option<u64>,
}

pub(super) struct SuiteRow {
    pub(super) name: String,
    pub(super) child: String,
    /// Whose it is; the person's own have none.
    pub(super) workspace: Option<PathBuf>,
    pub(super) known: ToolsKnown,
    pub(super) shown: Fingerprint,
    pub(super) pool_usage: Option<PoolUsage>,
}

pub(super) enum ToolsKnown {
    Yes(SuiteTools),
    /// It has not run yet.
    No,
    Held,
    /// It cannot be started.
    Misconfigured,
}

/// What stands behind a suite.
pub(super) struct SuiteTools {
    pub(super) tools: usize,
    /// Of these, such as `expose` hides.
    pub(super) hidden: usize,
    pub(super) listed: Vec<Fingerprint>,
    pub(super) introspection: Fingerprint,
}

/// The children of a suite.
pub(super) struct PoolUsage {
    pub(super) fingerprint: Fingerprint,
    pub(super) is_remote: bool,
    pub(super) children: usize,
    /// What their processes take, in bytes.
    pub(super) memory: Option<u64>,
    /// What so many more of them would take, in bytes.
    pub(super) copies: Option<u64>,
    pub(super) start_ms: Option<u64>,
}

/// What the sessions of one workspace see.
pub(super) struct WorkspaceView {
    pub(super) root: Option<PathBuf>,
    pub(super) instructions: Fingerprint,
    /// By their places in `Gathered::suites`.
    pub(super) suites: Vec<usize>,
}

pub(super) struct SessionRow {
    pub(super) client: Option<String>,
    pub(super) folder: Option<PathBuf>,
    /// Its place in `Gathered::views`.
    pub(super) view: usize,
    /// The one child that it sees as it is.
    pub(super) child: Option<String>,
    pub(super) used: Vec<Fingerprint>,
    pub(super) fetched: Vec<(Fingerprint, u64)>,
    /// What its shim takes, in bytes.
    pub(super) shim: Option<u64>,
}

impl SavingsSnapshot {
    /// Reads manifests and `/proc`: not for the one thread that works.
    pub(super) fn of(daemon: &Daemon) -> Self {
        let mut all = Self {
            texts: HashMap::new(),
            suites: Vec::new(),
            views: Vec::new(),
            sessions: Vec::new(),
            daemon: proportional(std::process::id()),
        };
        let mut places = HashMap::new();
        let catalogs = std::iter::once((None, daemon.catalog()))
            .chain(daemon.workspaces.all().into_iter().map(|known| (known.root.clone(), known.catalog())));
        for (root, catalog) in catalogs {
            all.view(root, &catalog, &mut places);
        }
        for session in daemon.sessions.all() {
            if session.caller.is_command_line() {
                continue;
            }
            let root = session.workspace().root.clone();
            let usage = session.caller.usage();
            let (used, fetched) =
                usage.map(|usage| (usage.used().collect(), usage.fetched().to_vec())).unwrap_or_default();
            all.sessions.push(SessionRow {
                client: session.caller.profile().client_name(),
                folder: session.folder.clone(),
                view: all.views.iter().position(|view| view.root == root).unwrap_or(0),
                child: match &session.face {
                    Face::Aggregate => None,
                    Face::Child(name) => Some(name.clone()),
                },
                used,
                fetched,
                shim: session.shim().and_then(proportional),
            });
        }
        all
    }

    fn view(
        &mut self,
        root: Option<PathBuf>,
        catalog: &Arc<Catalog>,
        places: &mut HashMap<(PathBuf, String), usize>,
    ) {
        let mut suites = Vec::new();
        for suite in &catalog.suites {
            let which = (suite.definition.file.clone(), suite.definition.name.clone());
            // The person's own are in every view, and counted once.
            let place = *places.entry(which).or_insert_with(|| {
                let row = self.row(root.clone(), suite);
                self.suites.push(row);
                self.suites.len() - 1
            });
            suites.push(place);
        }
        // After the suites: what servers say of themselves is in it once their manifests were read.
        let instructions = self.text(face::instructions(catalog));
        self.views.push(WorkspaceView { root, instructions, suites });
    }

    fn row(&mut self, workspace: Option<PathBuf>, suite: &Suite) -> SuiteRow {
        let manifest = suite.manifest();
        let known = match (&manifest, &suite.pool) {
            _ if suite.is_held() => ToolsKnown::Held,
            (_, None) => ToolsKnown::Misconfigured,
            (None, Some(_)) => ToolsKnown::No,
            (Some(manifest), Some(_)) => {
                let tools = &manifest.tools.tools;
                let mut listed: Vec<Fingerprint> =
                    tools.iter().map(|tool| self.text(seen(tool.raw.get()))).collect();
                let said = manifest.server_info.instructions.as_ref().and_then(|said| string(&**said));
                if let Some(said) = said.filter(|said| !said.trim().is_empty()) {
                    let cut = said.char_indices().map(|(at, _)| at).find(|at| *at >= MAX_INSTRUCTIONS);
                    listed.push(self.text(said[..cut.unwrap_or(said.len())].to_owned()));
                }
                let exposed = |name: &str| suite.settings.expose.permits(name);
                ToolsKnown::Yes(SuiteTools {
                    tools: tools.len(),
                    hidden: tools.iter().filter(|tool| !exposed(&tool.name)).count(),
                    listed,
                    introspection: self.text(suite.introspection(&manifest.tools)),
                })
            }
        };
        SuiteRow {
            name: suite.name.clone(),
            child: suite.child_name().to_owned(),
            workspace,
            known,
            shown: self.text(seen(&suite.tool())),
            pool_usage: suite.pool.as_ref().map(|pool| {
                let running = pool.running();
                let guards: Vec<u32> = running.iter().filter_map(|child| child.guard_pid()).collect();
                let sum = |of: fn(u32) -> u64| {
                    Some(guards.iter().map(|guard| of(*guard)).sum()).filter(|bytes| *bytes > 0)
                };
                PoolUsage {
                    fingerprint: pool.fingerprint(),
                    is_remote: matches!(pool.launch(), Launch::Remote(_)),
                    children: running.len(),
                    memory: sum(memory_of),
                    copies: sum(memory_of_copy),
                    start_ms: pool
                        .start_took()
                        .map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
                }
            }),
        }
    }

    fn text(&mut self, text: String) -> Fingerprint {
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

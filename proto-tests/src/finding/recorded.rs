//! The recorded servers and the intents; see `vectors/servers` and `vectors/intents`.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use serde_json::value::RawValue;

/// All recorded servers. Figures of a session's start are about the first [`ELEVEN`].
pub const SERVERS: [&str; 16] = [
    "everything",
    "filesystem",
    "memory",
    "thinking",
    "playwright",
    "context7",
    "devtools",
    "notion",
    "git",
    "time",
    "fetch",
    "github",
    "slack",
    "sqlite",
    "mongodb",
    "tavily",
];

/// How many of [`SERVERS`] a session of eleven servers has.
pub const ELEVEN: usize = 11;

#[derive(Debug)]
pub struct RecordedServer {
    pub id: String,
    /// The `initialize` result as the server wrote it.
    pub initialize: String,
    pub instructions: String,
    pub tools: Vec<RecordedTool>,
}

#[derive(Debug)]
pub struct RecordedTool {
    pub name: String,
    pub description: String,
    /// As the server wrote it.
    pub raw: String,
    /// As the server wrote it.
    pub schema: String,
}

/// What somebody wants from a server, and the subtools that do it.
#[derive(Debug, Clone)]
pub struct Intent {
    pub server: String,
    pub text: String,
    pub subtools: Vec<String>,
}

impl Intent {
    /// Its words without punctuation, so that a question mark does not make two of one.
    fn words(&self) -> String {
        let words = self.text.to_lowercase();
        words.split(|char: char| !char.is_alphanumeric()).collect::<Vec<_>>().join(" ").trim().to_owned()
    }
}

type RawMembers = BTreeMap<String, Box<RawValue>>;

impl RecordedServer {
    pub fn read(id: &str) -> Self {
        let path = file(id);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let members: RawMembers = serde_json::from_str(&text).unwrap();
        let initialize = members["initialize"].get().to_owned();
        let said: Value = serde_json::from_str(&initialize).unwrap();
        let tools: Vec<Box<RawValue>> = serde_json::from_str(members["tools"].get()).unwrap();
        Self {
            id: id.to_owned(),
            initialize,
            instructions: said["instructions"].as_str().unwrap_or_default().to_owned(),
            tools: tools.iter().map(|raw| RecordedTool::read(raw.get())).collect(),
        }
    }

    pub fn all() -> Vec<Self> {
        SERVERS.iter().map(|id| Self::read(id)).collect()
    }

    /// The `tools/list` result.
    pub fn list(&self) -> String {
        let tools: Vec<&str> = self.tools.iter().map(|tool| tool.raw.as_str()).collect();
        format!(r#"{{"tools":[{}]}}"#, tools.join(","))
    }

    pub fn names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[track_caller]
    pub fn tool(&self, name: &str) -> &RecordedTool {
        let tool = self.tools.iter().find(|tool| tool.name == name);
        tool.unwrap_or_else(|| panic!("{} has no tool `{name}`", self.id))
    }

    pub fn suite(&self) -> String {
        format!("{}_suite", self.id)
    }
}

impl RecordedTool {
    fn read(raw: &str) -> Self {
        let members: RawMembers = serde_json::from_str(raw).unwrap();
        let text = |name: &str| -> String {
            members.get(name).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
        };
        Self {
            name: text("name"),
            description: text("description"),
            raw: raw.to_owned(),
            schema: members["inputSchema"].get().to_owned(),
        }
    }
}

/// The recorded file of a server.
pub fn file(id: &str) -> PathBuf {
    vectors().join("servers").join(format!("{id}.json"))
}

/// The intents that the ranking was never tuned on.
pub fn heldout() -> Vec<Intent> {
    intents("heldout")
}

/// The intents that were written and labelled when the ranking and all limits of answers were done, without those that
/// stand in another file, too.
pub fn fresh() -> Vec<Intent> {
    let known: HashSet<String> = heldout().iter().chain(&tuned()).map(Intent::words).collect();
    let mut fresh = intents("fresh");
    fresh.retain(|intent| !known.contains(&intent.words()));
    fresh
}

/// The intents that the ranking may be tuned on.
pub fn tuned() -> Vec<Intent> {
    intents("tuned")
}

fn intents(name: &str) -> Vec<Intent> {
    let text = fs::read_to_string(vectors().join(format!("intents/{name}.json"))).unwrap();
    let list: Vec<Value> = serde_json::from_str(&text).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list.iter()
        .map(|intent| Intent {
            server: text(&intent["server"]),
            text: text(&intent["intent"]),
            subtools: intent["subtools"].as_array().unwrap().iter().map(text).collect(),
        })
        .collect()
}

fn vectors() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/vectors"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_intent_names_subtools_that_exist() {
        let servers = RecordedServer::all();
        for intent in heldout().iter().chain(&tuned()).chain(&fresh()) {
            let server = servers.iter().find(|server| server.id == intent.server).unwrap();
            assert!(!intent.subtools.is_empty(), "{intent:?}");
            intent.subtools.iter().for_each(|name| assert_eq!(server.tool(name).name, *name));
        }
    }

    #[test]
    fn at_least_half_of_at_least_200_intents_are_held_out() {
        let (heldout, tuned) = (heldout(), tuned());
        assert!(heldout.len() >= 100 && heldout.len() + tuned.len() >= 200 && heldout.len() >= tuned.len());
        let tuned: HashSet<String> = tuned.iter().map(Intent::words).collect();
        assert!(heldout.iter().all(|intent| !tuned.contains(&intent.words())));
        assert!(fresh().len() >= 100);
    }

    #[test]
    fn recorded_tools_are_the_bytes_of_the_file() {
        for server in RecordedServer::all() {
            let text = fs::read_to_string(file(&server.id)).unwrap();
            assert!(
                server.tools.iter().all(|tool| text.contains(&format!("\n{}", tool.raw))),
                "{}",
                server.id
            );
        }
    }
}

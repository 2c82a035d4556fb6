//! The child of a transcript: expects its `child <` lines and sends its `child >` lines.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::Path;

use serde_json::json;

use super::Behaviour;
use super::peer::{Incoming, Peer, member};
use super::serve::answer;
use super::tools::tool;
use crate::transcript::{REPORT, Step, place, read};

pub(crate) const TABLE: &[Behaviour] =
    &[Behaviour::new("script", "FILE: plays the child's half of a transcript", |peer, args| {
        Script::new(Path::new(args[0])).play(&peer);
    })];

struct Script {
    steps: VecDeque<Step>,
    /// Tools that the transcript calls. The child lists them even if the transcript has no `tools/list`.
    tools: BTreeSet<String>,
    /// Maps the transcript's ids and tokens to the real ones.
    real: HashMap<String, String>,
}

/// Messages that Switchboard sends to every child, whether or not the transcript mentions them.
const HOUSEKEEPING: [&str; 8] = [
    "initialize",
    "notifications/initialized",
    "ping",
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
];

/// Members of a message whose values Switchboard chooses.
const OURS: [&[&str]; 4] =
    [&["id"], &["params", "_meta", "progressToken"], &["params", "progressToken"], &["params", "requestId"]];

impl Script {
    fn new(path: &Path) -> Self {
        let steps: VecDeque<_> = read(path)
            .into_iter()
            .filter(|step| matches!(step, Step::ChildReceives(_) | Step::ChildSends(_)))
            .collect();
        let called = |step: &Step| match step {
            Step::ChildReceives(line) => serde_json::from_str(&line[place(line, &["params", "name"])?]).ok(),
            _ => None,
        };
        Self { tools: steps.iter().filter_map(called).collect(), steps, real: HashMap::new() }
    }

    fn play(mut self, peer: &Peer) {
        while let Some(message) = peer.read_any() {
            if self.is_expected(&message) {
                let Some(Step::ChildReceives(expected)) = self.steps.pop_front() else { unreachable!() };
                let actual = self.in_its_words(&expected, &message.raw);
                if actual != expected {
                    report(&format!("the child expected: {expected}\n            and got: {actual}"));
                    std::process::exit(9);
                }
                self.speak(peer);
            } else if message.is("tools/list") {
                let tools: Vec<_> = self.tools.iter().map(|name| tool(name, &[], "")).collect();
                peer.result(message.id(), &json!({"tools": tools}).to_string());
            } else if message.method.as_deref().is_some_and(|method| HOUSEKEEPING.contains(&method)) {
                answer(peer, &message);
            } else {
                report(&format!("the child did not expect: {}", message.raw));
                std::process::exit(9);
            }
        }
    }

    fn is_expected(&self, message: &Incoming) -> bool {
        let Some(Step::ChildReceives(expected)) = self.steps.front() else { return false };
        let method =
            member(expected, "method").and_then(|method| serde_json::from_str::<String>(&method).ok());
        method == message.method || !message.method.as_deref().is_some_and(|m| HOUSEKEEPING.contains(&m))
    }

    /// The actual message with its real ids and tokens replaced by the transcript's.
    fn in_its_words(&mut self, expected: &str, actual: &str) -> String {
        let mut said = actual.to_owned();
        for path in OURS {
            if let (Some(name), Some(at)) = (place(expected, path), place(&said, path)) {
                let (name, real) = (&expected[name], said[at.clone()].to_owned());
                // A name must stand for the same value each time.
                if *self.real.entry(name.to_owned()).or_insert_with(|| real.clone()) == real {
                    said.replace_range(at, name);
                }
            }
        }
        said
    }

    fn speak(&mut self, peer: &Peer) {
        while let Some(Step::ChildSends(line)) = self.steps.front() {
            let mut line = line.clone();
            for path in OURS {
                if let Some(at) = place(&line, path)
                    && let Some(real) = self.real.get(&line[at.clone()])
                {
                    line.replace_range(at, real);
                }
            }
            self.steps.pop_front();
            if self.steps.is_empty() {
                report("done");
            }
            peer.send(&line);
        }
        if self.steps.is_empty() {
            report("done");
        }
    }
}

fn report(text: &str) {
    eprintln!("evil child: {text}");
    if let Some(path) = std::env::var_os(REPORT) {
        std::fs::write(path, text).expect("a report to write");
    }
}

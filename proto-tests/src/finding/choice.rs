//! Which suite a host's own search over tools finds for an intent: plain BM25, as such hosts do it, over the names, the
//! descriptions and, for hosts that read it, the search hints of a list. A model searches with keywords, so the stop words
//! of the intent do not count.

use serde_json::{Value, json};

use super::before;
use super::recorded::{Intent, RecordedServer};
use crate::home::Home;

/// The usual parameters of BM25.
const SATURATION: f64 = 1.2;
const BY_LENGTH: f64 = 0.75;

/// Words that nobody searches for.
const STOP_WORDS: &str = " a an the this that these those it its is are was were be been am do does did done i me my we us our \
    you your they them their he she his her and or but if then than so as at by for from in into of on onto to with about via \
    per there here please can could would should will shall may might must want wants need needs like let have has had any \
    some such just only also too very really what which who whom whose when where why how s t re ve ll d m ";

/// How often the right suite is found.
#[derive(Debug)]
pub struct Choice {
    pub way: &'static str,
    pub heldout: Found,
    pub fresh: Found,
    pub tuned: Found,
    /// The tuned intents whose suite is not first, with those that are before it.
    pub wrong: Vec<String>,
}

#[derive(Debug, Default, Clone, Copy)]
pub struct Found {
    pub first: usize,
    pub among_three: usize,
    pub intents: usize,
}

/// What a host searches: one text per tool, with the server that the tool belongs to.
pub struct SearchedTools {
    tools: Vec<(String, Vec<String>)>,
}

impl SearchedTools {
    /// `list`: the result of `tools/list`.
    pub fn of_suites(list: &str, servers: &[RecordedServer]) -> Self {
        let list: Value = serde_json::from_str(list).unwrap();
        let server_of = |name: &str| {
            let of = |server: &&RecordedServer| {
                name == server.suite() || name == format!("{}_write", server.suite())
            };
            servers.iter().find(of).map(|server| server.id.clone())
        };
        let tools = list["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|tool| Some((server_of(tool["name"].as_str()?)?, words(&searched_text(tool)))));
        Self { tools: tools.collect() }
    }

    /// The servers' own tools.
    pub fn of_servers(servers: &[RecordedServer]) -> Self {
        let own = |server: &RecordedServer| -> Vec<(String, Vec<String>)> {
            let text = |name: &str, says: &str| words(&format!("{name} {says}"));
            server.tools.iter().map(|tool| (server.id.clone(), text(&tool.name, &tool.description))).collect()
        };
        Self { tools: servers.iter().flat_map(own).collect() }
    }

    /// The servers of the tools that match, best first, each once.
    fn rank(&self, query: &str) -> Vec<&str> {
        let count = self.tools.len() as f64;
        let average = self.tools.iter().map(|(_, words)| words.len()).sum::<usize>() as f64 / count;
        let mut scores = vec![0.0; self.tools.len()];
        for word in words(query).into_iter().filter(|word| !STOP_WORDS.contains(&format!(" {word} "))) {
            let times: Vec<f64> = self
                .tools
                .iter()
                .map(|(_, words)| words.iter().filter(|known| **known == word).count() as f64)
                .collect();
            let having = times.iter().filter(|times| **times > 0.0).count() as f64;
            let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
            for ((score, times), (_, words)) in scores.iter_mut().zip(times).zip(&self.tools) {
                let length = 1.0 - BY_LENGTH + BY_LENGTH * words.len() as f64 / average;
                *score += rarity * times * (SATURATION + 1.0) / (times + SATURATION * length);
            }
        }
        let mut order: Vec<usize> = (0..scores.len()).filter(|at| scores[*at] > 0.0).collect();
        order.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]));
        let mut ranked: Vec<&str> = Vec::new();
        for at in order {
            let server = self.tools[at].0.as_str();
            if !ranked.contains(&server) {
                ranked.push(server);
            }
        }
        ranked
    }

    fn found(&self, intents: &[Intent]) -> (Found, Vec<String>) {
        let (mut found, mut wrong) = (Found { intents: intents.len(), ..Found::default() }, Vec::new());
        for intent in intents {
            let ranked = self.rank(&intent.text);
            let place = ranked.iter().position(|server| *server == intent.server);
            found.first += usize::from(place == Some(0));
            found.among_three += usize::from(place.is_some_and(|place| place < 3));
            if place != Some(0) {
                let before = ranked[..place.unwrap_or(ranked.len()).min(3)].join(", ");
                wrong.push(format!("{} `{}`: {before}", intent.server, intent.text));
            }
        }
        (found, wrong)
    }

    pub fn choice(&self, way: &'static str, sets: [&[Intent]; 3]) -> Choice {
        let [heldout, fresh, tuned] = sets;
        let (tuned, wrong) = self.found(tuned);
        Choice { way, heldout: self.found(heldout).0, fresh: self.found(fresh).0, tuned, wrong }
    }
}

/// All ways. `home`: of a daemon with the servers; `sets`: the intents that are held out, fresh, and tuned on.
pub fn choices(home: &Home, servers: &[RecordedServer], sets: [&[Intent]; 3]) -> Vec<Choice> {
    let suites = |list: &str| SearchedTools::of_suites(list, servers);
    vec![
        SearchedTools::of_servers(servers).choice("all tools listed", sets),
        suites(&before::list(servers)).choice("suites as they were (f286614)", sets),
        suites(&list_for(home, "a-host")).choice("suites now", sets),
        // Claude Code reads `_meta` of tools.
        suites(&list_for(home, "claude-code")).choice("suites now, with `anthropic/searchHint`", sets),
    ]
}

/// The result of `tools/list`, for a host of this name.
fn list_for(home: &Home, host: &str) -> String {
    let mut shim = home.raw_shim();
    let info = json!({"name": host, "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
    shim.initialize_as(&hello.to_string());
    let answer: Value = serde_json::from_str(&shim.request("tools/list", "{}")).unwrap();
    answer["result"].to_string()
}

fn searched_text(tool: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let hint = text(&tool["_meta"]["anthropic/searchHint"]);
    [text(&tool["name"]), text(&tool["description"]), hint].join(" ")
}

/// Words in lower case; `_`, `-` and `camelCase` divide them.
fn words(text: &str) -> Vec<String> {
    let mut divided = String::with_capacity(text.len() + 16);
    let mut was_lower = false;
    for char in text.chars() {
        if char.is_uppercase() && was_lower {
            divided.push(' ');
        }
        was_lower = char.is_lowercase();
        divided.push(if char.is_alphanumeric() { char } else { ' ' });
    }
    divided.to_lowercase().split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suite_whose_description_has_the_words_is_first() {
        let servers = [RecordedServer::read("git"), RecordedServer::read("time")];
        let list = r#"{"tools":[
            {"name":"git_suite","description":"Use this tool for git.","_meta":{"anthropic/searchHint":"stageFiles"}},
            {"name":"git_suite_write","description":"Writes commits."},
            {"name":"time_suite","description":"The clock."},{"name":"other","description":"commits"}]}"#;
        let tools = SearchedTools::of_suites(list, &servers);
        assert_eq!(tools.rank("Which commits?"), ["git"]);
        assert_eq!(tools.rank("stage it"), ["git"]);
        assert_eq!(tools.rank("the clock of git"), ["time", "git"]);
        assert!(tools.rank("nothing").is_empty());
    }
}

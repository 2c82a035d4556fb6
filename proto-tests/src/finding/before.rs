//! Suites as they were at commit f286614, from the recorded lists: the texts and the ranking of that commit, written
//! again without the daemon. When this file was written, it gave byte for byte the answers of a daemon of that commit.

use std::cmp::Reverse;

use serde_json::json;

use super::recorded::{RecordedServer, RecordedTool};

const INPUT_SCHEMA: &str = r#"{"type":"object","properties":{"action":{"type":"string","enum":["introspect","call"]},"subtool":{"type":"string"},"args":{"type":"object"},"query":{"type":"string"}},"required":["action"]}"#;
const INSTRUCTIONS: &str = "Each tool here is a suite that stands for one MCP server. Call it with {\"action\":\"introspect\"} first to see its subtools, then with {\"action\":\"call\",\"subtool\":…,\"args\":{…}}. Suites: ";
const MAX_INSTRUCTIONS: usize = 1800;
const MAX_OWN_INSTRUCTIONS: usize = 400;
const SUMMARY_CHARS: usize = 160;
const MAX_MATCHES: usize = 5;
const QUERY_CHARS: usize = 300;
const DESCRIPTION_CHARS: usize = 4000;

/// The `tools/list` result.
pub fn list(servers: &[RecordedServer]) -> String {
    let mut names: Vec<&str> = servers.iter().map(|server| server.id.as_str()).collect();
    names.sort_unstable();
    let tools: Vec<String> = names
        .iter()
        .map(|name| {
            format!(
                r#"{{"name":"{name}_suite","description":"Use this tool for {name}. Actions: 'introspect' | 'call'","inputSchema":{INPUT_SCHEMA}}}"#
            )
        })
        .collect();
    format!(r#"{{"tools":[{}]}}"#, tools.join(","))
}

/// `instructions` of the `initialize` result.
pub fn instructions(servers: &[RecordedServer]) -> String {
    let mut servers: Vec<&RecordedServer> = servers.iter().collect();
    servers.sort_unstable_by_key(|server| &server.id);
    let names: Vec<String> = servers.iter().map(|server| server.suite()).collect();
    let mut text = format!("{INSTRUCTIONS}{}", names.join(", "));
    for server in servers.iter().filter(|server| !server.instructions.trim().is_empty()) {
        let said = format!("\n\n{}: {}", server.suite(), summary(&server.instructions, MAX_OWN_INSTRUCTIONS));
        if text.len() + said.len() <= MAX_INSTRUCTIONS {
            text.push_str(&said);
        }
    }
    text
}

/// The text of `introspect`.
pub fn introspect(server: &RecordedServer, query: Option<&str>) -> String {
    let all: Vec<&RecordedTool> = server.tools.iter().collect();
    let shown = query.map_or_else(|| all.clone(), |query| best_matches(&all, query));
    let entries: Vec<String> = shown.iter().map(|tool| entry(tool)).collect();
    let hint = if shown.is_empty() {
        let hint = format!("no subtool matches the query; there are: {}", server.names().join(", "));
        format!(r#","hint":{}"#, json!(hint))
    } else {
        String::new()
    };
    format!(r#"{{"tools":[{}]{hint}}}"#, entries.join(","))
}

/// The text of `introspect` with `subtool`.
pub fn definition(tool: &RecordedTool) -> String {
    format!(r#"{{"tools":[{}]}}"#, tool.raw)
}

fn entry(tool: &RecordedTool) -> String {
    let summary = summary(&tool.description, SUMMARY_CHARS);
    format!(r#"{{"name":{},"summary":{},"inputSchema":{}}}"#, json!(tool.name), json!(summary), tool.schema)
}

fn best_matches<'t>(tools: &[&'t RecordedTool], query: &str) -> Vec<&'t RecordedTool> {
    let words = words(&first(query, QUERY_CHARS));
    let named: Vec<&RecordedTool> = tools.iter().copied().filter(|tool| is_named(tool, &words)).collect();
    if !named.is_empty() {
        return named.into_iter().take(MAX_MATCHES).collect();
    }
    let mut scored: Vec<(usize, &RecordedTool)> =
        tools.iter().map(|tool| (score(tool, &words), *tool)).collect();
    let most = scored.iter().map(|(score, _)| *score).max().unwrap_or(0);
    scored.retain(|(score, _)| *score > 0 && *score * 2 >= most);
    scored.sort_by_key(|(score, _)| Reverse(*score));
    scored.into_iter().take(MAX_MATCHES).map(|(_, tool)| tool).collect()
}

fn is_named(tool: &RecordedTool, query: &[String]) -> bool {
    let name = words(&tool.name);
    query.len() > 1 && query.iter().all(|word| name.contains(word))
}

fn score(tool: &RecordedTool, query: &[String]) -> usize {
    let name = words(&tool.name);
    let description = first(&tool.description, DESCRIPTION_CHARS).to_lowercase();
    let of_word = |word: &String| {
        let in_name = if name.contains(word) {
            8
        } else if name.iter().any(|part| part.contains(word.as_str()) || word.contains(part.as_str())) {
            4
        } else {
            0
        };
        in_name + usize::from(description.contains(word.as_str()))
    };
    query.iter().map(of_word).sum()
}

fn first(text: &str, count: usize) -> String {
    text.chars().take(count).collect()
}

fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_lower = false;
    for char in text.chars() {
        if !char.is_alphanumeric() || (char.is_uppercase() && before_lower) {
            words.push(String::new());
        }
        before_lower = char.is_lowercase();
        if char.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(char.to_lowercase());
        }
    }
    words.retain(|word| word.len() > 1);
    words
}

/// One line of at most `most` characters. The recorded texts have no characters of several code points.
fn summary(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    format!("{}…", first(&line, most - 1).trim_end())
}

//! What went wrong with a server, as its daemon reports it.

use serde_json::Value;

use super::Fact;
use crate::brief::brief;
use crate::local_time::with_local_time;
use crate::output::age;

/// Exits, the last error and the last output; what happened several times is shown once.
pub(super) fn failures(live: &Value) -> Vec<Fact> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut facts: Vec<Fact> = Vec::new();
    let exits = list(&live["exits"]);
    for same in exits.chunk_by(|one, next| one["what"] == next["what"]) {
        let what = same[0]["what"].as_str().unwrap_or("-");
        let last = same.iter().filter_map(|exit| exit["ageMs"].as_u64()).min().unwrap_or(0);
        let times = if same.len() == 1 { String::new() } else { format!(" ({} times)", same.len()) };
        facts.push(("exit", format!("{} ago{times}: {}", age(last), brief(what))));
    }
    // The end of a process says what its error says, with more around it.
    let is_in = |what: &str, error: &str| what.contains(error) || error.contains(what);
    let is_told =
        |error: &&str| !exits.iter().any(|exit| exit["what"].as_str().is_some_and(|what| is_in(what, error)));
    if let Some(error) = live["lastError"].as_str().filter(is_told) {
        facts.push(("error", brief(error)));
    }
    for line in list(&live["stderr"]) {
        let text = line["text"].as_str().unwrap_or_default();
        let stream = if line["stream"] == "stdout" { "stdout" } else { "stderr" };
        facts.push((stream, with_local_time(&format!("{} {text}", line["at"].as_str().unwrap_or("-")))));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_failure_is_shown_once() {
        let live = json!({
            "exits": [{ "ageMs": 1000, "what": "exited with status 1: no key" }],
            "lastError": "exited with status 1: no key",
            "stderr": [{ "at": "t1", "text": "no key" }, { "at": "t2", "text": "something else" }],
        });
        let mut live = live;
        let expected = [
            ("exit", "1 s ago: exited with status 1: no key".to_owned()),
            ("stderr", "t1 no key".to_owned()),
            ("stderr", "t2 something else".to_owned()),
        ];
        assert_eq!(failures(&live), expected);
        let again = json!({ "ageMs": 9000, "what": "exited with status 1: no key" });
        live["exits"].as_array_mut().unwrap().push(again);
        assert_eq!(failures(&live)[0].1, "1 s ago (2 times): exited with status 1: no key");
        assert_eq!(failures(&live).len(), 3);
    }
}

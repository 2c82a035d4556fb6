//! What a running daemon says about a server, and what the user can do next.

use serde_json::Value;
use switchboard_definitions::trust::TrustStatus;

use super::failures::failures;
use super::{Fact, FoundDefinition};
use crate::output::age;
use crate::shell_word::shell_word;
use crate::status::state_word;

/// What the daemon reports; steps for the user are added to `next`.
/// `missing`: names of values that are set nowhere.
pub(super) fn facts(
    live: Option<&Value>,
    found: &FoundDefinition<'_>,
    missing: &[String],
    next: &mut Vec<String>,
) -> Vec<Fact> {
    let name = shell_word(&found.definition.name);
    match found.trust_status {
        TrustStatus::Held | TrustStatus::Outdated { .. } => {
            next.push(format!(
                "`switchboard allow {name}` shows it and asks, `switchboard deny {name}` hides it"
            ));
        }
        TrustStatus::Denied => next.push(format!("`switchboard allow {name}` takes it back")),
        TrustStatus::Allowed => {}
    }
    let Some(live) = live else {
        let why = match found.trust_status {
            TrustStatus::Denied => "you denied it, so that editors do not see it",
            _ => {
                "no daemon runs, or it has not seen this file yet; `switchboard start`, or `switchboard reload`"
            }
        };
        return vec![("state", why.to_owned())];
    };
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let since = |value: &Value| age(value.as_u64().unwrap_or(0));
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut facts =
        vec![("suite", text(&live["name"])), ("state", state_word(&text(&live["state"])).to_owned())];
    if let Some(speaks) = live.get("speaks") {
        let who = format!("{} {}", text(&speaks["name"]), text(&speaks["version"]));
        facts.push(("speaks", format!("{}, as {who}", text(&speaks["revision"]))));
    }
    if let Some(subtools) = live["subtools"].as_u64() {
        facts.push(("tools", subtools.to_string()));
    }
    if live["show"]["as"] == "tools" {
        facts.push(("shown as", "its own tools".to_owned()));
    } else if let Some(why) = live["show"]["whySuite"].as_str() {
        let setting = text(&live["show"]["setting"]);
        facts.push(("shown as", format!("a suite although the config says `show: \"{setting}\"`: {why}")));
    }
    if live["pool"].is_object() {
        let pool = &live["pool"];
        // Without a program, no start was a process.
        let started = match live["state"].as_str() {
            Some("misconfigured") => String::new(),
            _ => format!(", {} started so far", pool["starts"]),
        };
        facts.push((
            "pool",
            format!(
                "scope {}, {} of {} running, {} kept warm, stopped after {} idle{started}",
                text(&pool["scope"]),
                list(&live["children"]).len(),
                pool["max"],
                pool["warm"],
                since(&pool["idleMs"]),
            ),
        ));
    }
    for child in list(&live["children"]) {
        let pid = child["pid"].as_u64().map_or_else(|| "remote".to_owned(), |pid| format!("pid {pid}"));
        facts.push((
            "process",
            format!("{pid}, up {}, {} in flight", since(&child["ageMs"]), child["inFlight"]),
        ));
    }
    let limits = &live["timeouts"];
    facts.push((
        "timeouts",
        format!(
            "start {}, silence {}, whole call {}",
            limit(&limits["childSpawnMs"]),
            limit(&limits["rpcMs"]),
            limit(&limits["maxMs"])
        ),
    ));
    facts.extend(failures(live));
    match live["state"].as_str() {
        Some("misconfigured") if found.definition.launch.is_err() => {
            next.push(format!("`switchboard check {}`", shell_word(found.definition.to_fix())));
        }
        Some("misconfigured") if missing.is_empty() => {
            next.push("`switchboard doctor` says what is missing".to_owned());
        }
        Some("misconfigured") => {
            next.extend(missing.iter().map(|name| format!("`switchboard secret set {}`", shell_word(name))));
        }
        Some("failed" | "resting") => next.push(format!(
            "`switchboard logs {name}` shows more; `switchboard restart {name}` tries again immediately"
        )),
        _ => {}
    }
    facts
}

/// `8 s`, `2 min`, `1500 ms`.
fn limit(ms: &Value) -> String {
    match ms.as_u64() {
        Some(ms) if ms >= 120_000 && ms.is_multiple_of(60_000) => format!("{} min", ms / 60_000),
        Some(ms) if ms.is_multiple_of(1000) => format!("{} s", ms / 1000),
        Some(ms) => format!("{ms} ms"),
        None => "-".to_owned(),
    }
}

//! The methods that both eras have: lists, calls, prompts, resources, completion.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::revision::Revision;
use super::step::{Round, Step, StepResult};
use super::{catalog, prompts, resources, tools};

pub(super) const INSTRUCTIONS: &str = "A child for tests: every name of the conformance suite.";

/// `None` if there is no such method.
pub(super) fn play(round: &Round<'_>, method: &str) -> Option<StepResult> {
    let child = round.child;
    let page = |key: &str, entries: Vec<Value>| Some(Ok(page(round, key, entries)));
    match method {
        "tools/list" => {
            page("tools", catalog::tools(round.revision, child.tool_changes.load(Ordering::Relaxed)))
        }
        "prompts/list" => page("prompts", prompts::list(child.prompt_changes.load(Ordering::Relaxed))),
        "resources/list" => {
            page("resources", resources::list(child.resource_changes.load(Ordering::Relaxed)))
        }
        "resources/templates/list" => page("resourceTemplates", resources::templates()),
        "tools/call" => Some(tools::call(round)),
        "prompts/get" => Some(Ok(prompts::get(round))),
        "resources/read" => Some(Ok(resources::read(round))),
        "completion/complete" => Some(Ok(complete(round))),
        _ => None,
    }
}

pub(super) fn capabilities(revision: Revision) -> Value {
    let mut capabilities = json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"subscribe": true, "listChanged": true},
        "logging": {},
    });
    if revision.has_audio() {
        capabilities["completions"] = json!({});
    }
    if revision.is_modern() {
        capabilities["extensions"] = json!({super::tasks::EXTENSION: {}});
    }
    capabilities
}

pub(super) fn server_info() -> Value {
    json!({"name": "era-child", "version": env!("CARGO_PKG_VERSION")})
}

/// One page of a list. The cursor says where the page begins.
fn page(round: &Round<'_>, key: &str, mut entries: Vec<Value>) -> Step {
    let total = entries.len();
    let start = match &round.params["cursor"] {
        Value::Null => Some(0),
        cursor => cursor.as_str().and_then(|cursor| cursor.strip_prefix("from-")?.parse().ok()),
    };
    let Some(start) = start.filter(|start| *start == 0 || *start < total) else {
        return Step::invalid("unknown cursor");
    };
    let end = round.child.options.page.map_or(total, |size| total.min(start + size));
    let mut result = json!({key: entries.drain(start..end).collect::<Vec<_>>()});
    if end < total {
        result["nextCursor"] = format!("from-{end}").into();
    }
    Step::Done(result)
}

fn complete(round: &Round<'_>) -> Step {
    let reference = &round.params["ref"];
    let argument = &round.params["argument"];
    let (Some(name), Some(begun)) = (argument["name"].as_str(), argument["value"].as_str()) else {
        return Step::invalid("`argument` needs a name and a value");
    };
    let known: &[&str] = match (reference["type"].as_str(), name) {
        (Some("ref/prompt"), "arg1") if reference["name"] == "test_prompt_with_arguments" => {
            &["paris", "park", "party", "test", "tested"]
        }
        (Some("ref/resource"), "id") if reference["uri"] == resources::TEMPLATE => &["1", "12", "123"],
        (Some("ref/prompt" | "ref/resource"), _) => &[],
        _ => return Step::invalid("`ref` must be a prompt or a resource"),
    };
    let values: Vec<_> = known.iter().filter(|value| value.starts_with(begun)).collect();
    Step::Done(json!({"completion": {"values": values, "total": values.len(), "hasMore": false}}))
}

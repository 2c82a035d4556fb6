//! The tools that ask no questions.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::asking;
use super::content::{audio, failed, image, resource, says, text};
use super::resources::WATCHED;
use super::step::{Round, Step, StepResult};
use super::tool_context::Level;
use super::watchers::Change;
use super::wire::Fault;

pub(super) fn call(round: &Round<'_>) -> StepResult {
    let Some(name) = round.params["name"].as_str() else { return Ok(Step::invalid("`name` is needed")) };
    if !round.params["arguments"].is_object() && !round.params["arguments"].is_null() {
        return Ok(Step::invalid("`arguments` must be an object"));
    }
    let context = round.context;
    let result = match name {
        "test_simple_text" => says("This is a simple text response for testing."),
        "test_image_content" => json!({"content": [image()]}),
        "test_audio_content" if round.revision.has_audio() => json!({"content": [audio()]}),
        "test_audio_content" => says("This revision has no audio."),
        "test_embedded_resource" => {
            let embedded =
                resource("test://embedded-resource", "text/plain", "This is an embedded resource content.");
            json!({"content": [embedded]})
        }
        "test_multiple_content_types" => multiple(),
        "test_error_handling" => failed("This tool intentionally returns an error for testing"),
        "test_tool_with_logging" => {
            context.log(Level::INFO, "Tool execution started");
            context.sleep(50)?;
            context.log(Level::INFO, "Tool processing data");
            context.sleep(50)?;
            context.log(Level::INFO, "Tool execution completed");
            says("Logged three messages.")
        }
        "test_logging_tool" => {
            context.log(Level::DEBUG, "in detail");
            context.log(Level::INFO, "for information");
            context.log(Level::WARNING, "as a warning");
            says("Logged on three levels.")
        }
        "test_tool_with_progress" => {
            context.progress(0, 100, "begun");
            context.sleep(50)?;
            context.progress(50, 100, "half of it");
            context.sleep(50)?;
            context.progress(100, 100, "all of it");
            says("Reported progress.")
        }
        "test_reconnection" => {
            context.sleep(100)?;
            says("That took a moment.")
        }
        "test_wait" => {
            context.sleep(milliseconds(round.argument("seconds")))?;
            says("Waited.")
        }
        "test_trigger_tool_change" => changed(round, &round.child.tool_changes, Change::Tools),
        "test_trigger_prompt_change" => changed(round, &round.child.prompt_changes, Change::Prompts),
        "test_trigger_resource_change" => changed(round, &round.child.resource_changes, Change::Resources),
        "test_update_watched_resource" => changed(round, &round.child.watched, Change::Resource(WATCHED)),
        "json_schema_2020_12_tool" => structured(round, round.params["arguments"].clone()),
        "test_header_params" => says(format!("Arguments: {}", round.params["arguments"])),
        "test_structured_list" if round.revision.is_modern() => structured(round, json!([1, 2, 3])),
        "test_structured_list" => structured(round, json!({"list": [1, 2, 3]})),
        "test_report" => structured(round, report(round)),
        "greet" => says(format!("Hello, {}!", round.text("name"))),
        "slow_compute" => {
            context.sleep(milliseconds(round.argument("seconds")))?;
            says(format!("Computed {}.", round.text("label")))
        }
        "failing_job" => failed("This job intentionally fails"),
        "protocol_error_job" => return Ok(Step::Fail(Fault::new(-32603, "This job ends in an error"))),
        _ => return asking::play(round, name),
    };
    Ok(Step::Done(result))
}

fn multiple() -> Value {
    let embedded =
        resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#);
    json!({"content": [text("Multiple content types test:"), image(), embedded]})
}

fn changed(round: &Round<'_>, count: &AtomicU64, change: Change<'_>) -> Value {
    let count = count.fetch_add(1, Ordering::Relaxed) + 1;
    round.child.tell(change);
    says(format!("Changed for the {count}. time."))
}

/// Structured content where the revision supports it, and its text always.
fn structured(round: &Round<'_>, value: Value) -> Value {
    let mut result = says(value.to_string());
    if round.revision.has_structure() && !value.is_null() {
        result["structuredContent"] = value;
    }
    result
}

fn report(round: &Round<'_>) -> Value {
    json!({
        "revision": round.revision.as_str(),
        "clientCapabilities": round.client,
        "cancelled": round.child.calls.cancelled(),
        "watched": round.child.watchers.subscribed_count(),
    })
}

fn milliseconds(seconds: &Value) -> u64 {
    let seconds = seconds.as_f64().unwrap_or_default().clamp(0.0, 3600.0);
    (seconds * 1000.0) as u64
}

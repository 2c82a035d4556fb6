//! The tools as `tools/list` shows them.

use serde_json::{Value, json};

use super::revision::Revision;

/// Tools without arguments, in the order of the list. The first tool must need none.
const PLAIN: &[(&str, &str)] = &[
    ("test_simple_text", "Returns a text"),
    ("test_image_content", "Returns an image"),
    ("test_audio_content", "Returns audio"),
    ("test_embedded_resource", "Returns an embedded resource"),
    ("test_multiple_content_types", "Returns a text, an image and a resource"),
    ("test_tool_with_logging", "Logs three messages on the way"),
    ("test_tool_with_progress", "Reports progress three times"),
    ("test_error_handling", "Always fails"),
    ("test_reconnection", "Takes a moment"),
    ("test_elicitation_sep1034_defaults", "Asks for a form with defaults"),
    ("test_elicitation_sep1330_enums", "Asks for a form with choices"),
    ("test_elicitation_url", "Asks the person to open an address"),
    ("test_missing_capability", "Needs sampling"),
    ("test_streaming_elicitation", "Reports progress, then asks"),
    ("test_logging_tool", "Logs on three levels"),
    ("test_trigger_prompt_change", "Changes the list of prompts"),
    ("test_trigger_resource_change", "Changes the list of resources"),
    ("test_update_watched_resource", "Changes what the watched resource says"),
    ("test_input_required_result_elicitation", "Asks for a name"),
    ("test_input_required_result_sampling", "Asks the model"),
    ("test_input_required_result_list_roots", "Asks for the roots"),
    ("test_input_required_result_request_state", "Asks and keeps state"),
    ("test_input_required_result_multiple_inputs", "Asks three things at once"),
    ("test_input_required_result_multi_round", "Asks twice"),
    ("test_input_required_result_tampered_state", "Asks and keeps state that may not be changed"),
    ("test_input_required_result_capabilities", "Asks what the client can be asked"),
    ("failing_job", "A task whose tool fails"),
    ("protocol_error_job", "A task that ends in a protocol error"),
    ("multi_input", "A task that asks two things at once"),
    ("test_tool_with_task", "Asks, then goes on as a task"),
    ("test_report", "Says what the child has seen"),
];

pub(super) fn tools(revision: Revision, changes: u64) -> Vec<Value> {
    let mut tools: Vec<_> = PLAIN.iter().map(|(name, says)| tool(name, says, &json!({}), &[])).collect();
    tools.extend([
        // The description contains the number of changes, so that a changed list differs.
        tool(
            "test_trigger_tool_change",
            &format!("Changes the list of tools (so far: {changes})"),
            &json!({}),
            &[],
        ),
        tool(
            "test_question_of_a_changing_tool",
            &format!("Asks for a name (changes so far: {changes})"),
            &json!({}),
            &[],
        ),
        tool("test_sampling", "Asks the model", &json!({"prompt": string("What to ask")}), &["prompt"]),
        tool("test_elicitation", "Asks for a form", &json!({"message": string("What to ask")}), &["message"]),
        json!({"name": "json_schema_2020_12_tool", "description": "Has a schema with everything in it",
            "inputSchema": schema_2020_12()}),
        tool("test_header_params", "Takes arguments that are headers too", &header_params(), &[]),
        tool("greet", "Greets", &json!({"name": string("Whom")}), &["name"]),
        tool(
            "slow_compute",
            "A task that takes its time",
            &json!({"seconds": {"type": "number"}, "label": {"type": "string"}}),
            &["seconds"],
        ),
        tool(
            "confirm_delete",
            "A task that asks before it goes on",
            &json!({"filename": {"type": "string"}}),
            &[],
        ),
        tool(
            "test_wait",
            "Takes its time, unless cancelled",
            &json!({"seconds": {"type": "number"}}),
            &["seconds"],
        ),
        structured_list(revision),
    ]);
    tools
}

fn tool(name: &str, says: &str, properties: &Value, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    json!({"name": name, "description": says, "inputSchema": schema})
}

fn string(says: &str) -> Value {
    json!({"type": "string", "description": says})
}

fn header_params() -> Value {
    json!({
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
    })
}

/// Modern structured output may be any JSON; legacy output is an object.
fn structured_list(revision: Revision) -> Value {
    let mut entry = tool("test_structured_list", "Returns structure", &json!({}), &[]);
    let list = json!({"type": "array", "items": {"type": "integer"}});
    if revision.is_modern() {
        entry["outputSchema"] = list;
    } else if revision.has_structure() {
        entry["outputSchema"] = json!({"type": "object", "properties": {"list": list}, "required": ["list"]});
    }
    entry
}

/// A schema with keywords that are lost if anything on the way parses and rewrites it.
fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn tool_names_are_unique() {
        let tools = tools(Revision::MODERN, 0);
        let names: BTreeSet<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), tools.len());
    }

    #[test]
    fn a_changed_list_differs() {
        assert_ne!(tools(Revision::MODERN, 0), tools(Revision::MODERN, 1));
    }

    #[test]
    fn legacy_output_schemas_are_objects() {
        for revision in Revision::ALL.into_iter().filter(|revision| !revision.is_modern()) {
            for tool in tools(revision, 0) {
                let kind = tool.get("outputSchema").map(|schema| &schema["type"]);
                assert!(kind.is_none_or(|kind| kind == "object"), "{tool}");
            }
        }
    }
}

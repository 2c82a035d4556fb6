//! What a model writes to call a subtool: the smallest arguments that its schema allows.

use serde_json::{Map, Value, json};

use super::recorded::RecordedTool;

/// How deep a schema is followed.
const MAX_DEPTH: usize = 6;

/// `{"action":"introspect","query":…}`
pub fn query_arguments(query: &str) -> String {
    json!({"action": "introspect", "query": query}).to_string()
}

/// `{"action":"introspect","subtool":…}`
pub fn definition_arguments(subtool: &str) -> String {
    json!({"action": "introspect", "subtool": subtool}).to_string()
}

pub const WHOLE_ARGUMENTS: &str = r#"{"action":"introspect"}"#;

/// `{"action":"call",…}` with the smallest arguments.
pub fn call_arguments(tool: &RecordedTool) -> String {
    json!({"action": "call", "subtool": tool.name, "args": smallest_arguments(tool)}).to_string()
}

/// The required arguments, each with a short value.
pub fn smallest_arguments(tool: &RecordedTool) -> Value {
    let schema: Value = serde_json::from_str(&tool.schema).unwrap();
    smallest(&schema, &schema, MAX_DEPTH)
}

fn smallest(schema: &Value, root: &Value, depth: usize) -> Value {
    if depth == 0 {
        return Value::Null;
    }
    let further = |schema: &Value| smallest(schema, root, depth - 1);
    if let Some(target) = schema["$ref"].as_str().and_then(|name| root.pointer(name.strip_prefix('#')?)) {
        return further(target);
    }
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        return value.clone();
    }
    if let Some(first) = ["anyOf", "oneOf"].iter().find_map(|name| schema[*name].get(0)) {
        return further(first);
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind.unwrap_or("object") {
        "string" => json!("some text"),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        "boolean" => json!(true),
        "array" => Value::Array(vec![further(&schema["items"])]),
        "null" => Value::Null,
        _ => {
            let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let members: Map<String, Value> =
                names.map(|name| (name.to_owned(), further(&schema["properties"][name]))).collect();
            Value::Object(members)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::recorded::RecordedServer;

    #[test]
    fn the_smallest_arguments_are_the_required_ones() {
        let git = RecordedServer::read("git");
        assert_eq!(
            smallest_arguments(git.tool("git_commit")),
            json!({"repo_path": "some text", "message": "some text"})
        );
        let notion = RecordedServer::read("notion");
        assert!(smallest_arguments(notion.tool("API-post-page"))["parent"].is_object());
    }
}

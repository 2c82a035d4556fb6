//! A small MCP server on stdio with a dozen text tools: one JSON message per line; exits at end of input.

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

/// Name, description and function of a tool.
struct Tool(&'static str, &'static str, fn(&str) -> String);

const TOOLS: [Tool; 12] = [
    Tool("upper", "Write every letter of the text as a capital.", |text| text.to_uppercase()),
    Tool("lower", "Write every letter of the text small.", |text| text.to_lowercase()),
    Tool("reverse", "Give the text's characters back to front.", |text| text.chars().rev().collect()),
    Tool("trim", "Cut white space off both ends of the text.", |text| text.trim().to_owned()),
    // Gemini CLI refuses a result whose text is nothing but a number.
    Tool("count_words", "Count the words of the text.", |text| {
        counted(text.split_whitespace().count(), "word")
    }),
    Tool("count_lines", "Count the lines of the text.", |text| counted(text.lines().count(), "line")),
    Tool("count_chars", "Count the characters of the text.", |text| {
        counted(text.chars().count(), "character")
    }),
    Tool("sort_lines", "Put the lines of the text in alphabetical order.", |text| {
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    }),
    Tool("unique_lines", "Keep the first of lines that are equal, in their order.", |text| {
        let mut seen = std::collections::HashSet::new();
        text.lines().filter(|line| seen.insert(*line)).collect::<Vec<_>>().join("\n")
    }),
    Tool("number_lines", "Put its number before each line.", |text| {
        text.lines().zip(1..).map(|(line, number)| format!("{number}: {line}")).collect::<Vec<_>>().join("\n")
    }),
    Tool("snake_case", "Join the words of the text with underscores.", |text| words(text, "_")),
    Tool("kebab_case", "Join the words of the text with hyphens.", |text| words(text, "-")),
];

/// `1 word`, `2 words`.
fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn words(text: &str, joint: &str) -> String {
    text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(joint)
}

fn main() -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else { continue };
        let answer = match answer(method, &message["params"]) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, text)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
            }
        };
        writeln!(stdout, "{answer}")?;
        stdout.flush()?;
    }
    Ok(())
}

fn answer(method: &str, params: &Value) -> Result<Value, (i64, String)> {
    match method {
        "initialize" => Ok(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "text-child", "version": env!("CARGO_PKG_VERSION")},
        })),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": TOOLS.map(|tool| described(&tool))})),
        "tools/call" => call(params),
        _ => Err((-32601, format!("method `{method}` not found"))),
    }
}

fn described(Tool(name, description, _): &Tool) -> Value {
    json!({
        "name": name,
        "title": name.replace('_', " "),
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "The text to work on"}},
            "required": ["text"],
            "additionalProperties": false,
        },
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    })
}

fn call(params: &Value) -> Result<Value, (i64, String)> {
    let name = params["name"].as_str().unwrap_or_default();
    let Tool(_, _, run) =
        TOOLS.iter().find(|tool| tool.0 == name).ok_or_else(|| (-32602, format!("unknown tool `{name}`")))?;
    let text =
        params["arguments"]["text"].as_str().ok_or_else(|| (-32602, "`text` is missing".to_owned()))?;
    Ok(json!({"content": [{"type": "text", "text": run(text)}]}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_does_what_it_says() {
        let run = |name: &str, text: &str| {
            let said = call(&json!({"name": name, "arguments": {"text": text}})).unwrap();
            said["content"][0]["text"].as_str().unwrap().to_owned()
        };
        assert_eq!(run("sort_lines", "b\na"), "a\nb");
        assert_eq!(run("unique_lines", "b\na\nb"), "b\na");
        assert_eq!(run("number_lines", "x\ny"), "1: x\n2: y");
        assert_eq!(run("snake_case", "Two Words"), "two_words");
        assert_eq!(run("count_words", " a  b "), "2 words");
        assert!(call(&json!({"name": "fly", "arguments": {"text": ""}})).is_err());
    }
}

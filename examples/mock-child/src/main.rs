//! A tiny MCP server on stdio: one JSON message per line, tools `click` and `echo`; exits at end of input.
//!
//! It is meant to be read and observed, so it supports only the legacy revisions, handles one message at a
//! time and parses only what it needs. A call's arguments are echoed unchanged.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

use serde_json::value::RawValue;
use serde_json::{Value, json};

const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

type Members<'a> = HashMap<&'a str, &'a RawValue>;

/// Code and message of a JSON-RPC error.
type Fault = (i64, String);

fn main() -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        if let Some(answer) = answer(&line?) {
            writeln!(stdout, "{answer}")?;
            stdout.flush()?;
        }
    }
    Ok(())
}

/// The answer to one line from the client; `None` for notifications and responses.
fn answer(line: &str) -> Option<String> {
    let message: Members = match serde_json::from_str(line) {
        Ok(message) => message,
        Err(_) if line.trim().is_empty() => return None,
        Err(_) => return Some(fault("null", &(-32700, "Parse error".into()))),
    };
    let id = message.get("id")?.get();
    let method: &str = serde_json::from_str(message.get("method")?.get()).ok()?;
    let params = members(message.get("params"));
    let outcome = match method {
        "initialize" => Ok(initialize(&params)),
        "ping" => Ok("{}".into()),
        "tools/list" => Ok(tools().to_string()),
        "tools/call" => call(&params),
        _ => Err((-32601, format!("method `{method}` not found"))),
    };
    Some(match outcome {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        Err(error) => fault(id, &error),
    })
}

fn initialize(params: &Members) -> String {
    let asked = text(params, "protocolVersion").unwrap_or_default();
    let version = VERSIONS.iter().find(|version| **version == asked).unwrap_or(&VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "mock-child", "version": env!("CARGO_PKG_VERSION")},
    })
    .to_string()
}

fn tools() -> Value {
    let one_string = |name: &str, says: &str| {
        json!({
            "type": "object",
            "properties": {name: {"type": "string", "description": says}},
            "required": [name],
        })
    };
    json!({"tools": [
        {
            "name": "click",
            "description": "Pretend to click the element that a CSS selector finds.",
            "inputSchema": one_string("selector", "CSS selector of the element"),
        },
        {
            "name": "echo",
            "description": "Give a text back.",
            "inputSchema": one_string("text", "What to give back"),
        },
    ]})
}

fn call(params: &Members) -> Result<String, Fault> {
    let name = text(params, "name").unwrap_or_default();
    let required = match name.as_str() {
        "click" => "selector",
        "echo" => "text",
        _ => return Err((-32602, format!("unknown tool `{name}`"))),
    };
    let args = params.get("arguments").map_or("{}", |args| args.get());
    if text(&members(params.get("arguments")), required).is_none() {
        return Err((-32602, format!("tool `{name}` needs the string `{required}`")));
    }
    let said = format!(r#"{{"ok":true,"name":"{name}","args":{args}}}"#);
    let quoted = Value::from(said.as_str());
    Ok(format!(r#"{{"content":[{{"type":"text","text":{quoted}}}],"structuredContent":{said}}}"#))
}

fn fault(id: &str, (code, message): &Fault) -> String {
    let message = Value::from(message.as_str());
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#)
}

fn members<'a>(raw: Option<&&'a RawValue>) -> Members<'a> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

fn text(members: &Members, name: &str) -> Option<String> {
    serde_json::from_str(members.get(name)?.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expect: Option<&str>) {
        assert_eq!(answer(line).as_deref(), expect, "{line}");
    }

    #[test]
    fn a_call_echoes_its_name_and_arguments_unchanged() {
        check(
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo","arguments":{"z":1.0,"text":"hi","a":123456789012345678901234567890}}}"#,
            Some(
                r#"{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"{\"ok\":true,\"name\":\"echo\",\"args\":{\"z\":1.0,\"text\":\"hi\",\"a\":123456789012345678901234567890}}"}],"structuredContent":{"ok":true,"name":"echo","args":{"z":1.0,"text":"hi","a":123456789012345678901234567890}}}}"#,
            ),
        );
    }

    #[test]
    fn unknown_tools_and_methods_are_errors() {
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fly"}}"#,
            Some(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown tool `fly`"}}"#),
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#,
            Some(
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method `resources/list` not found"}}"#,
            ),
        );
        check(
            "{\"incomplete\": json",
            Some(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#),
        );
    }

    #[test]
    fn notifications_and_blank_lines_are_not_answered() {
        check(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, None);
        check("", None);
    }

    #[test]
    fn an_unknown_version_is_answered_with_the_newest() {
        let said = |version: &str| {
            let params = format!(r#"{{"protocolVersion":"{version}"}}"#);
            initialize(&serde_json::from_str(&params).unwrap())
        };
        assert!(said("2024-11-05").contains("2024-11-05"));
        assert!(said("2099-01-01").contains("2025-11-25"));
    }
}

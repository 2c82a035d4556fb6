//! Plays a recorded server over stdio: `initialize` and `tools/list` byte for byte, and an echo for each call.

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

use super::recorded::RecordedServer;

/// Serves until end of input.
pub fn serve(server: &RecordedServer) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?).unwrap_or_default();
        let (Some(method), id) = (message["method"].as_str(), &message["id"]) else { continue };
        if id.is_null() {
            continue;
        }
        let answer = match result(server, method, &message["params"]) {
            Some(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
            None => {
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found"}}}}"#
                )
            }
        };
        writeln!(stdout, "{answer}")?;
        stdout.flush()?;
    }
    Ok(())
}

fn result(server: &RecordedServer, method: &str, params: &Value) -> Option<String> {
    Some(match method {
        "initialize" => server.initialize.clone(),
        "tools/list" => server.list(),
        "tools/call" => {
            let text = format!("{} {}", params["name"].as_str().unwrap_or_default(), params["arguments"]);
            json!({"content": [{"type": "text", "text": text}]}).to_string()
        }
        "ping" | "logging/setLevel" => "{}".to_owned(),
        "prompts/list" => r#"{"prompts":[]}"#.to_owned(),
        "resources/list" => r#"{"resources":[]}"#.to_owned(),
        "resources/templates/list" => r#"{"resourceTemplates":[]}"#.to_owned(),
        _ => return None,
    })
}

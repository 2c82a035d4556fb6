//! An MCP server that runs as a task: a simulated daemon starts it in place of a process.
//!
//! Its tools do what tests need: `echo` answers at once, `sleep` after `ms`, `hang` never, and `crash` ends the server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboardd::daemon::simulation::{ChildExit, InMemoryPrograms, InMemoryStart};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// The events of all servers of a simulation, in order.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    begin: Instant,
    events: Arc<Mutex<Vec<(Duration, String)>>>,
}

impl Record {
    pub(crate) fn new() -> Self {
        Self { begin: Instant::now(), events: Arc::default() }
    }

    pub(crate) fn note(&self, event: String) {
        self.events.lock().unwrap().push((self.begin.elapsed(), event));
    }

    /// The times at which `event` happened.
    pub(crate) fn times(&self, event: &str) -> Vec<Duration> {
        let events = self.events.lock().unwrap();
        events.iter().filter(|(_, known)| known == event).map(|(at, _)| *at).collect()
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().iter().map(|(_, event)| event.clone()).collect()
    }
}

/// Runs the server for every definition that is started; the command `missing` has no program.
pub(crate) fn programs(record: Record) -> InMemoryPrograms {
    InMemoryPrograms::new(move |start| {
        if start.command == "missing" {
            return Err("there is no such program".to_owned());
        }
        Ok(Box::pin(run(start, record.clone())))
    })
}

async fn run(start: InMemoryStart, record: Record) -> ChildExit {
    let InMemoryStart { name, stdin, mut stdout, mut stderr, .. } = start;
    record.note(format!("{name} started"));
    let mut lines = BufReader::new(stdin).lines();
    let mut answers = JoinSet::new();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            Some(answer) = answers.join_next() => {
                let answer: Value = answer.unwrap();
                let _ = stdout.write_all(format!("{answer}\n").as_bytes()).await;
                continue;
            }
        };
        let Ok(Some(line)) = line else {
            record.note(format!("{name} saw the end of its input"));
            return ChildExit::Status(0);
        };
        let message: Value = serde_json::from_str(&line).unwrap();
        let (method, params) = (message["method"].as_str().unwrap_or_default(), &message["params"]);
        if method == "notifications/cancelled" {
            record.note(format!("{name} heard of a cancelled call"));
        }
        let Some(id) = message.get("id").cloned() else { continue };
        let tool = params["name"].as_str().unwrap_or_default();
        let pause = match (method, tool) {
            ("tools/call", "crash") => {
                stderr.write_all(b"cannot go on\n").await.unwrap();
                record.note(format!("{name} crashed"));
                return ChildExit::Status(3);
            }
            ("tools/call", "hang") => continue,
            ("tools/call", "sleep") => params["arguments"]["ms"].as_u64().unwrap_or(0),
            _ => 0,
        };
        let answer = match result(&name, method, params) {
            Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            None => {
                let error = json!({"code": -32601, "message": "no such method"});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        answers.spawn(async move {
            sleep(Duration::from_millis(pause)).await;
            answer
        });
    }
}

fn result(name: &str, method: &str, params: &Value) -> Option<Value> {
    let tool = |tool: &str| json!({"name": tool, "description": format!("does {tool}"), "inputSchema": {"type": "object"}});
    match method {
        "initialize" => Some(json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": name, "version": "1"},
        })),
        "ping" => Some(json!({})),
        "tools/list" => {
            let tools = ["echo", "sleep", "hang", "crash"].map(tool);
            Some(json!({"tools": tools}))
        }
        "tools/call" => {
            let text = format!("{name}: {}", params["arguments"]);
            Some(json!({"content": [{"type": "text", "text": text}]}))
        }
        _ => None,
    }
}

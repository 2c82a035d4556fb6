//! A server that does what the arguments of each call say: answer late, twice, with noise or not at all, ask the host,
//! report progress, crash. Some starts fail, as the seed says.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboardd::daemon::simulation::{ChildExit, InMemoryPrograms, InMemoryStart};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::law::Law;
use crate::random::Random;

pub(crate) fn programs(law: Law, seed: u64) -> InMemoryPrograms {
    let starts = AtomicU64::new(0);
    InMemoryPrograms::new(move |start| {
        let start_number = starts.fetch_add(1, Ordering::Relaxed);
        let mut random = Random::new(seed ^ (0x5eed << 32) ^ start_number);
        let law = law.clone();
        Ok(Box::pin(async move {
            let launch = format!("{} {:?}", start.name, start.args);
            let _running = Running::begin(&law, &launch, start.pid);
            let pid = start.pid;
            let exit = serve(start, &law, &mut random).await;
            if exit != ChildExit::Status(0) && exit != PROBE_EXIT {
                law.crashed(&launch, pid);
            }
            exit
        }))
    })
}

/// Notes the end of a process, also of one that is killed.
struct Running<'a>(&'a Law, u32);

impl<'a> Running<'a> {
    fn begin(law: &'a Law, launch: &str, pid: u32) -> Self {
        law.started(launch, pid);
        Self(law, pid)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.ended(self.1);
    }
}

const PROBE_EXIT: ChildExit = ChildExit::Status(8);

/// More than all calls of a run write at one instant.
const MAX_STEPS: usize = 1024;

type Answers = Arc<Mutex<HashMap<String, oneshot::Sender<Value>>>>;

/// What a task of the server wants to happen.
enum Step {
    Write(String),
    Crash(i32),
}

async fn serve(start: InMemoryStart, law: &Law, random: &mut Random) -> ChildExit {
    let InMemoryStart { name, pid, stdin, mut stdout, mut stderr, .. } = start;
    let handshake_ms = random.one_of(&[0, 0, 0, 5, 80, 700]);
    let mut lines = BufReader::new(stdin).lines();
    if random.below(14) == 0 {
        let first = lines.next_line().await.ok().flatten().unwrap_or_default();
        sleep(Duration::from_millis(handshake_ms)).await;
        let _ = stderr.write_all(b"this start fails\n").await;
        // A server that exits because of the probe is started again at once, without a probe.
        let is_probe = first.contains("server/discover");
        return if is_probe { PROBE_EXIT } else { ChildExit::Status(7) };
    }
    let (steps, mut wanted) = mpsc::channel(MAX_STEPS);
    let questions = Answers::default();
    let mut tasks = JoinSet::new();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            Some(step) = wanted.recv() => {
                match step {
                    Step::Write(line) => drop(stdout.write_all(line.as_bytes()).await),
                    Step::Crash(status) => return ChildExit::Status(status),
                }
                continue;
            }
            Some(_) = tasks.join_next() => continue,
        };
        let Ok(Some(line)) = line else { return ChildExit::Status(0) };
        let message: Value = serde_json::from_str(&line).unwrap();
        if message.get("method").is_none() {
            let id = message["id"].to_string();
            if let Some(waiting) = questions.lock().unwrap().remove(&id) {
                let _ = waiting.send(message);
            }
            continue;
        }
        let Some(id) = message.get("id").cloned() else { continue };
        let (method, params) = (message["method"].as_str().unwrap_or_default(), &message["params"]);
        if method == "tools/call" {
            let call = ServerCall { id, params: params.clone(), pid, steps: steps.clone() };
            law.received(call.token(), pid);
            tasks.spawn(call.run(questions.clone()));
            continue;
        }
        let answer = match result(&name, method) {
            Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            None => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}})
            }
        };
        let steps = steps.clone();
        let pause = if method == "initialize" { handshake_ms } else { 0 };
        tasks.spawn(async move {
            sleep(Duration::from_millis(pause)).await;
            let _ = steps.try_send(Step::Write(format!("{answer}\n")));
        });
    }
}

struct ServerCall {
    id: Value,
    params: Value,
    pid: u32,
    steps: mpsc::Sender<Step>,
}

impl ServerCall {
    fn token(&self) -> u64 {
        self.params["arguments"]["token"].as_u64().unwrap()
    }

    fn write(&self, message: &Value) {
        let _ = self.steps.try_send(Step::Write(format!("{message}\n")));
    }

    fn answer(&self, more: &str) {
        let text = format!("token={};{more}", self.token());
        let result = json!({"content": [{"type": "text", "text": text}]});
        self.write(&json!({"jsonrpc": "2.0", "id": self.id, "result": result}));
    }

    async fn run(self, questions: Answers) {
        let ms = self.params["arguments"]["ms"].as_u64().unwrap();
        let plan = self.params["arguments"]["plan"].as_str().unwrap().to_owned();
        sleep(Duration::from_millis(ms)).await;
        match plan.as_str() {
            "answer" => self.answer(""),
            "twice" => {
                self.answer("");
                self.answer("again");
            }
            "noise" => {
                let _ = self.steps.try_send(Step::Write("not JSON\n\u{1b}[31mred\n{\"half\n".to_owned()));
                self.write(&json!({"jsonrpc": "2.0", "id": "nobody", "result": {}}));
                self.answer("");
            }
            "progress" => {
                for step in 0..4 {
                    let token = &self.params["_meta"]["progressToken"];
                    let params = json!({"progressToken": token, "progress": step, "message": format!("{}", self.token())});
                    self.write(
                        &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
                    );
                    sleep(Duration::from_millis(ms / 4)).await;
                }
                self.answer("");
            }
            "ask" => {
                let id = format!("q{}-{}", self.pid, self.token());
                let (answer, answered) = oneshot::channel();
                questions.lock().unwrap().insert(format!("{id:?}"), answer);
                let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}});
                let params = json!({"message": format!("token={}", self.token()), "requestedSchema": schema});
                self.write(
                    &json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params}),
                );
                let said = answered.await.unwrap_or_default();
                self.answer(said["result"]["action"].as_str().unwrap_or("refused"));
            }
            "crash" => {
                let _ = self.steps.try_send(Step::Crash(3));
            }
            "answer and crash" => {
                self.answer("");
                let _ = self.steps.try_send(Step::Crash(4));
            }
            "hang" => (),
            other => panic!("no such plan: {other}"),
        }
    }
}

fn result(name: &str, method: &str) -> Option<Value> {
    match method {
        "initialize" => Some(json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": name, "version": "1"},
        })),
        "ping" => Some(json!({})),
        "tools/list" => Some(json!({"tools": [{"name": "run", "inputSchema": {"type": "object"}}]})),
        _ => None,
    }
}

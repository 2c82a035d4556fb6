//! A host behind its shim: many calls at once, a poll of the mailbox that answers questions late or never, cancelled
//! calls, and an end at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use switchboard_wire::hop::{HOP, MAILBOX, OPEN_SESSION, PROXY, SEQ_HEADER, SESSION_HEADER};
use switchboardd::daemon::simulation::{MemoryConnector, Peer};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::law::{Law, Token};
use crate::random::Random;

/// Far beyond every limit of a call (`timeouts.maxMs` is half an hour).
const FOREVER: Duration = Duration::from_secs(2 * 3600);

#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) connector: MemoryConnector,
    pub(crate) peer: Peer,
    pub(crate) law: Law,
    /// Whether the daemon was told to stop: from then on requests may be refused.
    pub(crate) is_stopping: Arc<AtomicBool>,
    /// Whether definitions come and go: then a suite may be unknown.
    pub(crate) may_remove: bool,
    pub(crate) tokens: Arc<AtomicU64>,
}

/// One host's session. Its connections close when it is dropped.
struct Session {
    way: Way,
    number: usize,
    id: String,
    last: AtomicU64,
    connection: tokio::sync::Mutex<Option<Connection>>,
}

/// A connection, closed when dropped.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) async fn converse(way: Way, number: usize, seed: u64, servers: Vec<String>) {
    let mut random = Random::new(seed);
    sleep(Duration::from_millis(random.one_of(&[0, 0, 3, 400, 2500]))).await;
    let law = way.law.clone();
    let Some(session) = Session::open(way, number).await else { return };
    let session = Arc::new(session);
    let poll = tokio::spawn(session.clone().poll(Random::new(random.next())));
    let mut calls = JoinSet::new();
    let count = 1 + random.below(12);
    for _ in 0..count {
        sleep(Duration::from_millis(random.one_of(&[0, 0, 0, 1, 30, 250, 5_000]))).await;
        let server = servers[random.below(servers.len())].clone();
        calls.spawn(session.clone().call(server, Random::new(random.next())));
    }
    let leaves_early = random.below(6) == 0;
    if leaves_early {
        sleep(Duration::from_millis(random.one_of(&[0, 10, 300]))).await;
        calls.abort_all();
    }
    while let Some(call) = calls.join_next().await {
        if let Err(error) = call
            && error.is_panic()
        {
            law.broken(&format!("a call of host {number} panicked: {error}"));
        }
    }
    // Time for what the daemon has to take back.
    if !leaves_early {
        sleep(Duration::from_secs(5)).await;
        if !session.way.is_stopping.load(Ordering::Relaxed) {
            law.at_rest_of(number);
        }
    }
    poll.abort();
    let _ = poll.await;
    law.session_ended(number);
    *session.connection.lock().await = None;
}

impl Session {
    async fn open(way: Way, number: usize) -> Option<Self> {
        let mut connection = connect(&way).await?;
        let open = json!({"workspace": null, "version": "test", "hop": HOP});
        let (status, body) = post(&mut connection.sender, OPEN_SESSION, &[], &open).await?;
        if status != 200 {
            way.may_refuse(&format!("host {number} got {status} for a session: {body}"));
            return None;
        }
        let id = body["session"].as_str()?.to_owned();
        let connection = tokio::sync::Mutex::new(Some(connection));
        let session = Self { way, number, id, last: AtomicU64::new(0), connection };
        let initialize = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let asked = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize});
        let answered = timeout(FOREVER, session.send(asked)).await;
        match answered {
            Err(_) => session.way.law.broken(&format!("host {number} got no answer to initialize")),
            Ok(Some((200, _))) => (),
            Ok(other) => {
                session.way.may_refuse(&format!("host {number} got {other:?} for initialize"));
                return None;
            }
        }
        session.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        Some(session)
    }

    /// `None` if the connection was closed.
    async fn send(&self, message: Value) -> Option<(u16, Value)> {
        self.send_late(message, 0).await
    }

    /// Sends a message some time after its number was taken; the messages after it wait for it, up to a limit.
    async fn send_late(&self, mut message: Value, ms: u64) -> Option<(u16, Value)> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        if ms > 0 {
            sleep(Duration::from_millis(ms)).await;
        }
        if message.get("id").is_some_and(|id| id == 0) {
            message["id"] = number.into();
        }
        let mut connection = connect(&self.way).await?;
        let headers = [(SESSION_HEADER, self.id.clone()), (SEQ_HEADER, number.to_string())];
        let (status, body) = post(&mut connection.sender, PROXY, &headers, &message).await?;
        if status == 200 && body["id"] != message["id"] {
            self.way.law.broken(&format!("{} was answered by {body}", message["id"]));
        }
        Some((status, body))
    }

    async fn call(self: Arc<Self>, server: String, mut random: Random) {
        const PLANS: [&str; 12] = [
            "answer",
            "answer",
            "answer",
            "answer",
            "ask",
            "ask",
            "progress",
            "noise",
            "twice",
            "crash",
            "answer and crash",
            "hang",
        ];
        let token: Token = self.way.tokens.fetch_add(1, Ordering::Relaxed);
        let plan = random.one_of(&PLANS);
        let ms = random.one_of(&[0, 0, 0, 2, 40, 600, 3_000]);
        let number = self.number;
        self.way.law.note(format!("host {number} calls {server} for {token}: {plan} after {ms} ms"));
        let call =
            json!({"action": "call", "subtool": "run", "args": {"token": token, "plan": plan, "ms": ms}});
        let params = json!({
            "name": format!("{server}_suite"), "arguments": call, "_meta": {"progressToken": token},
        });
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params});
        let limit = if random.below(5) == 0 {
            Duration::from_millis(random.one_of(&[0, 1, 20, 500, 2_000]))
        } else {
            FOREVER
        };
        let late = random.one_of(&[0, 0, 0, 0, 0, 0, 0, 300, 9_000, 12_000, 25_000]);
        let Ok(answer) = timeout(limit, self.send_late(request, late)).await else {
            if limit == FOREVER {
                self.way.law.broken(&format!("call {token} was never answered"));
            }
            self.way.law.note(format!("host {number} gives call {token} up"));
            return;
        };
        self.judge(token, answer);
    }

    fn judge(&self, token: Token, answer: Option<(u16, Value)>) {
        let law = &self.way.law;
        match answer {
            None => self.way.may_refuse(&format!("the connection of call {token} was closed")),
            Some((200, body)) if body["error"].is_object() => {
                law.answered(token, &body["error"].to_string());
                let is_unknown =
                    body["error"]["message"].as_str().is_some_and(|text| text.contains("Unknown tool"));
                if !(is_unknown && self.way.may_remove) {
                    law.broken(&format!("call {token} ended with a protocol error: {body}"));
                }
            }
            Some((200, body)) => {
                let text = body["result"]["content"][0]["text"].as_str().unwrap_or_default();
                law.answered(token, text);
                let is_mine = text.starts_with(&format!("token={token};")) && !text.ends_with("again");
                if !is_mine && body["result"]["isError"] != true {
                    law.broken(&format!("call {token} got the answer of another: {body}"));
                }
            }
            Some((503, _)) => self.way.may_refuse(&format!("call {token} got 503")),
            Some((status, body)) => law.broken(&format!("call {token} got {status}: {body}")),
        }
    }

    /// Reads the mailbox, as a shim always does, and answers questions as a person would: late, or never.
    async fn poll(self: Arc<Self>, mut random: Random) {
        let mut after = 0;
        let mut answers = JoinSet::new();
        loop {
            let Some(mut connection) = connect(&self.way).await else { return };
            let headers = [(SESSION_HEADER, self.id.clone())];
            let body = json!({"after": after, "waitMs": 25_000});
            let polled = post(&mut connection.sender, MAILBOX, &headers, &body).await;
            let Some((200, body)) = polled else { return };
            for message in body["messages"].as_array().into_iter().flatten() {
                self.take(message, &mut random, &mut answers);
            }
            after = body["next"].as_u64().unwrap_or(after);
            if body.get("draining").is_some() {
                return;
            }
            sleep(Duration::from_millis(random.one_of(&[0, 0, 7, 90]))).await;
        }
    }

    fn take(self: &Arc<Self>, message: &Value, random: &mut Random, answers: &mut JoinSet<()>) {
        let law = &self.way.law;
        let host = self.number;
        match message["method"].as_str().unwrap_or_default() {
            "elicitation/create" => {
                let id = message["id"].clone();
                let text = message["params"]["message"].as_str().unwrap_or_default();
                let token = text.strip_prefix("token=").and_then(|token| token.parse().ok());
                let Some(token) = token else {
                    law.broken(&format!("host {host} was asked something else: {message}"));
                    return;
                };
                law.asked(host, &id.to_string(), token);
                let action = match random.below(5) {
                    0 => return,
                    1 => "decline",
                    _ => "accept",
                };
                let ms = random.one_of(&[0, 5, 200, 20_000]);
                let this = self.clone();
                answers.spawn(async move {
                    sleep(Duration::from_millis(ms)).await;
                    this.way.law.question_ended(host, &id.to_string(), action);
                    let result = json!({"action": action, "content": {"x": "y"}});
                    this.send(json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
                });
            }
            "notifications/cancelled" => {
                law.question_ended(host, &message["params"]["requestId"].to_string(), "cancelled");
            }
            "notifications/progress" => {
                let token = &message["params"]["progressToken"];
                let text = message["params"]["message"].as_str().unwrap_or_default();
                let is_daemons_own = text.starts_with("waiting for ") || text.starts_with("starting ");
                if token.as_u64().map(|token| token.to_string()).as_deref() != Some(text) && !is_daemons_own {
                    law.broken(&format!("host {host} got the progress of another: {message}"));
                }
            }
            _ => (),
        }
    }
}

impl Way {
    /// Only a daemon that stops may do this.
    fn may_refuse(&self, what: &str) {
        if self.is_stopping.load(Ordering::Relaxed) {
            self.law.note(what.to_owned());
        } else {
            self.law.broken(what);
        }
    }

    pub(crate) async fn control(&self, order: &str, body: &Value) -> Option<(u16, Value)> {
        let mut connection = connect(self).await?;
        post(&mut connection.sender, &format!("/control/{order}"), &[], body).await
    }
}

async fn connect(way: &Way) -> Option<Connection> {
    let stream = way.connector.connect(way.peer.clone()).await.ok()?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let task = tokio::spawn(connection).abort_handle();
    Some(Connection { sender, task })
}

async fn post(
    sender: &mut SendRequest<Full<Bytes>>,
    path: &str,
    headers: &[(&str, String)],
    body: &Value,
) -> Option<(u16, Value)> {
    let mut request =
        hyper::Request::post(path).header("content-type", "application/json").header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let answer =
        sender.send_request(request.body(Full::new(Bytes::from(body.to_string()))).ok()?).await.ok()?;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.ok()?.to_bytes();
    Some((status, if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).ok()? }))
}

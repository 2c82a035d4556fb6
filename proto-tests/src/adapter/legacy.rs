//! The legacy era: each session has its own process of the server, so ids need no change. Messages that
//! belong to a call go to that call's stream, all others to the session's own stream.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};

use hyper::header::{ACCEPT, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc;

use super::body::{Body, empty, events, is_response, json as json_answer, refuse};
use super::gate;
use super::pipe::{MessageSink, Pipe};

const SESSION: &str = "mcp-session-id";
const REVISIONS: [&str; 5] = ["2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The limit of messages queued for a client that does not read, or that has opened no stream yet.
const WAITING: usize = 256;

pub(super) struct Sessions {
    command: Arc<[String]>,
    table: Mutex<HashMap<String, Arc<Session>>>,
    names: RandomState,
}

struct Session {
    pipe: Mutex<Option<Pipe>>,
    /// Leaf lock, never held over an await.
    streams: Arc<Mutex<Streams>>,
}

#[derive(Default)]
struct Streams {
    calls: Vec<Call>,
    own: Option<mpsc::Sender<Value>>,
    backlog: VecDeque<Value>,
    ended: bool,
}

struct Call {
    id: Value,
    token: Option<Value>,
    is_of_a_tool: bool,
    messages: mpsc::Sender<Value>,
}

struct Listener(Arc<Mutex<Streams>>);

impl MessageSink for Listener {
    fn on_message(&self, message: Option<Value>) {
        let mut streams = self.0.lock().unwrap();
        match message {
            Some(message) => streams.deliver(message),
            // Dropping the senders ends every stream.
            None => *streams = Streams { ended: true, ..Streams::default() },
        }
    }
}

impl Sessions {
    pub(super) fn new(command: Arc<[String]>) -> Self {
        Self { command, table: Mutex::default(), names: RandomState::new() }
    }

    pub(super) async fn answer(&self, headers: &HeaderMap, message: Value) -> Response<Body> {
        if message["method"] == "initialize" && headers.get(SESSION).is_none() {
            return self.open(message).await;
        }
        let id = message.get("id").cloned().unwrap_or_default();
        match self.find(headers) {
            Ok(session) => session.post(message).await,
            Err(status) => refuse(status, &id, -32600, "no such session, or no such revision"),
        }
    }

    /// Opens the session's own stream.
    pub(super) fn listen(&self, headers: &HeaderMap) -> Response<Body> {
        if headers.get(SESSION).is_none() {
            return empty(StatusCode::METHOD_NOT_ALLOWED);
        }
        if !gate::names(headers, ACCEPT, "text/event-stream") {
            return empty(StatusCode::NOT_ACCEPTABLE);
        }
        let session = match self.find(headers) {
            Ok(session) => session,
            Err(status) => return empty(status),
        };
        let mut streams = session.streams.lock().unwrap();
        if streams.own.as_ref().is_some_and(|own| !own.is_closed()) {
            return empty(StatusCode::CONFLICT);
        }
        let (own, messages) = mpsc::channel(WAITING);
        for message in std::mem::take(&mut streams.backlog) {
            let _ = own.try_send(message);
        }
        if !streams.ended {
            streams.own = Some(own);
        }
        events(None, messages, ())
    }

    pub(super) fn delete(&self, headers: &HeaderMap) -> Response<Body> {
        match (headers.get(SESSION), self.find(headers)) {
            (None, _) => empty(StatusCode::METHOD_NOT_ALLOWED),
            (Some(_), Err(status)) => empty(status),
            (Some(name), Ok(session)) => {
                self.table.lock().unwrap().remove(name.to_str().unwrap_or_default());
                session.close();
                empty(StatusCode::NO_CONTENT)
            }
        }
    }

    async fn open(&self, message: Value) -> Response<Body> {
        let streams = Arc::default();
        let pipe = match Pipe::start(&self.command, Listener(Arc::clone(&streams))) {
            Ok(pipe) => pipe,
            Err(error) => {
                eprintln!("stdio-adapter: {}: {error}", self.command.join(" "));
                return refuse(StatusCode::OK, &message["id"], -32603, "the server cannot be started");
            }
        };
        let session = Arc::new(Session { pipe: Mutex::new(Some(pipe)), streams });
        let Some(answer) = session.ask(message).await else { return empty(StatusCode::BAD_GATEWAY) };
        if answer.get("error").is_some() {
            return json_answer(StatusCode::BAD_REQUEST, &answer);
        }
        let mut response = json_answer(StatusCode::OK, &answer);
        let name = self.add(session);
        let name = HeaderValue::from_str(&name).expect("BUG: hex digits are a header");
        response.headers_mut().insert(SESSION, name);
        response
    }

    fn add(&self, session: Arc<Session>) -> String {
        let mut table = self.table.lock().unwrap();
        let at = (table.len(), Arc::as_ptr(&session) as usize, std::time::SystemTime::now());
        let name = format!("{:016x}{:016x}", self.names.hash_one((0, at)), self.names.hash_one((1, at)));
        table.insert(name.clone(), session);
        name
    }

    fn find(&self, headers: &HeaderMap) -> Result<Arc<Session>, StatusCode> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if text("mcp-protocol-version").is_some_and(|revision| !REVISIONS.contains(&revision)) {
            return Err(StatusCode::BAD_REQUEST);
        }
        let name = text(SESSION).ok_or(StatusCode::BAD_REQUEST)?;
        self.table.lock().unwrap().get(name).cloned().ok_or(StatusCode::NOT_FOUND)
    }
}

impl Session {
    async fn post(&self, message: Value) -> Response<Body> {
        if message.get("id").is_none() || is_response(&message) {
            let taken_back = message["method"] == "notifications/cancelled";
            let id = message["params"]["requestId"].clone();
            self.send(&message);
            if taken_back {
                self.streams.lock().unwrap().calls.retain(|call| call.id != id);
            }
            return empty(StatusCode::ACCEPTED);
        }
        let mut messages = self.begin(&message);
        match messages.recv().await {
            // Cancelled, or the server is gone.
            None => empty(StatusCode::NO_CONTENT),
            Some(message) if is_response(&message) => json_answer(StatusCode::OK, &message),
            // In this era, a client that disconnects does not cancel its request.
            Some(message) => events(Some(message), messages, ()),
        }
    }

    async fn ask(&self, message: Value) -> Option<Value> {
        let mut messages = self.begin(&message);
        loop {
            let message = messages.recv().await?;
            if is_response(&message) {
                return Some(message);
            }
            self.streams.lock().unwrap().keep(message);
        }
    }

    /// Registers the request, then writes it.
    fn begin(&self, message: &Value) -> mpsc::Receiver<Value> {
        let (sender, messages) = mpsc::channel(WAITING);
        let token = message["params"]["_meta"].get("progressToken").cloned();
        let mut streams = self.streams.lock().unwrap();
        if !streams.ended {
            let is_of_a_tool = message["method"] == "tools/call";
            let id = message["id"].clone();
            streams.calls.push(Call { id, token, is_of_a_tool, messages: sender });
        }
        drop(streams);
        self.send(message);
        messages
    }

    fn send(&self, message: &Value) {
        if !self.pipe.lock().unwrap().as_ref().is_some_and(|pipe| pipe.send(message)) {
            eprintln!("stdio-adapter: the server does not take {message}");
        }
    }

    fn close(&self) {
        *self.pipe.lock().unwrap() = None;
        *self.streams.lock().unwrap() = Streams { ended: true, ..Streams::default() };
    }
}

impl Streams {
    fn deliver(&mut self, message: Value) {
        if is_response(&message) {
            if let Some(at) = self.calls.iter().position(|call| call.id == message["id"]) {
                let _ = self.calls.remove(at).messages.try_send(message);
            }
            return;
        }
        let params = &message["params"];
        let call = match message["method"].as_str().unwrap_or_default() {
            "notifications/progress" => {
                self.calls.iter().find(|call| call.token.as_ref() == Some(&params["progressToken"]))
            }
            method if method.ends_with("/list_changed") || method == "notifications/resources/updated" => {
                None
            }
            // Stdio does not say which call a question or log belongs to: pick the latest tool call, else the
            // latest call.
            _ => self.calls.iter().rev().find(|call| call.is_of_a_tool).or(self.calls.last()),
        };
        match call {
            Some(call) => drop(call.messages.try_send(message)),
            None => self.keep(message),
        }
    }

    /// Sends to the session's own stream, now or when it opens.
    fn keep(&mut self, message: Value) {
        let message = match &self.own {
            None => message,
            Some(own) => match own.try_send(message) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(_)) => return,
                Err(mpsc::error::TrySendError::Closed(message)) => message,
            },
        };
        if self.backlog.len() < WAITING {
            self.backlog.push_back(message);
        }
    }
}

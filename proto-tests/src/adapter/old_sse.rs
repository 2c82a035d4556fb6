//! The transport of 2024-11-05: all server messages arrive on one stream, whose first event names the URL to
//! post messages to. Each stream has its own process of the server.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};

use hyper::{Response, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc;

use super::body::{Body, empty, endless};
use super::pipe::{MessageSink, Pipe};

/// The path of the stream.
pub(super) const STREAM: &str = "/sse";
/// The path for posted messages.
pub(super) const MESSAGES: &str = "/messages";

/// The limit of messages queued for a client that does not read.
const WAITING: usize = 256;

pub(super) struct Streams {
    command: Arc<[String]>,
    table: Arc<Mutex<HashMap<String, Pipe>>>,
    names: RandomState,
}

struct Listener(mpsc::Sender<Value>, Arc<Mutex<HashMap<String, Pipe>>>, String);

impl MessageSink for Listener {
    fn on_message(&self, message: Option<Value>) {
        match message {
            Some(message) => drop(self.0.try_send(message)),
            None => drop(self.1.lock().unwrap().remove(&self.2)),
        }
    }
}

/// Closes the server's stdin when its client is gone.
struct Guard(Arc<Mutex<HashMap<String, Pipe>>>, String);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.lock().unwrap().remove(&self.1);
    }
}

impl Streams {
    pub(super) fn new(command: Arc<[String]>) -> Self {
        Self { command, table: Arc::default(), names: RandomState::new() }
    }

    pub(super) fn open(&self) -> Response<Body> {
        let name = format!("{:016x}", self.names.hash_one(std::time::Instant::now()));
        let (sender, messages) = mpsc::channel(WAITING);
        let ear = Listener(sender, Arc::clone(&self.table), name.clone());
        let Ok(pipe) = Pipe::start(&self.command, ear) else { return empty(StatusCode::BAD_GATEWAY) };
        self.table.lock().unwrap().insert(name.clone(), pipe);
        let first = format!("event: endpoint\ndata: {MESSAGES}?session={name}\n\n");
        endless(first, messages, Guard(Arc::clone(&self.table), name))
    }

    pub(super) fn take(&self, query: Option<&str>, message: &Value) -> Response<Body> {
        let name = query.and_then(|query| query.strip_prefix("session=")).unwrap_or_default();
        match self.table.lock().unwrap().get(name) {
            Some(pipe) if pipe.send(message) => empty(StatusCode::ACCEPTED),
            Some(_) => empty(StatusCode::BAD_GATEWAY),
            None => empty(StatusCode::NOT_FOUND),
        }
    }
}

//! The modern era: all requests go to one shared process under our own ids, and answers come back under the
//! client's.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use hyper::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::body::{Body, empty, events, is_response, json as json_answer, refuse};
use super::headers::{self, HeaderArgument};
use super::pipe::{MessageSink, Pipe};

/// The limit of messages queued for a client that does not read.
const WAITING: usize = 256;
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

pub(super) struct Shared {
    command: Arc<[String]>,
    /// Leaf lock, never held over an await.
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    pipe: Option<Pipe>,
    last: u64,
    open: BTreeMap<u64, Open>,
    /// Header annotations from the tools' schemas; fetched when a tool is missing.
    tools: HashMap<String, Vec<HeaderArgument>>,
}

/// A request in flight, with the client's values that were replaced in it.
struct Open {
    id: Value,
    token: Option<Value>,
    wants_logs: bool,
    messages: mpsc::Sender<Value>,
}

/// The client's end of a request: dropping it before the response cancels the request.
struct Call {
    number: u64,
    shared: Arc<Shared>,
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut table = self.shared.table.lock().unwrap();
        if table.open.remove(&self.number).is_some()
            && let Some(pipe) = &table.pipe
        {
            let params = json!({"requestId": self.number, "reason": "the client is gone"});
            pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
        }
    }
}

struct Listener(Arc<Shared>);

impl MessageSink for Listener {
    fn on_message(&self, message: Option<Value>) {
        let mut table = self.0.table.lock().unwrap();
        match message {
            Some(message) => table.deliver(message),
            None => table.end(),
        }
    }
}

impl Shared {
    pub(super) fn new(command: Arc<[String]>) -> Self {
        Self { command, table: Mutex::default() }
    }

    pub(super) async fn answer(self: &Arc<Self>, given: &HeaderMap, message: Value) -> Response<Body> {
        let id = message["id"].clone();
        if message["method"] == "tools/call"
            && let Err(why) = self.check_arguments(given, &message).await
        {
            return refuse(StatusCode::BAD_REQUEST, &id, -32020, &why);
        }
        let streams = message["method"] == "subscriptions/listen";
        let complete = message["params"]["_meta"][CAPABILITIES].is_object();
        let Some((call, mut messages)) = self.send(message) else {
            return refuse(StatusCode::OK, &id, -32603, "the server cannot be started");
        };
        if streams && complete {
            return events(None, messages, call);
        }
        match messages.recv().await {
            None => empty(StatusCode::BAD_GATEWAY),
            Some(message) if is_response(&message) => json_answer(status(&message, complete), &message),
            Some(message) => events(Some(message), messages, call),
        }
    }

    /// Registers the request, then writes it.
    fn send(self: &Arc<Self>, mut message: Value) -> Option<(Call, mpsc::Receiver<Value>)> {
        let mut table = self.table.lock().unwrap();
        if table.pipe.is_none() {
            match Pipe::start(&self.command, Listener(Arc::clone(self))) {
                Ok(pipe) => table.pipe = Some(pipe),
                Err(error) => {
                    eprintln!("stdio-adapter: {}: {error}", self.command.join(" "));
                    return None;
                }
            }
        }
        table.last += 1;
        let number = table.last;
        let id = std::mem::replace(&mut message["id"], number.into());
        let meta = &mut message["params"]["_meta"];
        let wants_logs = meta.get("io.modelcontextprotocol/logLevel").is_some();
        let token = meta.get_mut("progressToken").map(|token| std::mem::replace(token, number.into()));
        let (sender, messages) = mpsc::channel(WAITING);
        table.open.insert(number, Open { id, token, wants_logs, messages: sender });
        let call = Call { number, shared: Arc::clone(self) };
        if !table.pipe.as_ref().is_some_and(|pipe| pipe.send(&message)) {
            table.end();
        }
        Some((call, messages))
    }

    async fn check_arguments(self: &Arc<Self>, given: &HeaderMap, message: &Value) -> Result<(), String> {
        let params = &message["params"];
        let name = params["name"].as_str().unwrap_or_default();
        if self.annotations(name).is_none() {
            self.list_tools(&params["_meta"]).await;
        }
        match self.annotations(name) {
            Some(annotations) => headers::arguments(given, &annotations, &params["arguments"]),
            None => Ok(()),
        }
    }

    fn annotations(&self, tool: &str) -> Option<Vec<HeaderArgument>> {
        self.table.lock().unwrap().tools.get(tool).cloned()
    }

    /// Lists the server's tools, with the `_meta` of the client that calls one.
    async fn list_tools(self: &Arc<Self>, meta: &Value) {
        let mut cursor = Value::Null;
        loop {
            let mut params = json!({"_meta": meta});
            if let Some(meta) = params["_meta"].as_object_mut() {
                meta.remove("progressToken");
            }
            if !cursor.is_null() {
                params["cursor"] = cursor;
            }
            let request = json!({"jsonrpc": "2.0", "id": 0, "method": "tools/list", "params": params});
            let Some((_call, mut messages)) = self.send(request) else { return };
            let Some(answer) = messages.recv().await else { return };
            cursor = answer["result"]["nextCursor"].clone();
            let mut table = self.table.lock().unwrap();
            for tool in answer["result"]["tools"].as_array().into_iter().flatten() {
                let name = tool["name"].as_str().unwrap_or_default().to_owned();
                table.tools.insert(name, headers::annotations(&tool["inputSchema"]));
            }
            if cursor.is_null() {
                return;
            }
        }
    }
}

impl Table {
    /// Delivers a server message to its client, with the client's own ids restored.
    fn deliver(&mut self, mut message: Value) {
        if is_response(&message) {
            let Some(open) = message["id"].as_u64().and_then(|number| self.open.remove(&number)) else {
                return;
            };
            if let Some(subscription) = message["result"]["_meta"].get_mut(SUBSCRIPTION) {
                *subscription = open.id.clone();
            }
            message["id"] = open.id;
            let _ = open.messages.try_send(message);
            return;
        }
        if message.get("id").is_some() {
            eprintln!("stdio-adapter: a modern server may not ask: {message}");
            return;
        }
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let params = &mut message["params"];
        let open = if let Some(number) = params["_meta"][SUBSCRIPTION].as_u64() {
            let open = self.open.get(&number);
            if let Some(open) = open {
                params["_meta"][SUBSCRIPTION] = open.id.clone();
            }
            open
        } else if method == "notifications/progress" {
            let open = params["progressToken"].as_u64().and_then(|number| self.open.get(&number));
            if let Some(token) = open.and_then(|open| open.token.clone()) {
                params["progressToken"] = token;
            }
            open
        } else if method == "notifications/cancelled" {
            // The server ends a subscription.
            params["requestId"].as_u64().and_then(|number| self.open.remove(&number));
            return;
        } else {
            // Stdio does not say which request a log message belongs to: pick the latest that wanted logs.
            self.open.values().rev().find(|open| open.wants_logs)
        };
        match open {
            Some(open) => drop(open.messages.try_send(message)),
            None => eprintln!("stdio-adapter: nobody is there for {message}"),
        }
    }

    /// The server is gone: fails every request in flight; the next request starts a new process.
    fn end(&mut self) {
        self.pipe = None;
        self.tools.clear();
        for (_, open) in std::mem::take(&mut self.open) {
            let error = json!({"code": -32603, "message": "the server ended"});
            let _ = open.messages.try_send(json!({"jsonrpc": "2.0", "id": open.id, "error": error}));
        }
    }
}

/// An incomplete request is a bad request; a tool's own error has no HTTP status.
fn status(answer: &Value, complete: bool) -> StatusCode {
    match answer["error"]["code"].as_i64() {
        Some(-32601) => StatusCode::NOT_FOUND,
        Some(-32021 | -32022) => StatusCode::BAD_REQUEST,
        Some(-32602) if !complete => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

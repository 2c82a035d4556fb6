//! A test host that speaks Streamable HTTP: it sees every event, and can lose a stream.

use std::time::Instant;

use serde_json::{Value, json};

use crate::http::{Connection, Endpoint, Request, Response};
use crate::wait::TEST_TIMEOUT;

/// A session over HTTP.
#[derive(Debug, Clone)]
pub struct HttpHost {
    endpoint: Endpoint,
    path: String,
    pub session: String,
    token: Option<String>,
}

/// An open event stream, or a plain answer.
pub struct Stream {
    /// Has no body if this is a stream.
    pub head: Response,
    connection: Connection,
    buffer: String,
    ended: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: Option<String>,
    pub retry: Option<u64>,
    /// `null` for a priming event.
    pub message: Value,
}

impl HttpHost {
    /// Opens a session with these capabilities.
    #[track_caller]
    pub fn open(endpoint: Endpoint, path: &str, revision: &str, capabilities: &Value) -> Self {
        Self::open_with(endpoint, path, revision, capabilities, None)
    }

    #[track_caller]
    pub fn open_with(
        endpoint: Endpoint,
        path: &str,
        revision: &str,
        capabilities: &Value,
        token: Option<String>,
    ) -> Self {
        let params = json!({
            "protocolVersion": revision,
            "capabilities": capabilities,
            "clientInfo": {"name": "test-host", "version": "1"},
        });
        Self::greet(endpoint, path, &params, token).0
    }

    /// Opens a session with these `initialize` params; also returns the answer.
    #[track_caller]
    pub fn greet(endpoint: Endpoint, path: &str, params: &Value, token: Option<String>) -> (Self, Value) {
        let mut host = Self { endpoint, path: path.to_owned(), session: String::new(), token };
        let answer = host.call(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        assert_eq!(answer.status, 200, "{}", answer.text());
        host.session = answer.header("mcp-session-id").expect("a session").to_owned();
        let opened = host.call(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(opened.status, 202, "{}", opened.text());
        (host, answer.json())
    }

    /// A request of this session, with all its headers.
    pub fn message(&self, method: &str) -> Request {
        let mut request = Request::new(method, &self.path)
            .header("Accept", "application/json, text/event-stream")
            .header("Content-Type", "application/json");
        if !self.session.is_empty() {
            request = request.header("Mcp-Session-Id", &self.session);
        }
        match &self.token {
            Some(token) => request.bearer(token),
            None => request,
        }
    }

    /// Posts a message and reads the whole answer.
    #[track_caller]
    pub fn call(&self, message: &Value) -> Response {
        self.endpoint.send(&self.message("POST").body(message.to_string()))
    }

    /// Posts a request and returns its response, from JSON or a stream.
    #[track_caller]
    pub fn ask(&self, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut stream = self.post(&request);
        if stream.is_events() { stream.last() } else { stream.json() }
    }

    /// Posts a message and returns without reading the answer's body.
    #[track_caller]
    pub fn post(&self, message: &Value) -> Stream {
        self.stream(&self.message("POST").body(message.to_string()))
    }

    /// Opens the session's own stream.
    #[track_caller]
    pub fn listen(&self) -> Stream {
        self.stream(&self.message("GET"))
    }

    /// Resumes a stream that was lost after this event.
    #[track_caller]
    pub fn resume(&self, after: &str) -> Stream {
        self.stream(&self.message("GET").header("Last-Event-ID", after))
    }

    /// Ends the session.
    #[track_caller]
    pub fn end(&self) -> Response {
        self.endpoint.send(&self.message("DELETE"))
    }

    #[track_caller]
    fn stream(&self, request: &Request) -> Stream {
        Stream::open(&self.endpoint, request)
    }
}

/// A host of the modern era: requests are stateless, and their headers repeat the body.
#[derive(Debug, Clone)]
pub struct ModernHost {
    endpoint: Endpoint,
    path: String,
}

/// The modern revision.
pub const MODERN: &str = "2026-07-28";

impl ModernHost {
    pub fn new(endpoint: Endpoint, path: &str) -> Self {
        Self { endpoint, path: path.to_owned() }
    }

    /// A request whose headers agree with its body. `params` must be complete.
    pub fn message(&self, id: &Value, method: &str, params: &Value) -> Request {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let request = Request::new("POST", &self.path)
            .header("Accept", "application/json, text/event-stream")
            .header("Content-Type", "application/json")
            .header("MCP-Protocol-Version", MODERN)
            .header("Mcp-Method", method)
            .body(body.to_string());
        let name = ["name", "uri", "taskId"].into_iter().find_map(|key| params[key].as_str());
        match name {
            Some(name) => request.header("Mcp-Name", name),
            None => request,
        }
    }

    /// Posts a request and returns without reading the answer's body.
    #[track_caller]
    pub fn post(&self, id: &Value, method: &str, params: &Value) -> Stream {
        Stream::open(&self.endpoint, &self.message(id, method, &with_meta(params)))
    }

    /// Posts a request and returns its response, from JSON or a stream.
    #[track_caller]
    pub fn ask(&self, method: &str, params: &Value) -> Value {
        let mut stream = self.post(&json!(1), method, params);
        if stream.is_events() { stream.last() } else { stream.json() }
    }
}

/// `params` with the `_meta` of a modern host that supports every question.
pub fn with_meta(params: &Value) -> Value {
    let mut params = params.clone();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "test-host", "version": "1"},
    });
    let own = params["_meta"].take();
    params["_meta"] = meta;
    if let (Some(own), Some(all)) = (own.as_object(), params["_meta"].as_object_mut()) {
        all.extend(own.clone());
    }
    params
}

impl Stream {
    #[track_caller]
    fn open(endpoint: &Endpoint, request: &Request) -> Self {
        let mut connection = endpoint.connect().expect("a connection to the daemon");
        connection.write(&request.bytes(&endpoint.host()));
        let head = connection.head().expect("a response");
        Self { head, connection, buffer: String::new(), ended: false }
    }

    pub fn is_events(&self) -> bool {
        self.head.header("content-type") == Some("text/event-stream")
    }

    /// The answer as JSON, if it is not a stream.
    #[track_caller]
    pub fn json(&mut self) -> Value {
        self.connection.rest(&mut self.head).expect("a body");
        self.head.json()
    }

    /// The next event, including priming events; `None` at the end.
    #[track_caller]
    pub fn event(&mut self) -> Option<Event> {
        // Comments keep an idle stream open, so a deadline is needed.
        let end = Instant::now() + TEST_TIMEOUT;
        loop {
            assert!(Instant::now() < end, "no event in {TEST_TIMEOUT:?}");
            if let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let event = parse(event);
                self.buffer = rest.to_owned();
                match event {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            if self.ended {
                return None;
            }
            let chunk = self.connection.chunk().expect("a piece of the stream");
            self.ended = chunk.is_empty();
            self.buffer.push_str(std::str::from_utf8(&chunk).expect("text"));
        }
    }

    /// The next message.
    #[track_caller]
    pub fn message(&mut self) -> Value {
        loop {
            let event = self.event().expect("a message before the stream ends");
            if !event.message.is_null() {
                return event.message;
            }
        }
    }

    /// All messages to the end.
    #[track_caller]
    pub fn all(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.event()).map(|event| event.message).filter(|m| !m.is_null()).collect()
    }

    /// The last message, which is the response.
    #[track_caller]
    pub fn last(&mut self) -> Value {
        self.all().pop().expect("a response")
    }
}

/// `None` for a comment.
#[track_caller]
fn parse(text: &str) -> Option<Event> {
    let field = |name: &str| {
        let lines = text.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix(':'));
        lines.map(str::trim_start).map(str::to_owned).next()
    };
    let data = field("data")?;
    let message = if data.is_empty() { Value::Null } else { serde_json::from_str(&data).expect("JSON") };
    Some(Event { id: field("id"), retry: field("retry").and_then(|retry| retry.parse().ok()), message })
}

//! A host with its shim, as the daemon sees them: one session, by real HTTP on in-memory connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use switchboard_wire::hop::{HOP, MAILBOX, OPEN_SESSION, PROXY, SEQ_HEADER, SESSION_HEADER};
use switchboardd::daemon::simulation::{MemoryConnector, Peer};

/// The response to one request.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

#[derive(Debug, Clone)]
pub(crate) struct Host {
    connector: MemoryConnector,
    peer: Peer,
    session: String,
    /// The number of the last message, which is also its id.
    last: Arc<AtomicU64>,
    /// Keeps the session alive.
    _connection: Arc<SendRequest<Full<Bytes>>>,
}

impl Host {
    /// Opens a session and does the handshake of a host.
    pub(crate) async fn open(connector: &MemoryConnector, peer: &Peer) -> Self {
        let mut connection = connect(connector, peer).await;
        let open = json!({"workspace": null, "version": "test", "hop": HOP});
        let opened = post(&mut connection, OPEN_SESSION, &[], &open).await;
        assert_eq!(opened.status, 200, "{opened:?}");
        let host = Self {
            connector: connector.clone(),
            peer: peer.clone(),
            session: opened.body["session"].as_str().unwrap().to_owned(),
            last: Arc::default(),
            _connection: Arc::new(connection),
        };
        let initialize = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let initialized = host.request("initialize", &initialize).await;
        assert_eq!(initialized["serverInfo"]["name"], "switchboard", "{initialized}");
        host.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        host
    }

    /// The result of a request.
    pub(crate) async fn request(&self, method: &str, params: &Value) -> Value {
        let response =
            self.send(json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": params})).await;
        assert_eq!(response.status, 200, "{response:?}");
        assert!(response.body["error"].is_null(), "{response:?}");
        response.body["result"].clone()
    }

    /// Calls a subtool of a suite; returns the text of its answer, or of the error.
    pub(crate) async fn call(&self, suite: &str, subtool: &str, args: &Value) -> Result<String, String> {
        let arguments = json!({"action": "call", "subtool": subtool, "args": args});
        let result = self.request("tools/call", &json!({"name": suite, "arguments": arguments})).await;
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        if result["isError"] == true { Err(text) } else { Ok(text) }
    }

    /// Polls the mailbox, as a shim always does.
    pub(crate) async fn poll(&self, after: u64, wait_ms: u64) -> Value {
        let mut connection = connect(&self.connector, &self.peer).await;
        let headers = [(SESSION_HEADER, self.session.clone())];
        let body = json!({"after": after, "waitMs": wait_ms});
        post(&mut connection, MAILBOX, &headers, &body).await.body
    }

    /// Like `poll`; `None` if the connection is closed.
    pub(crate) async fn try_poll(&self, after: u64, wait_ms: u64) -> Option<Value> {
        let mut connection = connect(&self.connector, &self.peer).await;
        let headers = [(SESSION_HEADER, self.session.clone())];
        let body = json!({"after": after, "waitMs": wait_ms});
        Some(try_post(&mut connection, MAILBOX, &headers, &body).await?.body)
    }

    /// The JSON answer of a route to a GET.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let mut connection = connect(&self.connector, &self.peer).await;
        let got = exchange(&mut connection, hyper::Request::get(path), Bytes::new()).await;
        assert_eq!(got.status, 200, "{got:?}");
        got.body
    }

    /// The number of the next message.
    pub(crate) fn next_number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Sends one message on a connection of its own; a request gets the next number as its id.
    pub(crate) async fn send(&self, message: Value) -> Response {
        self.send_numbered(self.next_number(), message).await
    }

    /// Like `send`; `None` if the connection is closed.
    pub(crate) async fn try_send(&self, mut message: Value) -> Option<Response> {
        let number = self.next_number();
        message["id"] = number.into();
        let mut connection = connect(&self.connector, &self.peer).await;
        let headers = [(SESSION_HEADER, self.session.clone()), (SEQ_HEADER, number.to_string())];
        try_post(&mut connection, PROXY, &headers, &message).await
    }

    pub(crate) async fn send_numbered(&self, number: u64, mut message: Value) -> Response {
        if message.get("id").is_some() {
            message["id"] = number.into();
        }
        let mut connection = connect(&self.connector, &self.peer).await;
        let headers = [(SESSION_HEADER, self.session.clone()), (SEQ_HEADER, number.to_string())];
        let response = post(&mut connection, PROXY, &headers, &message).await;
        if response.status == 200 {
            assert_eq!(response.body["id"], message["id"]);
        }
        response
    }
}

/// Posts to a route of `/control`; `None` if the connection is closed.
pub(crate) async fn control(
    connector: &MemoryConnector,
    peer: &Peer,
    order: &str,
    body: &Value,
) -> Option<Response> {
    let mut connection = connect(connector, peer).await;
    try_post(&mut connection, &format!("/control/{order}"), &[], body).await
}

async fn connect(connector: &MemoryConnector, peer: &Peer) -> SendRequest<Full<Bytes>> {
    let stream = connector.connect(peer.clone()).await.unwrap();
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn post(
    connection: &mut SendRequest<Full<Bytes>>,
    path: &str,
    headers: &[(&str, String)],
    body: &Value,
) -> Response {
    try_post(connection, path, headers, body).await.expect("the connection stays open")
}

async fn try_post(
    connection: &mut SendRequest<Full<Bytes>>,
    path: &str,
    headers: &[(&str, String)],
    body: &Value,
) -> Option<Response> {
    let mut request = hyper::Request::post(path).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    try_exchange(connection, request, Bytes::from(body.to_string())).await
}

async fn exchange(
    connection: &mut SendRequest<Full<Bytes>>,
    request: hyper::http::request::Builder,
    body: Bytes,
) -> Response {
    try_exchange(connection, request, body).await.expect("the connection stays open")
}

async fn try_exchange(
    connection: &mut SendRequest<Full<Bytes>>,
    request: hyper::http::request::Builder,
    body: Bytes,
) -> Option<Response> {
    let request = request.header("host", "localhost").body(Full::new(body)).unwrap();
    let answer = connection.send_request(request).await.ok()?;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.ok()?.to_bytes();
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    Some(Response { status, body })
}

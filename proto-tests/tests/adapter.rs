//! The adapter and the forwarder in front of the era child: behaviour that the conformance suite does not
//! cover.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use proto_tests::conformance::{FrontServer, adapter, forwarder};
use proto_tests::wait::{TEST_TIMEOUT, until_true};
use proto_tests::{Endpoint, Request};
use serde_json::{Value, json};

const ADAPTER: &str = env!("CARGO_BIN_EXE_stdio-adapter");
const CHILD: &str = env!("CARGO_BIN_EXE_era-child");

fn serve(era: &str) -> (FrontServer, Endpoint) {
    let served = adapter(Path::new(ADAPTER), &[CHILD, "--era", era]).unwrap();
    let endpoint = Endpoint::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, served.port())));
    (served, endpoint)
}

fn post(message: &Value) -> Request {
    Request::new("POST", "/mcp")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .body(message.to_string())
}

fn modern(id: u32, tool: &str, arguments: &Value) -> Request {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": "mine"});
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    post(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", tool)
}

/// The messages of an event stream, as they come.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(endpoint: &Endpoint, request: &Request) -> Self {
        let Endpoint::Tcp(address) = endpoint else { unreachable!("the adapter listens on TCP") };
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.write_all(&request.bytes(&endpoint.host())).unwrap();
        Self(BufReader::new(stream))
    }

    #[track_caller]
    fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).expect("an event in time"), 0, "the stream ended");
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

#[test]
fn a_legacy_question_comes_on_the_stream_of_its_call() {
    let (_served, endpoint) = serve("legacy");
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"}});
    let opened =
        endpoint.send(&post(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})));
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    let in_session = |message: Value| post(&message).header("Mcp-Session-Id", &session);

    let call = json!({"name": "test_elicitation", "arguments": {"message": "Who?"}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call});
    let mut events = Events::open(&endpoint, &in_session(call));
    let question = events.next();
    assert_eq!(question["method"], "elicitation/create");
    let ping = endpoint.send(&in_session(json!({"jsonrpc": "2.0", "id": 3, "method": "ping"})));
    assert_eq!(ping.json()["result"], json!({}), "a call that waits holds up nobody");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    assert_eq!(endpoint.send(&in_session(answer)).status, 202);
    assert_eq!(events.next()["id"], 2);

    let delete = Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &session);
    assert_eq!(endpoint.send(&delete).status, 204);
    assert_eq!(endpoint.send(&delete).status, 404);
}

#[test]
fn two_modern_clients_may_use_the_same_ids_and_tokens() {
    let (_served, endpoint) = serve("modern");
    let mut streams: Vec<_> =
        (0..2).map(|_| Events::open(&endpoint, &modern(1, "test_tool_with_progress", &json!({})))).collect();
    for events in &mut streams {
        for progress in [0, 50, 100] {
            let heard = events.next();
            assert_eq!(heard["params"]["progressToken"], "mine");
            assert_eq!(heard["params"]["progress"], progress);
        }
        assert_eq!(events.next()["id"], 1);
    }
}

#[test]
fn a_modern_client_that_disconnects_cancels_its_request() {
    let (_served, endpoint) = serve("modern");
    let report = |endpoint: &Endpoint| {
        endpoint.send(&modern(1, "test_report", &json!({}))).json()["result"]["structuredContent"]["cancelled"]
            .clone()
    };
    assert_eq!(report(&endpoint), 0);
    let mut connection = endpoint.connect().unwrap();
    connection.write(&modern(2, "test_wait", &json!({"seconds": 600})).bytes(&endpoint.host()));
    // The adapter must have read the request before its client goes away.
    let mut other = Events::open(&endpoint, &modern(3, "test_tool_with_progress", &json!({})));
    other.next();
    drop(connection);
    until_true("the call is cancelled", TEST_TIMEOUT, || report(&endpoint) == 1);
}

#[test]
fn the_forwarder_adds_the_token_and_changes_nothing_else() {
    let behind = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let target = behind.local_addr().unwrap().port();
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "secret\n").unwrap();
    let served = forwarder(Path::new(ADAPTER), target, token.path()).unwrap();
    let heads = thread::spawn(move || [head(&behind), head(&behind)]);

    let endpoint = Endpoint::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, served.port())));
    assert_eq!(endpoint.get("/mcp/x?y").status, 204);
    let evil = Request::new("GET", "/")
        .header("Host", "evil.example.com")
        .header("Origin", "http://evil.example.com");
    assert_eq!(endpoint.send(&evil).status, 204);

    let [ours, evil] = heads.join().unwrap();
    assert!(ours.starts_with("GET /mcp/x?y HTTP/1.1"), "{ours}");
    assert!(ours.contains(&format!("host: 127.0.0.1:{target}\r\n")), "{ours}");
    assert!(ours.contains("authorization: Bearer secret\r\n"), "{ours}");
    assert!(evil.contains("host: evil.example.com\r\n"), "{evil}");
    assert!(evil.contains("origin: http://evil.example.com\r\n"), "{evil}");
}

/// Answers one request with 204 and returns its head.
fn head(listener: &TcpListener) -> String {
    let (stream, _) = listener.accept().unwrap();
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0);
    }
    stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    head
}

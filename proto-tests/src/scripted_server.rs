//! A scripted remote server: a local port where a function of the test answers each HTTP request, byte by
//! byte if necessary. Records every request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::wait::{TEST_TIMEOUT, until_true};

/// One recorded request.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    pub verb: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// The raw body, which may not be text.
    pub bytes: Vec<u8>,
}

impl RecordedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The JSON-RPC message in the body; `null` if there is none.
    pub fn message(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The message's method, or the HTTP verb if it has none.
    pub fn what(&self) -> String {
        self.message()["method"].as_str().map_or_else(|| self.verb.clone(), ToOwned::to_owned)
    }

    /// A result for the request's id.
    pub fn result(&self, result: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.message()["id"], "result": result})
    }

    pub fn error(&self, code: i64, message: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": self.message()["id"], "error": {"code": code, "message": message}})
    }
}

/// Writes the response. A connection serves one request.
pub struct Responder(TcpStream);

impl Responder {
    /// Writes raw bytes; false if the client is gone.
    pub fn raw(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.write_all(bytes.as_ref()).and_then(|()| self.0.flush()).is_ok()
    }

    pub fn head(&mut self, status: u16, headers: &[(&str, &str)]) -> bool {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        self.raw(format!("HTTP/1.1 {status} x\r\nConnection: close\r\n{headers}\r\n"))
    }

    pub fn empty(&mut self, status: u16) {
        self.head(status, &[("Content-Length", "0")]);
    }

    pub fn json(&mut self, status: u16, message: &Value) {
        self.json_with(status, &[], message);
    }

    pub fn json_with(&mut self, status: u16, headers: &[(&str, &str)], message: &Value) {
        let body = message.to_string();
        let length = body.len().to_string();
        let mut all = vec![("Content-Type", "application/json"), ("Content-Length", length.as_str())];
        all.extend_from_slice(headers);
        self.head(status, &all);
        self.raw(body);
    }

    /// Starts an event stream.
    pub fn events(&mut self) -> bool {
        self.head(200, &[("Content-Type", "text/event-stream")])
    }

    pub fn event(&mut self, message: &Value) -> bool {
        self.raw(format!("data: {message}\n\n"))
    }

    /// Another handle to the same connection.
    pub fn again(&self) -> Self {
        Self(self.0.try_clone().unwrap())
    }

    /// Waits until the client closes the connection; false if it does not.
    pub fn is_left(&mut self) -> bool {
        self.0.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        matches!(self.0.read(&mut [0; 64]), Ok(0) | Err(_))
    }
}

/// The server; stops on drop.
pub struct ScriptedServer {
    port: u16,
    asked: Arc<Mutex<Vec<RecordedRequest>>>,
    ended: Arc<AtomicBool>,
}

impl ScriptedServer {
    /// Answers every request with `answer`, each on its own thread.
    pub fn start(answer: impl Fn(&RecordedRequest, &mut Responder) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, ended) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (notes, stop, answer) = (Arc::clone(&asked), Arc::clone(&ended), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let (notes, answer) = (Arc::clone(&notes), Arc::clone(&answer));
                thread::spawn(move || {
                    let Some(request) = read(&stream) else { return };
                    notes.lock().unwrap().push(request.clone());
                    let mut back = Responder(stream);
                    answer(&request, &mut back);
                    let _ = back.0.shutdown(Shutdown::Write);
                    // Closing with unread bytes would send a reset, which may discard what was written.
                    back.0.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                    let _ = back.0.read(&mut [0; 64]);
                });
            }
        });
        Self { port, asked, ended }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<RecordedRequest> {
        self.asked.lock().unwrap().clone()
    }

    /// The method of each request, or its HTTP verb if it has none.
    pub fn whats(&self) -> Vec<String> {
        self.asked().iter().map(RecordedRequest::what).collect()
    }

    /// How many such requests arrived.
    pub fn count(&self, what: &str) -> usize {
        self.whats().iter().filter(|asked| *asked == what).count()
    }

    /// Waits for such a request and returns the first.
    #[track_caller]
    pub fn wait_for(&self, what: &str) -> RecordedRequest {
        until_true(what, TEST_TIMEOUT, || self.count(what) > 0);
        self.asked().into_iter().find(|asked| asked.what() == what).unwrap()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the accepting thread.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn read(stream: &TcpStream) -> Option<RecordedRequest> {
    stream.set_read_timeout(Some(TEST_TIMEOUT)).ok()?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace();
    let (verb, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(RecordedRequest {
        verb,
        target,
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
        bytes: body,
    })
}

/// The only tool of the well-behaved servers.
pub fn tools() -> Value {
    json!({"tools": [{"name": "echo", "description": "says it again", "inputSchema": {"type": "object"}}]})
}

/// The tool's result: its arguments as text.
pub fn echoed(asked: &RecordedRequest) -> Value {
    let text = asked.message()["params"]["arguments"].to_string();
    json!({"content": [{"type": "text", "text": text}]})
}

/// A well-behaved legacy server with sessions, for requests that a test does not care about.
pub fn legacy(asked: &RecordedRequest, back: &mut Responder) {
    let session = asked.header("mcp-session-id");
    match asked.what().as_str() {
        "initialize" => {
            let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "far", "version": "1"}});
            back.json_with(200, &[("Mcp-Session-Id", "s1")], &asked.result(&hello));
        }
        "server/discover" => back.json(400, &asked.error(-32000, "Bad Request: no session")),
        _ if session.is_none() => back.json(400, &asked.error(-32000, "Bad Request: no session")),
        "GET" => back.empty(405),
        "DELETE" => back.empty(204),
        "tools/list" => back.json(200, &asked.result(&tools())),
        "tools/call" => back.json(200, &asked.result(&echoed(asked))),
        "ping" => back.json(200, &asked.result(&json!({}))),
        _ => back.empty(202),
    }
}

/// A well-behaved modern server.
pub fn modern(asked: &RecordedRequest, back: &mut Responder) {
    let complete = |mut result: Value| {
        result["resultType"] = "complete".into();
        result
    };
    if asked.verb == "POST" && asked.header("mcp-protocol-version") != Some("2026-07-28") {
        let mut refusal = asked.error(-32022, "Unsupported protocol version");
        refusal["error"]["data"] = json!({"supported": ["2026-07-28"], "requested": "2025-11-25"});
        return back.json(400, &refusal);
    }
    match asked.what().as_str() {
        "server/discover" => {
            let hello = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "ttlMs": 0, "cacheScope": "private"});
            back.json(200, &asked.result(&complete(hello)));
        }
        "tools/list" => {
            let mut list = tools();
            (list["ttlMs"], list["cacheScope"]) = (0.into(), "private".into());
            back.json(200, &asked.result(&complete(list)));
        }
        "tools/call" => back.json(200, &asked.result(&complete(echoed(asked)))),
        "GET" | "DELETE" => back.empty(405),
        _ => back.json(404, &asked.error(-32601, "Method not found")),
    }
}

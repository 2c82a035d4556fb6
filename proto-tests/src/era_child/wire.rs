//! Requests, faults and outgoing messages.

use std::io::Write;
use std::sync::Mutex;

use serde_json::{Map, Value, json};

/// A request; its id is kept as received.
pub(crate) struct Request {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Value,
}

impl Request {
    /// A key of `_meta` with the protocol's own prefix.
    pub(super) fn meta(&self, key: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(format!("io.modelcontextprotocol/{key}"))
    }

    pub(super) fn progress_token(&self) -> Option<&Value> {
        self.params.get("_meta")?.get("progressToken")
    }
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

pub(crate) type Answer = Result<Value, Fault>;

impl Fault {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub(super) fn no_method(method: &str) -> Self {
        Self::new(-32601, format!("unknown method `{method}`"))
    }

    pub(super) fn with(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    pub(super) fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }
}

/// The host's answer to our question.
pub(super) fn outcome(message: &mut Map<String, Value>) -> Answer {
    match (message.remove("result"), message.remove("error")) {
        (Some(result), None) => Ok(result),
        (_, error) => {
            let error = error.unwrap_or_default();
            let text = error["message"].as_str().unwrap_or("neither result nor error");
            Err(Fault::new(error["code"].as_i64().unwrap_or(-32603), text))
        }
    }
}

/// Stdout: one compact object per line, one write per line.
pub(crate) struct Outbox {
    /// Locked for one write, so that lines never mix.
    out: Mutex<Box<dyn Write + Send>>,
}

impl Outbox {
    pub(super) fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out: Mutex::new(out) }
    }

    pub(super) fn send(&self, message: &Value) {
        let line = format!("{message}\n");
        let mut out = self.out.lock().unwrap();
        // A host that stops reading also closes stdin, which ends this process.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }

    pub(super) fn answer(&self, id: &Value, answer: Answer) {
        match answer {
            Ok(result) => self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})),
            Err(fault) => self.fault(id, &fault),
        }
    }

    pub(super) fn fault(&self, id: &Value, fault: &Fault) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "error": fault.to_json()}));
    }

    pub(super) fn notify(&self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(super) fn ask(&self, id: &str, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }
}

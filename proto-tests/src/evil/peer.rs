//! The child's end of its pipes: reads messages, writes them in any framing, and records what it received.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Read, Write};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::value::RawValue;

/// Every line received is appended to the file that this variable names, with the child's pid.
pub(crate) const JOURNAL: &str = "EVIL_JOURNAL";

/// Writes a message in some framing.
pub(crate) type MessageWriter = fn(&str, &mut dyn Write) -> io::Result<()>;

/// Shared by the reading thread and the threads of slow calls.
#[derive(Clone)]
pub(crate) struct Peer(Arc<Shared>);

pub(crate) struct Shared {
    dress: Mutex<MessageWriter>,
    journal: Option<Mutex<File>>,
    /// Questions to the host that are not answered yet.
    asked: Mutex<HashMap<String, Sender<String>>>,
    next_id: AtomicU64,
    pub(crate) received: Mutex<Vec<String>>,
    /// Ids of calls that the host cancelled.
    pub(crate) cancelled: Mutex<HashSet<String>>,
    pub(crate) calls: AtomicU64,
    /// Memory that is never freed.
    pub(crate) eaten: Mutex<Vec<Vec<u8>>>,
    /// Set by the tool `change`: the list then has one more tool.
    pub(crate) changed: AtomicBool,
}

impl Deref for Peer {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// A message from the daemon, parsed as far as a child needs it.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    pub(crate) raw: String,
    /// Raw JSON.
    pub(crate) id: Option<String>,
    pub(crate) method: Option<String>,
    pub(crate) params: String,
}

impl Peer {
    pub(crate) fn new() -> Self {
        let journal = std::env::var_os(JOURNAL).map(|path| {
            Mutex::new(OpenOptions::new().create(true).append(true).open(path).expect("a journal to write"))
        });
        Self(Arc::new(Shared {
            dress: Mutex::new(line),
            journal,
            asked: Mutex::default(),
            next_id: AtomicU64::new(1),
            received: Mutex::default(),
            cancelled: Mutex::default(),
            calls: AtomicU64::new(0),
            eaten: Mutex::default(),
            changed: AtomicBool::new(false),
        }))
    }

    pub(crate) fn set_writer(&self, dress: MessageWriter) {
        *self.dress.lock().unwrap() = dress;
    }

    /// Sends one message. Ignores errors, because the daemon may be gone.
    pub(crate) fn send(&self, message: &str) {
        let dress = self.dress.lock().unwrap();
        let mut out = Vec::with_capacity(message.len() + 32);
        let _ = dress(message, &mut out).and_then(|()| write_out(&out));
    }

    /// Writes raw bytes.
    pub(crate) fn write_raw(&self, bytes: &[u8]) {
        let _alone = self.dress.lock().unwrap();
        let _ = write_out(bytes);
    }

    pub(crate) fn result(&self, id: &str, result: &str) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    }

    pub(crate) fn error(&self, id: &str, error: &str) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
    }

    pub(crate) fn notify(&self, method: &str, params: &str) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
    }

    /// Asks the host a question and waits for the whole answer. Must not be called on the reading thread.
    pub(crate) fn ask(&self, method: &str, params: &str) -> String {
        self.begin_asking(method, params).recv().unwrap_or_else(|_| "null".into())
    }

    /// Asks the host a question; the receiver gets the whole answer.
    pub(crate) fn begin_asking(&self, method: &str, params: &str) -> Receiver<String> {
        let id = format!("\"evil-{}\"", self.next_id.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = channel();
        self.asked.lock().unwrap().insert(id.clone(), sender);
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
        receiver
    }

    /// The next request or notification; `None` at end of input. Answers go to the threads that asked.
    pub(crate) fn read(&self) -> Option<Incoming> {
        loop {
            let message = self.read_any()?;
            if message.method.is_some() {
                return Some(message);
            }
            let waiting = message.id.as_ref().and_then(|id| self.asked.lock().unwrap().remove(id));
            if let Some(waiting) = waiting {
                let _ = waiting.send(message.raw);
            }
        }
    }

    /// The next message of any kind. Lines that are not JSON objects are recorded and skipped.
    pub(crate) fn read_any(&self) -> Option<Incoming> {
        loop {
            let mut line = Vec::new();
            if io::stdin().lock().read_until(b'\n', &mut line).unwrap_or(0) == 0 {
                return None;
            }
            let line = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
            self.remember(&line);
            if let Some(message) = Incoming::parse(line) {
                return Some(message);
            }
        }
    }

    /// Reads and discards everything until end of input.
    pub(crate) fn drain(&self) {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    }

    fn remember(&self, line: &str) {
        if let Some(journal) = &self.journal {
            let entry = format!("{} {line}\n", std::process::id());
            let _ = journal.lock().unwrap().write_all(entry.as_bytes());
        }
        self.received.lock().unwrap().push(line.to_owned());
    }
}

impl Incoming {
    fn parse(raw: String) -> Option<Self> {
        let members: HashMap<String, &RawValue> = serde_json::from_str(&raw).ok()?;
        let text = |name: &str| members.get(name).map(|value| value.get().to_owned());
        let (id, params) = (text("id"), text("params").unwrap_or_else(|| "{}".into()));
        let method = members.get("method").and_then(|method| serde_json::from_str(method.get()).ok());
        drop(members);
        Some(Self { raw, id, method, params })
    }

    pub(crate) fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }

    /// The raw id of a request.
    pub(crate) fn id(&self) -> &str {
        self.id.as_deref().unwrap_or("null")
    }

    /// A member of the params, as raw JSON.
    pub(crate) fn param(&self, name: &str) -> Option<String> {
        member(&self.params, name)
    }

    /// The name of the tool that is called.
    pub(crate) fn tool(&self) -> String {
        self.param("name").and_then(|name| serde_json::from_str(&name).ok()).unwrap_or_default()
    }

    pub(crate) fn arguments(&self) -> String {
        self.param("arguments").unwrap_or_else(|| "{}".into())
    }

    pub(crate) fn progress_token(&self) -> Option<String> {
        member(&self.param("_meta")?, "progressToken")
    }
}

/// A member of an object, as raw JSON.
pub(crate) fn member(object: &str, name: &str) -> Option<String> {
    let members: HashMap<String, &RawValue> = serde_json::from_str(object).ok()?;
    members.get(name).map(|value| value.get().to_owned())
}

pub(crate) fn line(message: &str, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(message.as_bytes())?;
    out.write_all(b"\n")
}

fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

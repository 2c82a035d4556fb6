//! One `switchboard` under test, with the test as its host.
#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bins::bins;
use crate::home::Home;
use crate::wait::{TEST_TIMEOUT, until};

pub struct Shim {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Arc<Mutex<String>>,
    /// Answers to other requests, read while waiting for something else.
    set_aside: VecDeque<String>,
    /// Notifications and questions from the daemon, in order.
    notifications: Vec<String>,
    next_id: u64,
}

#[derive(Debug, Clone, Default)]
pub struct ShimOptions {
    pub workspace: Option<PathBuf>,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
}

/// The `initialize` params of a host.
pub const INITIALIZE: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{},"roots":{"listChanged":true}},"clientInfo":{"name":"proto-tests","version":"1"}}"#;

impl Shim {
    #[track_caller]
    pub fn start(home: &Home, options: ShimOptions) -> Self {
        Self::run(home, &bins().switchboard, options)
    }

    /// Starts another copy of the program.
    #[track_caller]
    pub fn start_program(home: &Home, program: &Path) -> Self {
        Self::run(home, program, ShimOptions::default())
    }

    #[track_caller]
    fn run(home: &Home, program: &Path, options: ShimOptions) -> Self {
        let workspace = options.workspace.unwrap_or_else(|| home.workspace());
        let mut process = Command::new(program)
            .arg("--socket")
            .arg(home.socket())
            .arg("--workspace")
            .arg(&workspace)
            .args(&options.args)
            .env_clear()
            .envs(home.environment())
            .env("HOST_SECRET", "never-for-children")
            .envs(options.env)
            .current_dir(&workspace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("switchboard");
        let stdin = process.stdin.take();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut complaints = process.stderr.take().unwrap();
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
                if sender.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&stderr);
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = complaints.read(&mut chunk) {
                kept.lock().unwrap().push_str(&String::from_utf8_lossy(&chunk[..read]));
            }
        });
        Self {
            process,
            stdin,
            lines,
            stderr,
            set_aside: VecDeque::new(),
            notifications: Vec::new(),
            next_id: 1,
        }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap()
    }

    /// The handshake of a legacy host; returns the answer.
    #[track_caller]
    pub fn initialize(&mut self) -> Value {
        self.initialize_as(INITIALIZE)
    }

    #[track_caller]
    pub fn initialize_as(&mut self, params: &str) -> Value {
        let answer = self.request("initialize", params);
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        serde_json::from_str(&answer).unwrap()
    }

    /// Sends one line.
    #[track_caller]
    pub fn send(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    #[track_caller]
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin was closed");
        if let Err(error) = stdin.write_all(bytes).and_then(|()| stdin.flush()) {
            panic!("the shim does not read any more: {error}\n{}", self.stderr());
        }
    }

    /// Like [`Self::send`]; `None` if the shim was killed.
    pub fn try_send(&mut self, line: &str) -> Option<()> {
        let stdin = self.stdin.as_mut().expect("stdin was closed");
        stdin.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdin.flush()).ok()
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The next raw line; panics if none comes.
    #[track_caller]
    pub fn receive(&mut self) -> String {
        self.receive_within(TEST_TIMEOUT).unwrap_or_else(|why| panic!("{why:?}\n{}", self.stderr()))
    }

    pub fn receive_within(&mut self, bound: Duration) -> Result<String, RecvTimeoutError> {
        self.lines.recv_timeout(bound)
    }

    /// Sends a request and returns its id, without waiting.
    #[track_caller]
    pub fn start_request(&mut self, method: &str, params: &str) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
        id
    }

    /// Sends a request and returns the raw answer.
    #[track_caller]
    pub fn request(&mut self, method: &str, params: &str) -> String {
        let id = self.start_request(method, params);
        self.answer_to(&id.to_string())
    }

    /// Waits for the answer to this raw id.
    #[track_caller]
    pub fn answer_to(&mut self, id: &str) -> String {
        self.answer_within(id, TEST_TIMEOUT)
            .unwrap_or_else(|| panic!("no answer to {id} within {TEST_TIMEOUT:?}\n{}", self.stderr()))
    }

    #[track_caller]
    pub fn answer_within(&mut self, id: &str, bound: Duration) -> Option<String> {
        let is_it = |line: &str| answer_id(line).as_deref() == Some(id);
        if let Some(at) = self.set_aside.iter().position(|line| is_it(line)) {
            return self.set_aside.remove(at);
        }
        let end = Instant::now() + bound;
        loop {
            let line = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())).ok()?;
            match answer_id(&line) {
                Some(answered) if answered == id => return Some(line),
                Some(_) => self.set_aside.push_back(line),
                None => self.notifications.push(line),
            }
        }
    }

    /// The next notification or question with this method, in order of arrival.
    #[track_caller]
    pub fn notification(&mut self, method: &str) -> Value {
        let of_method = |line: &str| {
            let message: Value = serde_json::from_str(line).unwrap();
            (message["method"] == method).then_some(message)
        };
        if let Some(at) = self.notifications.iter().position(|line| of_method(line).is_some()) {
            return of_method(&self.notifications.remove(at)).unwrap();
        }
        loop {
            let line = self.receive();
            if answer_id(&line).is_some() {
                self.set_aside.push_back(line);
            } else if let Some(message) = of_method(&line) {
                return message;
            } else {
                self.notifications.push(line);
            }
        }
    }

    /// Notifications that arrived while waiting for something else.
    pub fn take_notifications(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notifications)
    }

    /// Like [`Self::take_notifications`], without the news that the description of a suite changed: it comes
    /// to every host when a server runs for the first time.
    pub fn take_notifications_of_calls(&mut self) -> Vec<String> {
        let mut all = self.take_notifications();
        all.retain(|line| !line.contains("notifications/tools/list_changed"));
        all
    }

    /// `tools/list`, by name.
    #[track_caller]
    pub fn tools(&mut self) -> BTreeMap<String, Value> {
        let answer: Value = serde_json::from_str(&self.request("tools/list", "{}")).unwrap();
        let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
        tools.into_iter().map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool)).collect()
    }

    /// `<child>_suite` with action `call`; returns the raw answer.
    #[track_caller]
    pub fn call(&mut self, child: &str, subtool: &str, args: &str) -> String {
        let id = self.start_call(child, subtool, args);
        self.answer_to(&id.to_string())
    }

    #[track_caller]
    pub fn start_call(&mut self, child: &str, subtool: &str, args: &str) -> u64 {
        self.start_request("tools/call", &call_params(child, subtool, args))
    }

    /// `<child>_suite` with action `introspect`; returns the parsed text.
    #[track_caller]
    pub fn introspect(&mut self, child: &str) -> Value {
        let params = format!(r#"{{"name":"{child}_suite","arguments":{{"action":"introspect"}}}}"#);
        let answer = self.request("tools/call", &params);
        let text = text_of(&answer);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// The pid of the process that serves this session's calls.
    #[track_caller]
    pub fn pid_of(&mut self, child: &str) -> i32 {
        i32::try_from(structured(&self.call(child, "where", "{}"))["pid"].as_i64().unwrap()).unwrap()
    }

    /// Like [`Self::start_call`], with a progress token.
    #[track_caller]
    pub fn start_call_with_token(&mut self, child: &str, subtool: &str, args: &str, token: &str) -> u64 {
        let params = call_params(child, subtool, args);
        let params = params.strip_suffix('}').unwrap();
        self.start_request("tools/call", &format!(r#"{params},"_meta":{{"progressToken":{token}}}}}"#))
    }

    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).expect("a shim to signal");
    }

    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().unwrap()
    }

    #[track_caller]
    pub fn ended(&mut self, bound: Duration) -> ExitStatus {
        until("the shim to end", bound, || self.process.try_wait().unwrap())
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() && !self.stderr().is_empty() {
            eprintln!("--- the shim's stderr ---\n{}", self.stderr());
        }
    }
}

pub fn call_params(child: &str, subtool: &str, args: &str) -> String {
    format!(
        r#"{{"name":"{child}_suite","arguments":{{"action":"call","subtool":"{subtool}","args":{args}}}}}"#
    )
}

/// The raw id of an answer; `None` for any other message.
pub fn answer_id(line: &str) -> Option<String> {
    if crate::transcript::place(line, &["method"]).is_some() {
        return None;
    }
    crate::transcript::place(line, &["id"]).map(|at| line[at].to_owned())
}

/// The text of a tool result.
#[track_caller]
pub fn text_of(answer: &str) -> String {
    let value: Value = serde_json::from_str(answer).unwrap();
    let text = value["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text in {answer}")).to_owned()
}

/// `structuredContent` of a tool result.
#[track_caller]
pub fn structured(answer: &str) -> Value {
    let value: Value = serde_json::from_str(answer).unwrap();
    let content = value["result"]["structuredContent"].clone();
    assert!(!content.is_null(), "no structured content in {answer}");
    content
}

/// The kind of a Switchboard failure: of a call from its result, otherwise from its error.
pub fn kind_of(answer: &str) -> Option<String> {
    let value: Value = serde_json::from_str(answer).ok()?;
    let failed = &value["result"]["isError"] == true;
    let of_call = value["result"]["_meta"]["switchboard"]["kind"].as_str().filter(|_| failed);
    of_call.or_else(|| value["error"]["data"]["switchboard"]["kind"].as_str()).map(str::to_owned)
}

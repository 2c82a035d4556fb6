//! A fake daemon made of threads: it opens sessions and serves mailboxes by itself, and passes every POST to
//! `/proxy` to the test, which may answer it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct FakeDaemon {
    shared: Arc<Shared>,
    calls: Receiver<Call>,
    listener: Mutex<Option<OwnedFd>>,
}

struct Shared {
    boot: String,
    state: Mutex<State>,
    changed: Condvar,
    calls: Mutex<Sender<Call>>,
}

#[derive(Default)]
struct State {
    /// Bodies of the sessions that were opened.
    sessions: Vec<Value>,
    /// Raw answers for the next attempts to open a session.
    refusals: VecDeque<String>,
    mail: Vec<String>,
    draining: Option<&'static str>,
    streams: Vec<UnixStream>,
    dead: bool,
}

/// One POST to `/proxy`.
pub(crate) struct Call {
    pub(crate) body: String,
    pub(crate) seq: u64,
    pub(crate) session: String,
    stream: UnixStream,
    closed: Arc<AtomicBool>,
}

impl FakeDaemon {
    pub(crate) fn bind(socket: &Path, boot: &str) -> Self {
        let _ = std::fs::remove_file(socket);
        Self::serve(UnixListener::bind(socket).unwrap(), boot)
    }

    pub(crate) fn serve(listener: UnixListener, boot: &str) -> Self {
        let (sender, calls) = channel();
        let shared = Arc::new(Shared {
            boot: boot.to_owned(),
            state: Mutex::default(),
            changed: Condvar::new(),
            calls: Mutex::new(sender),
        });
        let clone = listener.try_clone().unwrap().into();
        std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                while let Ok((stream, _)) = listener.accept() {
                    let shared = Arc::clone(&shared);
                    let mut state = shared.state.lock().unwrap();
                    if state.dead {
                        return;
                    }
                    state.streams.push(stream.try_clone().unwrap());
                    drop(state);
                    std::thread::spawn(move || shared.serve(&stream));
                }
            }
        });
        Self { shared, calls, listener: Mutex::new(Some(clone)) }
    }

    /// The next POST to `/proxy`.
    #[track_caller]
    pub(crate) fn call(&self) -> Call {
        self.calls.recv_timeout(TEST_TIMEOUT).expect("the shim sent nothing")
    }

    /// The next POST, which must carry this method.
    #[track_caller]
    pub(crate) fn expect(&self, method: &str) -> Call {
        let call = self.call();
        assert_eq!(call.json()["method"], method, "{}", call.body);
        call
    }

    pub(crate) fn quiet_for(&self, time: Duration) -> bool {
        self.calls.recv_timeout(time).is_err()
    }

    /// Answers the next POST; true if none came for so long that no client can be left.
    pub(crate) fn quiet_for_ever(&self, answer: impl FnOnce(Call)) -> bool {
        self.calls.recv_timeout(TEST_TIMEOUT * 3).map(answer).is_err()
    }

    /// The bodies of the sessions opened so far; waits until there are at least `count`.
    #[track_caller]
    pub(crate) fn sessions(&self, count: usize) -> Vec<Value> {
        let state = self.shared.state.lock().unwrap();
        let late = |state: &mut State| state.sessions.len() < count;
        let (state, wait) = self.shared.changed.wait_timeout_while(state, TEST_TIMEOUT, late).unwrap();
        let sessions = state.sessions.clone();
        drop(state);
        assert!(!wait.timed_out(), "{} sessions", sessions.len());
        sessions
    }

    /// Puts a message into the mailbox; returns its number.
    pub(crate) fn mail(&self, message: &Value) -> u64 {
        let mut state = self.shared.state.lock().unwrap();
        state.mail.push(message.to_string());
        self.shared.changed.notify_all();
        state.mail.len() as u64
    }

    pub(crate) fn drain(&self, kind: &'static str) {
        self.shared.state.lock().unwrap().draining = Some(kind);
        self.shared.changed.notify_all();
    }

    /// Queues a raw answer for the next attempt to open a session.
    pub(crate) fn refuse(&self, answer: &str) {
        self.shared.state.lock().unwrap().refusals.push_back(answer.to_owned());
    }

    /// Dies like a killed process: every connection ends, nothing listens, the socket file stays.
    pub(crate) fn die(&self) {
        if let Some(listener) = self.listener.lock().unwrap().take() {
            let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
        }
        let mut state = self.shared.state.lock().unwrap();
        state.dead = true;
        for stream in state.streams.drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for FakeDaemon {
    fn drop(&mut self) {
        self.die();
    }
}

impl Shared {
    fn serve(&self, stream: &UnixStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let closed = Arc::new(AtomicBool::new(false));
        while let Some((head, body)) = read_request(&mut reader) {
            let header = |name: &str| {
                head.lines().find_map(|line| {
                    let (key, value) = line.split_once(':')?;
                    key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
                })
            };
            assert_eq!(header("host").as_deref(), Some("localhost"));
            let stream = stream.try_clone().unwrap();
            // The session belongs to an earlier daemon on this socket.
            if header("switchboard-session").is_some_and(|session| !session.starts_with(&self.boot)) {
                answer(&stream, 404, "", "");
                continue;
            }
            match head.split(' ').nth(1).unwrap() {
                "/hop/session" => self.open(&stream, &body),
                "/hop/mailbox" => self.poll(&stream, &body),
                "/proxy" => {
                    let call = Call {
                        body,
                        seq: header("switchboard-seq").unwrap().parse().unwrap(),
                        session: header("switchboard-session").unwrap(),
                        stream,
                        closed: Arc::clone(&closed),
                    };
                    let _ = self.calls.lock().unwrap().send(call);
                }
                other => panic!("{other}"),
            }
        }
        closed.store(true, Ordering::SeqCst);
    }

    fn open(&self, stream: &UnixStream, body: &str) {
        let mut state = self.state.lock().unwrap();
        if let Some(refusal) = state.refusals.pop_front() {
            let _ = (&mut &*stream).write_all(refusal.as_bytes());
            return;
        }
        state.sessions.push(serde_json::from_str(body).unwrap());
        let session = format!("{}-session-{}", self.boot, state.sessions.len());
        let body = json!({"session": session, "boot": self.boot, "hop": 1}).to_string();
        answer(stream, 200, "", &body);
        self.changed.notify_all();
    }

    fn poll(&self, stream: &UnixStream, body: &str) {
        let poll: Value = serde_json::from_str(body).unwrap();
        let after = usize::try_from(poll["after"].as_u64().unwrap()).unwrap();
        let state = self.state.lock().unwrap();
        let idle = |state: &mut State| state.mail.len() <= after && state.draining.is_none() && !state.dead;
        let wait = Duration::from_millis(poll["waitMs"].as_u64().unwrap());
        let (state, _) = self.changed.wait_timeout_while(state, wait, idle).unwrap();
        let draining = state.draining.map_or(String::new(), |kind| format!(r#","draining":"{kind}""#));
        let messages = state.mail[after.min(state.mail.len())..].join(",");
        let next = state.mail.len();
        drop(state);
        answer(stream, 200, "", &format!(r#"{{"messages":[{messages}],"next":{next}{draining}}}"#));
    }
}

impl Call {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Answers with this result.
    pub(crate) fn result(&self, result: &Value) {
        self.result_after(result, 0);
    }

    /// Answers with a result that must come after the mailbox messages up to `mailbox`.
    pub(crate) fn result_after(&self, result: &Value, mailbox: u64) {
        let body = json!({"jsonrpc": "2.0", "id": self.json()["id"], "result": result}).to_string();
        self.answer(200, &format!("Switchboard-Mailbox: {mailbox}\r\n"), &body);
    }

    pub(crate) fn accepted(&self) {
        self.answer(202, "", "");
    }

    pub(crate) fn answer(&self, status: u16, headers: &str, body: &str) {
        answer(&self.stream, status, headers, body);
    }

    /// Closes only this connection.
    pub(crate) fn hang_up(&self) {
        self.stream.shutdown(std::net::Shutdown::Both).unwrap();
    }

    /// Waits until the shim has closed the connection.
    pub(crate) fn closes(&self) -> bool {
        until(|| self.closed.load(Ordering::SeqCst))
    }
}

/// Polls until the check holds; false after [`TEST_TIMEOUT`].
pub(crate) fn until(mut check: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + TEST_TIMEOUT;
    while Instant::now() < end {
        if check() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

fn answer(mut stream: &UnixStream, status: u16, headers: &str, body: &str) {
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    let _ = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat());
}

fn read_request(reader: &mut BufReader<UnixStream>) -> Option<(String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8(body).unwrap()))
}

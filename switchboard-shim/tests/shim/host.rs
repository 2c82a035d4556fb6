//! A fake host: starts the shim, writes to its stdin, reads its stdout line by line.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::daemon::{FakeDaemon, TEST_TIMEOUT};

pub(crate) struct Host {
    pub(crate) shim: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Receiver<String>,
}

/// A directory that a daemon may be started in.
pub(crate) fn private_folder() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o700)).tempdir().unwrap()
}

/// A directory for a socket, and the path of the socket in it.
pub(crate) fn socket_dir() -> (tempfile::TempDir, PathBuf) {
    let folder = private_folder();
    let socket = folder.path().join("s.sock");
    (folder, socket)
}

#[expect(clippy::disallowed_methods, reason = "tests run the shim as a host does")]
pub(crate) fn shim(binary: &Path, socket: &Path) -> Command {
    let mut command = Command::new(binary);
    command.arg("--socket").arg(socket).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_switchboard"))
}

impl Host {
    /// A shim that uses the running daemon and starts none.
    pub(crate) fn start(socket: &Path) -> Self {
        Self::run(shim(binary(), socket).arg("--no-start"))
    }

    /// A host with a daemon at which its session is open.
    pub(crate) fn with_daemon() -> (Self, FakeDaemon, tempfile::TempDir) {
        let (folder, socket) = socket_dir();
        let daemon = FakeDaemon::bind(&socket, "boot1");
        let host = Self::start(&socket);
        daemon.sessions(1);
        (host, daemon, folder)
    }

    pub(crate) fn run(command: &mut Command) -> Self {
        // A process that another test forks may hold the copied program open for writing for a moment.
        let spawned = std::iter::repeat_with(|| command.spawn()).take(100).find(|spawned| {
            let is_busy =
                matches!(spawned, Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy);
            if is_busy {
                std::thread::sleep(Duration::from_millis(20));
            }
            !is_busy
        });
        Self::run_child(spawned.expect("a program that is not busy for ever").unwrap())
    }

    /// Wraps a shim of which the test may have taken some pipes.
    pub(crate) fn run_child(mut shim: Child) -> Self {
        let stdin = shim.stdin.take();
        let lines = shim.stdout.take().map_or_else(|| channel().1, read_lines);
        let stderr = shim.stderr.take().map_or_else(|| channel().1, read_lines);
        Self { shim, stdin, lines, stderr }
    }

    pub(crate) fn say(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn request(&mut self, id: impl Into<Value>, method: &str) {
        self.say(&json!({"jsonrpc": "2.0", "id": id.into(), "method": method}));
    }

    pub(crate) fn notify(&mut self, method: &str) {
        self.say(&json!({"jsonrpc": "2.0", "method": method}));
    }

    pub(crate) fn cancel(&mut self, id: impl Into<Value>) {
        let params = json!({"requestId": id.into()});
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    }

    pub(crate) fn end_input(&mut self) {
        self.stdin = None;
    }

    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(TEST_TIMEOUT).expect("the shim wrote nothing")
    }

    #[track_caller]
    pub(crate) fn expect_message(&self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Asserts that the next message is the result for `id`.
    #[track_caller]
    pub(crate) fn expect_result(&self, id: impl Into<Value>) -> Value {
        let heard = self.expect_message();
        assert_eq!(heard["id"], id.into(), "{heard}");
        assert!(heard.get("result").is_some(), "{heard}");
        heard["result"].clone()
    }

    /// Asserts that the next message is a fault of this kind for `id`.
    #[track_caller]
    pub(crate) fn expect_fault(&self, id: impl Into<Value>, kind: &str) -> Value {
        let heard = self.expect_message();
        assert_eq!(heard["id"], id.into(), "{heard}");
        assert_eq!(heard["error"]["data"]["switchboard"]["kind"], kind, "{heard}");
        heard["error"].clone()
    }

    /// Asserts that the next message is the failed result of call `id`, of this kind; returns its text.
    #[track_caller]
    pub(crate) fn expect_failed_call(&self, id: impl Into<Value>, kind: &str) -> String {
        let result = self.expect_result(id);
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(result["_meta"]["switchboard"]["kind"], kind, "{result}");
        assert!(result["_meta"]["switchboard"]["retryable"].is_boolean(), "{result}");
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}")).to_owned()
    }

    /// Sends a `ping` and reads its answer: the shim has then read everything written before it.
    #[track_caller]
    pub(crate) fn ping(&mut self) {
        self.request("the ping", "ping");
        let heard = self.expect_message();
        assert_eq!(heard["id"], "the ping", "{heard}");
    }

    #[track_caller]
    pub(crate) fn stderr_line(&self) -> String {
        self.stderr.recv_timeout(TEST_TIMEOUT).expect("the shim said nothing on stderr")
    }

    /// All lines on stderr until it is closed.
    pub(crate) fn stderr_to_end(&self) -> Vec<String> {
        self.stderr.iter().collect()
    }

    /// Waits until the shim ends.
    #[track_caller]
    pub(crate) fn ends_within(&mut self, time: Duration) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.shim.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < time, "the shim still runs after {time:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The remaining lines on stdout once the shim has ended.
    pub(crate) fn rest(&self) -> Vec<String> {
        self.lines.iter().collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.shim.kill();
        let _ = self.shim.wait();
    }
}

fn read_lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

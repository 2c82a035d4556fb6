//! One process of the stdio server.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

/// The limit of messages queued for a server that does not read. More than any test sends at once.
const WAITING: usize = 1024;
/// How long the server may take to exit after its stdin closed, before it is killed.
const GRACE: Duration = Duration::from_secs(3);

/// Dropping it closes the server's stdin.
pub(super) struct Pipe {
    lines: mpsc::Sender<String>,
}

/// Receives the server's messages; `None` means that the server has ended.
pub(super) trait MessageSink: Send + 'static {
    fn on_message(&self, message: Option<Value>);
}

impl Pipe {
    pub(super) fn start(command: &[String], ear: impl MessageSink) -> io::Result<Self> {
        let (program, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take().expect("BUG: stdin is piped");
        let stdout = child.stdout.take().expect("BUG: stdout is piped");
        let (lines, waiting) = mpsc::channel(WAITING);
        tokio::spawn(write(waiting, stdin, child));
        tokio::spawn(read(stdout, ear));
        Ok(Self { lines })
    }

    /// False if the server is gone or has stopped reading.
    pub(super) fn send(&self, message: &Value) -> bool {
        self.lines.try_send(format!("{message}\n")).is_ok()
    }
}

async fn write(mut waiting: mpsc::Receiver<String>, mut stdin: ChildStdin, mut child: Child) {
    while let Some(line) = waiting.recv().await {
        if stdin.write_all(line.as_bytes()).await.is_err() {
            break;
        }
    }
    drop(stdin);
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

async fn read(stdout: ChildStdout, ear: impl MessageSink) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(message) => ear.on_message(Some(message)),
            Err(_) => eprintln!("stdio-adapter: the server said what is no message: {line}"),
        }
    }
    ear.on_message(None);
}

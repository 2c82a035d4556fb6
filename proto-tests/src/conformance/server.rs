//! The servers that the suite tests: a stdio server behind the adapter, or an HTTP server behind the
//! forwarder.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running adapter or forwarder; killed on drop.
#[derive(Debug)]
pub struct FrontServer {
    process: Child,
    port: u16,
}

/// Serves the stdio server `command` (a program and its arguments); `program` is the adapter's binary.
pub fn adapter(program: &Path, command: &[&str]) -> Result<FrontServer, String> {
    FrontServer::start(Command::new(program).args(command))
}

/// Forwards to `target` on loopback with the token in `token_file`; `program` is the adapter's binary.
pub fn forwarder(program: &Path, target: u16, token_file: &Path) -> Result<FrontServer, String> {
    let target = target.to_string();
    FrontServer::start(Command::new(program).args(["--forward", &target, "--token-file"]).arg(token_file))
}

impl FrontServer {
    fn start(command: &mut Command) -> Result<Self, String> {
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the adapter could not be started: {error}"))?;
        let mut line = String::new();
        let stdout = process.stdout.take().expect("BUG: stdout is piped");
        let read = BufReader::new(stdout).read_line(&mut line);
        match (read, line.trim().parse()) {
            (Ok(_), Ok(port)) => Ok(Self { process, port }),
            _ => {
                let _ = process.kill();
                let _ = process.wait();
                Err("the adapter did not say where it listens".into())
            }
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The suite requires the name `localhost`.
    pub fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.port)
    }
}

impl Drop for FrontServer {
    fn drop(&mut self) {
        // The servers behind it end when their stdin closes.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

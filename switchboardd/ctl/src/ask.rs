//! Sends requests to the daemon over its socket.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use switchboard_wire::peer;

use super::CliExit;
use crate::args::Args;
use switchboardd::daemon;

/// How long to wait for a daemon whose backlog is full.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error("no switchboardd is running (socket `{0}`); start it with `switchboard start`")]
    NoDaemon(String),
    #[error("switchboardd did not answer: {0}")]
    Broken(String),
    /// The server awaits the user's approval.
    #[error("{0}")]
    Held(String),
    #[error("{0}")]
    Refused(String),
}

impl AskError {
    /// Prints the error and returns its exit code.
    pub(super) fn print(&self) -> CliExit {
        super::output::complain(self);
        match self {
            Self::NoDaemon(_) => CliExit::NoDaemon,
            Self::Held(_) => CliExit::Held,
            Self::Broken(_) | Self::Refused(_) => CliExit::Error,
        }
    }

    pub(super) fn broken(error: &dyn std::fmt::Display) -> Self {
        Self::Broken(error.to_string())
    }
}

/// One connection to the daemon, closed on drop.
pub(super) struct DaemonConnection {
    sender: hyper::client::conn::http1::SendRequest<Full<Bytes>>,
    connection: tokio::task::JoinHandle<()>,
}

impl Drop for DaemonConnection {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

pub(super) struct DaemonResponse {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl DaemonConnection {
    pub(super) async fn open(args: &Args) -> Result<Self, AskError> {
        Self::at(args).await
    }

    /// Like `open`, but the future does not borrow `args`.
    pub(super) fn at(args: &Args) -> impl Future<Output = Result<Self, AskError>> + use<> {
        let socket = daemon::home().map(|home| daemon::runtime_paths_in_use(&args.of_daemon(), &home).socket);
        async move { Self::to(&socket.map_err(|error| AskError::broken(&error))?).await }
    }

    async fn to(socket: &Path) -> Result<Self, AskError> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, peer::connect(socket)).await;
        let connected = connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let stream = connected.map_err(|error| match error.kind() {
            // `peer::connect` refused a socket of another user, and its message says so.
            std::io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
                AskError::Refused(error.to_string())
            }
            std::io::ErrorKind::PermissionDenied => {
                AskError::Broken(format!("`{}` cannot be opened: {error}", socket.display()))
            }
            std::io::ErrorKind::TimedOut => AskError::Broken(format!(
                "a process listens on `{}` but accepts no connections",
                socket.display()
            )),
            _ => AskError::NoDaemon(socket.display().to_string()),
        })?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| AskError::broken(&error))?;
        let connection = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, connection })
    }

    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<DaemonResponse, AskError> {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| AskError::broken(&error))?;
        self.sender.ready().await.map_err(|error| AskError::broken(&error))?;
        let response = self.sender.send_request(request).await.map_err(|error| AskError::broken(&error))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| AskError::broken(&error))?;
        Ok(DaemonResponse { status, body: body.to_bytes() })
    }
}

impl DaemonResponse {
    /// The body of a 200 response; any other status is an error.
    pub(super) fn json(&self) -> Result<Value, AskError> {
        let answer: Value = serde_json::from_slice(&self.body).unwrap_or(Value::Null);
        if self.status == StatusCode::OK {
            return Ok(answer);
        }
        let status = self.status;
        let mut why = answer["error"].as_str().map_or_else(|| format!("status {status}"), ToOwned::to_owned);
        for problem in answer["problems"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            why.push_str("\n  ");
            why.push_str(problem);
        }
        Err(if status == StatusCode::LOCKED { AskError::Held(why) } else { AskError::Refused(why) })
    }
}

/// Sends one request and returns its JSON answer.
pub(super) async fn ask(
    args: &Args,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, AskError> {
    let mut line = DaemonConnection::open(args).await?;
    let body = body.map(Value::to_string).unwrap_or_default();
    line.send(method, path, &[], body).await?.json()
}

/// Like `ask`, for requests that a daemon answers at once: gives up after `limit`.
pub(super) async fn ask_within(
    limit: Duration,
    args: &Args,
    method: Method,
    path: &str,
) -> Result<Value, AskError> {
    tokio::time::timeout(limit, ask(args, method, path, None)).await.unwrap_or_else(|_| {
        let pid = daemon::home()
            .ok()
            .and_then(|home| daemon::running(&daemon::runtime_paths(&args.of_daemon(), &home)));
        let fix = pid.map_or_else(String::new, |told| format!("; `kill {}` ends it", told["pid"]));
        Err(AskError::Broken(format!("no answer within {} s{fix}", limit.as_secs())))
    })
}

/// Sends an order about a suite, as seen from this command's workspace.
pub(super) async fn send_order(args: &Args, order: &str, suite: &str) -> Result<Value, AskError> {
    let body = json!({ "suite": suite, "workspace": super::workspace(args) });
    ask(args, Method::POST, &format!("/control/{order}"), Some(&body)).await
}

/// Makes a running daemon reload; without one there is nothing to do.
pub(super) async fn tell_daemon(args: &Args) {
    let _ = ask(args, Method::POST, "/control/reload", None).await;
}

/// The query string that names the project a command is about.
pub(super) fn about(workspace: Option<&Path>) -> String {
    let Some(workspace) = workspace.and_then(Path::to_str) else { return String::new() };
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("workspace", workspace);
    format!("?{}", query.finish())
}

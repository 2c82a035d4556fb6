//! Asking the daemon over its socket.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use super::Exit;
use super::output::print;
use crate::args::Args;
use crate::daemon;

#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    #[error("no switchboardd is running (socket `{0}`); start it with `switchboard start`")]
    NoDaemon(String),
    #[error("switchboardd did not answer: {0}")]
    Broken(String),
    #[error("{0}")]
    Refused(String),
}

impl Unanswered {
    /// Says it, and gives the exit code that belongs to it.
    pub(super) fn tell(&self) -> Exit {
        eprintln!("switchboard: {self}");
        match self {
            Self::NoDaemon(_) => Exit::NoDaemon,
            _ => Exit::Error,
        }
    }
}

/// One request, one JSON answer.
pub(super) async fn ask(
    args: &Args,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, Unanswered> {
    let broken = |error: &dyn std::fmt::Display| Unanswered::Broken(error.to_string());
    let home = daemon::home().map_err(|error| broken(&error))?;
    let socket = daemon::place(args, &home).socket;
    let stream =
        UnixStream::connect(&socket).await.map_err(|_| Unanswered::NoDaemon(socket.display().to_string()))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .body(Full::new(Bytes::from(body.map(Value::to_string).unwrap_or_default())))
        .map_err(|error| broken(&error))?;
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|error| broken(&error))?.to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if status == StatusCode::OK {
        return Ok(answer);
    }
    let mut why = answer["error"].as_str().map_or_else(|| format!("status {status}"), ToOwned::to_owned);
    for problem in answer["problems"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        why.push_str("\n  ");
        why.push_str(problem);
    }
    Err(Unanswered::Refused(why))
}

/// `switchboard reload`.
pub(super) async fn reload(args: &Args) -> Exit {
    let answer = match ask(args, Method::POST, "/control/reload", None).await {
        Ok(answer) => answer,
        Err(unanswered) => return unanswered.tell(),
    };
    let (suites, workspaces) = (&answer["suites"], answer["workspaces"].as_u64().unwrap_or(0));
    let open = if workspaces == 1 { "1 workspace".to_owned() } else { format!("{workspaces} workspaces") };
    print(&format!("read again: {suites} suites of your own, {open} open"));
    for problem in answer["problems"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        print(&format!("problem: {problem}"));
    }
    Exit::Ok
}

/// `switchboard restart`.
pub(super) async fn restart(args: &Args, suite: &str) -> Exit {
    let body = json!({ "suite": suite, "workspace": super::workspace(args) });
    match ask(args, Method::POST, "/control/restart", Some(&body)).await {
        Ok(answer) => {
            let word = if answer["restarted"] == true {
                "the next call starts it anew"
            } else {
                "it was not running"
            };
            print(&format!("`{suite}`: {word}"));
            Exit::Ok
        }
        Err(unanswered) => unanswered.tell(),
    }
}

/// Has a daemon that runs look again; without one there is nothing to tell.
pub(super) async fn tell_daemon(args: &Args) {
    let _ = ask(args, Method::POST, "/control/reload", None).await;
}

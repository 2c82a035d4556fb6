//! Asking the daemon over its socket.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use super::Exit;
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

/// An order that prints what came of it.
pub(super) async fn order(args: &Args, order: &str, suite: Option<&str>) -> Exit {
    let body = suite.map(|suite| json!({ "suite": suite }));
    match ask(args, Method::POST, &format!("/control/{order}"), body.as_ref()).await {
        Ok(answer) => {
            super::status::print(&format!("{answer:#}"));
            Exit::Ok
        }
        Err(unanswered) => unanswered.tell(),
    }
}

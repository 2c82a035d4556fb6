//! The registry endpoints: the faces by Streamable HTTP with event streams, for hosts that speak HTTP.
//!
//! What a message is taken for is decided in `classify.rs`. A legacy host has a session and streams
//! (`legacy.rs`); a modern one has neither (`modern.rs`).

mod calls;
mod classify;
mod events;
mod headers;
mod legacy;
mod modern;
mod sse;

use std::sync::Arc;

use axum::extract::{Extension, Path, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use switchboard_wire::envelope::{INVALID_REQUEST, Message};

use super::accept;
use super::gate::Pass;
use super::proxy::{log, read_body, workspace_of};
use super::rescue::{Complaint, Refusal};
use crate::board::Board;
use crate::error::Failure;
use crate::face::Face;
use classify::Era;

pub(super) const ALLOW: &str = "POST, GET, DELETE, OPTIONS";

pub(super) async fn aggregate(
    State(board): State<Arc<Board>>,
    Extension(pass): Extension<Pass>,
    request: Request,
) -> Response {
    serve(&board, Face::Aggregate, pass, request).await.unwrap_or_else(IntoResponse::into_response)
}

pub(super) async fn single(
    State(board): State<Arc<Board>>,
    Extension(pass): Extension<Pass>,
    Path(child): Path<String>,
    request: Request,
) -> Response {
    serve(&board, Face::Child(child), pass, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn serve(board: &Arc<Board>, face: Face, pass: Pass, request: Request) -> Result<Response, Refusal> {
    match *request.method() {
        Method::POST => post(board, face, pass, request).await,
        Method::GET if legacy::names_session(request.headers()) => {
            legacy::listen(board, &face, request.headers())
        }
        Method::DELETE if legacy::names_session(request.headers()) => {
            legacy::end(board, &face, request.headers())
        }
        _ => Err(Refusal::WrongMethod(ALLOW)),
    }
}

async fn post(board: &Arc<Board>, face: Face, pass: Pass, request: Request) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    // Also of a request that is refused: a host that still writes would not see why.
    let body = read_body(body).await?;
    if !accept::takes_both(&head.headers) {
        let why = "the `Accept` header must list both `application/json` and `text/event-stream`";
        return Err(Complaint::new(StatusCode::NOT_ACCEPTABLE, INVALID_REQUEST, why).into());
    }
    if !is_json(&head.headers) {
        let why = "the `Content-Type` must be `application/json`";
        return Err(Complaint::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, why).into());
    }
    let workspace = workspace_of(board, pass, &head.uri).await;
    if let Face::Child(name) = &face
        && !legacy::names_session(&head.headers)
        && workspace.catalog().child(name).is_none()
    {
        return Err(Refusal::NotFound(Failure::NoSuchChild { child: name.clone() }.to_string()));
    }
    if body.trim_ascii_start().starts_with(b"[") {
        return legacy::batch(board, &face, &head.headers, &body).await;
    }
    let message = Message::parse(&body)?;
    log(&message, body.len());
    match classify::classify(&head.headers, &message)? {
        Era::Modern => modern::post(board, face, &workspace, &head.headers, &body, &message).await,
        Era::Legacy => legacy::post(board, face, &workspace, &head.headers, &body, message).await,
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

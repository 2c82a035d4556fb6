//! `/mcp` and `/mcp/{child}`: the faces over Streamable HTTP with event streams, for hosts that speak HTTP.
//!
//! `classify.rs` decides which era a message belongs to. A legacy host has a session and streams
//! (`legacy.rs`); a modern one has neither (`modern.rs`).

mod calls;
mod classify;
mod events;
mod headers;
mod legacy;
mod modern;
mod sse;

use std::sync::Arc;

use axum::BoxError;
use axum::body::{Bytes, HttpBody};
use axum::extract::{Extension, Path, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use switchboard_mcp::era::ProtocolEra;
use switchboard_wire::batch;
use switchboard_wire::envelope::{INVALID_REQUEST, Message};

use super::accept;
use super::auth::Access;
use super::errors::{HttpError, RpcError};
use super::message_log::log;
use super::paths::STREAMABLE_METHODS;
use super::request_body::read_body;
use super::request_context::workspace_of;
use crate::face::Face;
use crate::state::Daemon;

/// Handles the routes with and without a child's name.
pub(super) async fn handle(
    State(daemon): State<Arc<Daemon>>,
    Extension(access): Extension<Access>,
    child: Option<Path<String>>,
    request: Request,
) -> Response {
    let face = child.map_or(Face::Aggregate, |Path(name)| Face::Child(name));
    serve(&daemon, face, access, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn serve(
    daemon: &Arc<Daemon>,
    face: Face,
    access: Access,
    request: Request,
) -> Result<Response, HttpError> {
    match *request.method() {
        Method::POST => post(daemon, face, access, request).await,
        Method::GET if legacy::names_session(request.headers()) => {
            legacy::listen(daemon, &face, request.headers())
        }
        Method::DELETE if legacy::names_session(request.headers()) => {
            legacy::end(daemon, &face, request.headers())
        }
        _ => Err(HttpError::WrongMethod(STREAMABLE_METHODS)),
    }
}

/// POST: one message of a host, or a batch.
pub(super) async fn post<B>(
    daemon: &Arc<Daemon>,
    face: Face,
    access: Access,
    request: Request<B>,
) -> Result<Response, HttpError>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (head, body) = request.into_parts();
    // The body is read even if the request is then refused: a host that is still writing would not see the
    // error.
    let body = read_body(body).await?;
    if !accept::takes_both(&head.headers) {
        let why = "the `Accept` header must list both `application/json` and `text/event-stream`";
        return Err(RpcError::new(StatusCode::NOT_ACCEPTABLE, INVALID_REQUEST, why).into());
    }
    if !is_json(&head.headers) {
        let why = "the `Content-Type` must be `application/json`";
        return Err(RpcError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, why).into());
    }
    let workspace = workspace_of(daemon, access, &head.uri).await;
    if let Face::Child(name) = &face
        && !legacy::names_session(&head.headers)
    {
        let catalog = workspace.catalog();
        if catalog.child(name).is_none() {
            return Err(HttpError::NotFound(catalog.no_such_child(name)));
        }
    }
    if batch::is_array(&body) {
        return legacy::on_batch(daemon, &face, &head.headers, &body).await;
    }
    let message = Message::parse(&body)?;
    log(&message, body.len());
    match classify::classify(&head.headers, &message)? {
        ProtocolEra::Modern => modern::post(daemon, face, &workspace, &head.headers, &body, &message).await,
        ProtocolEra::Legacy => legacy::post(daemon, face, &workspace, &head.headers, &body, message).await,
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

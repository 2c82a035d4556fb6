//! Turns every refused or failed request into an HTTP response.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use switchboard_wire::envelope::{INVALID_REQUEST, Malformed};
use switchboard_wire::framing::MAX_MESSAGE;
use switchboard_wire::hop::{DRAINING_HEADER, Draining};
use switchboard_wire::rpc;

use super::paths;
use crate::suite::failure::fault;

/// Why a request is refused before it reaches a face.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("Invalid Request: over {} MiB", MAX_MESSAGE >> 20)]
    TooLarge,
    #[error("the request's body did not arrive")]
    Incomplete,
    #[error("this session is not known here; open a new one")]
    UnknownSession,
    #[error("`{0}` is not a valid header here")]
    BadHeader(&'static str),
    #[error("answers are `application/json`, which the `Accept` header excludes")]
    NotAcceptable,
    #[error("method not allowed")]
    WrongMethod(&'static str),
    #[error("{0}")]
    Forbidden(&'static str),
    #[error(
        "a token is needed: send `Authorization: Bearer` with the content of the file `token` in Switchboard's state folder; `switchboard status` shows where that is"
    )]
    NoToken,
    #[error(
        "this code is not known here: it was used, or is older than 30 s; `switchboard open` gives a new one"
    )]
    WrongCode,
    #[error("{0}")]
    Busy(String),
    #[error("this session has too many connections open; wait for answers before sending more")]
    Crowded,
    #[error("a message with this number has arrived before; this one was not run")]
    Duplicate,
    #[error("only on the unix socket")]
    SocketOnly,
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    BadRequest(String),
    /// The server is held: the user has not allowed it.
    #[error("{0}")]
    Held(String),
    #[error(
        "the daemon and the shim have no version of their protocol in common: the daemon speaks {ours}, the shim {theirs}; install the same version of both"
    )]
    HopMismatch { ours: String, theirs: String },
    #[error("switchboardd is shutting down")]
    Draining(Draining),
    #[error("{0}")]
    Rpc(#[from] RpcError),
}

/// A refused message over Streamable HTTP: a JSON-RPC error with an HTTP status.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("{message}")]
pub(super) struct RpcError {
    pub(super) status: StatusCode,
    pub(super) code: i64,
    pub(super) message: String,
    /// The request's id, if it could be read.
    pub(super) id: Option<Box<str>>,
    pub(super) data: Option<serde_json::Value>,
}

impl RpcError {
    pub(super) fn new(status: StatusCode, code: i64, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), id: None, data: None }
    }

    pub(super) fn about(self, id: Option<&str>) -> Self {
        Self { id: id.map(Into::into), ..self }
    }

    fn body(&self) -> Vec<u8> {
        let mut error = serde_json::json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        fault(self.id.as_deref().unwrap_or("null"), &error)
    }
}

impl HttpError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(_) | Self::Incomplete | Self::BadHeader(_) | Self::BadRequest(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::Held(_) => StatusCode::LOCKED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnknownSession | Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Self::WrongMethod(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Forbidden(_) | Self::SocketOnly => StatusCode::FORBIDDEN,
            Self::NoToken | Self::WrongCode => StatusCode::UNAUTHORIZED,
            Self::HopMismatch { .. } => StatusCode::UPGRADE_REQUIRED,
            Self::Draining(_) | Self::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Crowded => StatusCode::TOO_MANY_REQUESTS,
            Self::Duplicate => StatusCode::CONFLICT,
            Self::Rpc(complaint) => complaint.status,
        }
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let body = match &self {
            Self::Malformed(malformed) => {
                let error = serde_json::json!({ "code": malformed.code(), "message": malformed.to_string() });
                rpc::error_without_id(&error.to_string())
            }
            Self::Rpc(complaint) => complaint.body(),
            Self::TooLarge | Self::Crowded | Self::Duplicate => {
                fault("null", &serde_json::json!({ "code": INVALID_REQUEST, "message": self.to_string() }))
            }
            _ => serde_json::json!({ "error": self.to_string() }).to_string().into_bytes(),
        };
        let mut response = json_response(self.status(), body);
        let headers = response.headers_mut();
        match &self {
            Self::WrongMethod(allow) => {
                headers.insert(ALLOW, HeaderValue::from_static(allow));
            }
            Self::NoToken | Self::WrongCode => {
                headers.insert("www-authenticate", HeaderValue::from_static("Bearer"));
            }
            Self::Crowded => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Self::Draining(draining) => {
                headers.insert(DRAINING_HEADER, HeaderValue::from_static(draining.as_str()));
            }
            _ => {}
        }
        response
    }
}

pub(super) fn json_response(status: StatusCode, body: impl Into<Body>) -> Response {
    json(status, body.into())
}

/// Like `json_response`, for any body type.
pub(super) fn json<B>(status: StatusCode, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(super) async fn no_route(request: Request) -> HttpError {
    HttpError::NotFound(format!("there is nothing at `{}`", request.uri().path()))
}

/// Only for routes with one method; the others return `WrongMethod` themselves.
pub(super) async fn wrong_method(request: Request) -> HttpError {
    let path = request.uri().path();
    let posts = path.starts_with("/hop/") || path.starts_with("/control/") || path == paths::PAGE_SESSION;
    if posts && request.method() != Method::POST {
        return HttpError::WrongMethod("POST");
    }
    HttpError::WrongMethod("GET, HEAD")
}

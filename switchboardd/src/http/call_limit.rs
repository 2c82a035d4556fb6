//! The limit of calls of one session over HTTP, in one request or in a batch.

use axum::http::StatusCode;

use super::errors::RpcError;
use crate::session::Session;
use crate::suite::failure::Failure;

/// Limit of calls per session, running or waiting for a permit.
const MAX_IN_FLIGHT: usize = 320;

pub(super) const TOO_MANY_CALLS: Failure = Failure::TooManyCalls { limit: MAX_IN_FLIGHT };

/// Fails if `calls` more calls would exceed the limit of this session.
pub(super) fn check_call_limit(session: &Session, calls: usize) -> Result<(), RpcError> {
    if session.in_flight() + calls <= MAX_IN_FLIGHT {
        return Ok(());
    }
    Err(RpcError::new(StatusCode::TOO_MANY_REQUESTS, -32000, TOO_MANY_CALLS.to_string()))
}

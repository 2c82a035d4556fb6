//! `/savings`: what Switchboard saves, for the command and the status page.

mod collect;

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;

use super::auth::Access;
use super::errors::{HttpError, json_response};
use super::request_context::workspace_of;
use crate::savings::SavingsCache;
use crate::state::Daemon;

/// Covers the user's suites and those of every open workspace; `?workspace=` opens one.
pub(super) async fn show(
    State(daemon): State<Arc<Daemon>>,
    State(cache): State<Arc<SavingsCache>>,
    Extension(access): Extension<Access>,
    uri: Uri,
) -> Result<Response, HttpError> {
    if access == Access::Names {
        return Err(HttpError::NoToken);
    }
    workspace_of(&daemon, access, &uri).await;
    let recorder = daemon.services.savings_recorder.clone();
    let savings = cache.current(&recorder, move || collect::collect(&daemon)).await;
    Ok(json_response(StatusCode::OK, savings.to_string()))
}

//! `/savings`: what Switchboard saves, for the command and the status page.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;

use super::gate::Pass;
use super::proxy::workspace_of;
use super::rescue::{Refusal, json_response};
use crate::board::Board;

/// All suites of the person and of every workspace that is open; `?workspace=` opens one.
pub(super) async fn show(
    State(board): State<Arc<Board>>,
    Extension(pass): Extension<Pass>,
    uri: Uri,
) -> Result<Response, Refusal> {
    if pass == Pass::Names {
        return Err(Refusal::NoToken);
    }
    workspace_of(&board, pass, &uri).await;
    Ok(json_response(StatusCode::OK, crate::savings::now(&board).await.to_string()))
}

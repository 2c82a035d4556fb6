//! Orders from the person's own command line: unix socket only, and none adds a server or gives consent.

mod login;

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;
use switchboard_wire::hop::Draining;

use super::proxy::read_body;
use super::rescue::{Refusal, json_response};
use crate::board::Board;
use crate::catalog::Catalog;
use crate::pages::CODE_LIFE;
use crate::reload::Why;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    suite: Option<String>,
    /// Where it was typed.
    workspace: Option<PathBuf>,
}

pub(super) async fn order(
    State(board): State<Arc<Board>>,
    Path(order): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let body = read_body(request.into_body()).await?;
    let wanted: Order = if body.trim_ascii().is_empty() {
        Order::default()
    } else {
        serde_json::from_slice(&body).map_err(|error| Refusal::BadRequest(error.to_string()))?
    };
    match order.as_str() {
        "reload" => reload(&board).await,
        "restart" => restart(&board, &wanted).await,
        "open" => open(&board),
        "logs" => logs(&board, &wanted).await,
        "login" => login::begin(&found(&board, &wanted).await?).await,
        "login-done" => login::done(&found(&board, &wanted).await?).await,
        "logout" => login::end(&found(&board, &wanted).await?).await,
        "stop" => {
            tracing::info!(target: "control", "stopping on request");
            board.drain(Draining::Stop);
            Ok(json_response(StatusCode::OK, json!({ "stopping": true }).to_string()))
        }
        other => Err(Refusal::NotFound(format!("there is no order `{other}`"))),
    }
}

async fn reload(board: &Arc<Board>) -> Result<Response, Refusal> {
    let listed = |problems: &[crate::document::Problem]| -> Vec<String> {
        problems.iter().map(ToString::to_string).collect()
    };
    let (status, answer) = match board.reload(Why::Told).await {
        Ok(catalog) => (
            StatusCode::OK,
            json!({
                "generation": catalog.generation,
                "suites": catalog.suites.len(),
                "workspaces": board.workspaces.all().len(),
                "problems": listed(&catalog.problems),
            }),
        ),
        Err(problems) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            json!({ "error": "the config was not loaded", "problems": listed(&problems) }),
        ),
    };
    Ok(json_response(status, answer.to_string()))
}

/// A page for a browser, with the code that lets it in.
fn open(board: &Board) -> Result<Response, Refusal> {
    let url = board.pages.invite().map_err(Refusal::BadRequest)?;
    let life = u64::try_from(CODE_LIFE.as_millis()).unwrap_or(u64::MAX);
    Ok(json_response(StatusCode::OK, json!({ "url": url, "expiresMs": life }).to_string()))
}

async fn restart(board: &Arc<Board>, order: &Order) -> Result<Response, Refusal> {
    let (catalog, at) = found(board, order).await?;
    let restarted = catalog.suites[at].pool.as_ref().is_some_and(|pool| pool.renew());
    Ok(json_response(StatusCode::OK, json!({ "restarted": restarted }).to_string()))
}

/// What a child last wrote to its standard error.
async fn logs(board: &Arc<Board>, order: &Order) -> Result<Response, Refusal> {
    let (catalog, at) = found(board, order).await?;
    let suite = &catalog.suites[at];
    let lines = suite.pool.as_ref().map(|pool| pool.stderr_lines()).unwrap_or_default();
    Ok(json_response(StatusCode::OK, json!({ "suite": suite.name, "lines": lines }).to_string()))
}

/// A suite by its own name or its child's: as it is seen where the order was given, or anywhere else.
async fn found(board: &Arc<Board>, order: &Order) -> Result<(Arc<Catalog>, usize), Refusal> {
    let name = order.suite.as_deref().ok_or_else(|| Refusal::BadRequest("`suite` is missing".to_owned()))?;
    let here = board.workspace(order.workspace.as_deref()).await;
    let everywhere = std::iter::once(here).chain(board.workspaces.all());
    for catalog in everywhere.map(|workspace| workspace.catalog()) {
        let named = |suite: &crate::suite::Suite| suite.name == name || suite.child_name() == name;
        if let Some(at) = catalog.suites.iter().position(named) {
            return Ok((catalog, at));
        }
    }
    Err(Refusal::NotFound(format!("there is no suite `{name}`")))
}

//! Orders from the person's own command line: unix socket only, and none adds a server or gives consent.

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

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    suite: Option<String>,
}

pub(super) async fn order(
    State(board): State<Arc<Board>>,
    Path(order): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let body = read_body(request).await?;
    let wanted: Order = if body.trim_ascii().is_empty() {
        Order::default()
    } else {
        serde_json::from_slice(&body).map_err(|error| Refusal::BadRequest(error.to_string()))?
    };
    match order.as_str() {
        "reload" => reload(&board),
        "restart" => restart(&board, wanted.suite.as_deref()),
        "logs" => logs(&board, wanted.suite.as_deref()),
        "stop" => {
            tracing::info!(target: "control", "stopping on request");
            board.drain(Draining::Stop);
            Ok(json_response(StatusCode::OK, json!({ "stopping": true }).to_string()))
        }
        other => Err(Refusal::NotFound(format!("there is no order `{other}`"))),
    }
}

fn reload(board: &Board) -> Result<Response, Refusal> {
    let listed = |problems: &[crate::document::Problem]| -> Vec<String> {
        problems.iter().map(ToString::to_string).collect()
    };
    let (status, answer) = match board.reload() {
        Ok(catalog) => (
            StatusCode::OK,
            json!({
                "generation": catalog.generation,
                "suites": catalog.suites.len(),
                "problems": listed(&catalog.problems),
            }),
        ),
        Err(problems) => {
            problems.iter().for_each(|problem| tracing::error!(target: "config", "{problem}"));
            (
                StatusCode::UNPROCESSABLE_ENTITY,
                json!({ "error": "the config was not loaded", "problems": listed(&problems) }),
            )
        }
    };
    Ok(json_response(status, answer.to_string()))
}

fn restart(board: &Board, suite: Option<&str>) -> Result<Response, Refusal> {
    let catalog = board.catalog();
    let pool = named(&catalog, suite)?.pool.as_ref();
    let restarted = pool.is_some_and(|pool| pool.renew());
    Ok(json_response(StatusCode::OK, json!({ "restarted": restarted }).to_string()))
}

/// What a child last wrote to its standard error.
fn logs(board: &Board, suite: Option<&str>) -> Result<Response, Refusal> {
    let catalog = board.catalog();
    let suite = named(&catalog, suite)?;
    let lines = suite.pool.as_ref().map(|pool| pool.stderr_lines()).unwrap_or_default();
    Ok(json_response(StatusCode::OK, json!({ "suite": suite.name, "lines": lines }).to_string()))
}

/// A suite by its own name or its child's.
fn named<'c>(
    catalog: &'c crate::catalog::Catalog,
    name: Option<&str>,
) -> Result<&'c crate::suite::Suite, Refusal> {
    let name = name.ok_or_else(|| Refusal::BadRequest("`suite` is missing".to_owned()))?;
    catalog.named(name).ok_or_else(|| Refusal::NotFound(format!("there is no suite `{name}`")))
}

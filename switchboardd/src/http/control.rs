//! Orders from the person's own command line: unix socket only, and none adds a server or gives consent.

mod explain;
mod login;
mod logs;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;
use switchboard_wire::hop::Draining;

use super::discovery::no_such;
use super::proxy::read_body;
use super::rescue::{Refusal, json_response};
use crate::board::Board;
use crate::catalog::Catalog;
use crate::pages::{self, CODE_LIFE};
use crate::reload::{Reloaded, Why};

/// So long a command may take from a code to the file that leads in by it.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Order {
    suite: Option<String>,
    /// Where it was typed.
    workspace: Option<PathBuf>,
    /// For `logs`: the last line that is known, and how long to wait for another.
    #[serde(default)]
    after: u64,
    /// Of which daemon: another one counts anew.
    boot: Option<String>,
    #[serde(default)]
    wait_ms: u64,
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
        "restart" if wanted.suite.is_none() => {
            tracing::info!(target: "control", "restarting on request");
            board.drain(Draining::Restart);
            Ok(json_response(StatusCode::OK, json!({ "stopping": true }).to_string()))
        }
        "restart" => restart(&board, &wanted).await,
        "open" => open(&board),
        "logs" => {
            let same = wanted.boot.as_deref() == Some(board.boot.name());
            let after = if same { wanted.after } else { 0 };
            logs::answer(&board, &found(&board, &wanted).await?, after, wanted.wait_ms).await
        }
        "explain" => Ok(explain::answer(&found(&board, &wanted).await?)),
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

/// A mistake in the config is no failure of the order: everything else was read, and the answer says what there is now.
async fn reload(board: &Arc<Board>) -> Result<Response, Refusal> {
    let Reloaded { catalog, config_problems } = board.reload(Why::Told).await;
    let problems: Vec<String> =
        config_problems.iter().chain(&catalog.problems).map(ToString::to_string).collect();
    let answer = json!({
        "generation": catalog.generation,
        "suites": catalog.suites.len(),
        "workspaces": board.workspaces.all().len(),
        "configOk": config_problems.is_empty(),
        "problems": problems,
    });
    Ok(json_response(StatusCode::OK, answer.to_string()))
}

/// A page for a browser, with the code that lets it in.
fn open(board: &Board) -> Result<Response, Refusal> {
    let url = board.pages.invite().map_err(Refusal::BadRequest)?;
    if let Some(state) = board.whereabouts.get().map(|place| place.state.clone()) {
        tokio::spawn(async move {
            // The command writes it a moment after this.
            tokio::time::sleep(CODE_LIFE + WRITTEN_WITHIN).await;
            let _ = tokio::task::spawn_blocking(move || pages::forget_way_in(&state, CODE_LIFE)).await;
        });
    }
    let life = u64::try_from(CODE_LIFE.as_millis()).unwrap_or(u64::MAX);
    Ok(json_response(StatusCode::OK, json!({ "url": url, "expiresMs": life }).to_string()))
}

async fn restart(board: &Arc<Board>, order: &Order) -> Result<Response, Refusal> {
    let (catalog, at) = found(board, order).await?;
    let suite = &catalog.suites[at];
    if suite.is_held() {
        return Err(held(suite.child_name()));
    }
    let restarted = suite.pool.as_ref().is_some_and(|pool| pool.renew());
    let answer = json!({ "suite": suite.name, "server": suite.child_name(), "restarted": restarted });
    Ok(json_response(StatusCode::OK, answer.to_string()))
}

fn held(server: &str) -> Refusal {
    Refusal::Held(format!("server `{server}` is held; `switchboard allow {server}` shows it and asks"))
}

/// A suite by its own name or its child's: as it is seen where the order was given, or anywhere else.
async fn found(board: &Arc<Board>, order: &Order) -> Result<(Arc<Catalog>, usize), Refusal> {
    let name = order.suite.as_deref().ok_or_else(|| Refusal::BadRequest("`suite` is missing".to_owned()))?;
    let here = board.workspace(order.workspace.as_deref()).await;
    let everywhere = std::iter::once(here).chain(board.workspaces.all());
    let catalogs: Vec<Arc<Catalog>> = everywhere.map(|workspace| workspace.catalog()).collect();
    for catalog in &catalogs {
        let named = |suite: &crate::suite::Suite| suite.name == name || suite.child_name() == name;
        if let Some(at) = catalog.suites.iter().position(named) {
            return Ok((catalog.clone(), at));
        }
    }
    Err(no_such(name, &catalogs.iter().map(|catalog| &**catalog).collect::<Vec<_>>()))
}

//! Commands of the user's command line. Unix socket only; none of them adds a server or gives consent.

mod explain;
mod login;
mod logs;
mod longest_step;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;
use switchboard_wire::event_loop::run_blocking;
use switchboard_wire::hop::Draining;

use super::auth::Access;
use super::discovery::{no_such, record_json};
use super::errors::{HttpError, json_response};
use super::request_body::read_body;
use crate::catalog::Catalog;
use crate::observe::metrics::cost;
use crate::reload::{ReloadCause, ReloadResult, Reloader};
use crate::state::Daemon;
use crate::state::page_access::{self, CODE_LIFE};

/// How long the command may take to write the link file after it received the code.
const WRITE_GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ControlRequest {
    suite: Option<String>,
    /// The directory in which the command was run.
    workspace: Option<PathBuf>,
    /// For `logs`: the number of the last line that the caller has.
    #[serde(default)]
    after: u64,
    /// The run id of the daemon that numbered `after`; another daemon numbers its lines anew.
    boot: Option<String>,
    #[serde(default)]
    wait_ms: u64,
}

pub(super) async fn run_order(
    State(daemon): State<Arc<Daemon>>,
    State(reloader): State<Arc<Reloader>>,
    Path(order): Path<String>,
    request: Request,
) -> Result<Response, HttpError> {
    let body = read_body(request.into_body()).await?;
    let wanted: ControlRequest = if body.trim_ascii().is_empty() {
        ControlRequest::default()
    } else {
        serde_json::from_slice(&body).map_err(|error| HttpError::BadRequest(error.to_string()))?
    };
    match order.as_str() {
        "reload" => reload(&daemon, &reloader).await,
        "restart" if wanted.suite.is_none() => {
            tracing::info!(target: "control", "restarting on request");
            daemon.shutdown.drain(Draining::Restart);
            Ok(json_response(StatusCode::OK, json!({ "stopping": true }).to_string()))
        }
        "restart" => restart(&daemon, &wanted).await,
        "open" => open(&daemon),
        "logs" => {
            let same = wanted.boot.as_deref() == Some(daemon.run_id.name());
            let after = if same { wanted.after } else { 0 };
            logs::answer(&daemon, &find_suite(&daemon, &wanted).await?, after, wanted.wait_ms).await
        }
        "calls" => Ok(calls(&daemon).await),
        "explain" => Ok(explain::answer(&find_suite(&daemon, &wanted).await?)),
        "longest-step" => Ok(longest_step::answer(&daemon, wanted.wait_ms).await),
        "measuring-cost" => {
            let nanos = run_blocking(cost::of_one_call).await.as_nanos();
            Ok(json_response(StatusCode::OK, json!({ "nanosPerCall": nanos }).to_string()))
        }
        "login" => login::begin(&find_suite(&daemon, &wanted).await?).await,
        "login-done" => login::done(&find_suite(&daemon, &wanted).await?).await,
        "logout" => login::end(&find_suite(&daemon, &wanted).await?).await,
        "stop" => {
            tracing::info!(target: "control", "stopping on request");
            let access = daemon.page_access.clone();
            run_blocking(move || access.revoke()).await;
            daemon.shutdown.drain(Draining::Stop);
            Ok(json_response(StatusCode::OK, json!({ "stopping": true }).to_string()))
        }
        other => Err(HttpError::NotFound(format!("there is no control command `{other}`"))),
    }
}

/// A mistake in the config does not fail the reload: everything else was read, and the answer shows the new
/// state.
async fn reload(daemon: &Daemon, reloader: &Arc<Reloader>) -> Result<Response, HttpError> {
    let ReloadResult { catalog, config_problems } = reloader.reload(ReloadCause::Requested).await;
    let problems: Vec<String> =
        config_problems.iter().chain(&catalog.problems).map(ToString::to_string).collect();
    let answer = json!({
        "generation": catalog.generation,
        "suites": catalog.suites.len(),
        "workspaces": daemon.workspaces.all().len(),
        "configOk": config_problems.is_empty(),
        "problems": problems,
    });
    Ok(json_response(StatusCode::OK, answer.to_string()))
}

/// A link to the status page, with a code that lets the browser in.
fn open(daemon: &Daemon) -> Result<Response, HttpError> {
    let url = daemon.page_access.issue_link().map_err(HttpError::BadRequest)?;
    if let Some(state) = daemon.info.get().map(|place| place.state.clone()) {
        tokio::spawn(async move {
            // The command writes the link file after it has received this answer.
            tokio::time::sleep(CODE_LIFE + WRITE_GRACE).await;
            run_blocking(move || page_access::remove_link_file(&state, CODE_LIFE)).await;
        });
    }
    let life = u64::try_from(CODE_LIFE.as_millis()).unwrap_or(u64::MAX);
    Ok(json_response(StatusCode::OK, json!({ "url": url, "expiresMs": life }).to_string()))
}

/// Writes the record of calls to its file, where the command reads it.
async fn calls(daemon: &Arc<Daemon>) -> Response {
    let recorder = daemon.call_recorder.clone();
    run_blocking(move || recorder.flush()).await;
    json_response(StatusCode::OK, record_json(daemon).to_string())
}

async fn restart(daemon: &Arc<Daemon>, order: &ControlRequest) -> Result<Response, HttpError> {
    let (catalog, at) = find_suite(daemon, order).await?;
    let suite = &catalog.suites[at];
    if suite.is_held() {
        return Err(held(suite.child_name()));
    }
    let mut restarted = suite.pool.as_ref().is_some_and(|pool| pool.renew());
    for pool in daemon.workspace_loader.pools.all() {
        // Outside of every project, those of all projects are meant.
        restarted |= suite.pool.as_ref().is_some_and(|of| pool.is_workspace_pool_of(of)) && pool.renew();
    }
    let answer = json!({ "suite": suite.name, "server": suite.child_name(), "restarted": restarted });
    Ok(json_response(StatusCode::OK, answer.to_string()))
}

fn held(server: &str) -> HttpError {
    HttpError::Held(format!("server `{server}` is held; `switchboard allow {server}` shows it and asks"))
}

/// Finds a suite by its own name or its child's: first in the workspace of the command, then in all others.
async fn find_suite(
    daemon: &Arc<Daemon>,
    order: &ControlRequest,
) -> Result<(Arc<Catalog>, usize), HttpError> {
    let name =
        order.suite.as_deref().ok_or_else(|| HttpError::BadRequest("`suite` is missing".to_owned()))?;
    let here = daemon.workspace_loader.workspace(order.workspace.as_deref()).await;
    let everywhere = std::iter::once(here).chain(daemon.workspaces.all());
    let catalogs: Vec<Arc<Catalog>> = everywhere.map(|workspace| workspace.catalog()).collect();
    for catalog in &catalogs {
        let named = |suite: &crate::suite::Suite| suite.name == name || suite.child_name() == name;
        if let Some(at) = catalog.suites.iter().position(named) {
            return Ok((catalog.clone(), at));
        }
    }
    Err(no_such(name, &catalogs.iter().map(|catalog| &**catalog).collect::<Vec<_>>(), Access::Full))
}

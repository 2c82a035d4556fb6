//! The read-only routes for people and tools: health, version, suites and status. Nothing here starts a
//! child.

mod details;
mod state;

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::{Extension, Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};
use switchboard_definitions::document::nearest;
use switchboard_wire::hop::HOP;

use super::auth::Access;
use super::errors::{HttpError, json_response};
use super::metrics_json;
use super::request_context::workspace_of;
use crate::catalog::Catalog;
use crate::observe::metrics::Metrics;
use crate::pool::budget::MemoryUsage;
use crate::reload::Reloader;
use crate::state::{Daemon, Phase};
use crate::suite::Suite;

pub(super) use details::details;
use state::{denied, millis, session_state, workspace_state};
pub(super) use state::{ends_json, last_lines_json, line_json, suite_json};

pub(super) async fn health() -> Response {
    shown(&json!({ "status": "ok" }))
}

/// Whether the daemon takes calls, i.e. is not shutting down.
pub(super) async fn ready(State(daemon): State<Arc<Daemon>>) -> Response {
    match *daemon.phase().borrow() {
        Phase::Serving => shown(&json!({ "ready": true })),
        Phase::Draining(_) | Phase::Leaving(_) => {
            json_response(StatusCode::SERVICE_UNAVAILABLE, json!({ "ready": false }).to_string())
        }
    }
}

pub(super) async fn version() -> Response {
    shown(&json!({
        "name": "switchboardd",
        "version": env!("CARGO_PKG_VERSION"),
        "hop": HOP,
    }))
}

pub(super) async fn suites(
    State(daemon): State<Arc<Daemon>>,
    Extension(access): Extension<Access>,
    uri: Uri,
) -> Response {
    overview(&workspace_of(&daemon, access, &uri).await.catalog(), access)
}

pub(super) async fn suite(
    State(daemon): State<Arc<Daemon>>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let catalog = workspace_of(&daemon, access, &uri).await.catalog();
    Ok(one(&catalog, named(&catalog, &name, access)?, access))
}

pub(super) async fn tools(
    State(daemon): State<Arc<Daemon>>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let catalog = workspace_of(&daemon, access, &uri).await.catalog();
    let suite = named(&catalog, &name, access)?;
    if access == Access::Names {
        return Err(HttpError::NoToken);
    }
    let Some(list) = suite.tools_if_known() else {
        return Ok(shown(&json!({ "suite": suite.name, "known": false, "tools": [] })));
    };
    // Formatted by hand, so that the tool definitions stay byte for byte as the child wrote them.
    let body = format!(r#"{{"suite":{},"known":true,"tools":[{}]}}"#, json!(suite.name), suite.listed(&list));
    Ok(json_response(StatusCode::OK, body))
}

/// `?workspace=` loads and shows that workspace, even without a session in it.
pub(super) async fn status(
    State(daemon): State<Arc<Daemon>>,
    State(reloader): State<Arc<Reloader>>,
    Extension(access): Extension<Access>,
    uri: Uri,
) -> Response {
    let _asked_about = workspace_of(&daemon, access, &uri).await;
    if access == Access::Names {
        let catalog = daemon.catalog();
        let suites: Vec<Value> =
            catalog.suites.iter().map(|suite| suite_json(&catalog, suite, access)).collect();
        return shown(&json!({ "status": "ok", "suites": suites }));
    }
    daemon.call_recorder.load_recent().await;
    let memory_usage = daemon.services.budget.measure_memory().await;
    shown(&full_status(&daemon, &reloader, &memory_usage))
}

/// The full status.
pub(super) fn full_status(daemon: &Daemon, reloader: &Reloader, memory_usage: &MemoryUsage) -> Value {
    let catalog = daemon.catalog();
    let metrics = &daemon.services.metrics;
    let measured = |catalog: &Catalog, suite: &Suite| measured(metrics, memory_usage, catalog, suite);
    let suites: Vec<Value> = catalog.suites.iter().map(|suite| measured(&catalog, suite)).collect();
    let overall = metrics.overall();
    let workspaces = daemon.workspaces.all();
    let workspaces = workspaces.iter().map(|known| workspace_state(daemon, known, measured));
    let watched = reloader.watched();
    let config = reloader.broken_config();
    let unrecorded = daemon.call_recorder.problem().map(|why| format!("calls are not recorded: {why}"));
    let problems: Vec<String> =
        config.iter().map(ToString::to_string).chain(problems(&catalog)).chain(unrecorded).collect();
    let sessions: Vec<Value> = daemon.sessions.all().iter().map(|session| session_state(session)).collect();
    json!({
        "status": if daemon.phase().borrow().draining().is_some() { "draining" } else { "ok" },
        "version": env!("CARGO_PKG_VERSION"),
        "hop": HOP,
        "pid": std::process::id(),
        "boot": daemon.run_id.name(),
        "uptimeMs": millis(daemon.started),
        "restartPending": restart_pending(daemon),
        "generation": catalog.generation,
        "config": daemon.config_file,
        "nowMs": metrics_json::unix_millis(SystemTime::now()),
        "stepMs": metrics_json::step_ms(),
        "memoryKb": memory_usage.own.map(metrics_json::kib),
        "calls": metrics_json::calls(metrics, &overall),
        "introspections": overall.introspections,
        "record": record_json(daemon),
        "recentCalls": daemon.call_recorder.recent(),
        "lastErrors": metrics_json::last_errors(metrics),
        "whereabouts": daemon.info.get(),
        // Commands cannot check this: this process is not readable from outside.
        "replaced": std::env::current_exe().is_ok_and(|path| path.to_string_lossy().ends_with(" (deleted)")),
        "watchedFolders": watched.map(|(folders, _)| folders),
        "watchFailed": watched.is_some_and(|(_, failed)| failed),
        "sessions": sessions,
        "budget": {
            "children": daemon.services.budget.ceiling().children,
            "memoryMb": daemon.services.budget.ceiling().memory_mb,
            "running": daemon.services.registry.slots_in_use(),
            "usedMb": memory_usage.of_children() >> 20,
        },
        "suites": suites,
        "denied": denied(&catalog.personal),
        "problems": problems,
        "workspaces": workspaces.collect::<Vec<_>>(),
    })
}

/// What is recorded of calls, and where.
pub(super) fn record_json(daemon: &Daemon) -> Value {
    let recorder = &daemon.call_recorder;
    json!({
        "mode": recorder.mode().as_str(),
        "file": recorder.files().newest(),
        "problem": recorder.problem(),
    })
}

/// The new binary that takes over once the daemon is idle, or the problem that prevents it.
fn restart_pending(daemon: &Daemon) -> Value {
    daemon.shutdown.successor().map_or(
        Value::Null,
        |next| json!({ "binary": next.binary, "version": next.version, "problem": next.problem }),
    )
}

/// A suite with its metrics.
fn measured(metrics: &Metrics, memory_usage: &MemoryUsage, catalog: &Catalog, suite: &Suite) -> Value {
    let mut body = suite_json(catalog, suite, Access::Full);
    if suite.is_held() {
        return body;
    }
    let figures = metrics.figures(&suite.metrics);
    body["calls"] = metrics_json::calls(metrics, &figures);
    body["introspections"] = figures.introspections.into();
    let running = suite.pool.as_ref().map(|pool| pool.running()).unwrap_or_default();
    for (child, shown) in running.iter().zip(body["children"].as_array_mut().into_iter().flatten()) {
        shown["memoryKb"] = json!(memory_usage.of_child(child.guard_pid()).map(metrics_json::kib));
    }
    body
}

/// All suites, as a GET on the aggregate face returns them.
pub(super) fn overview(catalog: &Catalog, access: Access) -> Response {
    let suites: Vec<Value> = catalog.suites.iter().map(|suite| suite_json(catalog, suite, access)).collect();
    let mut body = json!({ "status": "ok", "suites": suites });
    if access != Access::Names {
        body["problems"] = json!(problems(catalog));
    }
    shown(&body)
}

pub(super) fn one(catalog: &Catalog, suite: &Suite, access: Access) -> Response {
    shown(&suite_json(catalog, suite, access))
}

fn problems(catalog: &Catalog) -> Vec<String> {
    catalog.problems.iter().map(ToString::to_string).collect()
}

/// Finds a suite by its own name or its server's; the error suggests the nearest name.
fn named<'c>(catalog: &'c Catalog, name: &str, access: Access) -> Result<&'c Suite, HttpError> {
    catalog.find_suite(name).ok_or_else(|| no_such(name, &[catalog], access))
}

/// Without a token, nothing tells a server that is not shown from one that does not exist.
pub(super) fn no_such(name: &str, catalogs: &[&Catalog], access: Access) -> HttpError {
    let suites = || catalogs.iter().flat_map(|catalog| &catalog.suites);
    let near = nearest(name, suites().flat_map(|suite| [suite.name.as_str(), suite.child_name()]));
    let mut told = catalogs.iter().filter(|_| access != Access::Names);
    let known = told.find_map(|catalog| catalog.why_not_shown(name));
    let hint = match (known, near) {
        (Some(why), _) => format!("; {why}"),
        (None, Some(near)) => format!("; did you mean `{near}`?"),
        (None, None) if suites().next().is_none() => "; there is none at all".to_owned(),
        (None, None) => "; `switchboard ls` lists them".to_owned(),
    };
    HttpError::NotFound(format!("there is no suite or server `{name}`{hint}"))
}

fn shown(body: &Value) -> Response {
    json_response(StatusCode::OK, body.to_string())
}

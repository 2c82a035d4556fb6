//! What `curl` shows: health, version, suites and status. Nothing here starts a child.

mod state;

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::{Extension, Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};
use switchboard_wire::hop::HOP;

use super::figures;
use super::gate::Pass;
use super::proxy::workspace_of;
use super::rescue::{Refusal, json_response};
use crate::board::{Board, Phase};
use crate::budget::Weights;
use crate::catalog::Catalog;
use crate::document::nearest;
use crate::measures::Measures;
use crate::suite::Suite;

pub(super) use state::described;
use state::{denied, millis, session_state, workspace_state};

pub(super) async fn health() -> Response {
    shown(&json!({ "status": "ok" }))
}

/// Ready to take calls: not on the way out.
pub(super) async fn ready(State(board): State<Arc<Board>>) -> Response {
    match *board.phase().borrow() {
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
    State(board): State<Arc<Board>>,
    Extension(pass): Extension<Pass>,
    uri: Uri,
) -> Response {
    overview(&workspace_of(&board, pass, &uri).await.catalog(), pass)
}

pub(super) async fn suite(
    State(board): State<Arc<Board>>,
    Extension(pass): Extension<Pass>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let catalog = workspace_of(&board, pass, &uri).await.catalog();
    Ok(one(named(&catalog, &name)?, pass))
}

pub(super) async fn tools(
    State(board): State<Arc<Board>>,
    Extension(pass): Extension<Pass>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let catalog = workspace_of(&board, pass, &uri).await.catalog();
    let suite = named(&catalog, &name)?;
    if pass == Pass::Names {
        return Err(Refusal::NoToken);
    }
    let running = suite.pool.as_ref().map(|pool| pool.running()).unwrap_or_default();
    let known = running.iter().find_map(|child| child.known_tools());
    let known = known.or_else(|| suite.manifest().map(|manifest| manifest.tools.clone()));
    let Some(list) = known else {
        return Ok(shown(&json!({ "suite": suite.name, "known": false, "tools": [] })));
    };
    // Written by hand: the definitions stay as the child wrote them.
    let body = format!(r#"{{"suite":{},"known":true,"tools":[{}]}}"#, json!(suite.name), suite.listed(&list));
    Ok(json_response(StatusCode::OK, body))
}

/// `?workspace=` has that one loaded and shown, whether or not a session is in it.
pub(super) async fn status(
    State(board): State<Arc<Board>>,
    Extension(pass): Extension<Pass>,
    uri: Uri,
) -> Response {
    let _asked_about = workspace_of(&board, pass, &uri).await;
    if pass == Pass::Names {
        let catalog = board.catalog();
        let suites: Vec<Value> = catalog.suites.iter().map(|suite| described(suite, pass)).collect();
        return shown(&json!({ "status": "ok", "suites": suites }));
    }
    let weights = board.nursery.budget.weigh().await;
    shown(&everything(&board, &weights))
}

/// All that a status says.
pub(super) fn everything(board: &Board, weights: &Weights) -> Value {
    let catalog = board.catalog();
    let measures = &board.nursery.measures;
    let measured = |suite: &Suite| measured(measures, weights, suite);
    let suites: Vec<Value> = catalog.suites.iter().map(measured).collect();
    let overall = measures.overall();
    let workspaces = board.workspaces.all();
    let workspaces = workspaces.iter().map(|known| workspace_state(board, known, measured));
    let watched = board.watched();
    let config = board.broken_config();
    let problems: Vec<String> = config.iter().map(ToString::to_string).chain(problems(&catalog)).collect();
    let sessions: Vec<Value> = board.sessions.all().iter().map(|session| session_state(session)).collect();
    json!({
        "status": if board.phase().borrow().draining().is_some() { "draining" } else { "ok" },
        "version": env!("CARGO_PKG_VERSION"),
        "hop": HOP,
        "pid": std::process::id(),
        "boot": board.boot.name(),
        "uptimeMs": millis(board.started),
        "restartPending": restart_pending(board),
        "generation": catalog.generation,
        "config": board.config_file,
        "nowMs": figures::unix_millis(SystemTime::now()),
        "stepMs": figures::step_ms(),
        "memoryKb": weights.own.map(figures::kib),
        "calls": figures::calls(measures, &overall),
        "introspections": overall.introspections,
        "lastErrors": figures::last_errors(measures),
        "whereabouts": board.whereabouts.get(),
        // Commands cannot look for themselves: this process is closed to others.
        "replaced": std::env::current_exe().is_ok_and(|path| path.to_string_lossy().ends_with(" (deleted)")),
        "watchedFolders": watched.map(|(folders, _)| folders),
        "watchFailed": watched.is_some_and(|(_, failed)| failed),
        "sessions": sessions,
        "budget": {
            "children": board.nursery.budget.ceiling().children,
            "memoryMb": board.nursery.budget.ceiling().memory_mb,
            "running": board.nursery.roster.taken(),
            "usedMb": weights.of_children() >> 20,
        },
        "suites": suites,
        "denied": denied(&catalog.personal),
        "problems": problems,
        "workspaces": workspaces.collect::<Vec<_>>(),
    })
}

/// A new version that waits until nothing is under way, or cannot take over: which, and why.
fn restart_pending(board: &Board) -> Value {
    board.successor().map_or(
        Value::Null,
        |next| json!({ "binary": next.binary, "version": next.version, "problem": next.problem }),
    )
}

/// A suite with what was measured of it.
fn measured(measures: &Measures, weights: &Weights, suite: &Suite) -> Value {
    let mut body = described(suite, Pass::Full);
    if suite.is_held() {
        return body;
    }
    let figures = measures.figures(&suite.tally);
    body["calls"] = figures::calls(measures, &figures);
    body["introspections"] = figures.introspections.into();
    let running = suite.pool.as_ref().map(|pool| pool.running()).unwrap_or_default();
    for (child, shown) in running.iter().zip(body["children"].as_array_mut().into_iter().flatten()) {
        shown["memoryKb"] = json!(weights.of_child(child.guard_pid()).map(figures::kib));
    }
    body
}

/// All suites, as a GET on the aggregate face shows them.
pub(super) fn overview(catalog: &Catalog, pass: Pass) -> Response {
    let suites: Vec<Value> = catalog.suites.iter().map(|suite| described(suite, pass)).collect();
    let mut body = json!({ "status": "ok", "suites": suites });
    if pass != Pass::Names {
        body["problems"] = json!(problems(catalog));
    }
    shown(&body)
}

pub(super) fn one(suite: &Suite, pass: Pass) -> Response {
    shown(&described(suite, pass))
}

fn problems(catalog: &Catalog) -> Vec<String> {
    catalog.problems.iter().map(ToString::to_string).collect()
}

/// By its own name or its server's; else the nearest one there is.
fn named<'c>(catalog: &'c Catalog, name: &str) -> Result<&'c Suite, Refusal> {
    catalog.named(name).ok_or_else(|| no_such(name, &[catalog]))
}

pub(super) fn no_such(name: &str, catalogs: &[&Catalog]) -> Refusal {
    let suites = || catalogs.iter().flat_map(|catalog| &catalog.suites);
    let near = nearest(name, suites().flat_map(|suite| [suite.name.as_str(), suite.child_name()]));
    let hint = match near {
        Some(near) => format!("; did you mean `{near}`?"),
        None if suites().next().is_none() => "; there is none at all".to_owned(),
        None => "; `switchboard ls` lists them".to_owned(),
    };
    Refusal::NotFound(format!("there is no suite or server `{name}`{hint}"))
}

fn shown(body: &Value) -> Response {
    json_response(StatusCode::OK, body.to_string())
}

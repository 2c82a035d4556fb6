//! What `curl` shows: health, version, suites and status. Nothing here starts a child.

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
use crate::child::{Child, Tie};
use crate::definition::Reach;
use crate::layer::Layer;
use crate::measures::Measures;
use crate::pool::{Doing, PoolError};
use crate::session::Session;
use crate::sources::Unready;
use crate::suite::Suite;
use crate::suite::summary::summary;
use crate::trust::view::{in_short, shown_url};
use crate::workspace::Workspace;

/// As much of a command line as fits a status.
const WAITING_SHOWN: usize = 600;

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
    let body =
        format!(r#"{{"suite":{},"known":true,"tools":[{}]}}"#, json!(suite.name), suite.exposed(&list));
    Ok(json_response(StatusCode::OK, body))
}

pub(super) async fn status(State(board): State<Arc<Board>>, Extension(pass): Extension<Pass>) -> Response {
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
    let config = board.broken_config();
    let problems: Vec<String> = config.iter().map(ToString::to_string).chain(problems(&catalog)).collect();
    let sessions: Vec<Value> = board.sessions.all().iter().map(|session| session_state(session)).collect();
    json!({
        "status": if board.phase().borrow().draining().is_some() { "draining" } else { "ok" },
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "boot": board.boot.name(),
        "uptimeMs": millis(board.started),
        "successor": successor(board),
        "generation": catalog.generation,
        "config": board.config_file,
        "nowMs": figures::unix_millis(SystemTime::now()),
        "stepMs": figures::step_ms(),
        "memoryKb": weights.own.map(figures::kib),
        "calls": figures::calls(measures, &overall),
        "introspections": overall.introspections,
        "lastErrors": figures::last_errors(measures),
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
fn successor(board: &Board) -> Value {
    board.successor().map_or(
        Value::Null,
        |next| json!({ "binary": next.binary, "version": next.version, "problem": next.problem }),
    )
}

/// What is a workspace's own.
fn workspace_state(board: &Board, workspace: &Arc<Workspace>, measured: impl Fn(&Suite) -> Value) -> Value {
    let catalog = workspace.catalog();
    let Some(own) = &catalog.own else { return Value::Null };
    let is_own =
        |suite: &&Suite| own.entries.iter().any(|entry| entry.definition.file == suite.definition.file);
    let here = |session: &&Arc<Session>| session.is_in(workspace);
    let own_problems = catalog.problems.iter().filter(|problem| problem.file.starts_with(&own.config.folder));
    json!({
        "root": workspace.root,
        "sessions": board.sessions.all().iter().filter(here).count(),
        "generation": catalog.generation,
        "suites": catalog.suites.iter().filter(is_own).map(measured).collect::<Vec<_>>(),
        "denied": denied(own),
        "problems": own_problems.map(ToString::to_string).collect::<Vec<_>>(),
    })
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

fn described(suite: &Suite, pass: Pass) -> Value {
    let state = match suite.pool.as_ref().map(|pool| pool.doing()) {
        None if suite.is_held() => "held",
        None | Some(Doing::Misconfigured) => "misconfigured",
        Some(Doing::Held) => "held",
        Some(Doing::Cold) => "cold",
        Some(Doing::Starting) => "starting",
        Some(Doing::Ready) => "ready",
        Some(Doing::Failed) => "failed",
        Some(Doing::Resting) => "resting",
    };
    let mut body = json!({ "name": suite.name, "state": state });
    if pass == Pass::Names {
        return body;
    }
    body["child"] = suite.child_name().into();
    body["file"] = json!(suite.definition.file);
    if let Some(waiting) = suite.waiting() {
        // A version that nobody allowed: what it would run, and that there is one.
        body["waiting"] = json!(summary(&in_short(waiting), WAITING_SHOWN));
    }
    if suite.is_held() {
        return body;
    }
    body["description"] = json!(suite.definition.description);
    if let Ok(Reach::Remote(remote)) = &suite.definition.reach {
        body["url"] = shown_url(&remote.url).into();
    }
    let pool = suite.pool.as_ref();
    body["lastError"] = match &suite.definition.reach {
        Err(why) => json!(why),
        Ok(_) => {
            json!(pool.and_then(|pool| pool.last_failure()).map(|error| match error {
                PoolError::Unready(Unready::Misconfigured(why)) => why,
                error => error.to_string(),
            }))
        }
    };
    if let Some(pool) = pool {
        let settings = pool.settings();
        body["pool"] = json!({
            "scope": settings.scope.word(),
            "warm": settings.warm,
            "max": settings.max,
            "idleMs": u64::try_from(settings.idle.as_millis()).unwrap_or(u64::MAX),
            "starts": pool.starts(),
        });
        body["children"] = pool.running().iter().map(|child| child_state(child)).collect();
    }
    body
}

fn child_state(child: &Child) -> Value {
    json!({
        // A child that runs elsewhere has none here.
        "pid": child.process(),
        "ageMs": millis(child.born()),
        "idleMs": if child.is_idle() { millis(child.last_used()) } else { 0 },
        "inFlight": child.in_flight(),
        "ownedBySession": matches!(child.tie(), Tie::Session(_)),
        "revision": child.hello().revision,
        "tools": child.known_tools().map(|list| list.tools.len()),
        "skippedLines": child.noise(),
    })
}

fn session_state(session: &Session) -> Value {
    let profile = session.caller.profile();
    json!({
        "client": profile.client,
        "revision": profile.revision,
        "workspace": session.folder,
        "ageMs": millis(session.opened),
        "inFlight": session.in_flight(),
        "droppedMessages": session.mail_dropped(),
    })
}

fn problems(catalog: &Catalog) -> Vec<String> {
    catalog.problems.iter().map(ToString::to_string).collect()
}

fn denied(layer: &Layer) -> Vec<&str> {
    layer.denied.iter().map(|definition| definition.name.as_str()).collect()
}

fn named<'c>(catalog: &'c Catalog, name: &str) -> Result<&'c Suite, Refusal> {
    catalog.named(name).ok_or_else(|| Refusal::NotFound(format!("there is no suite `{name}`")))
}

fn millis(since: tokio::time::Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn shown(body: &Value) -> Response {
    json_response(StatusCode::OK, body.to_string())
}

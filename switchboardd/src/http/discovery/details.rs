//! What the status page shows of one server when its row is opened: its command, its tools, and the last lines of its
//! stderr. Read-only; nothing of a held server's own words.

use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};
use switchboard_definitions::definition::Launch;
use switchboard_definitions::trust::view::mentioned;

use super::named;
use super::state::{ends_json, last_lines_json};
use crate::http::auth::Access;
use crate::http::errors::{HttpError, json_response};
use crate::http::request_context::loaded_workspace;
use crate::state::Daemon;
use crate::suite::Suite;

/// Stderr lines that a row shows; `switchboard logs` shows more.
const LINES: usize = 30;

pub(in crate::http) async fn details(
    State(daemon): State<Arc<Daemon>>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, HttpError> {
    if access == Access::Names {
        return Err(HttpError::NoToken);
    }
    let workspace = loaded_workspace(&daemon, &uri)
        .ok_or_else(|| HttpError::NotFound("no editor is connected from this project".to_owned()))?;
    let catalog = workspace.catalog();
    Ok(json_response(StatusCode::OK, describe(named(&catalog, &name, access)?).to_string()))
}

fn describe(suite: &Suite) -> Value {
    let mut body = json!({ "suite": suite.name, "server": suite.child_name(), "held": suite.is_held() });
    if let Ok(launch) = &suite.definition.launch {
        // What looks like a secret is masked, as in `switchboard explain`.
        body["command"] = mentioned(launch).into();
        if let Launch::Process(launch) = launch {
            body["directory"] = launch.shown_directory().into();
        }
    }
    if !suite.may_be_shown() {
        return body;
    }
    let tools = suite.tools_if_known().map(|list| -> Vec<Value> {
        let entry =
            |(name, summary): (&str, Option<String>)| json!({ "name": name, "summary": summary.unwrap_or_default() });
        suite.summaries(&list).map(entry).collect()
    });
    body["tools"] = json!(tools);
    if let Some(pool) = &suite.pool {
        body["exits"] = ends_json(pool);
        body["stderr"] = last_lines_json(pool, LINES);
    }
    body
}

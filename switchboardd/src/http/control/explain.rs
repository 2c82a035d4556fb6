//! What the running daemon knows about one suite beyond its files.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::http::auth::Access;
use crate::http::discovery::{ends_json, last_lines_json, suite_json};
use crate::http::errors::json_response;

/// Stderr lines shown: they fit on a screen with the rest.
const LINES: usize = 20;

pub(super) fn answer((catalog, at): &(Arc<Catalog>, usize)) -> Response {
    let suite = &catalog.suites[*at];
    let mut body = suite_json(catalog, suite, Access::Full);
    let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    body["timeouts"] = json!({
        "childSpawnMs": millis(suite.pool.as_ref().map_or(suite.limits.spawn, |pool| pool.start_limit(suite.limits))),
        "rpcMs": millis(suite.limits.rpc),
        "maxMs": millis(suite.limits.max),
    });
    let pool = suite.pool.as_ref();
    body["exits"] = pool.map_or_else(|| json!([]), |pool| ends_json(pool));
    body["stderr"] = pool.map_or_else(|| json!([]), |pool| last_lines_json(pool, LINES));
    if let Some(server_info) = suite.server_info() {
        let server: Value = serde_json::from_str(server_info.server.get()).unwrap_or_default();
        body["speaks"] = json!({
            "era": server_info.era().as_str(),
            "revision": server_info.revision,
            "name": server["name"],
            "version": server["version"],
        });
    }
    json_response(StatusCode::OK, body.to_string())
}

//! Modern hosts over HTTP: no session, no stream that outlives its request, and what a request says of itself
//! said in its headers too.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use switchboard_wire::envelope::Message;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use super::classify::HEADER_MISMATCH;
use super::headers;
use crate::face::Face;
use crate::http::rescue::{Complaint, Refusal};
use crate::methods::{self, LEGACY_REVISIONS};
use crate::workspace::Workspace;

const UNSUPPORTED_VERSION: i64 = -32022;

/// The seam: a request that comes as far as its end passed the ladder and all checks of its headers. A
/// notification has nothing to say: a modern host cancels by closing its connection.
pub(super) fn post(
    face: &Face,
    workspace: &Arc<Workspace>,
    given: &HeaderMap,
    message: &Message<'_>,
) -> Result<Response, Refusal> {
    let Message::Request { id, method, params } = message else {
        return Ok(StatusCode::ACCEPTED.into_response());
    };
    let bad = |code, why: String| Complaint::new(StatusCode::BAD_REQUEST, code, why).about(Some(id.get()));
    if method.name() == methods::TOOLS_CALL {
        check_arguments(face, workspace, given, *params).map_err(|why| bad(HEADER_MISMATCH, why))?;
    }
    let why = "revisions without `initialize` are not spoken here yet".to_owned();
    let data = json!({ "supported": LEGACY_REVISIONS });
    Err(Complaint { data: Some(data), ..bad(UNSUPPORTED_VERSION, why) }.into())
}

/// The headers that the called tool's schema asks for, as far as the tool is known. Suites ask for none.
fn check_arguments(
    face: &Face,
    workspace: &Arc<Workspace>,
    given: &HeaderMap,
    params: Option<Raw<'_>>,
) -> Result<(), String> {
    let Face::Child(child) = face else { return Ok(()) };
    let params = params.and_then(Members::of).unwrap_or_default();
    let catalog = workspace.catalog();
    let known = catalog.child(child).and_then(|suite| {
        let running = suite.pool.as_ref()?.running().iter().find_map(|child| child.known_tools());
        running.or_else(|| suite.manifest().map(|manifest| manifest.tools.clone()))
    });
    let tool = known.as_ref().zip(params.text("name")).and_then(|(list, name)| list.find(&name));
    match tool.and_then(|tool| tool.input_schema.as_deref()) {
        Some(schema) => {
            headers::check_arguments(given, &headers::annotations(schema.into()), params.get("arguments"))
        }
        None => Ok(()),
    }
}

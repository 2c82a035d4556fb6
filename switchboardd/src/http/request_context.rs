//! What a request belongs to: its workspace, its parent span, and its session.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::Query;
use axum::http::{HeaderMap, HeaderName, Uri};
use serde::Deserialize;

use super::auth::Access;
use crate::catalog::workspace::Workspace;
use crate::face::{Face, RequestContext};
use crate::observe::metrics::series::EntryPoint;
use crate::observe::telemetry::trace::SpanContext;
use crate::session::Session;
use crate::state::Daemon;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The parent span from the request's headers, if spans are exported. It is not passed on to children.
pub(super) fn parent(daemon: &Daemon, headers: &HeaderMap) -> Option<SpanContext> {
    daemon.services.metrics.spans()?;
    SpanContext::parse(headers.get(TRACEPARENT)?.to_str().ok()?)
}

/// The context of a message of this session.
pub(super) fn context<'a>(
    daemon: &'a Arc<Daemon>,
    face: &'a Face,
    session: &'a Arc<Session>,
    parent: Option<SpanContext>,
) -> RequestContext<'a> {
    let via = if session.is_shims { EntryPoint::Shim } else { EntryPoint::Proxy };
    RequestContext { daemon, session, face, caller: &session.caller, via, parent }
}

/// The workspace that a sessionless request names, if it has the access to name one; else the default.
pub(super) async fn workspace_of(daemon: &Arc<Daemon>, access: Access, uri: &Uri) -> Arc<Workspace> {
    let named = uri.query().filter(|_| access == Access::Full).and_then(|query| {
        let query: Query<WorkspaceQuery> = Query::try_from_uri(uri).ok().filter(|_| !query.is_empty())?;
        query.0.workspace
    });
    daemon.workspace_loader.workspace(named.as_deref()).await
}

/// The loaded workspace that a request names, or the default. `None` if it is not loaded: a page loads nothing.
pub(super) fn loaded_workspace(daemon: &Daemon, uri: &Uri) -> Option<Arc<Workspace>> {
    let query: Option<Query<WorkspaceQuery>> = Query::try_from_uri(uri).ok();
    match query.and_then(|query| query.0.workspace) {
        None => Some(daemon.workspaces.personal.clone()),
        Some(root) => daemon.workspaces.all().into_iter().find(|known| known.root.as_deref() == Some(&*root)),
    }
}

#[derive(Deserialize)]
struct WorkspaceQuery {
    workspace: Option<PathBuf>,
}

//! Legacy hosts over HTTP: `initialize` opens a session, each call has its own stream, and the session has
//! one for everything else.
//!
//! A call keeps running when its connection closes: the host cancels it explicitly, or resumes its stream.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use switchboard_mcp::era::ProtocolEra;
use switchboard_mcp::header_names;
use switchboard_mcp::methods::{self, LEGACY_REVISIONS, MODERN_REVISIONS};
use switchboard_wire::batch as wire_batch;
use switchboard_wire::envelope::{INVALID_REQUEST, Message, Outcome, string};
use switchboard_wire::raw::Raw;

use super::calls::{self, PostedRequests};
use super::classify::VERSION;
use super::events::{self, StreamStart};
use crate::catalog::workspace::Workspace;
use crate::face::{self, Face, IncomingRequest, RequestContext, run_request};
use crate::http::call_limit::{TOO_MANY_CALLS, check_call_limit};
use crate::http::errors::{HttpError, RpcError, json_response};
use crate::http::request_context::parent;
use crate::http::{accept, batch};
use crate::observe::metrics::series::EntryPoint;
use crate::session::{AbortReason, EventId, Session, Streams};
use crate::state::Daemon;
use crate::suite::failure::Failure;

const SESSION: HeaderName = HeaderName::from_static(header_names::SESSION_ID);
const LAST_EVENT: HeaderName = HeaderName::from_static(header_names::LAST_EVENT_ID);

/// Limit of concurrent sessions over HTTP.
const MAX_SESSIONS: usize = 512;

pub(super) fn names_session(headers: &HeaderMap) -> bool {
    headers.contains_key(SESSION)
}

pub(super) async fn post(
    daemon: &Arc<Daemon>,
    face: Face,
    workspace: &Arc<Workspace>,
    headers: &HeaderMap,
    body: &Bytes,
    message: Message<'_>,
) -> Result<Response, HttpError> {
    if let Message::Request { id, method, params } = &message
        && method.name() == methods::INITIALIZE
        && !names_session(headers)
    {
        return open(daemon, &face, workspace, *id, *params).await;
    }
    let id = match &message {
        Message::Request { id, .. } => Some(id.get()),
        _ => None,
    };
    let (session, streams) = find(daemon, &face, headers, id)?;
    match message {
        Message::Request { method, .. } if method.name() == methods::INITIALIZE => {
            Err(bad("this session was opened before").about(id).into())
        }
        Message::Request { id, method, params } => {
            let refused = refusal(daemon, &session);
            if let Some((failure, _)) = refused.as_ref().filter(|_| method.name() == methods::TOOLS_CALL) {
                let (caller, via, parent) = (&session.caller, EntryPoint::Streamable, None);
                let context = RequestContext { daemon, session: &session, face: &face, caller, via, parent };
                let request = IncomingRequest { id, method: methods::TOOLS_CALL, params };
                face::record_refusal(context, request, failure.kind().as_str());
                let answer = failure.answer(ProtocolEra::Legacy, methods::TOOLS_CALL, id.get());
                return Ok(json_response(StatusCode::OK, answer));
            }
            if let Some((_, refusal)) = refused {
                return Err(refusal);
            }
            let parent = parent(daemon, headers);
            let posted = PostedRequests { requests: vec![body.clone()], refused: None, parent };
            Ok(calls::answer(daemon, face, &session, &streams, posted).await)
        }
        message => {
            take(daemon, &session, body, message);
            Ok(StatusCode::ACCEPTED.into_response())
        }
    }
}

/// A batch: several messages in one array, which only one revision allows.
pub(super) async fn on_batch(
    daemon: &Arc<Daemon>,
    face: &Face,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response, HttpError> {
    let parts = wire_batch::split(body)?;
    let wrong_revision = || {
        bad(format!(
            "several messages in one request are for sessions of revision `{}` only",
            wire_batch::REVISION
        ))
    };
    if !names_session(headers) {
        return Err(wrong_revision().into());
    }
    let (session, streams) = find(daemon, face, headers, None)?;
    if session.caller.profile().revision != Some(wire_batch::REVISION) {
        return Err(wrong_revision().into());
    }
    let (mut requests, mut refused, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        let body = body.slice_ref(part.get().as_bytes());
        match batch::read(part) {
            Ok(Message::Request { .. }) => requests.push(body),
            Ok(message) => others.push((body, message)),
            Err(answer) => refused.push(answer),
        }
    }
    check_call_limit(&session, requests.len())?;
    if let Some(draining) = daemon.phase().borrow().draining() {
        return Err(HttpError::Draining(draining));
    }
    for (body, message) in others {
        take(daemon, &session, &body, message);
    }
    if requests.is_empty() && refused.is_empty() {
        return Ok(StatusCode::ACCEPTED.into_response());
    }
    let posted = PostedRequests { requests, refused: Some(refused), parent: parent(daemon, headers) };
    Ok(calls::answer(daemon, face.clone(), &session, &streams, posted).await)
}

/// GET: the session's own stream, or the rest of a stream that the host lost.
pub(super) fn listen(daemon: &Arc<Daemon>, face: &Face, headers: &HeaderMap) -> Result<Response, HttpError> {
    if !accept::takes_events(headers) {
        let why = "the `Accept` header must list `text/event-stream`";
        return Err(RpcError::new(StatusCode::NOT_ACCEPTABLE, INVALID_REQUEST, why).into());
    }
    let (session, streams) = find(daemon, face, headers, None)?;
    let lost = headers.get(LAST_EVENT).map(|mark| mark.to_str().ok().and_then(EventId::parse));
    let resumes = events::resumes(&session);
    let (stream, after) = match lost {
        None if streams.own().is_read() => {
            let why = "this session's stream is read already";
            return Err(RpcError::new(StatusCode::CONFLICT, INVALID_REQUEST, why).into());
        }
        None => (Some(streams.own().clone()), 0),
        Some(mark) => (mark.and_then(|mark| streams.find(mark)), mark.map_or(0, |mark| mark.message)),
    };
    let Some(stream) = stream else {
        return Err(bad("`Last-Event-ID` is of no stream that is known here").into());
    };
    let after = if lost.is_none() { stream.mailbox.seen() } else { after };
    Ok(events::response(daemon, streams.read(&stream), StreamStart { after, resumes }))
}

/// DELETE: the host ends its session.
pub(super) fn end(daemon: &Arc<Daemon>, face: &Face, headers: &HeaderMap) -> Result<Response, HttpError> {
    let (session, streams) = find(daemon, face, headers, None)?;
    daemon.end(&session);
    session.abort_all(AbortReason::Cancelled);
    streams.close();
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn open(
    daemon: &Arc<Daemon>,
    face: &Face,
    workspace: &Arc<Workspace>,
    id: Raw<'_>,
    params: Option<Raw<'_>>,
) -> Result<Response, HttpError> {
    if let Some(draining) = daemon.phase().borrow().draining() {
        return Err(HttpError::Draining(draining));
    }
    check_session_limit(daemon, id)?;
    let session = Session::over_http(&daemon.run_id, workspace, face.clone());
    let request = IncomingRequest { id, method: methods::INITIALIZE, params };
    let (caller, via) = (&session.caller, EntryPoint::Streamable);
    let context = RequestContext { daemon, session: &session, face, caller, via, parent: None };
    let Some(answer) = run_request(context, request, None).await else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let welcome =
        matches!(Message::parse(&answer), Ok(Message::Response { outcome: Outcome::Result(_), .. }));
    let mut response = json_response(StatusCode::OK, answer);
    if welcome {
        // Other sessions may have been opened while the child started.
        check_session_limit(daemon, id)?;
        tracing::debug!(target: "session", session = &session.id[..8], "opened over HTTP");
        daemon.sessions.insert(&session);
        daemon.services.status_changed.notify();
        tokio::spawn(daemon.clone().end_when_silent(session.clone()));
        let id = HeaderValue::from_str(&session.id).expect("BUG: hex digits are a header");
        response.headers_mut().insert(SESSION, id);
    }
    Ok(response)
}

/// Fails if the session limit is reached.
fn check_session_limit(daemon: &Daemon, id: Raw<'_>) -> Result<(), RpcError> {
    let over_http = |session: &&Arc<Session>| session.streams.is_some();
    if daemon.sessions.all().iter().filter(over_http).count() < MAX_SESSIONS {
        return Ok(());
    }
    let why = format!("there are {MAX_SESSIONS} sessions over HTTP already; end one with DELETE");
    Err(RpcError::new(StatusCode::SERVICE_UNAVAILABLE, -32000, why).about(Some(id.get())))
}

/// The session that the request names, if it belongs to this face.
fn find(
    daemon: &Daemon,
    face: &Face,
    headers: &HeaderMap,
    id: Option<&str>,
) -> Result<(Arc<Session>, Arc<Streams>), RpcError> {
    let revision = headers.get(VERSION).map(|revision| revision.to_str().unwrap_or_default().trim());
    if let Some(revision) = revision.filter(|revision| !LEGACY_REVISIONS.contains(revision)) {
        let known = [&MODERN_REVISIONS[..], &LEGACY_REVISIONS].concat().join(", ");
        let why = format!("revision `{revision}` is not known here; known are {known}");
        return Err(bad(why).about(id));
    }
    let Some(name) = headers.get(SESSION) else {
        return Err(bad("`Mcp-Session-Id` is missing; `initialize` gives one").about(id));
    };
    let session = name.to_str().ok().and_then(|name| daemon.sessions.get(name));
    let streams = session.as_ref().and_then(|session| session.streams.clone());
    match (session, streams) {
        (Some(session), Some(streams)) if session.face == *face => {
            streams.touch();
            Ok((session, streams))
        }
        _ => {
            let why = "this session is not known here; open a new one with `initialize`";
            Err(RpcError::new(StatusCode::NOT_FOUND, INVALID_REQUEST, why).about(id))
        }
    }
}

/// Why another request is refused: the failure for a `tools/call`, and the HTTP error for any other method.
fn refusal(daemon: &Daemon, session: &Session) -> Option<(Failure, HttpError)> {
    if let Some(draining) = daemon.phase().borrow().draining() {
        return Some((Failure::NotStarted, HttpError::Draining(draining)));
    }
    let complaint = check_call_limit(session, 1).err()?;
    Some((TOO_MANY_CALLS, complaint.into()))
}

/// Handles a notification or a response.
fn take(daemon: &Daemon, session: &Session, body: &[u8], message: Message<'_>) {
    match message {
        Message::Notification { method, params } => {
            face::on_notification(daemon, session, &method.name(), params)
        }
        Message::Response { id, .. } => {
            if !string(id).is_some_and(|ours| session.caller.deliver_answer(&ours, body, id)) {
                tracing::debug!(target: "session", id = id.get(), "an answer to no open question");
            }
        }
        Message::Request { .. } => {}
    }
}

fn bad(why: impl Into<String>) -> RpcError {
    RpcError::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, why)
}

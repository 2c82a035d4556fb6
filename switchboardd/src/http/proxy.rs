//! The proxy routes: one JSON-RPC message in, one JSON answer out, never an event stream.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use http_body_util::{BodyExt, Full};
use serde::Deserialize;
use switchboard_mcp::methods;
use switchboard_wire::envelope::{Message, string};
use switchboard_wire::framing::MAX_MESSAGE;
use switchboard_wire::hop::{MAILBOX_HEADER, SEQ_HEADER, SESSION_HEADER};

use super::auth::Access;
use super::errors::{self, HttpError};
use super::listener::PeerAddress;
use super::server::AcceptedConnection;
use super::{accept, batch, discovery};
use crate::catalog::Catalog;
use crate::catalog::workspace::Workspace;
use crate::face::{self, Face, IncomingRequest, RequestContext, run_request};
use crate::observe::metrics::series::EntryPoint;
use crate::observe::telemetry::trace::SpanContext;
use crate::session::{Admission, SequenceTicket, Session};
use crate::state::Daemon;
use crate::suite::failure::Failure;

const ALLOW: &str = "POST, GET, OPTIONS";

pub(super) const SESSION: HeaderName = HeaderName::from_static(SESSION_HEADER);
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const SEQ: HeaderName = HeaderName::from_static(SEQ_HEADER);
const MAILBOX: HeaderName = HeaderName::from_static(MAILBOX_HEADER);

/// After this time, a missing sequence number is taken for lost.
const SEQUENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for a body: a slow one holds a connection and its place in the session's order.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) async fn aggregate(
    State(daemon): State<Arc<Daemon>>,
    Extension(access): Extension<Access>,
    request: Request,
) -> Response {
    serve(daemon, Face::Aggregate, access, request).await
}

pub(super) async fn single(
    State(daemon): State<Arc<Daemon>>,
    Extension(access): Extension<Access>,
    Path(child): Path<String>,
    request: Request,
) -> Response {
    serve(daemon, Face::Child(child), access, request).await
}

async fn serve(daemon: Arc<Daemon>, face: Face, access: Access, request: Request) -> Response {
    let answered = match *request.method() {
        Method::POST => {
            let connection = request.extensions().get::<Arc<AcceptedConnection>>().cloned();
            post(&daemon, &face, connection.as_ref(), request).await.map(|answer| answer.map(Body::new))
        }
        Method::GET => {
            let (head, _) = request.into_parts();
            let workspace = workspace_of(&daemon, access, &head.uri).await;
            describe(&workspace.catalog(), &face, access, &head.headers)
        }
        _ => Err(HttpError::WrongMethod(ALLOW)),
    };
    answered.unwrap_or_else(IntoResponse::into_response)
}

/// GET: describes what is behind the route. A client that wants an event stream is refused.
fn describe(
    catalog: &Catalog,
    face: &Face,
    access: Access,
    headers: &HeaderMap,
) -> Result<Response, HttpError> {
    if accept::wants_only_events(headers) {
        return Err(HttpError::WrongMethod(ALLOW));
    }
    if !accept::takes_json(headers) {
        return Err(HttpError::NotAcceptable);
    }
    match face {
        Face::Aggregate => Ok(discovery::overview(catalog, access)),
        Face::Child(name) => match catalog.child(name) {
            Some(suite) => Ok(discovery::one(suite, access)),
            None => Err(HttpError::NotFound(Failure::NoSuchChild { child: name.clone() }.to_string())),
        },
    }
}

pub(super) async fn post<B>(
    daemon: &Arc<Daemon>,
    face: &Face,
    connection: Option<&Arc<AcceptedConnection>>,
    request: Request<B>,
) -> Result<Response<Full<Bytes>>, HttpError>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (head, body) = request.into_parts();
    let (session, has_place) = session_of(daemon, &head, connection).await?;
    if !accept::takes_json(&head.headers) {
        return Err(HttpError::NotAcceptable);
    }
    if let Face::Child(name) = face
        && session.workspace().catalog().child(name).is_none()
    {
        return Err(HttpError::NotFound(Failure::NoSuchChild { child: name.clone() }.to_string()));
    }
    // A shim chooses its face once, when it opens the session.
    let face = if *face == Face::Aggregate { &session.face } else { face };
    // Take the ticket before reading the body; it is released however this function ends.
    let admission = match head.headers.get(SEQ) {
        None => None,
        // Only sessions number their messages.
        Some(_) if !head.headers.contains_key(SESSION) => {
            return Err(HttpError::BadHeader(SEQ_HEADER));
        }
        Some(seq) => {
            let seq = seq.to_str().ok().and_then(|seq| seq.parse().ok()).filter(|seq| *seq > 0);
            Some(session.admit(seq.ok_or(HttpError::BadHeader(SEQ_HEADER))?))
        }
    };
    // No time limit on the unix socket: only the owner connects, and a slow body delays only its own session.
    let body = match connection.map(|connection| connection.peer_address()) {
        Some(PeerAddress::Unix) => collect(body).await?,
        _ => read_body(body).await?,
    };
    if !has_place {
        // The ticket is released, so later messages do not wait for this number.
        return Err(HttpError::Crowded);
    }
    let (mut ticket, duplicate) = match admission {
        Some(Admission::Ticket(ticket)) => (Some(ticket), false),
        Some(Admission::Duplicate) => (None, true),
        None => (None, false),
    };
    if let Some(ticket) = ticket.as_mut().filter(|ticket| ticket.is_waiting()) {
        // Do not wait forever for an earlier message that never comes.
        if tokio::time::timeout(SEQUENCE_TIMEOUT, ticket.wait()).await.is_err() {
            ticket.give_up_waiting();
            // Earlier messages that have arrived still go first; this takes no time unless one of them hangs.
            let _ = tokio::time::timeout(SEQUENCE_TIMEOUT, ticket.wait()).await;
        }
    }
    if let Some(messages) = batch::parse(&session, &head.headers, &body)? {
        let answers = SequenceTicket::hold(ticket, batch::answer(daemon, face, &session, &messages)).await?;
        return Ok(with_watermark(&session, answers));
    }
    let message = Message::parse(&body)?;
    log(&message, body.len());
    match message {
        Message::Request { .. } if duplicate => Ok(with_watermark(&session, Err(StatusCode::NO_CONTENT))),
        Message::Request { id, method, params } => {
            let method = method.name();
            let request = IncomingRequest { id, method: &method, params };
            if let Some(draining) = daemon.draining() {
                // The shim sends it again to the next daemon.
                if session.is_shims || method != methods::TOOLS_CALL {
                    return Err(HttpError::Draining(draining));
                }
                let answer = Failure::NotStarted.answer(request.era(), &method, id.get());
                return Ok(with_watermark(&session, Ok(answer)));
            }
            let parent = parent(daemon, &head.headers);
            let answer = run_request(context(daemon, face, &session, parent), request, ticket);
            if method == methods::LISTEN {
                // A listen request never finishes by itself; the shim sends it again to the next daemon.
                return tokio::select! {
                    answer = answer => Ok(with_watermark(&session, answer.ok_or(StatusCode::NO_CONTENT))),
                    draining = daemon.wait_for_drain() => Err(HttpError::Draining(draining)),
                };
            }
            Ok(with_watermark(&session, answer.await.ok_or(StatusCode::NO_CONTENT)))
        }
        Message::Notification { method, params } => {
            face::on_notification(daemon, &session, &method.name(), params);
            Ok(with_watermark(&session, Err(StatusCode::ACCEPTED)))
        }
        Message::Response { id, .. } => {
            let known = string(id).is_some_and(|ours| session.caller.deliver_answer(&ours, &body, id));
            if !known {
                tracing::debug!(target: "session", id = id.get(), "an answer to no open question");
            }
            Ok(with_watermark(&session, Err(StatusCode::ACCEPTED)))
        }
    }
}

/// Logs kind, id, method and size of a message, not its content.
pub(super) fn log(message: &Message<'_>, bytes: usize) {
    if tracing::enabled!(target: "http", tracing::Level::DEBUG) {
        let (kind, id, method) = match message {
            Message::Request { id, method, .. } => ("request", id.get(), method.name()),
            Message::Notification { method, .. } => ("notification", "-", method.name()),
            Message::Response { id, .. } => ("response", id.get(), "-".into()),
        };
        tracing::debug!(target: "http", %method, id, bytes, "{kind}");
    }
}

/// The parent span from the request's headers, if spans are exported. It is not passed on to children.
pub(super) fn parent(daemon: &Daemon, headers: &HeaderMap) -> Option<SpanContext> {
    daemon.services.metrics.spans()?;
    SpanContext::parse(headers.get(TRACEPARENT)?.to_str().ok()?)
}

/// What a message of this session is part of.
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

#[derive(Deserialize)]
struct WorkspaceQuery {
    workspace: Option<PathBuf>,
}

/// The session that a request names, or an anonymous one for its workspace; and whether the session may have
/// one more connection.
async fn session_of(
    daemon: &Arc<Daemon>,
    head: &Parts,
    connection: Option<&Arc<AcceptedConnection>>,
) -> Result<(Arc<Session>, bool), HttpError> {
    let Some(id) = head.headers.get(SESSION) else {
        // The authorization check admits only callers with full access here.
        let workspace = workspace_of(daemon, Access::Full, &head.uri).await;
        return Ok((daemon.anonymous_session(&workspace), true));
    };
    // A connection keeps its session alive, so the attached session is still valid.
    if let Some(session) = connection
        .and_then(|connection| connection.session())
        .filter(|known| known.id.as_bytes() == id.as_bytes())
    {
        return Ok((session.clone(), true));
    }
    let session = id.to_str().ok().and_then(|id| daemon.sessions.get(id)).filter(|session| session.is_shims);
    let session = session.ok_or(HttpError::UnknownSession)?;
    let has_place = connection.is_none_or(|connection| connection.attach_session(&session));
    Ok((session, has_place))
}

pub(super) async fn read_body<B>(body: B) -> Result<Bytes, HttpError>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    tokio::time::timeout(BODY_TIMEOUT, collect(body)).await.unwrap_or(Err(HttpError::Incomplete))
}

async fn collect<B>(body: B) -> Result<Bytes, HttpError>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    if body.size_hint().lower() > MAX_MESSAGE as u64 {
        return Err(HttpError::TooLarge);
    }
    let mut body = pin!(body);
    // A short body arrives in one piece and is not copied.
    let (mut first, mut whole) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|_| HttpError::Incomplete)?.into_data() else { continue };
        if first.is_empty() {
            first = piece;
            continue;
        }
        if whole.is_empty() {
            let more = usize::try_from(body.size_hint().lower()).unwrap_or(0).min(MAX_MESSAGE);
            whole.reserve(first.len() + piece.len() + more);
            whole.extend_from_slice(&first);
        }
        if whole.len() + piece.len() > MAX_MESSAGE {
            return Err(HttpError::TooLarge);
        }
        whole.extend_from_slice(&piece);
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

/// An answer or an empty response, with the watermark: the number of the newest message that the host must
/// read before it.
fn with_watermark(session: &Session, answer: Result<Vec<u8>, StatusCode>) -> Response<Full<Bytes>> {
    let mut response = match answer {
        Ok(body) => errors::json(StatusCode::OK, Full::from(body)),
        Err(status) => {
            let mut response = Response::new(Full::default());
            *response.status_mut() = status;
            response
        }
    };
    // A missing header means 0.
    if let Some(number @ 1..) = session.caller.mailbox().map(|mailbox| mailbox.watermark()) {
        response.headers_mut().insert(MAILBOX, HeaderValue::from(number));
    }
    response
}

//! The proxy routes: one JSON-RPC message in, one JSON answer out, never an event stream.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Extension, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::Full;
use switchboard_mcp::methods;
use switchboard_wire::envelope::{Message, string};
use switchboard_wire::hop::{MAILBOX_HEADER, SEQ_HEADER, SESSION_HEADER, SHOWN_HEADER};

use super::auth::Access;
use super::connection::AcceptedConnection;
use super::errors::{self, HttpError};
use super::message_log::log;
use super::request_body::read_body_from;
use super::request_context::{context, parent, workspace_of};
use super::{accept, batch, discovery};
use crate::catalog::Catalog;
use crate::face::{self, Face, IncomingRequest, run_request};
use crate::session::{Admission, SequenceTicket, Session};
use crate::state::Daemon;
use crate::suite::failure::Failure;

const ALLOW: &str = "POST, GET, OPTIONS";

const SESSION: HeaderName = HeaderName::from_static(SESSION_HEADER);
const SEQ: HeaderName = HeaderName::from_static(SEQ_HEADER);
const MAILBOX: HeaderName = HeaderName::from_static(MAILBOX_HEADER);
const SHOWN: HeaderName = HeaderName::from_static(SHOWN_HEADER);

/// After this time, a missing sequence number is taken for lost.
const SEQUENCE_TIMEOUT: Duration = Duration::from_secs(10);

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
            Some(suite) => Ok(discovery::one(catalog, suite, access)),
            None if access == Access::Names => {
                Err(HttpError::NotFound(Failure::NoSuchChild { child: name.clone() }.to_string()))
            }
            None => Err(HttpError::NotFound(catalog.no_such_child(name))),
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
    if let Face::Child(name) = face {
        let catalog = session.workspace().catalog();
        if catalog.child(name).is_none() {
            return Err(HttpError::NotFound(catalog.no_such_child(name)));
        }
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
            let seq = seq.to_str().ok().and_then(|seq| seq.parse().ok());
            let seq = seq.filter(|seq| (1..u64::MAX).contains(seq));
            Some(session.admit(seq.ok_or(HttpError::BadHeader(SEQ_HEADER))?))
        }
    };
    let body = read_body_from(connection.map(|connection| connection.peer_address()), body).await?;
    if !has_place {
        // The ticket is released, so later messages do not wait for this number.
        return Err(HttpError::Crowded);
    }
    let (mut ticket, is_duplicate) = match admission {
        Some(Admission::Ticket(ticket)) => (Some(ticket), false),
        Some(Admission::Duplicate) => (None, true),
        None => (None, false),
    };
    if let Some(ticket) = ticket.as_mut().filter(|ticket| ticket.is_waiting()) {
        // Do not wait forever for an earlier message that never comes.
        if tokio::time::timeout(SEQUENCE_TIMEOUT, ticket.wait()).await.is_err() {
            ticket.give_up_waiting();
            // Earlier messages that have arrived still go first, however long their bodies take: the order
            // holds, and only this session waits.
            ticket.wait().await;
        }
    }
    if let Some(messages) = batch::parse(&session, &head.headers, &body)? {
        if is_duplicate {
            return Err(HttpError::Duplicate);
        }
        let answers = SequenceTicket::hold(ticket, batch::answer(daemon, face, &session, &messages)).await?;
        return Ok(with_watermark(&session, answers));
    }
    let message = Message::parse(&body)?;
    log(&message, body.len());
    match message {
        // Run at most once. A host that still waits for an answer gets one.
        Message::Request { .. } if is_duplicate => Err(HttpError::Duplicate),
        Message::Request { id, method, params } => {
            let method = method.name();
            let request = IncomingRequest { id, method: &method, params };
            if let Some(draining) = daemon.draining() {
                // The shim sends it again to the next daemon.
                if session.is_shims || method != methods::TOOLS_CALL {
                    return Err(HttpError::Draining(draining));
                }
                let context = context(daemon, face, &session, None);
                face::record_refusal(context, request, Failure::NotStarted.kind().as_str());
                let answer = Failure::NotStarted.answer(request.era(), &method, id.get());
                return Ok(with_watermark(&session, Ok(answer)));
            }
            let parent = parent(daemon, &head.headers);
            let answer = pin!(run_request(context(daemon, face, &session, parent), request, ticket));
            if method == methods::LISTEN {
                // A listen request never finishes by itself; the shim sends it again to the next daemon.
                return tokio::select! {
                    answer = answer => Ok(with_watermark(&session, answer.ok_or(StatusCode::NO_CONTENT))),
                    draining = daemon.wait_for_drain() => Err(HttpError::Draining(draining)),
                };
            }
            let mut answer = with_watermark(&session, answer.await.ok_or(StatusCode::NO_CONTENT));
            if method == methods::TOOLS_LIST && session.is_shims {
                add_shown(&session, &mut answer);
            }
            Ok(answer)
        }
        Message::Notification { method, params } => {
            face::on_notification(daemon, &session, &method.name(), params);
            face::host_root::ask(daemon, &session, &method.name());
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

/// What the tools stand for that the host was just shown, for the next daemon.
fn add_shown(session: &Session, answer: &mut Response<Full<Bytes>>) {
    let token = session.shown_tools().map(|shown| shown.token()).filter(|token| !token.is_empty());
    if let Some(token) = token.and_then(|token| HeaderValue::from_str(&token).ok()) {
        answer.headers_mut().insert(SHOWN, token);
    }
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

//! Sends a request to a remote child and handles the response.
//!
//! A request is sent again only if the server said that it did not accept it: it forgot the session, or a
//! header did not match. If the connection breaks, the call may have run, and the error says so.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::{Response, StatusCode};
use switchboard_mcp::error_codes::{self, HEADER_MISMATCH};
use switchboard_mcp::methods;
use switchboard_wire::envelope::Message;
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use switchboard_wire::rpc;
use tokio::time::Instant;

use super::client::{RemoteBody, body as read_body, content_type, refusal_bytes, shown};
use super::inbound::{ResumePoint, StreamEnd, read_events};
use super::{RemoteConnection, RemoteError, RemoteState, handshake, headers};
use crate::child::calls::CallOutcome;
use crate::child::{Child, ChildError, ChildId, Limits, Protocol, ToolList};

/// Timeout of a list that a call waits for.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);
const LIST_LIMITS: Limits = Limits { spawn: LIST_TIMEOUT, rpc: LIST_TIMEOUT, max: LIST_TIMEOUT };

/// Pause before a broken stream is resumed, unless the server sets one.
const RESUME_PAUSE: Duration = Duration::from_secs(1);
/// Limit of streams in a row that end without an event.
const MAX_EMPTY_STREAMS: usize = 5;

/// Where the answer to a request arrives.
enum ResponseSource {
    OwnResponse,
    /// On the server's shared stream.
    SharedStream,
}

/// Sends a request and handles its answer. However this ends, the call gets an outcome.
pub(super) async fn send_request(
    child: &Arc<Child>,
    connection: &Arc<RemoteConnection>,
    id: ChildId,
    body: Bytes,
) {
    // A server that refuses `subscriptions/listen` may be fine otherwise.
    let stands = child.calls().is_listen_call(id);
    let mut guard = CallGuard { child, id, error: None, later: false };
    match post(child, connection, id, &body).await {
        Ok(ResponseSource::OwnResponse) => {}
        Ok(ResponseSource::SharedStream) => guard.later = true,
        Err(error) => {
            // The next callers get a new child, whose handshake finds out what the server speaks now.
            if needs_new_child(&error) && !stands && child.server_info.get().is_some() {
                child.retire();
            }
            guard.error = Some(connection.without_values(error));
        }
    }
}

/// Fails a call that would otherwise never be answered.
struct CallGuard<'a> {
    child: &'a Arc<Child>,
    id: ChildId,
    error: Option<ChildError>,
    later: bool,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        if !self.later {
            // Has no effect if the answer arrived or the call was cancelled.
            self.child.fail(self.id, self.error.take().unwrap_or(RemoteError::Unanswered.into()));
        }
    }
}

fn needs_new_child(error: &ChildError) -> bool {
    match error {
        ChildError::Remote(RemoteError::Unreachable { .. } | RemoteError::Changed { .. }) => true,
        ChildError::Remote(error) => error.is_about_protocol(),
        _ => false,
    }
}

async fn post(
    child: &Arc<Child>,
    connection: &Arc<RemoteConnection>,
    id: ChildId,
    body: &Bytes,
) -> Result<ResponseSource, ChildError> {
    let message = Message::parse(body).expect("BUG: we write messages");
    let Message::Request { method, .. } = &message else { panic!("BUG: requests have an id") };
    let method = method.name();
    let opens = matches!(&*method, methods::INITIALIZE | methods::DISCOVER);
    let (mut forgotten, mut mismatched) = (false, false);
    loop {
        if !opens {
            // A new handshake goes first.
            drop(connection.handshake_lock.lock().await);
        }
        let state = connection.state();
        let tools = tools_for(child, &state, &method).await?;
        let headers = headers::of_message(&state, &message, tools.as_deref());
        let caller = child.calls().caller_of(id);
        let response = connection.post(&state, headers, body.clone(), caller).await?;
        let status = response.status();
        if status.is_success() {
            if method == methods::INITIALIZE {
                let session = response.headers().get(headers::SESSION).cloned();
                connection.change(|state| state.session = session);
            }
            return on_response(child, connection, &state, id, response).await;
        }
        if status == StatusCode::NOT_FOUND && state.session.is_some() && !forgotten {
            forgotten = true;
            handshake::reconnect(child, connection, &state).await?;
            continue;
        }
        let said = refusal_bytes(response).await;
        let Some(error) = fault(&said) else {
            return Err(RemoteError::Status { status: status.as_u16(), said: shown(&said) }.into());
        };
        if code(error) == Some(HEADER_MISMATCH) && tools.is_some() && !mismatched {
            // The headers that its tools require have changed.
            mismatched = true;
            child.renew_tools(LIST_LIMITS).await?;
            continue;
        }
        if !opens && is_of_the_other_era(state.protocol, code(error)) {
            child.retire();
        }
        child.on_body(Some(id), &answer(id, error));
        return Ok(ResponseSource::OwnResponse);
    }
}

/// Whether a refused request shows that the server's era has changed.
fn is_of_the_other_era(protocol: Protocol, code: Option<i64>) -> bool {
    match (protocol, code) {
        // Codes that legacy servers use to refuse requests outside a session.
        (Protocol::Modern, Some(code)) => (-32019..=-32000).contains(&code),
        (Protocol::Legacy | Protocol::LegacySse, Some(code)) => error_codes::is_modern(code),
        (_, None) => false,
    }
}

/// The tools that define additional headers for a request.
async fn tools_for(
    child: &Arc<Child>,
    state: &RemoteState,
    method: &str,
) -> Result<Option<Arc<ToolList>>, ChildError> {
    if state.protocol != Protocol::Modern || method != methods::TOOLS_CALL {
        return Ok(None);
    }
    child.tools(LIST_LIMITS, Instant::now()).await.map(Some)
}

/// The error of a body that is an error response, whatever its id is.
fn fault(body: &[u8]) -> Option<Raw<'_>> {
    let members = Raw::parse(body).and_then(Members::of)?;
    members.get("jsonrpc")?;
    members.get("error").filter(|error| error.get().starts_with('{'))
}

fn code(error: Raw<'_>) -> Option<i64> {
    Members::of(error)?.get("code")?.get().parse().ok()
}

fn answer(ChildId(id): ChildId, error: Raw<'_>) -> Bytes {
    rpc::error(&id.to_string(), error.get()).into()
}

async fn on_response(
    child: &Arc<Child>,
    connection: &Arc<RemoteConnection>,
    state: &RemoteState,
    id: ChildId,
    response: Response,
) -> Result<ResponseSource, ChildError> {
    if state.protocol == Protocol::LegacySse {
        return Ok(ResponseSource::SharedStream);
    }
    match content_type(&response).as_str() {
        "text/event-stream" => read_stream(child, connection, state, id, response).await,
        _ if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => {
            Err(RemoteError::Unanswered.into())
        }
        "application/json" => {
            match read_body(response).await? {
                RemoteBody::Whole(body) => child.on_body(Some(id), &body),
                RemoteBody::TooLong(bytes) => drop(child.deliver(id, CallOutcome::TooLong(bytes))),
            }
            if child.owes(id) { Err(RemoteError::Unanswered.into()) } else { Ok(ResponseSource::OwnResponse) }
        }
        other => Err(RemoteError::WrongContentType { content_type: shown(other.as_bytes()) }.into()),
    }
}

/// Reads the stream that answers a request. If it breaks, resumes it at a legacy server.
async fn read_stream(
    child: &Arc<Child>,
    connection: &Arc<RemoteConnection>,
    state: &RemoteState,
    id: ChildId,
    response: Response,
) -> Result<ResponseSource, ChildError> {
    let mut resume_point = ResumePoint::default();
    let mut silent = 0;
    let mut end = read_events(child, Some(id), response, &mut resume_point).await;
    loop {
        let why = match end {
            StreamEnd::Answered => return Ok(ResponseSource::OwnResponse),
            StreamEnd::Open(why) => why,
        };
        silent = if std::mem::take(&mut resume_point.heard) { 0 } else { silent + 1 };
        let lost = || ChildError::from(RemoteError::Cut { why: why.clone() });
        if resume_point.last_id.is_none() || state.protocol == Protocol::Modern || silent > MAX_EMPTY_STREAMS
        {
            return Err(lost());
        }
        tokio::time::sleep(resume_point.retry.unwrap_or(RESUME_PAUSE)).await;
        let rest = connection
            .get(headers::of_stream(state, resume_point.last_id.as_deref()))
            .await
            .map_err(|_| lost())?;
        if !rest.status().is_success() || content_type(&rest) != "text/event-stream" {
            return Err(lost());
        }
        end = read_events(child, Some(id), rest, &mut resume_point).await;
    }
}

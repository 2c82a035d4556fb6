//! Modern hosts over HTTP: no session, and no stream that outlives its request. Headers repeat parts of the
//! body. A host cancels a request by closing its connection.

use std::pin::pin;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use switchboard_mcp::era::{ProtocolEra, subscription};
use switchboard_mcp::error_codes::{HEADER_MISMATCH, LACKS_CAPABILITY};
use switchboard_mcp::methods;
use switchboard_wire::envelope::{METHOD_NOT_FOUND, Message, Outcome};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use super::calls::{CallOrigin, CloseOnDrop, all_answered};
use super::events::RunningCall;
use super::{events, headers};
use crate::caller::mailbox::{Mailbox, MessageKind};
use crate::catalog::workspace::Workspace;
use crate::face::{Face, IncomingRequest, RequestContext, record_refusal, run_request};
use crate::http::errors::{HttpError, RpcError, json_response};
use crate::http::request_context::parent;
use crate::observe::metrics::series::EntryPoint;
use crate::state::Daemon;
use crate::suite::failure::Failure;

/// Notifications are accepted and ignored: a modern host cancels by closing its connection.
pub(super) async fn post(
    daemon: &Arc<Daemon>,
    face: Face,
    workspace: &Arc<Workspace>,
    given: &HeaderMap,
    body: &Bytes,
    message: &Message<'_>,
) -> Result<Response, HttpError> {
    let Message::Request { id, method, params } = message else {
        return Ok(StatusCode::ACCEPTED.into_response());
    };
    if method.name() == methods::TOOLS_CALL {
        check_arguments(&face, workspace, given, *params).map_err(|why| {
            RpcError::new(StatusCode::BAD_REQUEST, HEADER_MISMATCH, why).about(Some(id.get()))
        })?;
    }
    if let Some(draining) = daemon.draining() {
        if method.name() == methods::TOOLS_CALL {
            let session = daemon.anonymous_session(workspace);
            let via = EntryPoint::Streamable;
            let (caller, parent) = (&session.caller, None);
            let context = RequestContext { daemon, session: &session, face: &face, caller, via, parent };
            let request = IncomingRequest { id: *id, method: methods::TOOLS_CALL, params: *params };
            record_refusal(context, request, Failure::NotStarted.kind().as_str());
            let answer = Failure::NotStarted.answer(ProtocolEra::Modern, methods::TOOLS_CALL, id.get());
            return Ok(json_response(StatusCode::OK, answer));
        }
        return Err(HttpError::Draining(draining));
    }
    let mailbox = Arc::<Mailbox>::default();
    let session = daemon.anonymous_session(workspace);
    let caller = session.caller.on_stream(mailbox.clone());
    let call = CallOrigin { parent: parent(daemon, given), daemon: daemon.clone(), face, session, caller };
    let closing = CloseOnDrop(mailbox.clone());
    let request = OwnedRequest {
        id: id.get().into(),
        method: method.name().into(),
        params: params.map(|params| body.slice_ref(params.get().as_bytes())),
    };
    // The handler runs the call itself, because most calls end before a task of their own would pay. If this
    // one takes longer, the stream takes it over.
    let mut running: RunningCall = Box::pin(async move {
        let _closing = closing;
        run(call, &request).await;
    });
    let ended = tokio::select! {
        biased;
        () = &mut running => true,
        () = all_answered(&mailbox) => false,
        () = daemon.json_window.wait() => false,
    };
    let answers = mailbox.only_answers().filter(|_| mailbox.is_closed());
    Ok(match answers.as_deref() {
        Some([answer]) => json_response(status_of(answer), Body::from(answer.clone())),
        _ => events::of_call(mailbox, (!ended).then_some(running)),
    })
}

/// A request that outlives the handler of its message.
struct OwnedRequest {
    id: Box<str>,
    method: Box<str>,
    params: Option<Bytes>,
}

async fn run(call: CallOrigin, request: &OwnedRequest) {
    // All of it was checked when the message arrived.
    let (id, method) = (Raw::unchecked(&request.id), &*request.method);
    let params = request.params.as_deref().and_then(|params| std::str::from_utf8(params).ok());
    let params = params.map(Raw::unchecked);
    let answer = pin!(run_request(call.context(), IncomingRequest { id, method, params }, None));
    let answer = if method == methods::LISTEN {
        tokio::select! {
            answer = answer => answer,
            // A listen request never finishes by itself.
            _ = call.daemon.wait_for_drain() => Some(subscription::ended(id.get())),
        }
    } else {
        answer.await
    };
    if let Some(answer) = answer {
        call.caller.push(MessageKind::Answer, answer);
    }
}

/// An error from a child or a face is no HTTP error; the specification makes two exceptions.
fn status_of(answer: &[u8]) -> StatusCode {
    // Most answers do not contain the word, nor escapes in which it could be written; they need not be searched.
    if memchr::memmem::find(answer, b"\"error\"").is_none() && memchr::memchr(b'\\', answer).is_none() {
        return StatusCode::OK;
    }
    let code = match Message::peek(answer) {
        Ok(Message::Response { outcome: Outcome::Error(error), .. }) => {
            Members::of(error).and_then(|error| error.get("code")?.get().parse::<i64>().ok())
        }
        _ => None,
    };
    match code {
        Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(LACKS_CAPABILITY) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// Checks the headers that the called tool's schema requires, if the tool is known. A suite requires none.
fn check_arguments(
    face: &Face,
    workspace: &Arc<Workspace>,
    given: &HeaderMap,
    params: Option<Raw<'_>>,
) -> Result<(), String> {
    let params = params.and_then(Members::of).unwrap_or_default();
    let catalog = workspace.catalog();
    let Some(name) = params.text("name") else { return Ok(()) };
    let (suite, tool) = match face {
        Face::Child(child) => (catalog.child(child), Some(name.into())),
        Face::Aggregate => {
            let called = catalog.tool(&name, None);
            (called.as_ref().map(|called| called.suite), called.and_then(|called| called.own))
        }
    };
    let known = suite.and_then(|suite| suite.tools_if_known());
    let tool = known.as_ref().zip(tool).and_then(|(list, name)| list.find(&name));
    match tool.and_then(|tool| tool.input_schema.as_deref()) {
        Some(schema) => {
            headers::check_arguments(given, &headers::header_params(schema.into()), params.get("arguments"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_error_codes_set_an_http_status() {
        let status =
            |outcome: &str| status_of(format!(r#"{{"jsonrpc":"2.0","id":1,{outcome}}}"#).as_bytes()).as_u16();
        assert_eq!(status(r#""result":{}"#), 200);
        assert_eq!(status(r#""result":{"error":{"code":-32601}}"#), 200);
        assert_eq!(status(r#""error":{"code":-32602,"message":""}"#), 200);
        assert_eq!(status(r#""error":{"code":-32601,"message":""}"#), 404);
        assert_eq!(status(r#""error":{"code":-32021,"message":""}"#), 400);
        assert_eq!(status(r#""err\u006fr":{"code":-32021,"message":""}"#), 400);
    }
}

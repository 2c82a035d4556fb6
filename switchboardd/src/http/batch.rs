//! Several messages in one array: only the revision 2025-03-26 has them, so only a session that agreed on it, or a
//! caller without one that names it, is understood.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use serde_json::json;
use serde_json::value::RawValue;
use switchboard_wire::envelope::{INVALID_REQUEST, Message, string};

use super::errors::{HttpError, RpcError};
use super::proxy::context;
use crate::daemon_state::Daemon;
use crate::era::ProtocolEra;
use crate::error::fault;
use crate::face::{self, Face, IncomingRequest, run_request};
use crate::methods;
use crate::session::Session;

const REVISION: &str = "2025-03-26";
/// Messages of one batch.
const MAX_BATCH_MESSAGES: usize = 320;

const VERSION_HEADER: &str = "mcp-protocol-version";

/// The messages of a batch that may be one.
pub(super) fn of<'a>(session: &Session, headers: &HeaderMap, body: &'a [u8]) -> Option<Vec<&'a RawValue>> {
    if body.trim_ascii_start().first() != Some(&b'[') {
        return None;
    }
    let agreed = session.caller.profile().revision;
    let named = headers.get(VERSION_HEADER).filter(|_| session.caller.mailbox().is_none());
    if agreed != Some(REVISION) && named.is_none_or(|named| named != REVISION) {
        return None;
    }
    serde_json::from_slice(body).ok().filter(|messages: &Vec<_>| !messages.is_empty())
}

/// The answers in an array, in the order of their requests.
pub(super) async fn answer(
    daemon: &Arc<Daemon>,
    face: &Face,
    session: &Arc<Session>,
    messages: &[&RawValue],
) -> Result<Result<Vec<u8>, StatusCode>, HttpError> {
    if let Some(draining) = daemon.phase().borrow().draining() {
        return Err(HttpError::Draining(draining));
    }
    if messages.len() > MAX_BATCH_MESSAGES {
        let why = format!("a batch has at most {MAX_BATCH_MESSAGES} messages");
        return Err(RpcError::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, why).into());
    }
    let mut answers: Vec<Vec<u8>> = Vec::new();
    for message in messages {
        let body = message.get().as_bytes();
        match Message::parse(body) {
            Ok(Message::Request { id, method, params }) => {
                let method = method.name();
                let request = IncomingRequest { id, method: &method, params };
                if method == methods::INITIALIZE || request.era() != ProtocolEra::Legacy {
                    answers.push(refused(id.get(), &format!("`{method}` must not be in a batch")));
                    continue;
                }
                answers.extend(run_request(context(daemon, face, session, None), request, None).await);
            }
            Ok(Message::Notification { method, params }) => {
                face::on_notification(daemon, session, &method.name(), params);
            }
            Ok(Message::Response { id, .. }) => {
                let _ = string(id).is_some_and(|ours| session.caller.answered(&ours, body, id));
            }
            Err(malformed) => answers.push(refused("null", &malformed.to_string())),
        }
    }
    if answers.is_empty() {
        return Ok(Err(StatusCode::ACCEPTED));
    }
    let mut all = vec![b'['];
    all.extend_from_slice(&answers.join(&b','));
    all.push(b']');
    Ok(Ok(all))
}

fn refused(id: &str, why: &str) -> Vec<u8> {
    fault(id, &json!({ "code": INVALID_REQUEST, "message": why }))
}

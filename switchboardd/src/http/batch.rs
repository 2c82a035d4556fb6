//! JSON-RPC batches on the proxy routes. Only revision 2025-03-26 has them, so they are accepted only from a
//! session that negotiated it or from a sessionless caller that names it in `MCP-Protocol-Version`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::{HeaderMap, StatusCode};
use serde_json::value::RawValue;
use switchboard_mcp::era::ProtocolEra;
use switchboard_mcp::header_names;
use switchboard_mcp::methods;
use switchboard_wire::batch;
use switchboard_wire::envelope::{Malformed, Message, string};

use super::call_limit::check_call_limit;
use super::errors::HttpError;
use super::request_context::context;
use crate::face::{self, Face, IncomingRequest, run_request};
use crate::session::Session;
use crate::state::Daemon;

/// The messages of `body`, if it is an array and this caller may send batches.
pub(super) fn parse<'a>(
    session: &Session,
    headers: &HeaderMap,
    body: &'a [u8],
) -> Result<Option<Vec<&'a RawValue>>, Malformed> {
    if !batch::is_array(body) {
        return Ok(None);
    }
    let agreed = session.caller.profile().revision;
    let named = headers.get(header_names::PROTOCOL_VERSION).filter(|_| session.caller.mailbox().is_none());
    if agreed != Some(batch::REVISION) && named.is_none_or(|named| named != batch::REVISION) {
        return Ok(None);
    }
    batch::split(body).map(Some)
}

/// Reads one message of a batch, or returns the error for a message that a batch must not contain.
pub(super) fn read(message: &RawValue) -> Result<Message<'_>, Vec<u8>> {
    batch::read(message.get().as_bytes(), |method, params| {
        method == methods::INITIALIZE || face::era_of(method, params) != ProtocolEra::Legacy
    })
}

/// Runs all requests of a batch concurrently. Returns the answers as an array, in the order of the requests.
pub(super) async fn answer(
    daemon: &Arc<Daemon>,
    face: &Face,
    session: &Arc<Session>,
    messages: &[&RawValue],
) -> Result<Result<Vec<u8>, StatusCode>, HttpError> {
    if let Some(draining) = daemon.phase().borrow().draining() {
        return Err(HttpError::Draining(draining));
    }
    let messages: Vec<_> = messages.iter().map(|message| (message.get().as_bytes(), read(message))).collect();
    let is_request = |read: &Result<Message<'_>, Vec<u8>>| matches!(read, Ok(Message::Request { .. }));
    check_call_limit(session, messages.iter().filter(|(_, read)| is_request(read)).count())?;
    let mut items = Vec::new();
    for (body, read) in messages {
        match read {
            Ok(Message::Request { id, method, params }) => {
                let method = method.name();
                let mut item = BatchRequest::Running(Box::pin(async move {
                    let request = IncomingRequest { id, method: &method, params };
                    run_request(context(daemon, face, session, None), request, None).await
                }));
                // The request joins its child's queue before the next message is read.
                let _ = std::future::poll_fn(|cx| Poll::Ready(item.poll(cx))).await;
                items.push(item);
            }
            Ok(Message::Notification { method, params }) => {
                face::on_notification(daemon, session, &method.name(), params);
            }
            Ok(Message::Response { id, .. }) => {
                let _ = string(id).is_some_and(|ours| session.caller.deliver_answer(&ours, body, id));
            }
            Err(refused) => items.push(BatchRequest::Done(Some(refused))),
        }
    }
    std::future::poll_fn(|cx| {
        // `count` polls every item, even if one is pending.
        let open = items.iter_mut().filter_map(|item| item.poll(cx).is_pending().then_some(())).count();
        if open == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let answers: Vec<Vec<u8>> = items.into_iter().filter_map(BatchRequest::answer).collect();
    if answers.is_empty() {
        return Ok(Err(StatusCode::ACCEPTED));
    }
    let mut all = vec![b'['];
    all.extend_from_slice(&answers.join(&b','));
    all.push(b']');
    Ok(Ok(all))
}

/// A request of a batch: in flight, or done with or without an answer.
enum BatchRequest<'a> {
    Running(Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + 'a>>),
    Done(Option<Vec<u8>>),
}

impl BatchRequest<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Self::Running(run) = self {
            match run.as_mut().poll(cx) {
                Poll::Ready(answer) => *self = Self::Done(answer),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }

    fn answer(self) -> Option<Vec<u8>> {
        match self {
            Self::Done(answer) => answer,
            Self::Running(_) => None,
        }
    }
}

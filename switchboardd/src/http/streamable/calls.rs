//! The requests of one POST of a session: answered in JSON, or on a stream of their own. They go on without the
//! connection that they came by.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use switchboard_wire::envelope::Message;
use switchboard_wire::raw::Raw;
use tokio::task::JoinSet;

use super::events::{self, StreamStart};
use super::legacy::resumes;
use crate::caller::Caller;
use crate::daemon_state::Daemon;
use crate::error::Failure;
use crate::face::{self, Face};
use crate::http::errors::json_response;
use crate::http::proxy::run_request;
use crate::mailbox::{Mailbox, MessageKind};
use crate::metrics::series::EntryPoint;
use crate::session::{AbortReason, Session, Streams};
use crate::telemetry::trace::Context;

/// An answer that comes within this, alone, needs no stream.
pub(super) const JSON_WINDOW: Duration = Duration::from_millis(250);

/// Has the face answer, in JSON if that is all and comes soon, else as a stream. `refused`: the answers that a batch has
/// already; `None` for a request by itself.
pub(super) async fn answer(
    daemon: &Arc<Daemon>,
    face: Face,
    session: &Arc<Session>,
    streams: &Arc<Streams>,
    requests: Vec<Bytes>,
    refused: Option<Vec<Vec<u8>>>,
    parent: Option<Context>,
) -> Response {
    let stream = streams.open();
    let caller = session.caller.on_stream(stream.mailbox.clone());
    let closing = CloseOnDrop(stream.mailbox.clone());
    let call = StreamableCall { daemon: daemon.clone(), face, session: session.clone(), caller, parent };
    let call = StreamedCall { call, streams: streams.clone() };
    let together = refused.is_some();
    for answer in refused.into_iter().flatten() {
        call.call.caller.push(MessageKind::Answer, answer);
    }
    tokio::spawn(async move {
        let _closing = closing;
        let mut open = JoinSet::new();
        for body in requests {
            open.spawn(call.clone().run(body));
        }
        while open.join_next().await.is_some() {}
    });
    let _ = tokio::time::timeout(JSON_WINDOW, all_answered(&stream.mailbox)).await;
    let answers = stream.mailbox.only_answers().filter(|_| stream.mailbox.is_closed());
    match answers.as_deref() {
        Some([answer]) if !together => {
            streams.forget(&stream);
            json_response(StatusCode::OK, Body::from(answer.clone()))
        }
        Some(answers) if together && !answers.is_empty() => {
            streams.forget(&stream);
            json_response(StatusCode::OK, list(answers))
        }
        _ => {
            let start = StreamStart { after: 0, resumes: resumes(session) };
            events::response(daemon, streams.read(&stream), start)
        }
    }
}

/// Resolves when all is answered, or something comes that is no answer.
pub(super) async fn all_answered(mailbox: &Mailbox) {
    loop {
        let arrival = mailbox.wait_for_message();
        if mailbox.is_closed() || !mailbox.has_only_answers() {
            return;
        }
        arrival.await;
    }
}

fn list(answers: &[Bytes]) -> Vec<u8> {
    let mut out = vec![b'['];
    for (at, answer) in answers.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(answer);
    }
    out.push(b']');
    out
}

/// What a request over HTTP runs with.
#[derive(Clone)]
pub(super) struct StreamableCall {
    pub(super) daemon: Arc<Daemon>,
    pub(super) face: Face,
    pub(super) session: Arc<Session>,
    pub(super) caller: Arc<Caller>,
    pub(super) parent: Option<Context>,
}

impl StreamableCall {
    /// The answer; an error for a request that was cancelled.
    pub(super) async fn run(
        &self,
        id: Raw<'_>,
        method: &str,
        params: Option<Raw<'_>>,
    ) -> Result<Vec<u8>, StatusCode> {
        let Self { daemon, face, session, caller, parent } = self;
        let request = face::Request::new(id, method, params).with_parent_span(*parent);
        run_request(daemon, face, session, caller, request, EntryPoint::Streamable, None).await
    }
}

/// A call that goes on without its connection.
#[derive(Clone)]
struct StreamedCall {
    call: StreamableCall,
    streams: Arc<Streams>,
}

impl StreamedCall {
    async fn run(self, body: Bytes) {
        let Ok(Message::Request { id, method, params }) = Message::parse(&body) else { return };
        // It can be called off also while it waits for its turn.
        let _place = {
            let (_guard, aborted) = self.call.session.register_request(id.get());
            tokio::select! {
                biased;
                reason = aborted => {
                    if let Ok(AbortReason::ShuttingDown) = reason {
                        let method = method.name();
                        let era = face::Request::new(id, &method, params).era();
                        self.call.caller.push(MessageKind::Answer, Failure::ShuttingDown.answer(era, &method, id.get()));
                    }
                    return;
                }
                place = self.streams.calls.acquire() => match place {
                    Ok(place) => place,
                    Err(_) => return,
                },
            }
        };
        let answer = self.call.run(id, &method.name(), params).await;
        // One that was cancelled has none.
        if let Ok(answer) = answer {
            self.call.caller.push(MessageKind::Answer, answer);
        }
        self.streams.touch();
    }
}

/// Closes a stream however its call ends.
pub(super) struct CloseOnDrop(pub(super) Arc<Mailbox>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

//! Answers the requests of one POST of a session, as JSON or on an event stream. The requests keep running if
//! their connection closes.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use switchboard_wire::envelope::Message;
use tokio::task::JoinSet;

use super::events::{self, StreamStart};
use crate::caller::Caller;
use crate::caller::mailbox::{Mailbox, MessageKind};
use crate::face::{Face, IncomingRequest, RequestContext, record_refusal, run_request};
use crate::http::errors::json_response;
use crate::observe::metrics::outcome;
use crate::observe::metrics::series::EntryPoint;
use crate::observe::telemetry::trace::SpanContext;
use crate::session::{AbortReason, Session, Streams};
use crate::state::Daemon;
use crate::suite::failure::Failure;

/// The requests of one POST.
pub(super) struct PostedRequests {
    pub(super) requests: Vec<Bytes>,
    /// For a batch: the errors for messages that it must not contain. `None` for a single request.
    pub(super) refused: Option<Vec<Vec<u8>>>,
    /// The parent span from the headers.
    pub(super) parent: Option<SpanContext>,
}

/// Runs the requests. Answers with JSON if all answers arrive within the daemon's `json_window` and nothing
/// else does, else with an event stream.
pub(super) async fn answer(
    daemon: &Arc<Daemon>,
    face: Face,
    session: &Arc<Session>,
    streams: &Arc<Streams>,
    posted: PostedRequests,
) -> Response {
    let PostedRequests { requests, refused, parent } = posted;
    let stream = streams.open();
    let caller = session.caller.on_stream(stream.mailbox.clone());
    let closing = CloseOnDrop(stream.mailbox.clone());
    let origin = CallOrigin { daemon: daemon.clone(), face, session: session.clone(), caller, parent };
    let call = StreamedCall { origin, streams: streams.clone() };
    let is_batch = refused.is_some();
    for answer in refused.into_iter().flatten() {
        call.origin.caller.push(MessageKind::Answer, answer);
    }
    tokio::spawn(async move {
        let _closing = closing;
        let mut open = JoinSet::new();
        for body in requests {
            open.spawn(call.clone().run(body));
        }
        while open.join_next().await.is_some() {}
    });
    tokio::select! {
        biased;
        () = all_answered(&stream.mailbox) => {}
        () = daemon.json_window.wait() => {}
    }
    let answers = stream.mailbox.only_answers().filter(|_| stream.mailbox.is_closed());
    match answers.as_deref() {
        Some([answer]) if !is_batch => {
            streams.forget(&stream);
            json_response(StatusCode::OK, Body::from(answer.clone()))
        }
        Some(answers) if is_batch && !answers.is_empty() => {
            streams.forget(&stream);
            json_response(StatusCode::OK, list(answers))
        }
        _ => {
            let start = StreamStart { after: 0, resumes: events::resumes(session) };
            events::response(daemon, streams.read(&stream), start)
        }
    }
}

/// Resolves when all requests are answered, or when a message arrives that is not an answer.
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

/// Who makes a request over HTTP; lives as long as the request.
#[derive(Clone)]
pub(super) struct CallOrigin {
    pub(super) daemon: Arc<Daemon>,
    pub(super) face: Face,
    pub(super) session: Arc<Session>,
    pub(super) caller: Arc<Caller>,
    pub(super) parent: Option<SpanContext>,
}

impl CallOrigin {
    pub(super) fn context(&self) -> RequestContext<'_> {
        let Self { daemon, face, session, caller, parent } = self;
        RequestContext { daemon, session, face, caller, via: EntryPoint::Streamable, parent: *parent }
    }
}

/// A request that keeps running if its connection closes.
#[derive(Clone)]
struct StreamedCall {
    origin: CallOrigin,
    streams: Arc<Streams>,
}

impl StreamedCall {
    async fn run(self, body: Bytes) {
        let Ok(Message::Request { id, method, params }) = Message::parse(&body) else { return };
        let method = method.name();
        let request = IncomingRequest { id, method: &method, params };
        let CallOrigin { session, caller, .. } = &self.origin;
        // The host can cancel the request while it waits for a permit, too.
        let _place = {
            let (_guard, aborted) = session.register_request(id.get());
            tokio::select! {
                biased;
                reason = aborted => {
                    let is_stopping = matches!(reason, Ok(AbortReason::ShuttingDown));
                    let kind = if is_stopping { Failure::ShuttingDown.kind().as_str() } else { outcome::CANCELLED };
                    record_refusal(self.origin.context(), request, kind);
                    if is_stopping {
                        let answer = Failure::ShuttingDown.answer(request.era(), &method, id.get());
                        caller.push(MessageKind::Answer, answer);
                    }
                    return;
                }
                place = self.streams.calls.acquire() => match place {
                    Ok(place) => place,
                    Err(_) => return,
                },
            }
        };
        // A cancelled request has no answer.
        if let Some(answer) = run_request(self.origin.context(), request, None).await {
            caller.push(MessageKind::Answer, answer);
        }
        self.streams.touch();
    }
}

/// Closes the stream when the call ends, also by a panic.
pub(super) struct CloseOnDrop(pub(super) Arc<Mailbox>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

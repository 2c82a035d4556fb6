//! The requests of one POST of a session: answered in JSON, or on a stream of their own. They go on without the
//! connection that they came by.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use switchboard_wire::envelope::Message;
use tokio::task::JoinSet;

use super::events::{self, Manner};
use super::legacy::resumes;
use crate::board::Board;
use crate::caller::Caller;
use crate::error::Failure;
use crate::face::{self, Face};
use crate::http::proxy::fly;
use crate::http::rescue::json_response;
use crate::mailbox::{Kind, Mailbox};
use crate::measures::series::Via;
use crate::session::{Grounded, Session, Streams};
use crate::telemetry::trace::Context;

/// An answer that comes within this, alone, needs no stream.
pub(super) const AT_ONCE: Duration = Duration::from_millis(250);

/// Has the face answer, in JSON if that is all and comes soon, else as a stream.
pub(super) async fn answer(
    board: &Arc<Board>,
    face: Face,
    session: &Arc<Session>,
    streams: &Arc<Streams>,
    requests: Vec<Bytes>,
    together: bool,
    parent: Option<Context>,
) -> Response {
    let stream = streams.open();
    let caller = session.caller.on_stream(stream.mailbox.clone());
    let closing = Closing(stream.mailbox.clone());
    let flight = Flight {
        board: board.clone(),
        face,
        session: session.clone(),
        streams: streams.clone(),
        caller,
        parent,
    };
    tokio::spawn(async move {
        let _closing = closing;
        let mut open = JoinSet::new();
        for body in requests {
            open.spawn(flight.clone().run(body));
        }
        while open.join_next().await.is_some() {}
    });
    let _ = tokio::time::timeout(AT_ONCE, settled(&stream.mailbox)).await;
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
            let manner = Manner { after: 0, resumes: resumes(session) };
            events::response(board, streams.read(&stream), manner)
        }
    }
}

/// Resolves when all is answered, or something comes that is no answer.
pub(super) async fn settled(mailbox: &Mailbox) {
    loop {
        let arrival = mailbox.arrival();
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

/// A call that goes on without its connection.
#[derive(Clone)]
struct Flight {
    board: Arc<Board>,
    face: Face,
    session: Arc<Session>,
    streams: Arc<Streams>,
    caller: Arc<Caller>,
    parent: Option<Context>,
}

impl Flight {
    async fn run(self, body: Bytes) {
        let Ok(Message::Request { id, method, params }) = Message::parse(&body) else { return };
        // It can be called off also while it waits for its turn.
        let _place = {
            let (_airborne, grounded) = self.session.take_off(id.get());
            tokio::select! {
                biased;
                grounded = grounded => {
                    if let Ok(Grounded::ShuttingDown) = grounded {
                        let method = method.name();
                        let era = face::Request::new(id, &method, params).era();
                        self.caller.push(Kind::Answer, Failure::ShuttingDown.answer(era, &method, id.get()));
                    }
                    return;
                }
                place = self.streams.calls.acquire() => match place {
                    Ok(place) => place,
                    Err(_) => return,
                },
            }
        };
        let method = method.name();
        let request = face::Request::new(id, &method, params).within(self.parent);
        let answer =
            fly(&self.board, &self.face, &self.session, &self.caller, request, Via::Registry, None).await;
        // One that was cancelled has none.
        if let Ok(answer) = answer {
            self.caller.push(Kind::Answer, answer);
        }
        self.streams.touch();
    }
}

/// Closes a stream however its call ends.
pub(super) struct Closing(pub(super) Arc<Mailbox>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

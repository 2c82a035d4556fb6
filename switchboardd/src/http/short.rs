//! The short way: what shims send, which is nearly everything, goes past the router. Its layers and boxed futures cost
//! more than all that is done for a message, and a daemon that nobody looks at never builds it.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::header::ORIGIN;
use axum::http::{Method, Request};
use axum::response::{IntoResponse, Response};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use switchboard_wire::hop::{MAILBOX, OPEN_SESSION, PROXY};

use super::door::Door;
use super::{gate, hop, proxy};
use crate::board::Board;
use crate::face::Face;

/// An answer to a message, or whatever a route or a refusal makes.
pub(super) type Answered = Response<Either<Full<Bytes>, Body>>;

#[derive(Debug, Clone, Copy)]
pub(super) enum Short {
    Message,
    Open,
    Poll,
}

impl Short {
    /// `None` for what the router has to look at.
    pub(super) fn of<B>(request: &Request<B>) -> Option<Self> {
        // What a browser sends is answered with more headers.
        if *request.method() != Method::POST || request.headers().contains_key(ORIGIN) {
            return None;
        }
        match request.uri().path() {
            PROXY => Some(Self::Message),
            OPEN_SESSION => Some(Self::Open),
            MAILBOX => Some(Self::Poll),
            _ => None,
        }
    }

    pub(super) async fn answer(
        self,
        board: &Arc<Board>,
        door: &Arc<Door>,
        request: Request<Incoming>,
    ) -> Answered {
        let shown = gate::shown(board, door, &request);
        let mut answer = match gate::admit(board, door.way(), shown, &request) {
            Ok(_) => self.admitted(board, door, request).await,
            Err(refusal) => refusal.into_response().map(Either::Right),
        };
        gate::mark(door.way(), shown, &mut answer);
        answer
    }

    async fn admitted(self, board: &Arc<Board>, door: &Arc<Door>, request: Request<Incoming>) -> Answered {
        let (state, way) = (State(board.clone()), Extension(door.clone()));
        let answered = match self {
            Self::Message => {
                let answer = proxy::post(board, &Face::Aggregate, Some(door), request).await;
                answer.map(|answer| answer.map(Either::Left))
            }
            Self::Open => {
                hop::open(state, way, request.map(Body::new)).await.map(|answer| answer.map(Either::Right))
            }
            Self::Poll => {
                hop::poll(state, way, request.map(Body::new)).await.map(|answer| answer.map(Either::Right))
            }
        };
        answered.unwrap_or_else(|refusal| refusal.into_response().map(Either::Right))
    }
}

//! Bypasses the router for the requests of shims and for the messages of hosts that speak HTTP, which are
//! nearly all requests. The router's layers and boxed futures cost more than handling a message, and a daemon
//! that serves only these never builds it.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::header::ORIGIN;
use axum::http::{Method, Request};
use axum::response::{IntoResponse, Response};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use switchboard_wire::hop::{MAILBOX, OPEN_SESSION, PROXY};

use super::auth::Access;
use super::connection::AcceptedConnection;
use super::{auth, hop, paths, proxy, streamable};
use crate::face::Face;
use crate::state::Daemon;

/// A full body for a message; a boxed body for all else.
pub(super) type FastResponse = Response<Either<Full<Bytes>, Body>>;

#[derive(Debug, Clone, Copy)]
pub(super) enum FastPath {
    Message,
    /// A message over Streamable HTTP.
    Streamable,
    Open,
    Poll,
}

impl FastPath {
    /// `None` if the router must handle the request.
    pub(super) fn of<B>(request: &Request<B>) -> Option<Self> {
        // Browsers need CORS headers in the response, which the router adds.
        if *request.method() != Method::POST || request.headers().contains_key(ORIGIN) {
            return None;
        }
        match request.uri().path() {
            PROXY => Some(Self::Message),
            paths::STREAMABLE => Some(Self::Streamable),
            OPEN_SESSION => Some(Self::Open),
            MAILBOX => Some(Self::Poll),
            _ => None,
        }
    }

    pub(super) async fn answer(
        self,
        daemon: &Arc<Daemon>,
        accepted: &Arc<AcceptedConnection>,
        request: Request<Incoming>,
    ) -> FastResponse {
        let shown = auth::credential(daemon, accepted, &request);
        let mut answer = match auth::authorize(daemon, accepted.peer_address(), shown, &request) {
            Ok(access) => self.dispatch(daemon, accepted, access, request).await,
            Err(refusal) => refusal.into_response().map(Either::Right),
        };
        auth::add_security_headers(accepted.peer_address(), shown, &mut answer);
        answer
    }

    async fn dispatch(
        self,
        daemon: &Arc<Daemon>,
        accepted: &Arc<AcceptedConnection>,
        access: Access,
        request: Request<Incoming>,
    ) -> FastResponse {
        let (state, connection) = (State(daemon.clone()), Extension(accepted.clone()));
        let answered = match self {
            Self::Message => {
                let answer = proxy::post(daemon, &Face::Aggregate, Some(accepted), request).await;
                answer.map(|answer| answer.map(Either::Left))
            }
            Self::Streamable => streamable::post(daemon, Face::Aggregate, access, request)
                .await
                .map(|answer| answer.map(Either::Right)),
            Self::Open => hop::open(state, connection, request.map(Body::new))
                .await
                .map(|answer| answer.map(Either::Right)),
            Self::Poll => hop::poll(state, connection, request.map(Body::new))
                .await
                .map(|answer| answer.map(Either::Right)),
        };
        answered.unwrap_or_else(|refusal| refusal.into_response().map(Either::Right))
    }
}

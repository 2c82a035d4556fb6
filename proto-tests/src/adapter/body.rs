//! Response bodies: one JSON object, nothing, or a stream of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;

pub(super) enum Body {
    Whole(Option<Bytes>),
    Events(Events),
}

/// Messages as server-sent events, up to and including the response.
pub(super) struct Events {
    first: Option<Value>,
    messages: Receiver<Value>,
    ended: bool,
    /// Whether the stream stays open after a response.
    endless: bool,
    /// Written before the first message.
    preface: Option<Bytes>,
    /// Dropped with the stream, so that its owner learns that the client is gone.
    _guard: Box<dyn Send + Sync>,
}

pub(super) fn empty(status: StatusCode) -> Response<Body> {
    whole(status, None)
}

pub(super) fn json(status: StatusCode, message: &Value) -> Response<Body> {
    let mut response = whole(status, Some(message.to_string().into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(super) fn refuse(status: StatusCode, id: &Value, code: i64, why: &str) -> Response<Body> {
    json(status, &json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": why}}))
}

fn whole(status: StatusCode, body: Option<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::Whole(body));
    *response.status_mut() = status;
    response
}

pub(super) fn events(
    first: Option<Value>,
    messages: Receiver<Value>,
    guard: impl Send + Sync + 'static,
) -> Response<Body> {
    let endless = false;
    stream(Events { first, messages, ended: false, endless, preface: None, _guard: Box::new(guard) })
}

/// A stream that carries all messages of the server, after `preface`, and does not end with a response.
pub(super) fn endless(
    preface: String,
    messages: Receiver<Value>,
    guard: impl Send + Sync + 'static,
) -> Response<Body> {
    let (preface, endless) = (Some(preface.into()), true);
    stream(Events { first: None, messages, ended: false, endless, preface, _guard: Box::new(guard) })
}

fn stream(events: Events) -> Response<Body> {
    let mut response = Response::new(Body::Events(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("cache-control", HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

pub(super) fn is_response(message: &Value) -> bool {
    message.get("method").is_none()
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Self::Events(events) => events.poll(cx).map(|event| event.map(|event| Ok(Frame::data(event)))),
        }
    }
}

impl Events {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(preface) = self.preface.take() {
            return Poll::Ready(Some(preface));
        }
        let message = match self.first.take() {
            Some(first) => Some(first),
            None => match self.messages.poll_recv(cx) {
                Poll::Ready(message) => message,
                Poll::Pending => return Poll::Pending,
            },
        };
        let Some(message) = message else { return Poll::Ready(None) };
        self.ended = !self.endless && is_response(&message);
        Poll::Ready(Some(format!("event: message\ndata: {message}\n\n").into()))
    }
}

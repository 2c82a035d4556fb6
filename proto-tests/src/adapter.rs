//! The adapter: a stdio MCP server behind Streamable HTTP, for tests that speak HTTP only.
//!
//! Modern requests share one process of the server ([`modern`]); each legacy session has its own
//! ([`legacy`]), and so does each stream of the older SSE transport ([`old_sse`]). The adapter implements the
//! HTTP side: Host and Origin, headers, status codes, streams. It leaves MCP to the server and never answers
//! in its place where it can ask the server.
//!
//! Not a product: messages are limited to 4 MiB, streams cannot be resumed, and numbers that do not fit a
//! double lose precision.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, ORIGIN};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;

use body::{Body, empty, refuse};
use classify::Verdict;

mod body;
mod classify;
mod gate;
mod headers;
mod legacy;
mod modern;
mod old_sse;
mod pipe;

/// The endpoint's path.
const PATH: &str = "/mcp";
const BODY_LIMIT: usize = 4 * 1024 * 1024;

struct Adapter {
    port: u16,
    modern: Arc<modern::Shared>,
    legacy: legacy::Sessions,
    old_sse: old_sse::Streams,
}

/// Serves `command` until the process ends.
pub async fn serve(listener: TcpListener, command: Vec<String>) {
    let port = listener.local_addr().expect("a bound listener has an address").port();
    let command: Arc<[String]> = command.into();
    let adapter = Arc::new(Adapter {
        port,
        modern: Arc::new(modern::Shared::new(Arc::clone(&command))),
        legacy: legacy::Sessions::new(Arc::clone(&command)),
        old_sse: old_sse::Streams::new(command),
    });
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let adapter = Arc::clone(&adapter);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let adapter = Arc::clone(&adapter);
                async move { Ok::<_, Infallible>(adapter.answer(request).await) }
            });
            // Errors on a connection concern only the client.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

impl Adapter {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let headers = request.headers();
        if !gate::host_is_ours(&headers.get_all(HOST), self.port)
            || !gate::origin_is_ours(&headers.get_all(ORIGIN), self.port)
        {
            return refuse(StatusCode::FORBIDDEN, &Value::Null, -32600, "`Host` or `Origin` is not ours");
        }
        match (request.method(), request.uri().path()) {
            (&Method::GET, old_sse::STREAM) => return self.old_sse.open(),
            (&Method::POST, old_sse::MESSAGES) => return self.old_message(request).await,
            (_, PATH) => {}
            (_, old_sse::STREAM) => return empty(StatusCode::METHOD_NOT_ALLOWED),
            _ => return empty(StatusCode::NOT_FOUND),
        }
        match *request.method() {
            Method::POST => self.post(request).await,
            Method::GET => self.legacy.listen(headers),
            Method::DELETE => self.legacy.delete(headers),
            _ => empty(StatusCode::METHOD_NOT_ALLOWED),
        }
    }

    async fn old_message(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let Ok(body) = read(body).await else { return empty(StatusCode::PAYLOAD_TOO_LARGE) };
        match serde_json::from_slice::<Value>(&body) {
            Ok(message) => self.old_sse.take(head.uri.query(), &message),
            Err(_) => empty(StatusCode::BAD_REQUEST),
        }
    }

    async fn post(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        if !gate::names(&head.headers, CONTENT_TYPE, "application/json") {
            return empty(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        if !gate::accepts_both(&head.headers) {
            return empty(StatusCode::NOT_ACCEPTABLE);
        }
        let Ok(body) = read(body).await else { return empty(StatusCode::PAYLOAD_TOO_LARGE) };
        let Ok(message) = serde_json::from_slice::<Value>(&body) else {
            return refuse(StatusCode::BAD_REQUEST, &Value::Null, -32700, "Parse error");
        };
        match classify::classify(&head.headers, &message) {
            Verdict::Modern => self.modern.answer(&head.headers, message).await,
            Verdict::Legacy => self.legacy.answer(&head.headers, message).await,
            Verdict::Ignored => empty(StatusCode::ACCEPTED),
            Verdict::Refused(code, why) => {
                refuse(StatusCode::BAD_REQUEST, message.get("id").unwrap_or(&Value::Null), code, &why)
            }
        }
    }
}

async fn read(body: Incoming) -> Result<Bytes, ()> {
    Limited::new(body, BODY_LIMIT).collect().await.map(|body| body.to_bytes()).map_err(|_| ())
}

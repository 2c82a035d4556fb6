//! The forwarder: forwards HTTP to another loopback port and adds a bearer token, for clients that cannot.
//!
//! `Host` and `Origin` are forwarded unchanged, so that the server sees hostile ones. Only in a `Host` with
//! the forwarder's own port is the port replaced by the server's, because the server accepts only its own.
//! Bodies stream both ways; when a client disconnects, its connection to the server is closed too.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{Either, Empty};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{AUTHORIZATION, CONNECTION, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

type Answer = Response<Either<ForwardedBody, Empty<Bytes>>>;

/// Serves until the process ends.
pub async fn serve(listener: TcpListener, target: u16, token: String) {
    let own = listener.local_addr().expect("a bound listener has an address").port();
    let bearer = HeaderValue::from_str(&format!("Bearer {token}")).expect("a token that fits a header");
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let bearer = bearer.clone();
        tokio::spawn(async move {
            let service = service_fn(move |mut request| {
                change(request.headers_mut(), own, target, &bearer);
                async move { Ok::<_, Infallible>(forward(request, target).await) }
            });
            // Errors on a connection concern only the client.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn change(headers: &mut HeaderMap, own: u16, target: u16, bearer: &HeaderValue) {
    headers.remove(CONNECTION);
    headers.insert(AUTHORIZATION, bearer.clone());
    let host =
        headers.get(HOST).and_then(|host| host.to_str().ok()).and_then(|host| mapped(host, own, target));
    if let Some(host) = host.and_then(|host| HeaderValue::from_str(&host).ok()) {
        headers.insert(HOST, host);
    }
}

/// The `Host` with the server's port, if it had the forwarder's port.
fn mapped(host: &str, own: u16, target: u16) -> Option<String> {
    let (name, port) = host.rsplit_once(':')?;
    (port == own.to_string()).then(|| format!("{name}:{target}"))
}

async fn forward(request: Request<Incoming>, target: u16) -> Answer {
    match send(request, target).await {
        Ok(answer) => answer,
        Err(error) => {
            eprintln!("forwarder: {error}");
            let mut response = Response::new(Either::Right(Empty::new()));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }
    }
}

async fn send(
    request: Request<Incoming>,
    target: u16,
) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = Connection(tokio::spawn(async move {
        let _ = connection.await;
    }));
    let (mut head, body) = sender.send_request(request).await?.into_parts();
    head.headers.remove(CONNECTION);
    Ok(Response::from_parts(head, Either::Left(ForwardedBody { body, _connection: connection })))
}

/// Closes the connection to the server on drop.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A body from the server, with the connection that it arrives on.
struct ForwardedBody {
    body: Incoming,
    _connection: Connection,
}

impl Body for ForwardedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_port_is_mapped() {
        assert_eq!(mapped("localhost:81", 81, 82).as_deref(), Some("localhost:82"));
        assert_eq!(mapped("[::1]:81", 81, 82).as_deref(), Some("[::1]:82"));
        for host in ["evil.example.com", "localhost", "localhost:83", "evil.example.com:80"] {
            assert_eq!(mapped(host, 81, 82), None, "{host}");
        }
    }

    #[test]
    fn the_origin_stays_and_the_token_is_ours() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("evil.example.com"));
        headers.insert("origin", HeaderValue::from_static("http://evil.example.com"));
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer theirs"));
        change(&mut headers, 81, 82, &HeaderValue::from_static("Bearer ours"));
        assert_eq!(headers[HOST], "evil.example.com");
        assert_eq!(headers["origin"], "http://evil.example.com");
        assert_eq!(headers[AUTHORIZATION], "Bearer ours");
    }
}

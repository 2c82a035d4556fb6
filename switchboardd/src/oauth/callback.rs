//! The local port that a browser returns to after a login: for one answer and a few minutes.
//!
//! Any process on the machine, and any page in a browser, can connect. Only a request with our own `state`
//! ends the wait; all others are rejected and change nothing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use switchboard_wire::secret;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};

const PATH: &str = "/callback";
/// For one request of a local browser.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// A browser opens a few connections, some of them unused. Others can open more: the oldest makes room for
/// the newest.
const MAX_CONNECTIONS: usize = 32;

/// What a valid callback must contain.
#[derive(Debug, Clone)]
pub struct ExpectedCallback {
    pub state: String,
    pub issuer: String,
    /// The authorization server has declared that it always sends its issuer.
    pub names_issuer: bool,
}

/// What the callback contained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackResult {
    Code(String),
    /// The authorization server refused, with this message.
    Denied(String),
    /// The answer names another issuer, or lacks a required one.
    WrongIssuer(Option<String>),
}

/// A bound port, before the first request.
#[derive(Debug)]
pub struct CallbackServer {
    listener: TcpListener,
    port: u16,
}

impl CallbackServer {
    /// `before`: the port to reuse if it is free.
    pub async fn open(before: Option<u16>) -> io::Result<Self> {
        let listener = match before {
            Some(port) => match TcpListener::bind(("127.0.0.1", port)).await {
                Ok(listener) => listener,
                Err(_) => TcpListener::bind(("127.0.0.1", 0)).await?,
            },
            None => TcpListener::bind(("127.0.0.1", 0)).await?,
        };
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn redirect(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the callback. The caller sets the timeout.
    pub async fn answer(self, expected: ExpectedCallback) -> CallbackResult {
        let (tell, mut told) = oneshot::channel();
        let handler = Arc::new(CallbackHandler {
            expected,
            host: format!("127.0.0.1:{}", self.port),
            tell: Mutex::new(Some(tell)),
        });
        let mut visitors = JoinSet::new();
        let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            tokio::select! {
                biased;
                brought = &mut told => {
                    // The browser is still reading its page.
                    let left = tokio::time::timeout(Duration::from_secs(1), async { while visitors.join_next().await.is_some() {} });
                    let _ = left.await;
                    return brought.expect("BUG: the handler outlives the waiting");
                }
                Some(_) = visitors.join_next(), if !visitors.is_empty() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        by_age.retain(|visitor| !visitor.is_finished());
                        if by_age.len() >= MAX_CONNECTIONS && let Some(oldest) = by_age.pop_front() {
                            oldest.abort();
                        }
                        by_age.push_back(visitors.spawn(serve(stream, handler.clone())));
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
            }
        }
    }
}

/// Accepts one answer.
struct CallbackHandler {
    expected: ExpectedCallback,
    host: String,
    // A leaf lock: held only to take the sender.
    tell: Mutex<Option<oneshot::Sender<CallbackResult>>>,
}

async fn serve(stream: TcpStream, handler: Arc<CallbackHandler>) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let answer = handler.receive(&request);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(32 * 1024)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(REQUEST_TIMEOUT, connection).await;
}

impl CallbackHandler {
    fn receive<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        if request.uri().path() != PATH || host != Some(self.host.as_str()) {
            return page(StatusCode::NOT_FOUND, "There is nothing here.");
        }
        if request.method() != Method::GET {
            return page(StatusCode::METHOD_NOT_ALLOWED, "There is nothing to send here.");
        }
        let Some(brought) = judge(request.uri().query().unwrap_or_default(), &self.expected) else {
            return page(StatusCode::BAD_REQUEST, "This is not the login that Switchboard waits for.");
        };
        let Some(tell) = self.tell.lock().expect("BUG: a handler panicked").take() else {
            return page(StatusCode::GONE, "This login is over.");
        };
        let answer = match &brought {
            CallbackResult::Code(_) => {
                page(StatusCode::OK, "Switchboard has what it needs. You can close this window.")
            }
            CallbackResult::Denied(_) | CallbackResult::WrongIssuer(_) => page(
                StatusCode::BAD_REQUEST,
                "The login did not work. You can close this window; Switchboard says why where you started it.",
            ),
        };
        let _ = tell.send(brought);
        answer
    }
}

/// Evaluates a callback; `None` if it does not belong to our request. Pure.
pub fn judge(query: &str, expected: &ExpectedCallback) -> Option<CallbackResult> {
    let mut fields = std::collections::BTreeMap::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        // A repeated parameter means tampering; reject.
        if fields.insert(name.into_owned(), value.into_owned()).is_some() {
            return None;
        }
    }
    if !secret::is_same(fields.get("state")?.as_bytes(), expected.state.as_bytes()) {
        return None;
    }
    // Compared exactly: a similar issuer is another one.
    match fields.remove("iss") {
        Some(issuer) if issuer == expected.issuer => {}
        None if !expected.names_issuer => {}
        other => return Some(CallbackResult::WrongIssuer(other)),
    }
    if let Some(error) = fields.get("error") {
        let why = fields.get("error_description").map_or(String::new(), |why| format!(": {why}"));
        return Some(CallbackResult::Denied(super::error_response::shortened(&format!("{error}{why}"))));
    }
    fields.remove("code").filter(|code| !code.is_empty()).map(CallbackResult::Code)
}

/// A page that loads, runs and frames nothing.
fn page(status: StatusCode, says: &'static str) -> Response<Full<Bytes>> {
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Switchboard</title><p>{says}</p></html>\n"
    );
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("referrer-policy", HeaderValue::from_static("no-referrer"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(names_issuer: bool) -> ExpectedCallback {
        ExpectedCallback { state: "s1".to_owned(), issuer: "https://as".to_owned(), names_issuer }
    }

    #[track_caller]
    fn check(query: &str, names_issuer: bool, expect: Option<&CallbackResult>) {
        assert_eq!(judge(query, &expected(names_issuer)).as_ref(), expect, "{query}");
    }

    #[test]
    fn only_our_own_state_is_accepted() {
        let code = CallbackResult::Code("c".to_owned());
        check("code=c&state=s1", false, Some(&code));
        check("code=c&state=s1&iss=https%3A%2F%2Fas", true, Some(&code));
        for query in [
            "",
            "code=c",
            "code=c&state=s2",
            "code=c&state=s11",
            "code=c&state=s1&state=s1",
            "state=s1",
            "state=s1&code=",
        ] {
            check(query, false, None);
        }
    }

    #[test]
    fn another_issuer_ends_the_wait() {
        let wrong = |issuer: &str| CallbackResult::WrongIssuer(Some(issuer.to_owned()));
        check("code=c&state=s1&iss=https%3A%2F%2Fevil", false, Some(&wrong("https://evil")));
        check("code=c&state=s1&iss=https%3A%2F%2Fas%2F", true, Some(&wrong("https://as/")));
        check("error=x&state=s1&iss=https%3A%2F%2Fevil", false, Some(&wrong("https://evil")));
        check("code=c&state=s1", true, Some(&CallbackResult::WrongIssuer(None)));
    }

    #[test]
    fn a_refusal_keeps_its_message() {
        check(
            "error=access_denied&error_description=no+%1b%5b31m&state=s1",
            false,
            Some(&CallbackResult::Denied(r"access_denied: no \u{1b}[31m".to_owned())),
        );
    }

    #[tokio::test]
    async fn the_port_takes_one_answer() {
        let callback = CallbackServer::open(None).await.unwrap();
        let (port, redirect) = (callback.port(), callback.redirect());
        let knock = move |target: &'static str, host: String| async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let ours = format!("127.0.0.1:{port}");
        let waiting = tokio::spawn(callback.answer(expected(false)));
        assert!(knock("/", ours.clone()).await.starts_with("HTTP/1.1 404"));
        assert!(
            knock("/callback?code=c&state=s1", "evil.example".to_owned()).await.starts_with("HTTP/1.1 404")
        );
        assert!(knock("/callback?code=c&state=wrong", ours.clone()).await.starts_with("HTTP/1.1 400"));
        let page = knock("/callback?code=c&state=s1", ours).await;
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("default-src 'none'"), "{page}");
        assert_eq!(waiting.await.unwrap(), CallbackResult::Code("c".to_owned()));
        assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
        assert_eq!(redirect, format!("http://127.0.0.1:{port}/callback"));
    }

    #[tokio::test]
    async fn idle_connections_do_not_keep_a_browser_waiting() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let callback = CallbackServer::open(None).await.unwrap();
        let port = callback.port();
        let waiting = tokio::spawn(callback.answer(expected(false)));
        let mut idle = Vec::new();
        for _ in 0..MAX_CONNECTIONS * 2 {
            idle.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
            tokio::task::yield_now().await;
        }
        let mut browser = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let request = format!("GET /callback?code=c&state=s1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
        browser.write_all(request.as_bytes()).await.unwrap();
        let mut page = String::new();
        let read = tokio::time::timeout(REQUEST_TIMEOUT / 2, browser.read_to_string(&mut page)).await;
        assert!(read.is_ok() && page.starts_with("HTTP/1.1 200"), "{page}");
        assert_eq!(waiting.await.unwrap(), CallbackResult::Code("c".to_owned()));
    }
}

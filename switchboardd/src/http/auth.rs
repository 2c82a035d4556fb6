//! Decides for every request whether it may come in, and what it may see and do.
//!
//! A web page in the user's browser can send requests to loopback addresses, and other local users can
//! connect to TCP ports. So on TCP the `Host` must be ours, an `Origin` must be allowed, and everything that
//! acts or shows more than names needs a token. The unix socket admits only its owner.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use switchboard_mcp::header_names;
use switchboard_wire::secret;

use super::connection::AcceptedConnection;
use super::errors::HttpError;
use super::listener::PeerAddress;
use super::{page_files, paths};
use crate::state::Daemon;

/// Headers in which browsers say which site sent a request, and for what.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// What an authorized request may see and do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Everything.
    Full,
    /// Read access for the status page: see everything, change nothing.
    Read,
    /// Names and states only.
    Names,
}

/// The credential that a request carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Credential {
    /// It came on the unix socket, or carries the token.
    Token,
    /// It carries the bearer of a status page.
    Page,
    Nothing,
}

/// The credential of a request. A valid one exempts its connection from the limits for tokenless connections.
pub(super) fn credential<B>(
    daemon: &Daemon,
    connection: &AcceptedConnection,
    request: &Request<B>,
) -> Credential {
    if let PeerAddress::Unix = connection.peer_address() {
        return Credential::Token;
    }
    let shown = match bearer(request.headers()) {
        Some(bearer) if secret::is_same(bearer, daemon.token.as_bytes()) => Credential::Token,
        Some(bearer) if daemon.page_access.is_valid_bearer(bearer) => Credential::Page,
        _ => return Credential::Nothing,
    };
    connection.token_accepted();
    shown
}

/// Adds the headers that every response on TCP has: no sniffing, same origin only. A connection without a
/// credential is closed after its response.
pub(super) fn add_security_headers<B>(peer: &PeerAddress, shown: Credential, response: &mut Response<B>) {
    if let PeerAddress::Unix = peer {
        return;
    }
    let headers = response.headers_mut();
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    if shown == Credential::Nothing {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

pub(super) async fn check(State(daemon): State<Arc<Daemon>>, mut request: Request, next: Next) -> Response {
    let origin =
        request.headers().get(ORIGIN).filter(|_| origin_is_allowed(&daemon, request.headers())).cloned();
    let connection = request
        .extensions()
        .get::<Arc<AcceptedConnection>>()
        .expect("BUG: every request comes on a connection")
        .clone();
    let shown = credential(&daemon, &connection, &request);
    let mut response = match authorize(&daemon, connection.peer_address(), shown, &request) {
        Ok(_) if request.method() == Method::OPTIONS => options(request.uri().path(), origin.is_some()),
        Ok(access) => {
            request.extensions_mut().insert(access);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    };
    // An allowed page may also read the error of a refused request.
    if let Some(origin) = origin {
        response.headers_mut().insert("access-control-allow-origin", origin);
        response.headers_mut().insert("vary", HeaderValue::from_static("origin"));
        let exposed = HeaderValue::from_static(header_names::SESSION_ID);
        response.headers_mut().insert("access-control-expose-headers", exposed);
    }
    add_security_headers(connection.peer_address(), shown, &mut response);
    response
}

/// Whether the request is authorized, and for what.
pub(super) fn authorize<B>(
    daemon: &Daemon,
    peer: &PeerAddress,
    shown: Credential,
    request: &Request<B>,
) -> Result<Access, HttpError> {
    if !host_is_ours(request, peer) {
        return Err(HttpError::Forbidden("the `Host` of this request is not ours"));
    }
    if !(origin_is_allowed(daemon, request.headers()) || is_own_page(request)) {
        return Err(HttpError::Forbidden("the `Origin` of this request is not allowed"));
    }
    if is_of_another_site(request) {
        return Err(HttpError::Forbidden("a page of another site may not ask for this"));
    }
    if matches!(peer, PeerAddress::Unix) || request.method() == Method::OPTIONS {
        return Ok(Access::Full);
    }
    let path = request.uri().path();
    if path.starts_with("/hop/") || path.starts_with("/control/") {
        return Err(HttpError::SocketOnly);
    }
    if shown == Credential::Token {
        return Ok(Access::Full);
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match path {
        "/health" | "/ready" | "/version" if reads => Ok(Access::Full),
        _ if reads && is_for_pages(path) && shown == Credential::Page => Ok(Access::Read),
        // The page's files hold no data. The page exchanges a code for its bearer.
        _ if reads && (page_files::find(path).is_some() || path == paths::PAGE_PROOF) => Ok(Access::Names),
        paths::PAGE_SESSION if *request.method() == Method::POST => Ok(Access::Names),
        _ if reads && is_discovery(path) && daemon.catalog().config().http.open_discovery => {
            Ok(Access::Names)
        }
        _ => Err(HttpError::NoToken),
    }
}

/// True without an `Origin`, or with a single one that the config allows.
fn origin_is_allowed(daemon: &Daemon, headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    let Some(origin) = origins.next() else { return true };
    let catalog = daemon.catalog();
    let known =
        catalog.config().http.allowed_origins.iter().any(|known| known.as_bytes() == origin.as_bytes());
    known && origins.next().is_none()
}

/// True if a browser reports that a page of another site sent the request. Requests with an `Origin` are not
/// decided here: `origin_is_allowed` has checked them. Any site may link to the status page.
fn is_of_another_site<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    let is_ours = |site: &HeaderValue| site == "same-origin" || site == "none";
    if headers.get_all(SITE).iter().all(is_ours) || headers.contains_key(ORIGIN) {
        return false;
    }
    let is_followed_link = *request.method() == Method::GET
        && request.uri().path() == "/"
        && headers.get(MODE).is_some_and(|mode| mode == "navigate");
    !is_followed_link
}

/// True for requests of our own status page, which has the same origin. It may read, and exchange its code
/// for a bearer; nothing else.
fn is_own_page<B>(request: &Request<B>) -> bool {
    let (headers, path) = (request.headers(), request.uri().path());
    let wanted = match *request.method() {
        Method::GET | Method::HEAD => {
            is_for_pages(path) || page_files::find(path).is_some() || path == paths::PAGE_PROOF
        }
        Method::POST => path == paths::PAGE_SESSION,
        _ => false,
    };
    wanted && is_same_origin(headers)
}

/// True for exactly one `Origin` that equals the `Host`, which was checked before.
pub(super) fn is_same_origin(headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else { return false };
    let host = headers.get(HOST).map(HeaderValue::as_bytes);
    origin.as_bytes().strip_prefix(b"http://").is_some_and(|origin| Some(origin) == host)
}

/// The paths that a status page reads.
fn is_for_pages(path: &str) -> bool {
    matches!(path, "/status" | "/savings" | paths::PAGE_FEED) || is_under(path, "/suites")
}

fn is_discovery(path: &str) -> bool {
    path == "/status" || is_under(path, "/suites") || is_under(path, "/proxy")
}

fn is_under(path: &str, root: &str) -> bool {
    path == root || path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'))
}

/// True for exactly one `Host` that names the address we listen on.
fn host_is_ours<B>(request: &Request<B>, peer: &PeerAddress) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let named = request.uri().authority().map(|target| target.as_str().as_bytes());
    is_ours(host.as_bytes(), peer) && named.is_none_or(|host| is_ours(host, peer))
}

fn is_ours(host: &[u8], peer: &PeerAddress) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    match peer {
        // Shims write it like this.
        PeerAddress::Unix => host == "localhost" || host.eq_ignore_ascii_case("localhost"),
        PeerAddress::Tcp(address) => {
            let Some((name, port)) = host.rsplit_once(':') else { return false };
            let known = name.eq_ignore_ascii_case("localhost") || matches!(name, "127.0.0.1" | "[::1]");
            known && port == address.port().to_string()
        }
    }
}

/// The value of the only `Authorization: Bearer` header.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, bearer) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| bearer.trim_ascii())
}

fn options(path: &str, cross_origin: bool) -> Response {
    let allow = if path == "/proxy" || path.starts_with("/proxy/") {
        "POST, GET, OPTIONS"
    } else if path == "/mcp" || path.starts_with("/mcp/") {
        paths::STREAMABLE_METHODS
    } else if path.starts_with("/hop/") || path.starts_with("/control/") || path == paths::PAGE_SESSION {
        "POST, OPTIONS"
    } else {
        "GET, HEAD, OPTIONS"
    };
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert("allow", HeaderValue::from_static(allow));
    if cross_origin {
        headers.insert("access-control-allow-methods", HeaderValue::from_static(allow));
        let allowed = [
            "authorization",
            "content-type",
            "accept",
            header_names::LAST_EVENT_ID,
            header_names::PROTOCOL_VERSION,
            header_names::SESSION_ID,
            header_names::METHOD,
            header_names::NAME,
        ];
        let allowed =
            HeaderValue::from_str(&allowed.join(", ")).expect("BUG: header names are a header value");
        headers.insert("access-control-allow-headers", allowed);
        headers.insert("access-control-max-age", HeaderValue::from_static("600"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_with_our_port_are_ours() {
        let tcp = PeerAddress::Tcp("127.0.0.1:7420".parse().unwrap());
        for host in ["127.0.0.1:7420", "localhost:7420", "LOCALHOST:7420", "[::1]:7420"] {
            assert!(is_ours(host.as_bytes(), &tcp), "{host}");
        }
        for host in [
            "",
            "localhost",
            "127.0.0.1",
            "localhost:80",
            "evil.example:7420",
            "localhost.:7420",
            "localhost.evil.example:7420",
            "127.0.0.1.:7420",
            "127.1:7420",
            "0.0.0.0:7420",
            "[::]:7420",
            "::1:7420",
            "user@localhost:7420",
            " localhost:7420",
            "localhost:7420 ",
            "localhost:07420",
            "127.0.0.1:7420:7420",
        ] {
            assert!(!is_ours(host.as_bytes(), &tcp), "{host}");
        }
        assert!(is_ours(b"localhost", &PeerAddress::Unix));
        assert!(!is_ours(b"localhost:80", &PeerAddress::Unix));
    }

    #[test]
    fn only_an_origin_equal_to_the_host_is_same_origin() {
        let with = |origins: &[&str]| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "127.0.0.1:7420".parse().unwrap());
            for origin in origins {
                headers.append(ORIGIN, origin.parse().unwrap());
            }
            is_same_origin(&headers)
        };
        assert!(with(&["http://127.0.0.1:7420"]));
        for origins in [
            &[][..],
            &["null"],
            &["http://localhost:7420"],
            &["https://127.0.0.1:7420"],
            &["http://127.0.0.1:7420/"],
            &["http://127.0.0.1:74200"],
            &["http://127.0.0.1"],
            &["http://evil.example"],
            &["http://127.0.0.1:7420", "http://evil.example"],
            &["http://127.0.0.1:7420", "http://127.0.0.1:7420"],
        ] {
            assert!(!with(origins), "{origins:?}");
        }
    }

    #[test]
    fn pages_of_other_sites_may_link_and_nothing_else() {
        let check = |path: &str, headers: &[(&str, &str)]| {
            let request = headers
                .iter()
                .fold(Request::builder().uri(path), |request, (name, value)| request.header(*name, *value));
            is_of_another_site(&request.body(()).unwrap())
        };
        for path in ["/", "/health", "/version", "/status", "/page/page.css", "/proxy"] {
            assert!(!check(path, &[]), "{path}");
            for site in ["same-origin", "none"] {
                assert!(!check(path, &[("sec-fetch-site", site)]), "{path} {site}");
            }
            for site in ["cross-site", "same-site", "", "x"] {
                assert!(check(path, &[("sec-fetch-site", site)]), "{path} {site}");
                assert!(check(path, &[("sec-fetch-site", site), ("sec-fetch-mode", "no-cors")]), "{path}");
            }
            assert!(check(path, &[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")]), "{path}");
        }
        let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert!(!check("/", &link) && check("/status", &link) && check("/health", &link));
        let allowed = [("sec-fetch-site", "cross-site"), ("origin", "https://allowed.example")];
        assert!(!check("/status", &allowed), "the `Origin` was looked at before");
    }

    #[test]
    fn tokens_match_whole_or_not_at_all() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            bearer(&headers).is_some_and(|bearer| secret::is_same(bearer, b"abc123"))
        };
        assert!(with("Bearer abc123") && with("bearer abc123"));
        for wrong in
            ["Bearer abc12", "Bearer abc1234", "abc123", "Basic abc123", "Bearer", "Bearer ", "Bearer ABC123"]
        {
            assert!(!with(wrong), "{wrong}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}

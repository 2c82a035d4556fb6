//! The routes of the status page: its static files, the exchange of a code for a bearer, and the feed that
//! keeps the page up to date.

mod feed;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Query, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde_json::json;
use switchboard_definitions::digest;
use switchboard_wire::event_loop::run_blocking;

use super::auth::{Access, is_same_origin};
use super::errors::{HttpError, json_response};
use super::page_files;
use crate::reload::Reloader;
use crate::state::Daemon;
use crate::state::page_access::{BEARER_LIFE, FEEDS};

/// Any local user can post a code, so size and time are limited.
const CODE_BYTES: usize = 1024;
const CODE_TIME: Duration = Duration::from_secs(5);
/// What a page sends to be answered with a proof.
const NONCE_BYTES: usize = 32;

/// Only our own files: nothing from other origins, nothing inline, no HTML built from strings.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

pub(super) async fn part(uri: Uri, headers: HeaderMap) -> Result<Response, HttpError> {
    let part = page_files::find(uri.path());
    let part = part.ok_or_else(|| HttpError::NotFound(format!("there is nothing at `{}`", uri.path())))?;
    let tag = format!("\"{}\"", &digest::hex(part.body.as_bytes())[..32]);
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|known| known.to_str().ok());
    let is_known = known.flat_map(|known| known.split(',')).any(|known| {
        let known = known.trim();
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
    });
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = Response::new(Body::from(part.body));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(part.kind));
        response
    };
    let tag = HeaderValue::from_str(&tag).expect("BUG: hex digits are a header");
    response.headers_mut().insert(ETAG, tag);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    Ok(response)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeExchange {
    code: String,
}

/// Exchanges a code for a bearer. Same-origin only: browsers set `Origin` on a POST.
pub(super) async fn exchange(
    State(daemon): State<Arc<Daemon>>,
    request: Request,
) -> Result<Response, HttpError> {
    if !is_same_origin(request.headers()) {
        return Err(HttpError::Forbidden("only the status page itself can ask for this"));
    }
    let body = Limited::new(request.into_body(), CODE_BYTES).collect();
    let body = tokio::time::timeout(CODE_TIME, body).await.map_err(|_| HttpError::Incomplete)?;
    let body = body.map_err(|_| HttpError::BadRequest(format!("not a code: over {CODE_BYTES} bytes")))?;
    let entry: CodeExchange = serde_json::from_slice(&body.to_bytes())
        .map_err(|_| HttpError::BadRequest("not a code: `{\"code\": …}` is wanted".to_owned()))?;
    let bearer = daemon.page_access.exchange(&entry.code).ok_or(HttpError::WrongCode)?;
    tracing::debug!(target: "page", "a status page was let in");
    let access = daemon.page_access.clone();
    run_blocking(move || access.store()).await;
    let life = u64::try_from(BEARER_LIFE.as_millis()).unwrap_or(u64::MAX);
    let answer = json!({ "bearer": bearer, "expiresMs": life });
    let mut response = json_response(StatusCode::OK, answer.to_string());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProofQuery {
    nonce: String,
}

/// Shows a page whom it talks to, before it sends its bearer.
pub(super) async fn proof(
    State(daemon): State<Arc<Daemon>>,
    Query(ProofQuery { nonce }): Query<ProofQuery>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    if nonce.len() != 2 * NONCE_BYTES || !nonce.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(HttpError::BadRequest(format!(
            "`nonce` is not {NONCE_BYTES} bytes in hexadecimal digits"
        )));
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let answer = json!({ "proofs": daemon.page_access.proofs(host, &nonce) });
    let mut response = json_response(StatusCode::OK, answer.to_string());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The status, sent again whenever it changes.
pub(super) async fn feed(
    State(daemon): State<Arc<Daemon>>,
    State(reloader): State<Arc<Reloader>>,
    Extension(access): Extension<Access>,
) -> Result<Response, HttpError> {
    if access == Access::Names {
        return Err(HttpError::NoToken);
    }
    if let Some(draining) = daemon.draining() {
        return Err(HttpError::Draining(draining));
    }
    let feed = daemon.page_access.feed().ok_or_else(|| {
        HttpError::Busy(format!("{FEEDS} status pages are kept up to date already; close one of them"))
    })?;
    Ok(feed::response(daemon, reloader, feed))
}

//! Sends one HTTP request to a remote child and returns the response head. Handles credentials, challenges
//! and redirects, so that callers see only the final response.
//!
//! The daemon's headers and the definition's are sent only to the origin that the definition names. They
//! never contain anything from a host's request.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST,
    HeaderMap, HeaderName, HeaderValue, LOCATION, TE, TRANSFER_ENCODING, UPGRADE, WWW_AUTHENTICATE,
};
use reqwest::{Method, Response, StatusCode, Url};
use switchboard_definitions::definition::{DisplayUrl, ResolvedRemote};
use switchboard_wire::framing::MAX_MESSAGE;

use super::RemoteError;
use super::address::resolve_redirect;
use super::auth::{AuthDecision, Authorizer, Challenge};
use super::http_clients::root_cause;
use crate::caller::Caller;
use crate::child::clip::{clip, cut};

/// Limit of redirects that one request follows.
const MAX_HOPS: usize = 4;
/// How much of an error response is read.
const MAX_REFUSAL: usize = 256 * 1024;

/// Headers that belong to the connection or that only the daemon sets.
const RESERVED_HEADERS: [HeaderName; 8] =
    [ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TE, TRANSFER_ENCODING, UPGRADE];

#[derive(Debug)]
pub(super) struct RemoteClient {
    http: reqwest::Client,
    pub(super) url: Url,
    /// The URL for messages to the user.
    pub(super) shown: DisplayUrl,
    /// Headers that the definition sets.
    headers: HeaderMap,
    /// `None` if the definition sets `Authorization` itself.
    authorizer: Option<Arc<dyn Authorizer>>,
}

/// A request, without the parts that every request has.
#[derive(Debug, Clone)]
pub(super) struct RemoteRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The caller whose call it is.
    pub(super) caller: Option<Arc<Caller>>,
}

impl RemoteClient {
    pub(super) fn new(
        http: reqwest::Client,
        url: Url,
        to: &ResolvedRemote,
        authorizer: Arc<dyn Authorizer>,
    ) -> Result<Self, RemoteError> {
        let headers = headers(to)?;
        let authorizer = (!headers.contains_key(AUTHORIZATION)).then_some(authorizer);
        Ok(Self { http, url, shown: to.shown.clone(), headers, authorizer })
    }

    /// Sends a request, and again after a challenge or a redirect, but never after the server accepted it.
    pub(super) async fn send(&self, outgoing: RemoteRequest) -> Result<Response, RemoteError> {
        self.send_inner(outgoing).await.map_err(|error| error.without_values(&self.shown))
    }

    async fn send_inner(&self, mut outgoing: RemoteRequest) -> Result<Response, RemoteError> {
        let (mut hops, mut challenged) = (0, false);
        loop {
            let used = match &self.authorizer {
                Some(authorizer) => authorizer.bearer().await?,
                None => None,
            };
            let response = self.send_once(&outgoing, used.as_ref()).await?;
            let status = response.status();
            if let Some(url) = redirected(&outgoing.url, &response)? {
                hops += 1;
                if hops > MAX_HOPS {
                    return Err(RemoteError::BadRedirect);
                }
                outgoing.url = url;
                continue;
            }
            if !is_challenge(&response) {
                return reject_encoded(response);
            }
            let header = challenges(&response);
            let Some(authorizer) = &self.authorizer else {
                return Err(RemoteError::Forbidden {
                    status: status.as_u16(),
                    said: refusal(response).await,
                });
            };
            if !challenged {
                challenged = true;
                let challenge = Challenge {
                    status: status.as_u16(),
                    www_authenticate: header.as_deref(),
                    used: used.as_ref(),
                    from: response.remote_addr(),
                    caller: outgoing.caller.as_ref(),
                };
                if authorizer.challenged(challenge).await? == AuthDecision::Again {
                    continue;
                }
            }
            return Err(RemoteError::Status { status: status.as_u16(), said: refusal(response).await });
        }
    }

    async fn send_once(
        &self,
        outgoing: &RemoteRequest,
        bearer: Option<&HeaderValue>,
    ) -> Result<Response, RemoteError> {
        let mut headers = self.headers.clone();
        headers.extend(outgoing.headers.clone());
        if let Some(bearer) = bearer {
            headers.insert(AUTHORIZATION, bearer.clone());
        }
        let request = self
            .http
            .request(outgoing.method.clone(), outgoing.url.clone())
            .headers(headers)
            .body(outgoing.body.clone());
        request.send().await.map_err(|error| match error.is_connect() {
            true => RemoteError::Unreachable { why: self.unreachable(&root_cause(&error)) },
            false => RemoteError::Cut { why: lost_message(&error) },
        })
    }

    /// The error with the URL as written in the file, and a hint if the server seems to speak plain HTTP.
    fn unreachable(&self, cause: &str) -> String {
        let is_plain = self.url.scheme() == "https"
            && ["InvalidContentType", "corrupt message"].iter().any(|sign| cause.contains(sign));
        let hint = if is_plain { "; it seems to speak plain `http`, not `https`" } else { "" };
        format!("{cause} (`{}`){hint}", self.shown.url)
    }
}

/// The headers of the definition, without those that users may not set.
fn headers(to: &ResolvedRemote) -> Result<HeaderMap, RemoteError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &to.headers {
        let name: HeaderName = name
            .parse()
            .map_err(|_| RemoteError::Unreachable { why: format!("`{name}` cannot name a header") })?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| RemoteError::Unreachable {
            why: format!("the value of the header `{name}` has characters that no header can have"),
        })?;
        value.set_sensitive(true);
        if !RESERVED_HEADERS.contains(&name) {
            headers.insert(name, value);
        }
    }
    Ok(headers)
}

fn is_challenge(response: &Response) -> bool {
    match response.status() {
        StatusCode::UNAUTHORIZED => true,
        StatusCode::FORBIDDEN => response.headers().contains_key(WWW_AUTHENTICATE),
        _ => false,
    }
}

/// All challenges of the server, joined into one header.
fn challenges(response: &Response) -> Option<String> {
    let all = response.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|header| header.to_str().ok());
    let all: Vec<&str> = all.collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// The target of a redirect that repeats the request.
fn redirected(from: &Url, response: &Response) -> Result<Option<Url>, RemoteError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    match resolve_redirect(from, location.ok_or(RemoteError::BadRedirect)?) {
        Ok(url) => Ok(Some(url)),
        Err(Some(to)) => Err(RemoteError::CrossOriginRedirect { to }),
        Err(None) => Err(RemoteError::BadRedirect),
    }
}

/// Refuses compressed bodies: nothing is decompressed, so a body cannot expand.
fn reject_encoded(response: Response) -> Result<Response, RemoteError> {
    match response.headers().get(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            let encoding = String::from_utf8_lossy(encoding.as_bytes());
            Err(RemoteError::Encoded { encoding: clip(&encoding).to_owned() })
        }
        _ => Ok(response),
    }
}

/// The media type of a response, without parameters.
pub(super) fn content_type(response: &Response) -> String {
    let header = response.headers().get(CONTENT_TYPE).and_then(|header| header.to_str().ok());
    header.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[derive(Debug)]
pub(super) enum RemoteBody {
    Whole(Bytes),
    /// Over the limit; the size is at least this.
    TooLong(u64),
}

pub(super) async fn body(mut response: Response) -> Result<RemoteBody, RemoteError> {
    let told = response.content_length().unwrap_or(0);
    if told > MAX_MESSAGE as u64 {
        return Ok(RemoteBody::TooLong(told));
    }
    let mut whole = BytesMut::new();
    while let Some(chunk) = next_chunk(&mut response).await? {
        if whole.is_empty() && chunk.len() as u64 == told {
            return Ok(RemoteBody::Whole(chunk));
        }
        whole.extend_from_slice(&chunk);
        if whole.len() > MAX_MESSAGE {
            return Ok(RemoteBody::TooLong(whole.len() as u64));
        }
    }
    Ok(RemoteBody::Whole(whole.freeze()))
}

/// The beginning of a body that says why a request was refused.
pub(super) async fn refusal_bytes(mut response: Response) -> Bytes {
    let mut whole = BytesMut::new();
    while let Ok(Some(chunk)) = next_chunk(&mut response).await {
        whole.extend_from_slice(&chunk);
        if whole.len() > MAX_REFUSAL {
            whole.truncate(MAX_REFUSAL);
            break;
        }
    }
    whole.freeze()
}

async fn refusal(response: Response) -> String {
    let is_text = matches!(content_type(&response).as_str(), "text/plain" | "application/json");
    if is_text { shown(&refusal_bytes(response).await) } else { String::new() }
}

/// A server's text for our messages: one line of limited length. [`RemoteError::without_values`] redacts it and
/// makes hidden characters visible.
pub(super) fn shown(body: &[u8]) -> String {
    const MAX_BYTES: usize = 300;
    let text = String::from_utf8_lossy(body);
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    cut(&line, MAX_BYTES).to_owned()
}

pub(super) async fn next_chunk(response: &mut Response) -> Result<Option<Bytes>, RemoteError> {
    response.chunk().await.map_err(|error| RemoteError::Cut { why: lost_message(&error) })
}

fn lost_message(error: &reqwest::Error) -> String {
    format!("lost the connection ({})", root_cause(error))
}

//! The few requests a login makes. They are bounded in time and size, never follow redirects to another
//! origin, and never reach a more private network than the server's own (SSRF guard).
//!
//! An [`OauthHttp`] is created for one task and then dropped: a daemon without logins has none.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use switchboard_mcp::methods;
use switchboard_wire::rpc;
use url::Url;

use super::address_scope::AddressScope;
use super::metadata::{self, InvalidMetadata};
use crate::child::remote::http_clients::external_client;
use crate::system::environment::ChildEnvironment;

/// For one request, including its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest known documents of this kind have 20 KiB.
const MAX_BODY: usize = 256 * 1024;
/// Redirects within one origin.
const MAX_HOPS: usize = 3;

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("{0}")]
    InvalidUrl(#[from] InvalidMetadata),
    #[error("`{url}` gave no answer: {why}")]
    Unreached { url: String, why: String },
    #[error("`{url}` gave no whole answer within {} s", REQUEST_TIMEOUT.as_secs())]
    Late { url: String },
    #[error("the answer of `{url}` is longer than {} KiB", MAX_BODY / 1024)]
    TooLong { url: String },
    #[error("`{0}` redirects to another address, which is not followed")]
    Redirected(String),
    #[error("`{url}` is {}, and a server that is not must not lead there", .address_scope.as_str())]
    TooPrivate { url: String, address_scope: AddressScope },
    #[error("no HTTP client could be made: {0}")]
    NoClient(String),
}

/// A complete response.
#[derive(Debug)]
pub struct FetchResponse {
    pub status: StatusCode,
    pub body: Vec<u8>,
    /// The values of all `WWW-Authenticate` headers, joined.
    pub challenge: Option<String>,
}

#[derive(Debug)]
pub struct OauthHttp {
    client: Client,
    min_scope: Arc<MinScope>,
}

impl OauthHttp {
    /// For a login to this server. `met`: the scope of its address when its challenge arrived. A name can
    /// resolve to different addresses over time; the more public scope counts.
    pub async fn new(
        server: &Url,
        met: Option<AddressScope>,
        variables: &ChildEnvironment,
    ) -> Result<Self, FetchError> {
        let nearest = Arc::new(MinScope::new(
            address_scope_of(server).await.max(met.unwrap_or(AddressScope::Loopback)),
        ));
        let resolver = Resolver { min_scope: nearest.clone() };
        // Behind a proxy, the proxy resolves names.
        let client = external_client(variables, |client| {
            client.dns_resolver(Arc::new(resolver)).timeout(REQUEST_TIMEOUT).pool_max_idle_per_host(0)
        });
        let client = client.await.map_err(|error| FetchError::NoClient(error.to_string()))?;
        Ok(Self { client, min_scope: nearest })
    }

    /// Fetches a document; follows redirects within its origin.
    pub async fn document(&self, url: &Url) -> Result<FetchResponse, FetchError> {
        let ask = |at: &Url| Ok(self.request(Method::GET, at)?.header(ACCEPT, "application/json"));
        self.follow_redirects(url, false, ask).await
    }

    /// Sends a request without a token; follows redirects within its origin.
    pub async fn probe(&self, url: &Url) -> Result<FetchResponse, FetchError> {
        let ask = |at: &Url| {
            Ok(self
                .request(Method::POST, at)?
                .header(CONTENT_TYPE, "application/json")
                .header(ACCEPT, "application/json, text/event-stream")
                .body(rpc::request("0", methods::PING, None)))
        };
        self.follow_redirects(url, true, ask).await
    }

    /// `is_server`: the server itself answers, and its address may raise the scope.
    async fn follow_redirects(
        &self,
        url: &Url,
        is_server: bool,
        ask: impl Fn(&Url) -> Result<RequestBuilder, FetchError>,
    ) -> Result<FetchResponse, FetchError> {
        let mut at = url.clone();
        for _ in 0..=MAX_HOPS {
            let response = self.send(ask(&at)?, &at).await?;
            if is_server && let Some(from) = response.remote_addr() {
                self.min_scope.raise(AddressScope::of(from.ip()));
            }
            if !response.status().is_redirection() {
                return finish(response, &at).await;
            }
            let next = response.headers().get(LOCATION).and_then(|place| at.join(place.to_str().ok()?).ok());
            at = next
                .filter(|next| next.origin() == url.origin())
                .ok_or_else(|| FetchError::Redirected(shown(&at)))?;
        }
        Err(FetchError::Redirected(shown(url)))
    }

    /// Posts JSON; a redirect is an error.
    pub async fn post(&self, url: &Url, body: String) -> Result<FetchResponse, FetchError> {
        let request = self.request(Method::POST, url)?;
        let request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json");
        let response = self.send(request.body(body), url).await?;
        if response.status().is_redirection() {
            return Err(FetchError::Redirected(shown(url)));
        }
        finish(response, url).await
    }

    /// Posts a form, with the client's id and secret in a header if given.
    pub async fn form(
        &self,
        url: &Url,
        fields: &[(&str, &str)],
        basic: Option<(&str, &str)>,
    ) -> Result<FetchResponse, FetchError> {
        let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut request = self
            .request(Method::POST, url)?
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json")
            .body(body);
        if let Some((id, secret)) = basic {
            request = request.basic_auth(encode(id), Some(encode(secret)));
        }
        finish(self.send(request, url).await?, url).await
    }

    fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, FetchError> {
        metadata::endpoint("endpoint", url.as_str())?;
        match AddressScope::of_url(url) {
            Some(address_scope) if address_scope < self.min_scope.get() => {
                Err(FetchError::TooPrivate { url: shown(url), address_scope })
            }
            _ => Ok(self.client.request(method, url.clone())),
        }
    }

    async fn send(&self, request: RequestBuilder, url: &Url) -> Result<Response, FetchError> {
        request.send().await.map_err(|error| failed(&error, url))
    }
}

async fn finish(mut response: Response, url: &Url) -> Result<FetchResponse, FetchError> {
    let status = response.status();
    let said = response.headers().get_all("www-authenticate").iter().filter_map(|value| value.to_str().ok());
    let said: Vec<&str> = said.collect();
    let challenge = (!said.is_empty()).then(|| said.join(", "));
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error, url))? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(FetchError::TooLong { url: shown(url) });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(FetchResponse { status, body, challenge })
}

/// The innermost cause, without the URL: its query may hold a secret.
fn failed(error: &reqwest::Error, url: &Url) -> FetchError {
    if error.is_timeout() {
        return FetchError::Late { url: shown(url) };
    }
    let mut reason: &dyn std::error::Error = error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    FetchError::Unreached { url: shown(url), why: reason.to_string() }
}

/// A URL for messages: without its query.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// The scope of a server: that of its most public address, so that adding a private one gains nothing. A name
/// that does not resolve counts as public: it will not be reached either.
async fn address_scope_of(server: &Url) -> AddressScope {
    if let Some(address_scope) = AddressScope::of_url(server) {
        return address_scope;
    }
    let Some(host) = server.host_str() else { return AddressScope::Public };
    match tokio::net::lookup_host((host, 0)).await {
        Ok(addresses) => {
            addresses.map(|address| AddressScope::of(address.ip())).max().unwrap_or(AddressScope::Public)
        }
        Err(_) => AddressScope::Public,
    }
}

/// The most private address scope that the server may lead to: its own.
#[derive(Debug)]
struct MinScope(Mutex<AddressScope>);

impl MinScope {
    fn new(address_scope: AddressScope) -> Self {
        Self(Mutex::new(address_scope))
    }

    fn get(&self) -> AddressScope {
        *self.0.lock().expect("BUG: a note panicked")
    }

    fn raise(&self, address_scope: AddressScope) {
        let mut nearest = self.0.lock().expect("BUG: a note panicked");
        *nearest = address_scope.max(*nearest);
    }
}

/// Resolves names, and drops addresses more private than the server's.
struct Resolver {
    min_scope: Arc<MinScope>,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let nearest = self.min_scope.get();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let fit: Vec<SocketAddr> =
                found.iter().copied().filter(|address| AddressScope::of(address.ip()) >= nearest).collect();
            if fit.is_empty() && !found.is_empty() {
                return Err("it is nearer than the server that led there".into());
            }
            Ok(Box::new(fit.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_public_server_cannot_lead_to_private_addresses() {
        let fetch =
            OauthHttp::new(&Url::parse("https://1.1.1.1/mcp").unwrap(), None, &ChildEnvironment::default())
                .await
                .unwrap();
        leads_nowhere_near(&fetch).await;
        let refused = fetch.document(&Url::parse("http://example.com/x").unwrap()).await.unwrap_err();
        assert!(matches!(refused, FetchError::InvalidUrl(_)), "{refused}");
    }

    /// The name now resolves to this machine, but the server that asked for the login was public.
    #[tokio::test]
    async fn a_name_that_moves_does_not_lower_the_scope() {
        let name = Url::parse("http://localhost:9/mcp").unwrap();
        let fetch =
            OauthHttp::new(&name, Some(AddressScope::Public), &ChildEnvironment::default()).await.unwrap();
        leads_nowhere_near(&fetch).await;
    }

    async fn leads_nowhere_near(fetch: &OauthHttp) {
        for near in ["http://127.0.0.1:9/x", "http://localhost:9/x", "https://10.0.0.1/x", "https://[::1]/x"]
        {
            let refused = fetch.document(&Url::parse(near).unwrap()).await.unwrap_err();
            assert!(matches!(refused, FetchError::TooPrivate { .. }), "{near}: {refused}");
        }
    }

    #[test]
    fn shown_urls_have_no_query() {
        let url = Url::parse("https://x/a?code=secret#s").unwrap();
        assert_eq!(shown(&url), "https://x/a");
    }
}

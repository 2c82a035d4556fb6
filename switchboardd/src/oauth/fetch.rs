//! The few requests a login makes. Each is short, small, goes where it was sent and no nearer to home than the
//! server itself is: whoever answers decides neither what else we speak to, nor how much we read.
//!
//! A [`Fetch`] is made for one errand and dropped after it: a daemon that logs in nowhere carries none of this.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oauth2::{AsyncHttpClient, HttpRequest, HttpResponse};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use switchboard_wire::rpc;
use url::Url;

use super::address_scope::AddressScope;
use super::metadata::{self, InvalidMetadata};
use crate::child::remote::http_clients::external_client;
use crate::environment::Variables;
use crate::methods;

/// For one request, with everything that belongs to it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest documents of this kind that are known have 20 KiB.
const MAX_BODY: usize = 256 * 1024;
/// From one place of a host to another of the same.
const MAX_HOPS: usize = 3;

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("{0}")]
    Unfit(#[from] InvalidMetadata),
    #[error("`{url}` gave no answer: {why}")]
    Unreached { url: String, why: String },
    #[error("`{url}` gave no whole answer within {} s", REQUEST_TIMEOUT.as_secs())]
    Late { url: String },
    #[error("the answer of `{url}` is longer than {} KiB", MAX_BODY / 1024)]
    TooLong { url: String },
    #[error("`{0}` leads elsewhere, which is not followed")]
    Elsewhere(String),
    #[error("`{url}` is {}, and a server that is not must not lead there", .address_scope.word())]
    TooNear { url: String, address_scope: AddressScope },
    #[error("no HTTP client could be made: {0}")]
    NoClient(String),
}

/// A whole answer.
#[derive(Debug)]
pub struct Fetched {
    pub status: StatusCode,
    pub body: Vec<u8>,
    /// What a `WWW-Authenticate` said, all of them joined.
    pub challenge: Option<String>,
}

#[derive(Debug)]
pub struct Fetch {
    client: Client,
    nearest: Arc<Nearest>,
}

impl Fetch {
    /// For a login to this server. `met`: how far away it was when it was heard of. A name can lead to one place now
    /// and to another one then; what counts is the farther one.
    pub async fn new(
        server: &Url,
        met: Option<AddressScope>,
        variables: &Variables,
    ) -> Result<Self, FetchError> {
        let nearest =
            Arc::new(Nearest::new(address_scope_of(server).await.max(met.unwrap_or(AddressScope::Loopback))));
        let resolver = Resolver { nearest: nearest.clone() };
        // Behind a proxy, it is the proxy that looks names up.
        let client = external_client(variables, |client| {
            client.dns_resolver(Arc::new(resolver)).timeout(REQUEST_TIMEOUT).pool_max_idle_per_host(0)
        });
        let client = client.await.map_err(|error| FetchError::NoClient(error.to_string()))?;
        Ok(Self { client, nearest })
    }

    /// A document; redirects within its host are followed.
    pub async fn document(&self, url: &Url) -> Result<Fetched, FetchError> {
        let ask = |at: &Url| Ok(self.request(Method::GET, at)?.header(ACCEPT, "application/json"));
        self.follow(url, false, ask).await
    }

    /// What a server says to somebody without a token; redirects within its host are followed.
    pub async fn probe(&self, url: &Url) -> Result<Fetched, FetchError> {
        let ask = |at: &Url| {
            Ok(self
                .request(Method::POST, at)?
                .header(CONTENT_TYPE, "application/json")
                .header(ACCEPT, "application/json, text/event-stream")
                .body(rpc::request("0", methods::PING, None)))
        };
        self.follow(url, true, ask).await
    }

    /// `is_server`: it is the server itself that answers, and tells by it how far away it is.
    async fn follow(
        &self,
        url: &Url,
        is_server: bool,
        ask: impl Fn(&Url) -> Result<RequestBuilder, FetchError>,
    ) -> Result<Fetched, FetchError> {
        let mut at = url.clone();
        for _ in 0..=MAX_HOPS {
            let response = self.send(ask(&at)?, &at).await?;
            if is_server && let Some(from) = response.remote_addr() {
                self.nearest.raise(AddressScope::of(from.ip()));
            }
            if !response.status().is_redirection() {
                return finish(response, &at).await;
            }
            let next = response.headers().get(LOCATION).and_then(|place| at.join(place.to_str().ok()?).ok());
            at = next
                .filter(|next| next.origin() == url.origin())
                .ok_or_else(|| FetchError::Elsewhere(shown(&at)))?;
        }
        Err(FetchError::Elsewhere(shown(url)))
    }

    /// JSON, which goes to that place or nowhere.
    pub async fn post(&self, url: &Url, body: String) -> Result<Fetched, FetchError> {
        let request = self.request(Method::POST, url)?;
        let request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json");
        let response = self.send(request.body(body), url).await?;
        if response.status().is_redirection() {
            return Err(FetchError::Elsewhere(shown(url)));
        }
        finish(response, url).await
    }

    /// A form, with the name and secret of the client in its header if there are any.
    pub async fn form(
        &self,
        url: &Url,
        fields: &[(&str, &str)],
        basic: Option<(&str, &str)>,
    ) -> Result<Fetched, FetchError> {
        let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut request = self
            .request(Method::POST, url)?
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body);
        if let Some((id, secret)) = basic {
            request = request.basic_auth(encode(id), Some(encode(secret)));
        }
        finish(self.send(request, url).await?, url).await
    }

    /// What the `oauth2` crate wants to have sent.
    async fn carry(&self, request: HttpRequest) -> Result<HttpResponse, FetchError> {
        let (parts, body) = request.into_parts();
        let url = metadata::endpoint("token endpoint", &parts.uri.to_string())?;
        let request = self.request(parts.method, &url)?.headers(parts.headers).body(body);
        let fetched = finish(self.send(request, &url).await?, &url).await?;
        let mut response = HttpResponse::new(fetched.body);
        *response.status_mut() = fetched.status;
        Ok(response)
    }

    fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, FetchError> {
        metadata::endpoint("endpoint", url.as_str())?;
        match AddressScope::of_url(url) {
            Some(address_scope) if address_scope < self.nearest.get() => {
                Err(FetchError::TooNear { url: shown(url), address_scope })
            }
            _ => Ok(self.client.request(method, url.clone())),
        }
    }

    async fn send(&self, request: RequestBuilder, url: &Url) -> Result<Response, FetchError> {
        request.send().await.map_err(|error| failed(&error, url))
    }
}

impl<'c> AsyncHttpClient<'c> for Fetch {
    type Error = FetchError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, FetchError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.carry(request))
    }
}

async fn finish(mut response: Response, url: &Url) -> Result<Fetched, FetchError> {
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
    Ok(Fetched { status, body, challenge })
}

/// The innermost reason, without the URL: its query may hold what is nobody's business.
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

/// A URL as people see it: without its query.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// How near a server is: as far away as the farthest of its addresses, so that nobody gets nearer by adding one. One
/// that cannot be found now is taken to be far away: it will not be reached either.
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

/// The nearest address scope that a server may lead to: its own.
#[derive(Debug)]
struct Nearest(Mutex<AddressScope>);

impl Nearest {
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

/// Looks names up, and keeps what is nearer than the server to itself.
struct Resolver {
    nearest: Arc<Nearest>,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let nearest = self.nearest.get();
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
    async fn a_server_in_the_world_leads_to_nothing_near() {
        let fetch = Fetch::new(&Url::parse("https://1.1.1.1/mcp").unwrap(), None, &Variables::default())
            .await
            .unwrap();
        leads_nowhere_near(&fetch).await;
        let refused = fetch.document(&Url::parse("http://example.com/x").unwrap()).await.unwrap_err();
        assert!(matches!(refused, FetchError::Unfit(_)), "{refused}");
    }

    /// Its name leads to this machine by now; the one who asked for the login was elsewhere.
    #[tokio::test]
    async fn a_name_that_moves_does_not_bring_a_server_nearer() {
        let name = Url::parse("http://localhost:9/mcp").unwrap();
        let fetch = Fetch::new(&name, Some(AddressScope::Public), &Variables::default()).await.unwrap();
        leads_nowhere_near(&fetch).await;
    }

    async fn leads_nowhere_near(fetch: &Fetch) {
        for near in ["http://127.0.0.1:9/x", "http://localhost:9/x", "https://10.0.0.1/x", "https://[::1]/x"]
        {
            let refused = fetch.document(&Url::parse(near).unwrap()).await.unwrap_err();
            assert!(matches!(refused, FetchError::TooNear { .. }), "{near}: {refused}");
        }
    }

    #[test]
    fn what_is_shown_has_no_query() {
        let url = Url::parse("https://x/a?code=secret#s").unwrap();
        assert_eq!(shown(&url), "https://x/a");
    }
}

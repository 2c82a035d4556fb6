//! The HTTP client behind all remote children. Made when the first one is reached: whoever has none pays nothing for
//! it, and certificates are read only for those that need them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Proxy, Url};
use tokio::sync::OnceCell;

use super::RemoteError;
use super::address::is_loopback;
use crate::environment::Variables;
use crate::event_loop::{may_block, spawn_blocking};

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(10);
/// A connection that nobody used for this long is closed, before servers and routers forget it.
const IDLE: Duration = Duration::from_secs(55);
const IDLE_PER_HOST: usize = 4;

const PROXY: [&str; 2] = ["https_proxy", "HTTPS_PROXY"];
const ALL_PROXY: [&str; 2] = ["all_proxy", "ALL_PROXY"];
const NO_PROXY: [&str; 2] = ["no_proxy", "NO_PROXY"];
const SSL_CERT_FILE: &str = "SSL_CERT_FILE";

/// No process has a number as high as those of children that run elsewhere.
const FIRST_NUMBER: u32 = 1 << 31;

#[derive(Debug, Default)]
pub struct HttpClients {
    /// For this machine: no certificates, no proxy.
    local: OnceCell<Client>,
    /// For other machines, with what it was made by. Whoever makes it holds it.
    external: tokio::sync::Mutex<Option<(NetworkSettings, Client)>>,
    reached: AtomicU32,
}

impl HttpClients {
    /// A number for a child that has no process.
    pub(super) fn number(&self) -> u32 {
        FIRST_NUMBER + self.reached.fetch_add(1, Ordering::Relaxed) % FIRST_NUMBER
    }

    pub async fn client(&self, url: &Url, variables: &Variables) -> Result<Client, RemoteError> {
        let unusable = |error: reqwest::Error| RemoteError::Unreachable { why: root_cause(&error) };
        if is_loopback(url) && url.scheme() == "http" {
            let client = self.local.get_or_try_init(|| async {
                provide();
                plain().no_proxy().tls_certs_only([]).build()
            });
            return client.await.cloned().map_err(unusable);
        }
        let settings = NetworkSettings::of(variables);
        let mut known = self.external.lock().await;
        if let Some((_, client)) = known.as_ref().filter(|(made_by, _)| *made_by == settings) {
            return Ok(client.clone());
        }
        // The first one, or the login shell says something else by now.
        let client = external_client(variables, |client| client).await.map_err(unusable)?;
        *known = Some((settings, client.clone()));
        Ok(client)
    }
}

/// What of the login shell's variables decides how other machines are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NetworkSettings(Vec<Option<String>>);

impl NetworkSettings {
    fn of(variables: &Variables) -> Self {
        let names = PROXY.into_iter().chain(ALL_PROXY).chain(NO_PROXY).chain([SSL_CERT_FILE]);
        Self(names.map(|name| variables.get(name).map(ToOwned::to_owned)).collect())
    }
}

/// A client for other machines, by the proxy and with the certificates of the person's login shell.
pub(crate) async fn external_client(
    variables: &Variables,
    adjust: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> reqwest::Result<Client> {
    provide();
    let mut client = plain().no_proxy();
    if let Some(proxy) = proxy(variables) {
        client = client.proxy(proxy);
    }
    let client = adjust(client);
    let file = variables.get(SSL_CERT_FILE).map(ToOwned::to_owned);
    // Reads all certificates of the system.
    let build = move || client.tls_certs_merge(own_certificates(file.as_deref())).build();
    spawn_blocking(build).await.expect("BUG: a build panicked")
}

fn plain() -> ClientBuilder {
    Client::builder()
        .redirect(Policy::none())
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .user_agent(concat!("switchboard/", env!("CARGO_PKG_VERSION")))
        .http1_only()
}

/// Says which code does the encryption; once is enough.
fn provide() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The proxy of the person's login shell.
fn proxy(variables: &Variables) -> Option<Proxy> {
    let first = |names: [&str; 2]| names.into_iter().find_map(|name| variables.get(name));
    let address = first(PROXY).or_else(|| first(ALL_PROXY))?;
    // This machine is never reached through another one.
    let direct = format!("localhost,127.0.0.0/8,::1,{}", first(NO_PROXY).unwrap_or_default());
    let direct = NoProxy::from_string(&direct);
    match Proxy::all(address) {
        Ok(proxy) => Some(proxy.no_proxy(direct)),
        Err(_) => {
            tracing::warn!(target: "remote", "the proxy of your login shell has no valid address and is not used");
            None
        }
    }
}

/// Certificates of the file that the person's login shell names, beside those of the system.
fn own_certificates(file: Option<&str>) -> Vec<Certificate> {
    let Some(file) = file else { return Vec::new() };
    may_block();
    let read = std::fs::read(file).map_err(|error| error.to_string());
    let read = read.and_then(|pem| Certificate::from_pem_bundle(&pem).map_err(|error| error.to_string()));
    read.unwrap_or_else(|why| {
        tracing::warn!(target: "remote", "`SSL_CERT_FILE` `{file}` is not used: {why}");
        Vec::new()
    })
}

/// The innermost reason. The outer ones name the URL, which may hold a secret.
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

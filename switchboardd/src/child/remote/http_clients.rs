//! The HTTP clients for all remote children. Created on first use: without remote children they cost nothing,
//! and certificates are read only if needed.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Identity, NoProxy, Proxy, Url};
use switchboard_definitions::files::regular::{self, Links, OpenFileError};
use switchboard_wire::event_loop::{may_block, run_blocking};
use tokio::sync::OnceCell;

use super::RemoteError;
use super::address::is_loopback;
use crate::system::environment::ChildEnvironment;

/// Larger than any bundle of certificates.
const MAX_PEM_FILE: u64 = 16 * 1024 * 1024;

/// Timeout for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle connections are closed after this time, before servers and routers drop them.
const IDLE_TIMEOUT: Duration = Duration::from_secs(55);
const IDLE_PER_HOST: usize = 4;

const PROXY: [&str; 2] = ["https_proxy", "HTTPS_PROXY"];
const ALL_PROXY: [&str; 2] = ["all_proxy", "ALL_PROXY"];
const NO_PROXY: [&str; 2] = ["no_proxy", "NO_PROXY"];
const SSL_CERT_FILE: &str = "SSL_CERT_FILE";

/// Ids of remote children start here, above every possible pid.
const FIRST_NUMBER: u32 = 1 << 31;

#[derive(Debug, Default)]
pub struct HttpClients {
    /// For this machine: no certificates, no proxy.
    local: OnceCell<Client>,
    /// For other machines, with the settings it was built from. The lock is held while one is built.
    external: tokio::sync::Mutex<Option<(NetworkSettings, Client)>>,
    reached: AtomicU32,
}

impl HttpClients {
    /// An id for a child that has no process.
    pub(super) fn number(&self) -> u32 {
        FIRST_NUMBER + self.reached.fetch_add(1, Ordering::Relaxed) % FIRST_NUMBER
    }

    pub async fn client(&self, url: &Url, variables: &ChildEnvironment) -> Result<Client, RemoteError> {
        let unusable = |error: reqwest::Error| RemoteError::Unreachable { why: root_cause(&error) };
        if is_loopback(url) && url.scheme() == "http" {
            let client = self.local.get_or_try_init(|| async {
                install_crypto();
                base_builder().no_proxy().tls_certs_only([]).build()
            });
            return client.await.cloned().map_err(unusable);
        }
        let settings = NetworkSettings::of(variables);
        let mut known = self.external.lock().await;
        if let Some((_, client)) = known.as_ref().filter(|(made_by, _)| *made_by == settings) {
            return Ok(client.clone());
        }
        // The first client, or the settings of the login shell have changed.
        let client = external_client(variables, |client| client).await.map_err(unusable)?;
        *known = Some((settings, client.clone()));
        Ok(client)
    }
}

/// The variables of the login shell that decide how other machines are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NetworkSettings(Vec<Option<String>>);

impl NetworkSettings {
    fn of(variables: &ChildEnvironment) -> Self {
        let names = PROXY.into_iter().chain(ALL_PROXY).chain(NO_PROXY).chain([SSL_CERT_FILE]);
        Self(names.map(|name| variables.get(name).map(ToOwned::to_owned)).collect())
    }
}

/// A client for other machines, with the proxy and the certificates of the user's login shell.
pub(crate) async fn external_client(
    variables: &ChildEnvironment,
    adjust: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> reqwest::Result<Client> {
    let client = adjust(proxied_builder(variables));
    let file = variables.get(SSL_CERT_FILE).map(ToOwned::to_owned);
    // Reads all certificates of the system.
    let build = move || client.tls_certs_merge(own_certificates(file.as_deref())).build();
    run_blocking(build).await
}

/// A client for other machines, with the proxy of the user's login shell, that trusts these certificates
/// instead of the usual ones, if they are given. `own` identifies us.
pub(crate) async fn pinned_client(
    variables: &ChildEnvironment,
    trusted: Option<Vec<Certificate>>,
    own: Option<Identity>,
) -> reqwest::Result<Client> {
    let with_identity = |client: ClientBuilder| match own {
        Some(own) => client.identity(own),
        None => client,
    };
    match trusted {
        Some(trusted) => with_identity(proxied_builder(variables)).tls_certs_only(trusted).build(),
        None => external_client(variables, with_identity).await,
    }
}

fn proxied_builder(variables: &ChildEnvironment) -> ClientBuilder {
    install_crypto();
    let client = base_builder().no_proxy();
    match proxy(variables) {
        Some(proxy) => client.proxy(proxy),
        None => client,
    }
}

fn base_builder() -> ClientBuilder {
    Client::builder()
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .user_agent(concat!("switchboard/", env!("CARGO_PKG_VERSION")))
        .http1_only()
}

/// Selects the TLS implementation; repeated calls have no effect.
fn install_crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The proxy of the user's login shell.
fn proxy(variables: &ChildEnvironment) -> Option<Proxy> {
    let first = |names: [&str; 2]| names.into_iter().find_map(|name| variables.get(name));
    let address = first(PROXY).or_else(|| first(ALL_PROXY))?;
    // This machine is never reached through a proxy.
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

/// The certificates of the file that the user's login shell names, in addition to those of the system.
fn own_certificates(file: Option<&str>) -> Vec<Certificate> {
    let Some(file) = file else { return Vec::new() };
    may_block();
    let read = read_pem(Path::new(file))
        .and_then(|pem| Certificate::from_pem_bundle(&pem).map_err(|error| error.to_string()));
    read.unwrap_or_else(|why| {
        tracing::warn!(target: "remote", "`SSL_CERT_FILE` `{file}` is not used: {why}");
        Vec::new()
    })
}

/// Reads a file with certificates or a key. Neither a pipe nor a huge file is read.
pub fn read_pem(file: &Path) -> Result<Vec<u8>, String> {
    let (opened, _) = regular::open(file, Links::Follow).map_err(|why| match why {
        OpenFileError::Absent | OpenFileError::DanglingLink => "it does not exist".to_owned(),
        OpenFileError::Irregular => "it is not a regular file".to_owned(),
        OpenFileError::Failed(error) => error.to_string(),
    })?;
    match regular::read_up_to(MAX_PEM_FILE, opened) {
        Ok(Some(pem)) => Ok(pem),
        Ok(None) => Err(format!("it is larger than {} MiB", MAX_PEM_FILE >> 20)),
        Err(error) => Err(error.to_string()),
    }
}

/// The innermost cause. The outer errors name the URL, which may contain a secret.
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

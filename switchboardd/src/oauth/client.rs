//! How we identify ourselves to an authorization server: as a client that the user registered there, by a
//! client metadata document, or by dynamic registration.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error_response::said;
use super::fetch::{FetchError, OauthHttp, shown};
use super::metadata::{self, AuthServerMetadata};
use super::scopes::Scopes;
use crate::system::secrets::SecretString;

/// The client name that users see.
const NAME: &str = "Switchboard";

/// A client as an authorization server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OauthClient {
    pub id: String,
    pub secret: Option<SecretString>,
    pub method: ClientAuthMethod,
    #[serde(rename = "way")]
    pub registration: Registration,
    /// The callback port that it was registered with.
    pub port: Option<u16>,
    /// When its secret expires, in seconds since 1970.
    pub expires: Option<u64>,
}

/// How a client authenticates at a token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientAuthMethod {
    #[serde(rename = "none")]
    Public,
    #[serde(rename = "client_secret_basic")]
    Basic,
    #[serde(rename = "client_secret_post")]
    Post,
}

/// How a client was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Registration {
    /// The user registered it and set it in the config.
    #[serde(rename = "set")]
    Configured,
    /// Its id is the URL of a document about it.
    Document,
    /// We registered it.
    #[serde(rename = "registered")]
    Dynamic,
}

/// The client set in the config for one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PresetClient {
    pub id: String,
    pub secret: Option<SecretString>,
    /// The issuer that it belongs to, if known.
    pub issuer: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum NoClient {
    #[error("{0}")]
    Fetch(#[from] FetchError),
    #[error("{0}")]
    Metadata(#[from] metadata::InvalidMetadata),
    #[error(
        "authorization server `{0}` does not register clients automatically: register one there with the redirect URI \
         `http://127.0.0.1/callback` and set it in the config under `oauth.clients`"
    )]
    NoWay(String),
    #[error("the client in the config is for `{set}`, and this server now wants tokens of `{found}`")]
    OtherIssuer { set: String, found: String },
    #[error("`{place}` refused to register Switchboard ({status}){why}")]
    Refused { place: String, status: u16, why: String },
    #[error(
        "authorization server `{0}` wants clients to identify themselves in a way that Switchboard does not support"
    )]
    NoMethod(String),
}

/// The clients that we could use.
#[derive(Debug, Clone, Copy)]
pub struct ClientOptions<'a> {
    pub preset: Option<&'a PresetClient>,
    /// The URL of our client metadata document.
    pub document: Option<&'a str>,
    /// The client that this authorization server knew before.
    pub before: Option<&'a OauthClient>,
}

/// Whether to use a client or register one.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientPlan {
    Use(OauthClient),
    Register { place: String, method: ClientAuthMethod },
}

impl ClientOptions<'_> {
    /// Chooses a client. Pure.
    pub fn plan(&self, authority: &AuthServerMetadata, now: u64) -> Result<ClientPlan, NoClient> {
        let issuer = || authority.issuer.clone();
        if let Some(preset) = self.preset {
            if let Some(set) = preset.issuer.as_ref().filter(|set| **set != authority.issuer) {
                return Err(NoClient::OtherIssuer { set: set.clone(), found: issuer() });
            }
            let method = with_secret(authority, preset.secret.is_some())
                .ok_or_else(|| NoClient::NoMethod(issuer()))?;
            let (id, secret) = (preset.id.clone(), preset.secret.clone());
            return Ok(ClientPlan::Use(OauthClient {
                id,
                secret,
                method,
                registration: Registration::Configured,
                port: None,
                expires: None,
            }));
        }
        if let (Some(document), true) = (self.document, authority.client_id_metadata_document_supported) {
            let id = document.to_owned();
            let (method, registration) = (ClientAuthMethod::Public, Registration::Document);
            return Ok(ClientPlan::Use(OauthClient {
                id,
                secret: None,
                method,
                registration,
                port: None,
                expires: None,
            }));
        }
        if let Some(before) = self.before
            && before.registration == Registration::Dynamic
            && before.expires.is_none_or(|expires| expires > now)
        {
            return Ok(ClientPlan::Use(before.clone()));
        }
        let place = authority.registration_endpoint.clone().ok_or_else(|| NoClient::NoWay(issuer()))?;
        let method = wanted(authority).ok_or_else(|| NoClient::NoMethod(issuer()))?;
        Ok(ClientPlan::Register { place, method })
    }
}

/// The method for a client with or without a secret.
fn with_secret(authority: &AuthServerMetadata, has_secret: bool) -> Option<ClientAuthMethod> {
    let supported = authority.token_endpoint_auth_methods_supported.as_deref();
    let has = |name: &str| supported.is_none_or(|all| all.iter().any(|method| method == name));
    match has_secret {
        false => Some(ClientAuthMethod::Public),
        true if has("client_secret_basic") => Some(ClientAuthMethod::Basic),
        true if has("client_secret_post") => Some(ClientAuthMethod::Post),
        true => has("none").then_some(ClientAuthMethod::Public),
    }
}

/// The method to register with. A program on a user's machine cannot keep a secret well, so none if possible.
fn wanted(authority: &AuthServerMetadata) -> Option<ClientAuthMethod> {
    let supported = authority.token_endpoint_auth_methods_supported.as_deref();
    let has = |name: &str| supported.is_none_or(|all| all.iter().any(|method| method == name));
    [
        ("none", ClientAuthMethod::Public),
        ("client_secret_basic", ClientAuthMethod::Basic),
        ("client_secret_post", ClientAuthMethod::Post),
    ]
    .into_iter()
    .find_map(|(name, method)| has(name).then_some(method))
}

#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: String,
    client_secret: Option<SecretString>,
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

/// Registers us as a native client with this redirect URI.
pub async fn register(
    fetch: &OauthHttp,
    authority: &AuthServerMetadata,
    place: &str,
    method: ClientAuthMethod,
    redirect: (&str, u16),
    scopes: &Scopes,
) -> Result<OauthClient, NoClient> {
    let (redirect, port) = redirect;
    let mut wanted = json!({
        "client_name": NAME,
        "application_type": "native",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    });
    if !scopes.is_empty() {
        wanted["scope"] = scopes.to_string().into();
    }
    let url = metadata::endpoint("registration endpoint", place)?;
    let fetched = fetch.post(&url, wanted.to_string()).await?;
    let refused = |why| NoClient::Refused { place: shown(&url), status: fetched.status.as_u16(), why };
    if !fetched.status.is_success() {
        return Err(refused(said(&fetched.body)));
    }
    let given: RegistrationResponse = serde_json::from_slice(&fetched.body)
        .map_err(|_| refused(": its answer is not a registration".to_owned()))?;
    Ok(accept(given, authority, port))
}

/// The client as registered, which may differ from what we asked for.
fn accept(given: RegistrationResponse, authority: &AuthServerMetadata, port: u16) -> OauthClient {
    let method = match given.token_endpoint_auth_method.as_deref() {
        Some("none") => Some(ClientAuthMethod::Public),
        Some("client_secret_basic") if given.client_secret.is_some() => Some(ClientAuthMethod::Basic),
        Some("client_secret_post") if given.client_secret.is_some() => Some(ClientAuthMethod::Post),
        _ => with_secret(authority, given.client_secret.is_some()),
    };
    let method = method.unwrap_or(ClientAuthMethod::Public);
    OauthClient {
        id: given.client_id,
        secret: given.client_secret.filter(|_| method != ClientAuthMethod::Public),
        method,
        registration: Registration::Dynamic,
        port: Some(port),
        expires: given.client_secret_expires_at.filter(|at| *at != 0),
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    fn authority(methods: Option<&[&str]>) -> AuthServerMetadata {
        let mut authority = AuthServerMetadata::default_for(&Url::parse("https://as.example").unwrap());
        authority.token_endpoint_auth_methods_supported =
            methods.map(|all| all.iter().map(|method| (*method).to_owned()).collect());
        authority
    }

    fn registered(secret: Option<&str>, method: Option<&str>) -> RegistrationResponse {
        RegistrationResponse {
            client_id: "id".to_owned(),
            client_secret: secret.map(|secret| SecretString::new(secret.to_owned())),
            client_secret_expires_at: Some(0),
            token_endpoint_auth_method: method.map(str::to_owned),
        }
    }

    const NOTHING: ClientOptions<'static> = ClientOptions { preset: None, document: None, before: None };

    #[test]
    fn a_configured_client_comes_first_and_stays_with_its_issuer() {
        let preset = PresetClient {
            id: "mine".to_owned(),
            secret: Some(SecretString::new("s".to_owned())),
            issuer: None,
        };
        let mut server = authority(None);
        server.client_id_metadata_document_supported = true;
        let choice =
            ClientOptions { preset: Some(&preset), document: Some("https://me/c.json"), before: None };
        let ClientPlan::Use(client) = choice.plan(&server, 0).unwrap() else { panic!() };
        assert_eq!(
            (client.id.as_str(), client.method, client.registration),
            ("mine", ClientAuthMethod::Basic, Registration::Configured)
        );
        let bound = PresetClient { issuer: Some("https://other".to_owned()), ..preset.clone() };
        let refused = ClientOptions { preset: Some(&bound), ..choice }.plan(&server, 0);
        assert!(matches!(refused, Err(NoClient::OtherIssuer { .. })));
    }

    #[test]
    fn a_client_document_is_used_where_supported() {
        let mut server = authority(Some(&["none"]));
        let choice = ClientOptions { document: Some("https://me/c.json"), ..NOTHING };
        assert!(matches!(choice.plan(&server, 0).unwrap(), ClientPlan::Register { .. }));
        server.client_id_metadata_document_supported = true;
        let ClientPlan::Use(client) = choice.plan(&server, 0).unwrap() else { panic!() };
        assert_eq!((client.id.as_str(), client.registration), ("https://me/c.json", Registration::Document));
    }

    #[test]
    fn a_registration_is_used_until_it_ends() {
        let server = authority(Some(&["none"]));
        let mut before = accept(registered(None, None), &server, 1);
        before.expires = Some(100);
        let choice = ClientOptions { before: Some(&before), ..NOTHING };
        assert_eq!(choice.plan(&server, 99).unwrap(), ClientPlan::Use(before.clone()));
        assert!(matches!(
            choice.plan(&server, 100).unwrap(),
            ClientPlan::Register { method: ClientAuthMethod::Public, .. }
        ));
        let closed = AuthServerMetadata { registration_endpoint: None, ..server };
        assert!(matches!(NOTHING.plan(&closed, 0), Err(NoClient::NoWay(_))));
    }

    #[test]
    fn the_method_is_one_that_is_supported() {
        let plan = |methods: &[&str]| match NOTHING.plan(&authority(Some(methods)), 0) {
            Ok(ClientPlan::Register { method, .. }) => Some(method),
            _ => None,
        };
        assert_eq!(plan(&["client_secret_post", "none"]), Some(ClientAuthMethod::Public));
        assert_eq!(plan(&["client_secret_post", "client_secret_basic"]), Some(ClientAuthMethod::Basic));
        assert_eq!(plan(&["client_secret_post"]), Some(ClientAuthMethod::Post));
        assert_eq!(plan(&["private_key_jwt"]), None);
    }

    #[test]
    fn the_registered_method_counts() {
        let method = |methods: Option<&[&str]>, secret, method| {
            let client = accept(registered(secret, method), &authority(methods), 1);
            assert_eq!(client.secret.is_some(), client.method != ClientAuthMethod::Public);
            client.method
        };
        assert_eq!(method(None, None, None), ClientAuthMethod::Public);
        assert_eq!(method(None, Some("s"), None), ClientAuthMethod::Basic);
        assert_eq!(method(Some(&["none"]), Some("s"), None), ClientAuthMethod::Public);
        assert_eq!(method(None, Some("s"), Some("client_secret_post")), ClientAuthMethod::Post);
        assert_eq!(method(None, Some("s"), Some("none")), ClientAuthMethod::Public);
        assert_eq!(method(Some(&["client_secret_post"]), Some("s"), Some("odd")), ClientAuthMethod::Post);
    }
}

//! Who we are to an authorization server: a client that the person registered there, a document that describes us,
//! or a registration of our own.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::fetch::{Fetch, FetchError, shown};
use super::metadata::{self, Authority};
use super::scopes::Scopes;
use crate::secrets::Hidden;

/// What a client is called where people see it.
const NAME: &str = "Switchboard";

/// A client as an authorization server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Client {
    pub id: String,
    pub secret: Option<Hidden>,
    pub method: Method,
    pub way: Way,
    /// The port that it was registered with.
    pub port: Option<u16>,
    /// When its secret ends, in seconds since 1970.
    pub expires: Option<u64>,
}

/// How a client shows a token endpoint that it is the one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    #[serde(rename = "none")]
    Public,
    #[serde(rename = "client_secret_basic")]
    Basic,
    #[serde(rename = "client_secret_post")]
    Post,
}

/// How a client came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// The person registered it and set it in their config.
    Set,
    /// Its id is the URL of a document about it.
    Document,
    /// We registered it.
    Registered,
}

/// What the person set for one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preset {
    pub id: String,
    pub secret: Option<Hidden>,
    /// Whose client it is, if the person said so.
    pub issuer: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum NoClient {
    #[error("{0}")]
    Fetch(#[from] FetchError),
    #[error("{0}")]
    Unfit(#[from] metadata::Unfit),
    #[error(
        "authorization server `{0}` registers no clients by itself: register one there with the redirect URI \
         `http://127.0.0.1/callback` and set it in the config under `oauth.clients`"
    )]
    NoWay(String),
    #[error("the client in the config is for `{set}`, and this server now wants tokens of `{found}`")]
    Foreign { set: String, found: String },
    #[error("`{place}` did not register us ({status}){why}")]
    Refused { place: String, status: u16, why: String },
    #[error("authorization server `{0}` wants to know its clients in a way that Switchboard does not have")]
    NoMethod(String),
}

/// What there is to choose from.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    pub preset: Option<&'a Preset>,
    /// The URL of a document about us.
    pub document: Option<&'a str>,
    /// What this authorization server knew us as before.
    pub before: Option<&'a Client>,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Plan {
    Use(Client),
    Register { place: String, method: Method },
}

impl Choice<'_> {
    /// Pure: which of them it is.
    pub fn plan(&self, authority: &Authority, now: u64) -> Result<Plan, NoClient> {
        let issuer = || authority.issuer.clone();
        if let Some(preset) = self.preset {
            if let Some(set) = preset.issuer.as_ref().filter(|set| **set != authority.issuer) {
                return Err(NoClient::Foreign { set: set.clone(), found: issuer() });
            }
            let method = with_secret(authority, preset.secret.is_some())
                .ok_or_else(|| NoClient::NoMethod(issuer()))?;
            let (id, secret) = (preset.id.clone(), preset.secret.clone());
            return Ok(Plan::Use(Client { id, secret, method, way: Way::Set, port: None, expires: None }));
        }
        if let (Some(document), true) = (self.document, authority.client_id_metadata_document_supported) {
            let id = document.to_owned();
            let (method, way) = (Method::Public, Way::Document);
            return Ok(Plan::Use(Client { id, secret: None, method, way, port: None, expires: None }));
        }
        if let Some(before) = self.before
            && before.way == Way::Registered
            && before.expires.is_none_or(|expires| expires > now)
        {
            return Ok(Plan::Use(before.clone()));
        }
        let place = authority.registration_endpoint.clone().ok_or_else(|| NoClient::NoWay(issuer()))?;
        let method = wanted(authority).ok_or_else(|| NoClient::NoMethod(issuer()))?;
        Ok(Plan::Register { place, method })
    }
}

/// The method for a client that has a secret, or none.
fn with_secret(authority: &Authority, has_secret: bool) -> Option<Method> {
    let supported = authority.token_endpoint_auth_methods_supported.as_deref();
    let has = |name: &str| supported.is_none_or(|all| all.iter().any(|method| method == name));
    match has_secret {
        false => Some(Method::Public),
        true if has("client_secret_basic") => Some(Method::Basic),
        true if has("client_secret_post") => Some(Method::Post),
        true => has("none").then_some(Method::Public),
    }
}

/// The method to be registered with: a program on somebody's machine keeps no secret well, so none where that will do.
fn wanted(authority: &Authority) -> Option<Method> {
    let supported = authority.token_endpoint_auth_methods_supported.as_deref();
    let has = |name: &str| supported.is_none_or(|all| all.iter().any(|method| method == name));
    [("none", Method::Public), ("client_secret_basic", Method::Basic), ("client_secret_post", Method::Post)]
        .into_iter()
        .find_map(|(name, method)| has(name).then_some(method))
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<Hidden>,
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

/// Registers us as a program on somebody's machine, with the address that it will be called back at.
pub async fn register(
    fetch: &Fetch,
    authority: &Authority,
    place: &str,
    method: Method,
    redirect: (&str, u16),
    scopes: &Scopes,
) -> Result<Client, NoClient> {
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
        return Err(refused(super::grant::said(&fetched.body)));
    }
    let given: Registered = serde_json::from_slice(&fetched.body)
        .map_err(|_| refused(": its answer is no registration".to_owned()))?;
    Ok(accept(given, authority, port))
}

/// What was registered, which need not be what was asked for.
fn accept(given: Registered, authority: &Authority, port: u16) -> Client {
    let method = match given.token_endpoint_auth_method.as_deref() {
        Some("none") => Some(Method::Public),
        Some("client_secret_basic") if given.client_secret.is_some() => Some(Method::Basic),
        Some("client_secret_post") if given.client_secret.is_some() => Some(Method::Post),
        _ => with_secret(authority, given.client_secret.is_some()),
    };
    let method = method.unwrap_or(Method::Public);
    Client {
        id: given.client_id,
        secret: given.client_secret.filter(|_| method != Method::Public),
        method,
        way: Way::Registered,
        port: Some(port),
        expires: given.client_secret_expires_at.filter(|at| *at != 0),
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    fn authority(methods: Option<&[&str]>) -> Authority {
        let mut authority = Authority::by_default(&Url::parse("https://as.example").unwrap());
        authority.token_endpoint_auth_methods_supported =
            methods.map(|all| all.iter().map(|method| (*method).to_owned()).collect());
        authority
    }

    fn registered(secret: Option<&str>, method: Option<&str>) -> Registered {
        Registered {
            client_id: "id".to_owned(),
            client_secret: secret.map(|secret| Hidden::new(secret.to_owned())),
            client_secret_expires_at: Some(0),
            token_endpoint_auth_method: method.map(str::to_owned),
        }
    }

    const NOTHING: Choice<'static> = Choice { preset: None, document: None, before: None };

    #[test]
    fn what_the_person_set_comes_first_and_stays_with_its_issuer() {
        let preset =
            Preset { id: "mine".to_owned(), secret: Some(Hidden::new("s".to_owned())), issuer: None };
        let mut server = authority(None);
        server.client_id_metadata_document_supported = true;
        let choice = Choice { preset: Some(&preset), document: Some("https://me/c.json"), before: None };
        let Plan::Use(client) = choice.plan(&server, 0).unwrap() else { panic!() };
        assert_eq!((client.id.as_str(), client.method, client.way), ("mine", Method::Basic, Way::Set));
        let bound = Preset { issuer: Some("https://other".to_owned()), ..preset.clone() };
        let refused = Choice { preset: Some(&bound), ..choice }.plan(&server, 0);
        assert!(matches!(refused, Err(NoClient::Foreign { .. })));
    }

    #[test]
    fn a_document_is_used_where_it_is_read() {
        let mut server = authority(Some(&["none"]));
        let choice = Choice { document: Some("https://me/c.json"), ..NOTHING };
        assert!(matches!(choice.plan(&server, 0).unwrap(), Plan::Register { .. }));
        server.client_id_metadata_document_supported = true;
        let Plan::Use(client) = choice.plan(&server, 0).unwrap() else { panic!() };
        assert_eq!((client.id.as_str(), client.way), ("https://me/c.json", Way::Document));
    }

    #[test]
    fn a_registration_is_used_until_it_ends() {
        let server = authority(Some(&["none"]));
        let mut before = accept(registered(None, None), &server, 1);
        before.expires = Some(100);
        let choice = Choice { before: Some(&before), ..NOTHING };
        assert_eq!(choice.plan(&server, 99).unwrap(), Plan::Use(before.clone()));
        assert!(matches!(choice.plan(&server, 100).unwrap(), Plan::Register { method: Method::Public, .. }));
        let closed = Authority { registration_endpoint: None, ..server };
        assert!(matches!(NOTHING.plan(&closed, 0), Err(NoClient::NoWay(_))));
    }

    #[test]
    fn the_method_is_one_that_is_supported() {
        let plan = |methods: &[&str]| match NOTHING.plan(&authority(Some(methods)), 0) {
            Ok(Plan::Register { method, .. }) => Some(method),
            _ => None,
        };
        assert_eq!(plan(&["client_secret_post", "none"]), Some(Method::Public));
        assert_eq!(plan(&["client_secret_post", "client_secret_basic"]), Some(Method::Basic));
        assert_eq!(plan(&["client_secret_post"]), Some(Method::Post));
        assert_eq!(plan(&["private_key_jwt"]), None);
    }

    #[test]
    fn what_was_registered_counts() {
        let method = |methods: Option<&[&str]>, secret, method| {
            let client = accept(registered(secret, method), &authority(methods), 1);
            assert_eq!(client.secret.is_some(), client.method != Method::Public);
            client.method
        };
        assert_eq!(method(None, None, None), Method::Public);
        assert_eq!(method(None, Some("s"), None), Method::Basic);
        assert_eq!(method(Some(&["none"]), Some("s"), None), Method::Public);
        assert_eq!(method(None, Some("s"), Some("client_secret_post")), Method::Post);
        assert_eq!(method(None, Some("s"), Some("none")), Method::Public);
        assert_eq!(method(Some(&["client_secret_post"]), Some("s"), Some("odd")), Method::Post);
    }
}

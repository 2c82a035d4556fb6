//! The two metadata documents of a login, and the checks before they are used. Pure.

use serde::Deserialize;
use url::Url;

use super::address_scope::AddressScope;
use super::well_known;

/// A server's description of itself.
#[derive(Debug, Clone, Deserialize)]
pub struct ResourceMetadata {
    pub resource: String,
    #[serde(default)]
    pub authorization_servers: Vec<String>,
    pub scopes_supported: Option<Vec<String>>,
}

/// An authorization server's description of itself.
#[derive(Debug, Clone, Deserialize)]
pub struct AuthServerMetadata {
    pub issuer: String,
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub registration_endpoint: Option<String>,
    pub revocation_endpoint: Option<String>,
    pub scopes_supported: Option<Vec<String>>,
    pub code_challenge_methods_supported: Option<Vec<String>>,
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    pub client_id_metadata_document_supported: bool,
}

/// Why a document is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMetadata {
    #[error("its metadata is about `{0}`, which it is not")]
    Resource(String),
    #[error("the metadata of authorization server `{asked}` is that of `{found}`")]
    Issuer { asked: String, found: String },
    #[error("authorization server `{0}` does not support PKCE with S256, and no login is safe without it")]
    Pkce(String),
    #[error("`{url}` cannot be used as {what}: {why}")]
    Endpoint { what: &'static str, url: String, why: &'static str },
}

impl ResourceMetadata {
    /// Accepts the document if it is about this server.
    pub fn checked(self, server: &Url) -> Result<Self, InvalidMetadata> {
        if well_known::covers(&self.resource, server) {
            Ok(self)
        } else {
            Err(InvalidMetadata::Resource(self.resource))
        }
    }

    /// The issuer of its tokens: the previous one, if it is still listed.
    pub fn issuer(&self, before: Option<&str>) -> Option<&str> {
        let named = || self.authorization_servers.iter().map(String::as_str);
        named().find(|issuer| Some(*issuer) == before).or_else(|| named().next())
    }
}

impl AuthServerMetadata {
    /// Accepts the document if it is from this issuer, names usable endpoints and supports PKCE.
    pub fn checked(self, issuer: &str) -> Result<Self, InvalidMetadata> {
        // Compared exactly but for a trailing slash, by which alone no two issuers differ.
        if self.issuer.trim_end_matches('/') != issuer.trim_end_matches('/') {
            return Err(InvalidMetadata::Issuer { asked: issuer.to_owned(), found: self.issuer });
        }
        let methods = self.code_challenge_methods_supported.as_deref().unwrap_or_default();
        if !methods.iter().any(|method| method == "S256") {
            return Err(InvalidMetadata::Pkce(self.issuer));
        }
        endpoint("authorization endpoint", &self.authorization_endpoint)?;
        endpoint("token endpoint", &self.token_endpoint)?;
        for more in [&self.registration_endpoint, &self.revocation_endpoint].into_iter().flatten() {
            endpoint("endpoint", more)?;
        }
        Ok(self)
    }

    /// Defaults for a server of revision 2025-03-26 without any metadata.
    pub fn default_for(server: &Url) -> Self {
        let at = |path| well_known::at(server, path, None).into();
        Self {
            issuer: well_known::origin(server),
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: Some(at("/register")),
            revocation_endpoint: None,
            scopes_supported: None,
            code_challenge_methods_supported: None,
            token_endpoint_auth_methods_supported: None,
            authorization_response_iss_parameter_supported: false,
            client_id_metadata_document_supported: false,
        }
    }
}

/// A URL that a login may use: https, or http on this machine.
pub fn endpoint(what: &'static str, text: &str) -> Result<Url, InvalidMetadata> {
    let unfit = |why| InvalidMetadata::Endpoint { what, url: text.to_owned(), why };
    let url = Url::parse(text).map_err(|_| unfit("it is not a URL"))?;
    match url.scheme() {
        "https" => {}
        "http" if AddressScope::of_url(&url) == Some(AddressScope::Loopback) => {}
        "http" => return Err(unfit("it must be https")),
        _ => return Err(unfit("only http and https are opened")),
    }
    if url.host().is_none() || url.fragment().is_some() {
        return Err(unfit("it needs a host and must have no fragment"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unfit("it must name no user"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ISSUER: &str = "https://as.example/t";

    fn authority(change: &Value) -> AuthServerMetadata {
        let mut document = json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://as.example/a",
            "token_endpoint": "https://as.example/t",
            "code_challenge_methods_supported": ["plain", "S256"],
        });
        for (key, value) in change.as_object().unwrap() {
            document[key] = value.clone();
        }
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn an_authority_must_be_the_one_that_was_asked() {
        assert!(authority(&json!({})).checked(ISSUER).is_ok());
        assert!(authority(&json!({})).checked("https://as.example/t/").is_ok());
        for issuer in ["https://as.example", "https://AS.example/t", "http://as.example/t", "https://evil/t"]
        {
            let checked = authority(&json!({})).checked(issuer);
            assert!(matches!(checked, Err(InvalidMetadata::Issuer { .. })), "{issuer}");
        }
    }

    #[test]
    fn without_pkce_there_is_no_login() {
        for methods in [json!(null), json!([]), json!(["plain"])] {
            let checked = authority(&json!({ "code_challenge_methods_supported": methods })).checked(ISSUER);
            assert_eq!(checked.unwrap_err(), InvalidMetadata::Pkce(ISSUER.to_owned()), "{methods}");
        }
    }

    #[test]
    fn endpoints_must_be_https_or_local() {
        for good in ["https://x/a?b", "http://127.0.0.1:1/a", "http://localhost/a", "http://[::1]/a"] {
            assert!(endpoint("e", good).is_ok(), "{good}");
        }
        for bad in [
            "http://x/a",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "ftp://x/",
            "x",
            "",
            "https://x/#f",
            "https://u:p@x/",
            "http://10.0.0.1/",
            "http://localhost.evil/",
            "data:text/html,x",
        ] {
            assert!(endpoint("e", bad).is_err(), "{bad}");
        }
        for key in
            ["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"]
        {
            assert!(authority(&json!({ key: "http://x/a" })).checked(ISSUER).is_err(), "{key}");
        }
    }

    #[test]
    fn metadata_must_be_about_the_server() {
        let server = Url::parse("https://x/mcp").unwrap();
        let of = |resource: &str| ResourceMetadata {
            resource: resource.to_owned(),
            authorization_servers: vec!["a".to_owned(), "b".to_owned()],
            scopes_supported: None,
        };
        assert_eq!(of("https://x/mcp").checked(&server).unwrap().issuer(None), Some("a"));
        assert_eq!(of("https://x").checked(&server).unwrap().issuer(Some("b")), Some("b"));
        assert_eq!(of("https://x").issuer(Some("gone")), Some("a"));
        assert!(of("https://evil/mcp").checked(&server).is_err());
    }

    #[test]
    fn an_old_server_has_endpoints_at_its_root() {
        let authority = AuthServerMetadata::default_for(&Url::parse("http://localhost:1/mcp?x").unwrap());
        assert_eq!(authority.token_endpoint, "http://localhost:1/token");
        assert_eq!(authority.issuer, "http://localhost:1");
    }
}

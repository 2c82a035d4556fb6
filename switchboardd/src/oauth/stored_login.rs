//! What is stored of one login: our client at each authorization server, and the tokens of the last one.

use std::collections::BTreeMap;

use hyper::header::HeaderValue;
use serde::{Deserialize, Serialize};

use super::client::OauthClient;
use super::scopes::Scopes;
use crate::system::secrets::SecretString;

/// A token is renewed this long before it expires, or a fifth of its lifetime before if that is less.
const RENEW_BEFORE_SECONDS: u64 = 60;

/// One login. A client is never shown to another issuer than its own.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredLogin {
    #[serde(default)]
    pub clients: BTreeMap<String, OauthClient>,
    pub grant: Option<Grant>,
}

/// What an authorization server granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    pub issuer: String,
    /// The resource that the tokens are for.
    pub resource: String,
    pub token_endpoint: String,
    pub revocation_endpoint: Option<String>,
    /// The requested scopes, granted or not.
    pub asked: Scopes,
    pub tokens: Tokens,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    pub access: SecretString,
    pub refresh: Option<SecretString>,
    /// In seconds since 1970; `None` if unknown.
    pub ends: Option<u64>,
    pub renew_at: Option<u64>,
    pub scopes: Scopes,
}

impl StoredLogin {
    /// The client that the tokens were issued to.
    pub fn client(&self) -> Option<&OauthClient> {
        self.clients.get(&self.grant.as_ref()?.issuer)
    }

    /// The issuer of the tokens.
    pub fn issuer(&self) -> Option<&str> {
        self.grant.as_ref().map(|grant| grant.issuer.as_str())
    }
}

impl Grant {
    /// Whether new tokens can be had without the user.
    pub fn is_renewable(&self) -> bool {
        self.tokens.refresh.is_some()
    }
}

impl Tokens {
    pub fn new(
        access: String,
        refresh: Option<String>,
        lifetime: Option<u64>,
        scopes: Scopes,
        now: u64,
    ) -> Self {
        Self {
            access: SecretString::new(access),
            refresh: refresh.map(SecretString::new),
            ends: lifetime.map(|life| now.saturating_add(life)),
            renew_at: lifetime.map(|life| now.saturating_add(life - RENEW_BEFORE_SECONDS.min(life / 5))),
            scopes,
        }
    }

    pub fn has_ended(&self, now: u64) -> bool {
        self.ends.is_some_and(|ends| ends <= now)
    }

    pub fn wants_renewal(&self, now: u64) -> bool {
        self.refresh.is_some() && self.renew_at.is_some_and(|at| at <= now)
    }

    /// The value of `Authorization`; `None` if the token does not fit into a header.
    pub fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.access.reveal())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(lifetime: Option<u64>, refresh: Option<&str>) -> Tokens {
        Tokens::new("a".to_owned(), refresh.map(str::to_owned), lifetime, Scopes::default(), 1000)
    }

    #[test]
    fn a_token_is_renewed_before_it_ends() {
        let hour = tokens(Some(3600), Some("r"));
        assert!(!hour.wants_renewal(4539) && hour.wants_renewal(4540) && !hour.has_ended(4599));
        assert!(hour.has_ended(4600));
        let short = tokens(Some(10), Some("r"));
        assert!(!short.wants_renewal(1007) && short.wants_renewal(1008));
        assert!(
            !tokens(Some(10), None).wants_renewal(2000) && !tokens(None, Some("r")).wants_renewal(u64::MAX)
        );
    }

    #[test]
    fn nothing_secret_is_printed() {
        let kept = tokens(None, Some("refresh-secret"));
        let header = kept.header().unwrap();
        assert!(!format!("{kept:?}{header:?}").contains("secret"));
        assert_eq!(header, "Bearer a");
    }
}

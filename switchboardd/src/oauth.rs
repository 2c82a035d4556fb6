//! Logins to remote children: OAuth 2.1 as MCP specifies it.
//!
//! A server that wants a token says so ([`bearer_challenge`]). [`discovery`] finds its authorization server:
//! it reads the documents of [`metadata`] at their [`well_known`] URLs. [`client`] decides how we identify
//! ourselves there. The user opens a page and returns to a local port ([`callback`]) with a code, which is
//! exchanged for tokens ([`grant`]). Tokens are stored ([`stored_login`]) in the keyring or a private file
//! ([`store`]) and renewed once for all who use them ([`login`]).
//!
//! Deliberately absent: hosts' tokens, which never reach a child; a browser, which only the command line
//! opens; and any of this in a daemon without remote children.

pub mod address_scope;
pub mod bearer_challenge;
pub mod callback;
pub mod client;
pub mod discovery;
pub mod error_response;
pub mod fetch;
pub mod grant;
pub mod login;
pub mod metadata;
pub mod pkce;
pub mod scopes;
pub mod store;
pub mod stored_login;
pub mod well_known;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use url::Url;

pub use login::Login;
use store::LoginStore;

use switchboard_definitions::config::OauthConfig;
use switchboard_definitions::definition::DisplayUrl;

use crate::child::remote::auth::{Authorizer, Authorizers};
use crate::child::value_resolver::ValueResolver;

/// More than users have; a definition whose URL keeps changing could create many.
const MAX_LOGINS_KEPT: usize = 64;

/// All logins of the user. Each exists once, shared by everyone who uses it.
#[derive(Debug)]
pub struct Logins {
    store: LoginStore,
    // Leaf locks: held only to read or insert.
    config: Arc<Mutex<OauthConfig>>,
    /// By the name they are stored under.
    known: Mutex<HashMap<String, Arc<Login>>>,
}

impl Authorizers for Logins {
    fn of(&self, child: &str, url: &Url, shown: &DisplayUrl) -> Arc<dyn Authorizer> {
        self.login(child, url, shown)
    }
}

impl Logins {
    pub fn new(state: &Path, resolver: &Arc<ValueResolver>) -> Self {
        Self {
            store: LoginStore::new(state, resolver.clone()),
            config: Arc::default(),
            known: Mutex::default(),
        }
    }

    pub fn set(&self, config: OauthConfig) {
        *self.config.lock().expect("BUG: a note panicked") = config;
    }

    /// Waits until no login is being renewed: a token that was issued but not saved ends the login.
    pub async fn wait_settled(&self) {
        let all: Vec<_> = self.known.lock().expect("BUG: bookkeeping panicked").values().cloned().collect();
        for login in all {
            login.wait_settled().await;
        }
    }

    /// Whether a user is in the middle of a login.
    pub fn is_any_open(&self) -> bool {
        self.known.lock().expect("BUG: bookkeeping panicked").values().any(|login| login.is_open())
    }

    /// The login of this child at this URL.
    pub fn login(&self, child: &str, url: &Url, shown: &DisplayUrl) -> Arc<Login> {
        let mut known = self.known.lock().expect("BUG: bookkeeping panicked");
        // Unused logins are dropped; they are loaded again when needed.
        if known.len() >= MAX_LOGINS_KEPT {
            known.retain(|_, login| Arc::strong_count(login) > 1);
        }
        let name = store::name(child, url.as_str());
        let login = known.entry(name).or_insert_with(|| Login::new(child, url, &self.store, &self.config));
        login.set_display_url(shown);
        login.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_is_notified_although_the_cache_overflows() {
        let state = tempfile::tempdir().unwrap();
        let logins = Logins::new(state.path(), &Arc::new(ValueResolver::new(state.path(), state.path())));
        let login = |number: usize| {
            let url = format!("https://{number}.example/mcp").parse().unwrap();
            logins.login("k", &url, &DisplayUrl::default())
        };
        let waits = login(0).entries();
        (1..=MAX_LOGINS_KEPT).for_each(|number| drop(login(number)));
        assert!(!waits.has_changed());
        login(0).enter();
        assert!(waits.has_changed());
    }
}

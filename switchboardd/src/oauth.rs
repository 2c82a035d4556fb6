//! Logins to remote children that ask for one: OAuth 2.1 as MCP has it.
//!
//! A server that wants a token says so ([`demand`]); from there it is known who gives it out ([`discovery`], which reads
//! the documents of [`metadata`] at the [`places`] for them) and who we are to them ([`client`]). A person then opens a
//! page, and comes back to a port of this machine ([`callback`]) with a code, which is exchanged for tokens ([`grant`]).
//! They are [`kept`] in the keyring or a private file ([`store`]) and renewed by one at a time ([`login`]).
//!
//! Deliberately absent: tokens of hosts, which never reach a child; a browser, which only the command line opens; and
//! anything of this in a daemon that has no remote child.

pub mod address_scope;
pub mod bearer_challenge;
pub mod callback;
pub mod client;
pub mod discovery;
pub mod fetch;
pub mod grant;
pub mod login;
pub mod metadata;
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

use crate::child::remote::auth::{Authorizer, Authorizers};
use crate::config::OauthConfig;
use crate::definition::DisplayUrl;
use crate::value_resolver::ValueResolver;

/// More than anybody has; a definition whose URL keeps changing could make many.
const MAX_KNOWN: usize = 64;

/// All logins of one person, each there once for all who use it.
#[derive(Debug)]
pub struct Logins {
    store: LoginStore,
    // Leaf locks: held for a look or an insert.
    config: Arc<Mutex<OauthConfig>>,
    /// By what they are kept under.
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

    /// Waits until no login is in the middle of being renewed: a token that was given out and not kept ends it.
    pub async fn settled(&self) {
        let all: Vec<_> = self.known.lock().expect("BUG: bookkeeping panicked").values().cloned().collect();
        for login in all {
            login.settled().await;
        }
    }

    /// Whether a person is in the middle of one.
    pub fn any_open(&self) -> bool {
        self.known.lock().expect("BUG: bookkeeping panicked").values().any(|login| login.is_open())
    }

    /// The login to what is reached under this name at this place.
    pub fn login(&self, child: &str, url: &Url, shown: &DisplayUrl) -> Arc<Login> {
        let mut known = self.known.lock().expect("BUG: bookkeeping panicked");
        // Those whom nobody uses are read again when somebody does.
        if known.len() >= MAX_KNOWN {
            known.retain(|_, login| Arc::strong_count(login) > 1);
        }
        let name = store::name(child, url.as_str());
        let login = known.entry(name).or_insert_with(|| Login::new(child, url, &self.store, &self.config));
        login.speaks_of(shown);
        login.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_for_a_login_hears_of_it_however_many_others_there_are() {
        let state = tempfile::tempdir().unwrap();
        let logins = Logins::new(state.path(), &Arc::new(ValueResolver::new(state.path(), state.path())));
        let login = |number: usize| {
            let url = format!("https://{number}.example/mcp").parse().unwrap();
            logins.login("k", &url, &DisplayUrl::default())
        };
        let waits = login(0).entries();
        (1..=MAX_KNOWN).for_each(|number| drop(login(number)));
        assert!(!waits.has_changed());
        login(0).enter();
        assert!(waits.has_changed());
    }
}

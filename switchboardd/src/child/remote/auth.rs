//! The interface between a remote child and the owner of its credentials.
//!
//! The connection asks for a credential before each request and reports when a server refused it. It knows
//! nothing of tokens, grants or browsers. A child whose file sets an `Authorization` header has no
//! authorizer: that header is sent as the user wrote it.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use hyper::header::HeaderValue;
use reqwest::Url;
use switchboard_definitions::definition::DisplayUrl;

use crate::caller::Caller;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Provides the credentials of one remote child.
pub trait Authorizer: Send + Sync + std::fmt::Debug {
    /// The `Authorization` value to send with the next request, refreshed if it is about to expire.
    fn bearer(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, AuthError>>;

    /// The server answered 401, or 403 with a challenge, to a request that carried `used`. `Again`: there is
    /// another token now, retry once; an error says what the user has to do.
    fn challenged<'a>(&'a self, challenge: Challenge<'a>) -> BoxFuture<'a, Result<AuthDecision, AuthError>>;
}

/// Provides the authorizer of each remote child.
pub trait Authorizers: Send + Sync + std::fmt::Debug {
    /// `shown`: the URL for messages to the user.
    fn of(&self, child: &str, url: &Url, shown: &DisplayUrl) -> Arc<dyn Authorizer>;
}

/// A server refused the credentials of a request.
#[derive(Debug, Clone, Copy)]
pub struct Challenge<'a> {
    pub status: u16,
    pub www_authenticate: Option<&'a str>,
    pub used: Option<&'a HeaderValue>,
    /// The peer address of the response, if known.
    pub from: Option<SocketAddr>,
    /// The caller of the request; `None` for the daemon's own requests.
    pub caller: Option<&'a Arc<Caller>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthDecision {
    /// There is another token now: the request may be sent once more.
    Again,
    /// There is nothing else to try: the server's response stands.
    Stands,
}

/// Why the credentials of a child are missing. The texts continue the words "child `name` …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The user has to log in; `open` is the login page, if there is one already.
    #[error("needs a login: run `switchboard login {child}`{}", open_hint(.open.as_deref()))]
    Login { child: Box<str>, open: Option<Box<str>> },
    /// The login failed; `why` says what the user can do about it.
    #[error("could not be logged in to: {why}")]
    Failed { why: String },
}

fn open_hint(url: Option<&str>) -> String {
    url.map_or(String::new(), |url| format!(", or open {url}"))
}

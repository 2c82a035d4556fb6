//! The seam between a remote child and whoever knows its credentials.
//!
//! The connection asks before each request and tells when a server was not content. It knows nothing of tokens,
//! grants or browsers. A child whose file sets an `Authorization` header has no authorizer at all: that header is
//! what its person wants to be sent.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use hyper::header::HeaderValue;
use reqwest::Url;

use crate::caller::Caller;
use crate::definition::DisplayUrl;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Who knows what a remote child wants to see before it answers.
pub trait Authorizer: Send + Sync + std::fmt::Debug {
    /// The `Authorization` value to send with the next request, refreshed if it is about to expire.
    fn bearer(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, AuthError>>;

    /// The server answered 401, or 403 with a challenge, to a request that carried `used`. `Again`: there is another
    /// token now, try once more; an error says what the person has to do.
    fn challenged<'a>(&'a self, challenge: Challenge<'a>) -> BoxFuture<'a, Result<AuthDecision, AuthError>>;
}

/// Who has an authorizer for each remote child.
pub trait Authorizers: Send + Sync + std::fmt::Debug {
    /// `shown`: how the server is spoken of.
    fn of(&self, child: &str, url: &Url, shown: &DisplayUrl) -> Arc<dyn Authorizer>;
}

/// A server that was not content with what a request carried.
#[derive(Debug, Clone, Copy)]
pub struct Challenge<'a> {
    pub status: u16,
    pub www_authenticate: Option<&'a str>,
    pub used: Option<&'a HeaderValue>,
    /// Where the answer came from, if the connection knows.
    pub from: Option<SocketAddr>,
    /// Whose call it was; `None` for what we ask ourselves.
    pub caller: Option<&'a Arc<Caller>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthDecision {
    /// There is another token now: the request may be sent once more.
    Again,
    /// There is nothing else to send: the server's answer stands.
    Stands,
}

/// What keeps a child from being used. The texts continue the words "child `name` …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// A person has to log in; `open` is the page for it, where there is one already.
    #[error("needs a login: run `switchboard login {child}`{}", opening(.open.as_deref()))]
    Login { child: Box<str>, open: Option<Box<str>> },
    /// It was tried and did not work; `why` says what a person can do about it.
    #[error("could not be logged in to: {why}")]
    Failed { why: String },
}

fn opening(url: Option<&str>) -> String {
    url.map_or(String::new(), |url| format!(", or open {url}"))
}

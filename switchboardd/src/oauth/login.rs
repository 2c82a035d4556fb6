//! The login to one remote child: the token to send with a request, and what to do when it is refused.
//!
//! All sessions and children of the same login share one value. The stored login changes only under `turn`
//! and under a file lock against other processes; renewed tokens are saved before they are used. Renewals run
//! in their own task, so that a host's cancelled call cannot interrupt them.

mod asking;
mod attempt;
mod renewal;

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use hyper::header::HeaderValue;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use url::Url;

pub use attempt::Attempt;

use switchboard_definitions::config::OauthConfig;
use switchboard_definitions::definition::DisplayUrl;
use switchboard_wire::visible::visible;

use super::address_scope::AddressScope;
use super::bearer_challenge::BearerChallenge;
use super::client::PresetClient;
use super::fetch::{FetchError, OauthHttp};
use super::grant;
use super::scopes::Scopes;
use super::store::{self, LoginStore, LoginStoreError};
use super::stored_login::{StoredLogin, Tokens};
use crate::child::remote::auth::{AuthDecision, AuthError, Authorizer, BoxFuture, Challenge};
use crate::system::secrets::{SecretLocation, SecretString};

/// A server that asks for more scopes more often than this is refused.
const MAX_STEPS: usize = 3;
const STEP_UP_WINDOW: Duration = Duration::from_secs(10 * 60);
/// How long a call waits for a new token while the old one is still good.
const EARLY_RENEWAL_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Login {
    child: Box<str>,
    url: Url,
    /// The name it is stored under.
    name: String,
    store: LoginStore,
    config: Arc<Mutex<OauthConfig>>,
    me: Weak<Self>,
    // A leaf lock: held only to read or change.
    state: Mutex<LoginState>,
    /// Held while the stored login changes, including the requests this needs.
    turn: tokio::sync::Mutex<()>,
    /// The user's current attempt. Locked while one begins, so that two callers share it.
    attempt: tokio::sync::Mutex<Option<Arc<Attempt>>>,
    /// Incremented when the tokens change.
    token_version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct LoginState {
    is_loaded: bool,
    kept: StoredLogin,
    header: Option<HeaderValue>,
    /// When tokens were refused that should have been valid.
    refused: Vec<Instant>,
    /// The server's last unmet challenge.
    bearer_challenge: Option<BearerChallenge>,
    /// The id of a client that its authorization server may have forgotten.
    suspect_client: Option<String>,
    /// When the server asked for more scopes.
    steps: Vec<Instant>,
    /// The login could not be saved: it is newer than what is on disk.
    is_unsaved: bool,
    /// When a renewal last failed that may work later, and why.
    failed: Option<(Instant, AuthError)>,
    /// The scope of the server's address, from the connections that brought its challenges.
    met: Option<AddressScope>,
    /// The server's URL for messages.
    shown: DisplayUrl,
}

/// The token that can be sent at once.
enum CachedToken {
    Unknown,
    Ready(Option<HeaderValue>),
    /// A renewal is due; this token may do until then.
    Due(Option<HeaderValue>),
}

/// Notifies of new tokens. Keeps the login alive: a dropped one would not get any.
#[derive(Debug)]
pub struct TokenChanges {
    _login: Arc<Login>,
    token_version: watch::Receiver<u64>,
}

impl TokenChanges {
    pub fn has_changed(&self) -> bool {
        self.token_version.has_changed().unwrap_or(false)
    }

    /// Resolves when the tokens have changed since this was created or last resolved.
    pub async fn wait_changed(&mut self) {
        // Cannot fail while the login is held.
        let _ = self.token_version.changed().await;
    }
}

/// What happened to the tokens on logout.
#[derive(Debug, PartialEq, Eq)]
pub enum LogoutOutcome {
    /// There were none.
    Nothing,
    /// The authorization server revoked them.
    Revoked,
    /// Deleted here only; the text says why they were not revoked.
    Deleted(String),
}

impl Login {
    pub(super) fn new(
        child: &str,
        url: &Url,
        store: &LoginStore,
        config: &Arc<Mutex<OauthConfig>>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            child: child.into(),
            url: url.clone(),
            name: store::name(child, url.as_str()),
            store: store.clone(),
            config: config.clone(),
            me: me.clone(),
            state: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            attempt: tokio::sync::Mutex::default(),
            token_version: watch::Sender::new(0),
        })
    }

    /// Begins an attempt for the user to finish, or joins the open one.
    pub async fn begin(&self, afresh: bool) -> Result<Arc<Attempt>, AuthError> {
        let mut slot = self.attempt.lock().await;
        let demanded = self.challenged_scopes();
        if let Some(open) = slot.as_ref().filter(|open| !afresh && open.is_open() && open.covers(&demanded)) {
            return Ok(open.clone());
        }
        // The previous attempt frees its port and may mark its registration as doubtful.
        if let Some(before) = slot.take() {
            before.give_up().await;
        }
        let attempt = Attempt::open(self.arc()).await.map_err(|why| self.failed(&why))?;
        *slot = Some(attempt.clone());
        Ok(attempt)
    }

    /// The last attempt, whatever its outcome.
    pub async fn latest(&self) -> Option<Arc<Attempt>> {
        self.attempt.lock().await.clone()
    }

    /// Whether an attempt is open, or one begins.
    pub(super) fn is_open(&self) -> bool {
        self.attempt.try_lock().map_or(true, |slot| slot.as_ref().is_some_and(|open| open.is_open()))
    }

    /// Notifies when the tokens change: the user has logged in, or they were renewed.
    pub fn entries(&self) -> TokenChanges {
        TokenChanges { _login: self.arc(), token_version: self.token_version.subscribe() }
    }

    /// Waits until no change of the stored login is in progress.
    pub(super) async fn wait_settled(&self) {
        drop(self.turn.lock().await);
    }

    /// Where the login is stored.
    pub async fn location(&self) -> Option<SecretLocation> {
        self.store.location(&self.name).await.ok().flatten()
    }

    /// The page of the open attempt. It names the server, so a model must not see one that contains a
    /// secret.
    async fn open_page(&self) -> Option<Box<str>> {
        let slot = self.attempt.lock().await;
        let open = slot.as_ref().filter(|open| open.is_open()).map(|open| open.url.as_str());
        open.filter(|page| self.state().shown.is_clean(page)).map(Into::into)
    }

    /// Deletes the login here and revokes its tokens.
    pub async fn log_out(&self) -> Result<LogoutOutcome, String> {
        let me = self.arc();
        let task = tokio::spawn(async move { me.revoke_and_delete().await });
        task.await.unwrap_or_else(|panic| Err(panic.to_string()))
    }

    async fn revoke_and_delete(&self) -> Result<LogoutOutcome, String> {
        if let Some(open) = self.attempt.lock().await.take() {
            open.give_up().await;
        }
        let _turn = self.turn.lock().await;
        let _lock = self.store.lock(&self.name).await.map_err(|error| error.to_string())?;
        let kept = match self.store.load(&self.name).await {
            Ok(kept) => kept.unwrap_or_default(),
            Err(LoginStoreError::Damaged) => StoredLogin::default(),
            Err(error) => return Err(error.to_string()),
        };
        // Deleted here first: whatever the server answers, they are no longer used.
        self.store.remove(&self.name).await.map_err(|error| error.to_string())?;
        self.remember(StoredLogin::default());
        let (Some(grant), client) = (&kept.grant, kept.client()) else { return Ok(LogoutOutcome::Nothing) };
        let (Some(place), Some(client)) = (&grant.revocation_endpoint, client) else {
            return Ok(LogoutOutcome::Deleted(
                "its authorization server has no way to revoke tokens".to_owned(),
            ));
        };
        let revoked = match self.fetch().await {
            Ok(fetch) => grant::revoke(&fetch, grant, client, place).await,
            Err(error) => Err(error.into()),
        };
        Ok(revoked
            .map_or_else(|error| LogoutOutcome::Deleted(self.redacted(&error)), |()| LogoutOutcome::Revoked))
    }

    /// The header for the next request.
    async fn current(&self) -> Result<Option<HeaderValue>, AuthError> {
        if let CachedToken::Unknown = self.cached_token() {
            let _turn = self.turn.lock().await;
            if let CachedToken::Unknown = self.cached_token() {
                let kept = self.store.load(&self.name).await.map_err(|error| self.failed(&error))?;
                self.remember(kept.unwrap_or_default());
            }
        }
        match self.cached_token() {
            CachedToken::Unknown => Ok(None),
            CachedToken::Ready(header) => Ok(header),
            CachedToken::Due(Some(before)) => {
                // The old token is valid for a while yet: calls do not wait for a slow authorization server,
                // and a failed renewal is not fatal. The server may or may not accept the old token.
                let renewed = timeout(EARLY_RENEWAL_WAIT, self.renew(Some(before.clone()), None)).await;
                Ok(if let Ok(Ok(_)) = renewed { self.header() } else { Some(before) })
            }
            CachedToken::Due(None) => self.renew(None, None).await.map(|_| self.header()),
        }
    }

    async fn answer(&self, challenge: Challenge<'_>) -> Result<AuthDecision, AuthError> {
        let bearer_challenge = challenge.www_authenticate.and_then(BearerChallenge::parse);
        if let Some(from) = challenge.from {
            let mut memory = self.state();
            memory.met = memory.met.max(Some(AddressScope::of(from.ip())));
        }
        if challenge.status == 403 {
            return match bearer_challenge.filter(BearerChallenge::lacks_scope) {
                Some(bearer_challenge) => self.step_up(bearer_challenge, challenge.used).await,
                None => Ok(AuthDecision::Stands),
            };
        }
        self.state().bearer_challenge = Some(bearer_challenge.clone().unwrap_or_default());
        if self.renew(challenge.used.cloned(), Some(bearer_challenge.unwrap_or_default())).await? {
            return Ok(AuthDecision::Again);
        }
        Err(self.login_required().await)
    }

    /// The server wants scopes that the token lacks.
    async fn step_up(
        &self,
        bearer_challenge: BearerChallenge,
        used: Option<&HeaderValue>,
    ) -> Result<AuthDecision, AuthError> {
        let wanted = Scopes::of_text(bearer_challenge.scope.as_deref().unwrap_or_default());
        {
            let mut memory = self.state();
            if memory.header.is_some() && memory.header.as_ref() != used {
                return Ok(AuthDecision::Again);
            }
            let Some(granted) = memory.kept.grant.as_ref().filter(|_| !wanted.is_empty()) else {
                return Ok(AuthDecision::Stands);
            };
            if granted.asked.contains_all(&wanted) {
                let why = format!(
                    "it wants scope `{wanted}`, which was asked for and is not enough; `switchboard login {}` tries again",
                    self.child
                );
                return Err(AuthError::Failed { why });
            }
            let now = Instant::now();
            memory.steps.retain(|at| now.duration_since(*at) < STEP_UP_WINDOW);
            if memory.steps.len() >= MAX_STEPS {
                let why = format!("it asked for more scopes {MAX_STEPS} times, the last time for `{wanted}`");
                return Err(AuthError::Failed { why });
            }
            memory.steps.push(now);
            memory.bearer_challenge = Some(bearer_challenge);
        }
        Err(self.login_required().await)
    }

    /// Only the user can help: the caller knows whether they can be asked.
    async fn login_required(&self) -> AuthError {
        AuthError::Login { child: self.child.clone(), open: self.open_page().await }
    }

    fn cached_token(&self) -> CachedToken {
        let memory = self.state();
        let Some(grant) = memory.kept.grant.as_ref().filter(|_| memory.is_loaded) else {
            return if memory.is_loaded { CachedToken::Ready(None) } else { CachedToken::Unknown };
        };
        let now = grant::now();
        let header = memory.header.clone().filter(|_| !grant.tokens.has_ended(now));
        if grant.tokens.wants_renewal(now) { CachedToken::Due(header) } else { CachedToken::Ready(header) }
    }

    fn header(&self) -> Option<HeaderValue> {
        match self.cached_token() {
            CachedToken::Ready(header) | CachedToken::Due(header) => header,
            CachedToken::Unknown => None,
        }
    }

    /// Replaces the login in memory.
    fn remember(&self, kept: StoredLogin) {
        let mut memory = self.state();
        let header = kept.grant.as_ref().and_then(|grant| Tokens::header(&grant.tokens));
        // Loading for the first time is no change.
        if memory.is_loaded && header.is_some() && header != memory.header {
            self.token_version.send_modify(|times| *times += 1);
        }
        memory.header = header;
        memory.kept = kept;
        memory.is_loaded = true;
        memory.is_unsaved = false;
        memory.failed = None;
    }

    async fn fetch(&self) -> Result<OauthHttp, FetchError> {
        let met = self.state().met;
        OauthHttp::new(&self.url, met, &self.store.shell_environment().await.variables).await
    }

    /// The scopes that the server last asked for.
    fn challenged_scopes(&self) -> Scopes {
        let memory = self.state();
        let scope =
            memory.bearer_challenge.as_ref().and_then(|bearer_challenge| bearer_challenge.scope.as_deref());
        Scopes::of_text(scope.unwrap_or_default())
    }

    /// The client in the config for this child. One without an issuer belongs to the first that it was used
    /// with.
    async fn preset(&self, kept: &StoredLogin) -> Result<Option<PresetClient>, String> {
        let config = self.config().clients.get(&*self.child).cloned().unwrap_or_default();
        let Some(id) = config.client_id else { return Ok(None) };
        let secret = match &config.client_secret {
            Some(template) => Some(SecretString::new(self.store.fill(template).await?)),
            None => None,
        };
        let seen = kept.clients.iter().find(|(_, client)| client.id == id).map(|(issuer, _)| issuer.clone());
        Ok(Some(PresetClient { id, secret, issuer: config.issuer.or(seen) }))
    }

    /// Sets how messages name the server.
    pub(super) fn set_display_url(&self, shown: &DisplayUrl) {
        let mut memory = self.state();
        if memory.shown != *shown {
            memory.shown = shown.clone();
        }
    }

    /// Foreign text may be part of it: hidden characters are made visible and secrets removed.
    fn redacted(&self, what: &dyn std::fmt::Display) -> String {
        visible(&self.state().shown.redact(&what.to_string())).into_owned()
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> AuthError {
        AuthError::Failed { why: self.redacted(error) }
    }

    fn config(&self) -> MutexGuard<'_, OauthConfig> {
        self.config.lock().expect("BUG: a note panicked")
    }

    fn state(&self) -> MutexGuard<'_, LoginState> {
        self.state.lock().expect("BUG: a note panicked")
    }

    fn arc(&self) -> Arc<Self> {
        self.me.upgrade().expect("BUG: whoever calls holds it")
    }
}

#[cfg(test)]
impl Login {
    /// As if a user had logged in.
    pub(super) fn enter(&self) {
        self.token_version.send_modify(|times| *times += 1);
    }
}

impl Authorizer for Login {
    fn bearer(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, AuthError>> {
        Box::pin(self.current())
    }

    fn challenged<'a>(&'a self, challenge: Challenge<'a>) -> BoxFuture<'a, Result<AuthDecision, AuthError>> {
        Box::pin(self.answer(challenge))
    }
}

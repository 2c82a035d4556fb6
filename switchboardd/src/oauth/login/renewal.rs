//! Renews tokens without the user: once for everyone who needs them, across all processes.

use std::time::Duration;

use hyper::header::HeaderValue;
use tokio::time::Instant;

use super::{CachedToken, Login};
use crate::child::remote::auth::AuthError;
use crate::oauth::bearer_challenge::BearerChallenge;
use crate::oauth::discovery;
use crate::oauth::fetch::OauthHttp;
use crate::oauth::grant::{self, GrantError};
use crate::oauth::store::LoginStoreError;
use crate::oauth::stored_login::{Grant, StoredLogin};
use crate::oauth::well_known;

/// After this many refused tokens within `REFUSAL_WINDOW`, another renewal will not help.
const MAX_REFUSALS: usize = 5;
const REFUSAL_WINDOW: Duration = Duration::from_secs(60);
/// How long a failed renewal is not retried.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);

impl Login {
    /// True if there is a token other than `used`; false if only the user can get one. `bearer_challenge`: the server's
    /// challenge when it refused `used`.
    pub(super) async fn renew(
        &self,
        used: Option<HeaderValue>,
        bearer_challenge: Option<BearerChallenge>,
    ) -> Result<bool, AuthError> {
        let me = self.arc();
        // Not cancelled with the call that needs it: a token that is renewed and lost ends the whole login.
        let task = tokio::spawn(async move { me.renewed(used, bearer_challenge).await });
        task.await.unwrap_or_else(|panic| Err(self.failed(&panic)))
    }

    async fn renewed(
        &self,
        used: Option<HeaderValue>,
        bearer_challenge: Option<BearerChallenge>,
    ) -> Result<bool, AuthError> {
        let _turn = self.turn.lock().await;
        if self.has_other_than(used.as_ref()) {
            return Ok(true);
        }
        // Callers that waited for a failed renewal get its error, instead of failing one after the other.
        if let Some(failed) = self.failed_lately() {
            return Err(failed);
        }
        let _lock = self.store.lock(&self.name).await.map_err(|error| self.failed(&error))?;
        // Another process may have renewed it first.
        match self.store.load(&self.name).await {
            Ok(kept) => self.adopt(kept.unwrap_or_default()),
            Err(LoginStoreError::Damaged) => self.adopt(StoredLogin::default()),
            Err(error) => return Err(self.failed(&error)),
        }
        if self.has_other_than(used.as_ref()) {
            return Ok(true);
        }
        let kept = self.state().kept.clone();
        let Some(grant) = kept.grant.as_ref().filter(|grant| grant.is_renewable()) else { return Ok(false) };
        if bearer_challenge.is_some() && self.exceeds_refusals() {
            return Ok(false);
        }
        let outcome = self.fetched(bearer_challenge, grant, kept.clone()).await;
        if let Err(error) = &outcome {
            self.state().failed = Some((Instant::now(), error.clone()));
        }
        outcome
    }

    async fn fetched(
        &self,
        bearer_challenge: Option<BearerChallenge>,
        grant: &Grant,
        kept: StoredLogin,
    ) -> Result<bool, AuthError> {
        let fetch = self.fetch().await.map_err(|error| self.failed(&error))?;
        if let Some(bearer_challenge) = bearer_challenge
            && self.has_moved(&fetch, &bearer_challenge, grant).await?
        {
            return Ok(false);
        }
        self.refresh(&fetch, kept).await
    }

    fn failed_lately(&self) -> Option<AuthError> {
        let memory = self.state();
        let (at, why) = memory.failed.as_ref()?;
        (at.elapsed() < FAILURE_PAUSE).then(|| why.clone())
    }

    async fn refresh(&self, fetch: &OauthHttp, mut kept: StoredLogin) -> Result<bool, AuthError> {
        let (Some(client), Some(grant)) = (kept.client(), &kept.grant) else { return Ok(false) };
        let outcome = grant::refresh(fetch, grant, client).await;
        match outcome {
            Ok(tokens) => {
                if let Some(grant) = &mut kept.grant {
                    grant.tokens = tokens;
                }
                tracing::debug!(target: "oauth", server = &*self.child, "token renewed");
                self.store(kept).await;
                Ok(true)
            }
            Err(error @ (GrantError::InvalidGrant(_) | GrantError::UnknownClient(_))) => {
                tracing::info!(target: "oauth", server = &*self.child, "login is over: {}", self.redacted(&error));
                let issuer = kept.grant.take().map(|grant| grant.issuer).unwrap_or_default();
                if let GrantError::UnknownClient(_) = error {
                    kept.clients.remove(&issuer);
                }
                self.store(kept).await;
                Ok(false)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Records a refused token; true if there were too many.
    fn exceeds_refusals(&self) -> bool {
        let (mut memory, now) = (self.state(), Instant::now());
        memory.refused.retain(|at| now.duration_since(*at) < REFUSAL_WINDOW);
        memory.refused.push(now);
        memory.refused.len() > MAX_REFUSALS
    }

    /// Whether the server now wants another issuer's tokens, to which ours must not be shown.
    async fn has_moved(
        &self,
        fetch: &OauthHttp,
        bearer_challenge: &BearerChallenge,
        grant: &Grant,
    ) -> Result<bool, AuthError> {
        let found = discovery::resource(fetch, &self.url, Some(bearer_challenge))
            .await
            .map_err(|error| self.failed(&error))?;
        let own = well_known::origin(&self.url);
        let issuer = match &found {
            Some(resource) => resource.issuer(Some(&grant.issuer)).unwrap_or(&own),
            None => &own,
        };
        Ok(issuer.trim_end_matches('/') != grant.issuer.trim_end_matches('/'))
    }

    /// Saves the login, then uses it. If saving fails, it is used until the daemon exits.
    pub(super) async fn store(&self, kept: StoredLogin) {
        let saved = self.store.save(&self.name, &kept).await;
        self.remember(kept);
        if let Err(error) = saved {
            tracing::warn!(target: "oauth", server = &*self.child, "the login is not kept beyond this run: {error}");
            self.state().is_unsaved = true;
        }
    }

    /// Takes over what another process saved, a logout included, unless our own login could not be saved.
    fn adopt(&self, stored: StoredLogin) {
        let knows_better = {
            let memory = self.state();
            memory.is_loaded && (stored.grant == memory.kept.grant || memory.is_unsaved)
        };
        if !knows_better {
            self.remember(stored);
        }
    }

    fn has_other_than(&self, used: Option<&HeaderValue>) -> bool {
        match self.cached_token() {
            CachedToken::Ready(Some(header)) => Some(&header) != used,
            _ => false,
        }
    }
}

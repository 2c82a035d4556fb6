//! One attempt of a user to log in: from the page that they open until they return from it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use url::Url;

use super::Login;
use crate::oauth::bearer_challenge::BearerChallenge;
use crate::oauth::callback::{CallbackResult, CallbackServer, ExpectedCallback};
use crate::oauth::client::{self, ClientOptions, ClientPlan, OauthClient, Registration};
use crate::oauth::discovery::{self, DiscoveredServer};
use crate::oauth::error_response;
use crate::oauth::fetch::OauthHttp;
use crate::oauth::grant::{self, AuthorizationTerms, AuthorizationUrl, GrantError};
use crate::oauth::pkce::Verifier;
use crate::oauth::scopes::{self, ScopeSources, Scopes};
use crate::oauth::store::LoginStoreError;
use crate::oauth::stored_login::StoredLogin;

/// Long enough to find a password and a second factor.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);

type AttemptResult = Result<(), String>;

#[derive(Debug)]
pub struct Attempt {
    /// The page for the user to open.
    pub url: Url,
    /// The issuer whose page it is.
    pub issuer: String,
    scopes: Scopes,
    outcome: watch::Receiver<Option<AttemptResult>>,
    /// Any message ends the attempt.
    stop: mpsc::Sender<()>,
}

impl Attempt {
    pub(super) async fn open(login: Arc<Login>) -> Result<Arc<Self>, String> {
        let prepared = PreparedLogin::new(&login).await?;
        let page = prepared.terms.page().map_err(|error| error.to_string())?;
        let (tell, outcome) = watch::channel(None);
        let (stop, stopped) = mpsc::channel(1);
        let attempt = Arc::new(Self {
            url: page.url.clone(),
            issuer: login.redacted(&prepared.terms.authority.issuer),
            scopes: prepared.terms.scopes.clone(),
            outcome,
            stop,
        });
        tokio::spawn(async move {
            let outcome = prepared.carry_out(&login, page, stopped).await;
            let outcome = outcome.map_err(|why| login.redacted(&why));
            match &outcome {
                Ok(()) => tracing::info!(target: "oauth", server = &*login.child, "logged in"),
                Err(why) => tracing::info!(target: "oauth", server = &*login.child, "login failed: {why}"),
            }
            let _ = tell.send(Some(outcome));
        });
        Ok(attempt)
    }

    /// Waits for the outcome.
    pub async fn wait_done(&self) -> Result<(), String> {
        let mut outcome = self.outcome.clone();
        let ended = outcome.wait_for(Option::is_some).await;
        ended.ok().and_then(|outcome| outcome.clone()).unwrap_or_else(|| Err("it was given up".to_owned()))
    }

    pub fn is_open(&self) -> bool {
        self.outcome.borrow().is_none()
    }

    pub(super) fn covers(&self, demanded: &Scopes) -> bool {
        self.scopes.contains_all(demanded)
    }

    /// Ends the attempt, unless the user returns at this moment.
    pub(super) async fn give_up(&self) {
        let _ = self.stop.try_send(());
        let _ = self.wait_done().await;
    }
}

/// Everything known before the page is opened.
struct PreparedLogin {
    fetch: OauthHttp,
    callback: CallbackServer,
    terms: AuthorizationTerms,
    /// Whether the client existed before this attempt.
    is_old: bool,
}

impl PreparedLogin {
    async fn new(login: &Arc<Login>) -> Result<Self, String> {
        let kept = login.stored_login().await?;
        let fetch = login.fetch().await.map_err(|error| error.to_string())?;
        let found = login.find(&fetch, kept.issuer()).await?;
        let scopes = login.choose(&found, &kept);
        let preset = login.preset(&kept).await?;
        let (document, port) = {
            let config = login.config();
            let port = config.clients.get(&*login.child).and_then(|client| client.callback_port);
            (config.client_id_url.clone(), port)
        };
        let doubted = login.state().suspect_client.take();
        let before =
            kept.clients.get(&found.authority.issuer).filter(|client| Some(&client.id) != doubted.as_ref());
        let choice = ClientOptions { preset: preset.as_ref(), document: document.as_deref(), before };
        let plan = choice.plan(&found.authority, grant::now()).map_err(|error| error.to_string())?;
        let registered = match &plan {
            ClientPlan::Use(client) => client.port,
            ClientPlan::Register { .. } => None,
        };
        let callback = CallbackServer::open(port.or(registered))
            .await
            .map_err(|error| format!("no port for it: {error}"))?;
        if let Some(port) = port.filter(|port| *port != callback.port()) {
            return Err(format!("port {port}, which the config names for it, is taken"));
        }
        let (client, is_old) = resolve_client(plan, &fetch, &found, &callback, &scopes).await?;
        let redirect = callback.redirect();
        let terms = AuthorizationTerms {
            authority: found.authority,
            client,
            redirect,
            resource: found.resource,
            scopes,
        };
        Ok(Self { fetch, callback, terms, is_old })
    }

    async fn carry_out(
        self,
        login: &Arc<Login>,
        page: AuthorizationUrl,
        mut stopped: mpsc::Receiver<()>,
    ) -> AttemptResult {
        let expected = ExpectedCallback {
            state: page.state,
            issuer: self.terms.authority.issuer.clone(),
            names_issuer: self.terms.authority.authorization_response_iss_parameter_supported,
        };
        let waiting = tokio::time::timeout(LOGIN_TIMEOUT, self.callback.answer(expected));
        let brought = tokio::select! {
            brought = waiting => brought,
            _ = stopped.recv() => {
                login.suspect_client(&self.terms, self.is_old);
                return Err("another attempt took its place".to_owned());
            }
        };
        match brought {
            Ok(CallbackResult::Code(code)) => {
                login.complete(&self.fetch, &self.terms, &code, &page.verifier).await
            }
            Ok(CallbackResult::Denied(why)) => Err(format!("the authorization server refused: {why}")),
            Ok(CallbackResult::WrongIssuer(Some(other))) => Err(format!(
                "the answer came from `{}` and not from `{}`, which was asked",
                error_response::shortened(&other),
                self.terms.authority.issuer
            )),
            Ok(CallbackResult::WrongIssuer(None)) => {
                Err(format!("the answer does not say that it is from `{}`", self.terms.authority.issuer))
            }
            Err(_) => {
                login.suspect_client(&self.terms, self.is_old);
                Err(format!(
                    "nobody finished it in the browser within {} minutes",
                    LOGIN_TIMEOUT.as_secs() / 60
                ))
            }
        }
    }
}

/// The client for this attempt, and whether it existed before.
async fn resolve_client(
    plan: ClientPlan,
    fetch: &OauthHttp,
    found: &DiscoveredServer,
    callback: &CallbackServer,
    scopes: &Scopes,
) -> Result<(OauthClient, bool), String> {
    let (place, method) = match plan {
        ClientPlan::Register { place, method } => (place, method),
        ClientPlan::Use(client) => {
            // Registered with a port that is taken now: many authorization servers reject another port.
            let is_ours = client.port.is_none_or(|port| port == callback.port());
            match found.authority.registration_endpoint.clone() {
                Some(place) if !is_ours => (place, client.method),
                _ => return Ok((client, true)),
            }
        }
    };
    let redirect = callback.redirect();
    let registered =
        client::register(fetch, &found.authority, &place, method, (&redirect, callback.port()), scopes).await;
    registered.map(|client| (client, false)).map_err(|error| error.to_string())
}

impl Login {
    /// The stored login; a damaged one counts as none.
    async fn stored_login(&self) -> Result<StoredLogin, String> {
        match self.store.load(&self.name).await {
            Ok(kept) => Ok(kept.unwrap_or_default()),
            Err(LoginStoreError::Damaged) => Ok(StoredLogin::default()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Finds the authorization server whose tokens the server wants.
    async fn find(&self, fetch: &OauthHttp, before: Option<&str>) -> Result<DiscoveredServer, String> {
        let known = self.state().bearer_challenge.clone();
        let (status, bearer_challenge) = match known {
            Some(bearer_challenge) => (None, Some(bearer_challenge)),
            None => self.fetch_challenge(fetch).await?,
        };
        // The server answered without a token, and has no metadata about tokens either.
        if bearer_challenge.is_none() {
            let described = discovery::resource(fetch, &self.url, None).await;
            if described.map_err(|error| error.to_string())?.is_none() {
                return Err(self.asks_for_none(status));
            }
        }
        let found = discovery::find(fetch, &self.url, bearer_challenge.as_ref(), before).await;
        let found = found.map_err(|error| error.to_string())?;
        self.state().bearer_challenge = bearer_challenge;
        Ok(found)
    }

    /// Sends the server a request without a token, to get its challenge.
    async fn fetch_challenge(
        &self,
        fetch: &OauthHttp,
    ) -> Result<(Option<u16>, Option<BearerChallenge>), String> {
        let fetched = fetch.probe(&self.url).await.map_err(|error| error.to_string())?;
        let status = fetched.status.as_u16();
        let refused = matches!(status, 401 | 403);
        let bearer_challenge = refused
            .then(|| fetched.challenge.as_deref().and_then(BearerChallenge::parse).unwrap_or_default());
        Ok((Some(status), bearer_challenge))
    }

    /// Names the URL, as its file writes it, and the server's answer.
    fn asks_for_none(&self, status: Option<u16>) -> String {
        let place = self.state().shown.url.clone();
        let (status, hint) = match status {
            Some(status @ 404) => (format!("status {status}"), "; is the path right?"),
            Some(status) => (format!("status {status}"), ""),
            None => ("no challenge".to_owned(), ""),
        };
        format!("it asks for no login: `{place}` answered a request without one with {status}{hint}")
    }

    fn choose(&self, found: &DiscoveredServer, kept: &StoredLogin) -> Scopes {
        let set = self.config().clients.get(&*self.child).and_then(|client| client.scopes.clone());
        let memory = self.state();
        let sources = ScopeSources {
            set: set.as_deref(),
            challenged: memory
                .bearer_challenge
                .as_ref()
                .and_then(|bearer_challenge| bearer_challenge.scope.as_deref()),
            listed: found.scopes.as_deref(),
            known: found.authority.scopes_supported.as_deref(),
        };
        let before = kept.grant.as_ref().filter(|grant| grant.issuer == found.authority.issuer);
        scopes::choose(sources, before.map_or(&Scopes::default(), |grant| &grant.asked))
    }

    /// The user returned: exchanges the code for tokens and stores them.
    async fn complete(
        &self,
        fetch: &OauthHttp,
        terms: &AuthorizationTerms,
        code: &str,
        verifier: &Verifier,
    ) -> AttemptResult {
        let _turn = self.turn.lock().await;
        let _lock = self.store.lock(&self.name).await.map_err(|error| error.to_string())?;
        let mut kept = self.stored_login().await?;
        match terms.exchange(fetch, code, verifier).await {
            Ok(grant) => {
                kept.clients.insert(grant.issuer.clone(), terms.client.clone());
                kept.grant = Some(grant);
                self.store(kept).await;
                let mut memory = self.state();
                memory.bearer_challenge = None;
                memory.refused.clear();
                Ok(())
            }
            Err(error) => {
                if let GrantError::UnknownClient(_) = error {
                    self.suspect_client(terms, true);
                }
                Err(error.to_string())
            }
        }
    }

    /// An older registration did not work: the server may have forgotten it. The next attempt registers anew.
    fn suspect_client(&self, terms: &AuthorizationTerms, is_old: bool) {
        if is_old && terms.client.registration == Registration::Dynamic {
            self.state().suspect_client = Some(terms.client.id.clone());
        }
    }
}

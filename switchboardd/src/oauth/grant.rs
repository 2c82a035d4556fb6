//! Exchanges a code for tokens, refreshes tokens and revokes them.

use std::time::SystemTime;

use oauth2::basic::{
    BasicClient, BasicErrorResponse, BasicErrorResponseType, BasicTokenResponse, BasicTokenType,
};
use oauth2::{
    AuthType, AuthUrl, AuthorizationCode, ClientId, ClientSecret, CsrfToken, EndpointNotSet, EndpointSet,
    PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError, Scope, TokenResponse,
    TokenUrl,
};
use switchboard_definitions::time::unix_seconds;
use url::Url;

use super::client::{ClientAuthMethod, OauthClient};
use super::error_response::{said, shortened};
use super::fetch::{FetchError, OauthHttp};
use super::metadata::{self, AuthServerMetadata};
use super::scopes::Scopes;
use super::stored_login::{Grant, Tokens};

#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    #[error("{0}")]
    Fetch(#[from] FetchError),
    /// The code or token is not valid, or no longer.
    #[error("the authorization server refused: {0}")]
    InvalidGrant(String),
    /// It does not know our client.
    #[error("the authorization server does not know this client: {0}")]
    UnknownClient(String),
    #[error("the authorization server refused: {0}")]
    Refused(String),
    #[error("the answer of the token endpoint is not one: {0}")]
    InvalidResponse(&'static str),
}

/// The page that the user opens, with the secrets that belong to it.
#[derive(Debug)]
pub struct AuthorizationUrl {
    pub url: Url,
    pub state: String,
    pub verifier: PkceCodeVerifier,
}

/// Everything that determines the authorization request.
#[derive(Debug, Clone)]
pub struct AuthorizationTerms {
    pub authority: AuthServerMetadata,
    pub client: OauthClient,
    pub redirect: String,
    pub resource: String,
    pub scopes: Scopes,
}

type ConfiguredClient = BasicClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointSet>;

impl AuthorizationTerms {
    pub fn page(&self) -> Result<AuthorizationUrl, GrantError> {
        let client = self.ready()?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let mut request = client
            .authorize_url(CsrfToken::new_random)
            .set_pkce_challenge(challenge)
            .add_extra_param("resource", &self.resource);
        for scope in self.scopes.iter() {
            request = request.add_scope(Scope::new(scope.to_owned()));
        }
        let (url, state) = request.url();
        Ok(AuthorizationUrl { url, state: state.secret().clone(), verifier })
    }

    pub async fn exchange(
        &self,
        fetch: &OauthHttp,
        code: String,
        verifier: PkceCodeVerifier,
    ) -> Result<Grant, GrantError> {
        let client = self.ready()?;
        let answer = client
            .exchange_code(AuthorizationCode::new(code))
            .set_pkce_verifier(verifier)
            .add_extra_param("resource", &self.resource)
            .request_async(fetch)
            .await
            .map_err(grant_error)?;
        Ok(Grant {
            issuer: self.authority.issuer.clone(),
            resource: self.resource.clone(),
            token_endpoint: self.authority.token_endpoint.clone(),
            revocation_endpoint: self.authority.revocation_endpoint.clone(),
            asked: self.scopes.clone(),
            tokens: tokens(&answer, &self.scopes, None)?,
        })
    }

    fn ready(&self) -> Result<ConfiguredClient, GrantError> {
        let nonsense = |_| GrantError::InvalidResponse("an endpoint is no URL");
        Ok(known_as(&self.client)
            .set_auth_uri(AuthUrl::new(self.authority.authorization_endpoint.clone()).map_err(nonsense)?)
            .set_token_uri(TokenUrl::new(self.authority.token_endpoint.clone()).map_err(nonsense)?)
            .set_redirect_uri(RedirectUrl::new(self.redirect.clone()).map_err(nonsense)?))
    }
}

/// Fetches new tokens. Values that the answer omits stay as they were.
pub async fn refresh(fetch: &OauthHttp, grant: &Grant, client: &OauthClient) -> Result<Tokens, GrantError> {
    let before =
        grant.tokens.refresh.as_ref().ok_or(GrantError::InvalidResponse("there is no refresh token"))?;
    let place = TokenUrl::new(grant.token_endpoint.clone())
        .map_err(|_| GrantError::InvalidResponse("an endpoint is no URL"))?;
    let token = RefreshToken::new(before.reveal().to_owned());
    let client = known_as(client).set_token_uri(place);
    let answer = client
        .exchange_refresh_token(&token)
        .add_extra_param("resource", &grant.resource)
        .request_async(fetch)
        .await
        .map_err(grant_error)?;
    tokens(&answer, &grant.tokens.scopes, Some(before.reveal()))
}

/// Revokes both tokens, refresh token first.
pub async fn revoke(
    fetch: &OauthHttp,
    grant: &Grant,
    client: &OauthClient,
    place: &str,
) -> Result<(), GrantError> {
    let place = metadata::endpoint("revocation endpoint", place).map_err(FetchError::from)?;
    let secret = client.secret.as_ref().map(|secret| secret.reveal());
    let held =
        [("refresh_token", grant.tokens.refresh.as_ref()), ("access_token", Some(&grant.tokens.access))];
    for (hint, token) in held {
        let Some(token) = token else { continue };
        let mut fields = vec![("token", token.reveal()), ("token_type_hint", hint)];
        let mut basic = None;
        match (client.method, secret) {
            (ClientAuthMethod::Basic, Some(secret)) => basic = Some((client.id.as_str(), secret)),
            (ClientAuthMethod::Post, Some(secret)) => {
                fields.extend([("client_id", client.id.as_str()), ("client_secret", secret)]);
            }
            _ => fields.push(("client_id", client.id.as_str())),
        }
        let fetched = fetch.form(&place, &fields, basic).await?;
        if !fetched.status.is_success() {
            return Err(GrantError::Refused(format!("status {}{}", fetched.status, said(&fetched.body))));
        }
    }
    Ok(())
}

fn known_as(client: &OauthClient) -> BasicClient {
    let ready = BasicClient::new(ClientId::new(client.id.clone()));
    let with = |ready: BasicClient, auth| match &client.secret {
        Some(secret) => {
            ready.set_client_secret(ClientSecret::new(secret.reveal().to_owned())).set_auth_type(auth)
        }
        None => ready,
    };
    match client.method {
        ClientAuthMethod::Public => ready.set_auth_type(AuthType::RequestBody),
        ClientAuthMethod::Basic => with(ready, AuthType::BasicAuth),
        ClientAuthMethod::Post => with(ready, AuthType::RequestBody),
    }
}

fn tokens(answer: &BasicTokenResponse, asked: &Scopes, before: Option<&str>) -> Result<Tokens, GrantError> {
    if *answer.token_type() != BasicTokenType::Bearer {
        return Err(GrantError::InvalidResponse("its tokens are of a kind that Switchboard does not have"));
    }
    let refresh = answer.refresh_token().map(|token| token.secret().clone());
    let scopes = match answer.scopes() {
        Some(granted) => {
            Scopes::of_text(&granted.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" "))
        }
        None => asked.clone(),
    };
    let made = Tokens::new(
        answer.access_token().secret().clone(),
        refresh.or_else(|| before.map(str::to_owned)),
        answer.expires_in().map(|life| life.as_secs()),
        scopes,
        now(),
    );
    if made.header().is_none() {
        return Err(GrantError::InvalidResponse("its token does not fit into a header"));
    }
    Ok(made)
}

/// Never includes the body of an answer: it may contain a token.
fn grant_error(error: RequestTokenError<FetchError, BasicErrorResponse>) -> GrantError {
    match error {
        RequestTokenError::Request(error) => GrantError::Fetch(error),
        RequestTokenError::ServerResponse(said) => {
            let why = said.error_description().map_or(String::new(), |why| format!(": {why}"));
            let words = shortened(&format!("{}{why}", said.error()));
            match said.error() {
                BasicErrorResponseType::InvalidGrant => GrantError::InvalidGrant(words),
                BasicErrorResponseType::InvalidClient | BasicErrorResponseType::UnauthorizedClient => {
                    GrantError::UnknownClient(words)
                }
                _ => GrantError::Refused(words),
            }
        }
        RequestTokenError::Parse(..) => GrantError::InvalidResponse("it is not the JSON that it should be"),
        RequestTokenError::Other(_) => GrantError::InvalidResponse("it is empty or of another kind"),
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    unix_seconds(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::client::Registration;
    use super::*;

    fn terms(scopes: &str) -> AuthorizationTerms {
        let client = OauthClient {
            id: "me".into(),
            secret: None,
            method: ClientAuthMethod::Public,
            registration: Registration::Configured,
            port: None,
            expires: None,
        };
        AuthorizationTerms {
            authority: AuthServerMetadata::default_for(&Url::parse("https://as.example").unwrap()),
            client,
            redirect: "http://127.0.0.1:1/callback".into(),
            resource: "https://x".into(),
            scopes: Scopes::of_text(scopes),
        }
    }

    #[test]
    fn an_authorization_url_has_pkce_state_and_resource() {
        let page = terms("a b").page().unwrap();
        let fields: BTreeMap<_, _> = page.url.query_pairs().into_owned().collect();
        assert_eq!(fields["resource"], "https://x");
        assert_eq!(fields["scope"], "a b");
        assert_eq!(fields["code_challenge_method"], "S256");
        assert_eq!(fields["response_type"], "code");
        assert_eq!(fields["redirect_uri"], "http://127.0.0.1:1/callback");
        assert_eq!(fields["state"], page.state);
        assert!(page.state.len() >= 22 && fields["code_challenge"].len() == 43);
        assert!(!terms("").page().unwrap().url.as_str().contains("scope"));
        assert_ne!(page.state, terms("").page().unwrap().state);
    }

    #[test]
    fn tokens_of_another_type_are_refused() {
        let read = |text: &str| serde_json::from_str::<BasicTokenResponse>(text).unwrap();
        let asked = Scopes::of_text("a");
        assert!(tokens(&read(r#"{"access_token":"t","token_type":"DPoP"}"#), &asked, None).is_err());
        let kept = tokens(&read(r#"{"access_token":"t","token_type":"bearer"}"#), &asked, Some("r")).unwrap();
        assert_eq!((kept.refresh.unwrap().reveal(), kept.scopes.to_string().as_str()), ("r", "a"));
        assert!(tokens(&read(r#"{"access_token":"a\nb","token_type":"Bearer"}"#), &asked, None).is_err());
    }
}

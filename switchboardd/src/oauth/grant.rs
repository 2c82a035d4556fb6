//! Exchanges a code for tokens, refreshes tokens and revokes them.

use std::time::SystemTime;

use serde::Deserialize;
use switchboard_definitions::time::unix_seconds;
use url::Url;

use super::client::{ClientAuthMethod, OauthClient};
use super::error_response::{said, shortened};
use super::fetch::{FetchError, FetchResponse, OauthHttp};
use super::metadata::{self, AuthServerMetadata};
use super::pkce::{Verifier, random_state};
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
    pub verifier: Verifier,
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

/// What a token endpoint grants, or why it does not.
#[derive(Deserialize)]
#[serde(untagged)]
enum TokenAnswer {
    Granted {
        access_token: String,
        token_type: String,
        expires_in: Option<u64>,
        refresh_token: Option<String>,
        scope: Option<String>,
    },
    Refused {
        error: String,
        error_description: Option<String>,
    },
}

impl AuthorizationTerms {
    pub fn page(&self) -> Result<AuthorizationUrl, GrantError> {
        let mut url = Url::parse(&self.authority.authorization_endpoint)
            .map_err(|_| GrantError::InvalidResponse("an endpoint is not a URL"))?;
        let (state, verifier) = (random_state(), Verifier::random());
        let scopes = self.scopes.to_string();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client.id)
            .append_pair("state", &state)
            .append_pair("code_challenge", &verifier.challenge())
            .append_pair("code_challenge_method", "S256")
            .append_pair("redirect_uri", &self.redirect)
            .extend_pairs((!scopes.is_empty()).then_some(("scope", &scopes)))
            .append_pair("resource", &self.resource);
        Ok(AuthorizationUrl { url, state, verifier })
    }

    pub async fn exchange(
        &self,
        fetch: &OauthHttp,
        code: &str,
        verifier: &Verifier,
    ) -> Result<Grant, GrantError> {
        let fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("code_verifier", verifier.reveal()),
            ("redirect_uri", &self.redirect),
            ("resource", &self.resource),
        ];
        let answer = ask_for_tokens(fetch, &self.authority.token_endpoint, &self.client, fields).await?;
        Ok(Grant {
            issuer: self.authority.issuer.clone(),
            resource: self.resource.clone(),
            token_endpoint: self.authority.token_endpoint.clone(),
            revocation_endpoint: self.authority.revocation_endpoint.clone(),
            asked: self.scopes.clone(),
            tokens: tokens(answer, &self.scopes, None)?,
        })
    }
}

/// Fetches new tokens. Values that the answer omits stay as they were.
pub async fn refresh(fetch: &OauthHttp, grant: &Grant, client: &OauthClient) -> Result<Tokens, GrantError> {
    let before =
        grant.tokens.refresh.as_ref().ok_or(GrantError::InvalidResponse("there is no refresh token"))?;
    let fields = vec![
        ("grant_type", "refresh_token"),
        ("refresh_token", before.reveal()),
        ("resource", &grant.resource),
    ];
    let answer = ask_for_tokens(fetch, &grant.token_endpoint, client, fields).await?;
    tokens(answer, &grant.tokens.scopes, Some(before.reveal()))
}

/// Revokes both tokens, refresh token first.
pub async fn revoke(
    fetch: &OauthHttp,
    grant: &Grant,
    client: &OauthClient,
    place: &str,
) -> Result<(), GrantError> {
    let place = metadata::endpoint("revocation endpoint", place).map_err(FetchError::from)?;
    let held =
        [("refresh_token", grant.tokens.refresh.as_ref()), ("access_token", Some(&grant.tokens.access))];
    for (hint, token) in held {
        let Some(token) = token else { continue };
        let fields = vec![("token", token.reveal()), ("token_type_hint", hint)];
        let fetched = post_as(client, fetch, &place, fields).await?;
        if !fetched.status.is_success() {
            return Err(GrantError::Refused(format!("status {}{}", fetched.status, said(&fetched.body))));
        }
    }
    Ok(())
}

/// Posts a form, and with it who we are.
async fn post_as<'a>(
    client: &'a OauthClient,
    fetch: &OauthHttp,
    place: &Url,
    mut fields: Vec<(&'a str, &'a str)>,
) -> Result<FetchResponse, FetchError> {
    let mut basic = None;
    match (client.method, client.secret.as_ref().map(|secret| secret.reveal())) {
        (ClientAuthMethod::Basic, Some(secret)) => basic = Some((client.id.as_str(), secret)),
        (ClientAuthMethod::Post, Some(secret)) => {
            fields.extend([("client_id", client.id.as_str()), ("client_secret", secret)]);
        }
        _ => fields.push(("client_id", client.id.as_str())),
    }
    fetch.form(place, &fields, basic).await
}

async fn ask_for_tokens<'a>(
    fetch: &OauthHttp,
    place: &str,
    client: &'a OauthClient,
    fields: Vec<(&'a str, &'a str)>,
) -> Result<TokenAnswer, GrantError> {
    let place = metadata::endpoint("token endpoint", place).map_err(FetchError::from)?;
    let fetched = post_as(client, fetch, &place, fields).await?;
    let answer = answer_of(&fetched.body)?;
    match answer {
        TokenAnswer::Granted { .. } if !fetched.status.is_success() => {
            Err(GrantError::InvalidResponse("it holds both tokens and an error"))
        }
        _ => Ok(answer),
    }
}

/// An error never includes the body: it may contain a token.
fn answer_of(body: &[u8]) -> Result<TokenAnswer, GrantError> {
    if body.is_empty() {
        return Err(GrantError::InvalidResponse("it is empty"));
    }
    serde_json::from_slice(body)
        .map_err(|_| GrantError::InvalidResponse("it is not the JSON of a token endpoint"))
}

fn tokens(answer: TokenAnswer, asked: &Scopes, before: Option<&str>) -> Result<Tokens, GrantError> {
    let (access, kind, lifetime, refresh, scope) = match answer {
        TokenAnswer::Granted { access_token, token_type, expires_in, refresh_token, scope } => {
            (access_token, token_type, expires_in, refresh_token, scope)
        }
        TokenAnswer::Refused { error, error_description } => {
            return Err(refused(&error, error_description.as_deref()));
        }
    };
    if !kind.eq_ignore_ascii_case("bearer") {
        return Err(GrantError::InvalidResponse(
            "its tokens are of a kind that Switchboard does not support",
        ));
    }
    let made = Tokens::new(
        access,
        refresh.or_else(|| before.map(str::to_owned)),
        lifetime,
        scope.map_or_else(|| asked.clone(), |granted| Scopes::of_text(&granted)),
        now(),
    );
    if made.header().is_none() {
        return Err(GrantError::InvalidResponse("its token does not fit into a header"));
    }
    Ok(made)
}

fn refused(error: &str, description: Option<&str>) -> GrantError {
    let why = description.map_or(String::new(), |why| format!(": {why}"));
    let words = shortened(&format!("{error}{why}"));
    match error {
        "invalid_grant" => GrantError::InvalidGrant(words),
        "invalid_client" | "unauthorized_client" => GrantError::UnknownClient(words),
        _ => GrantError::Refused(words),
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
        let read = |text: &str| answer_of(text.as_bytes()).unwrap();
        let asked = Scopes::of_text("a");
        assert!(tokens(read(r#"{"access_token":"t","token_type":"DPoP"}"#), &asked, None).is_err());
        let kept = tokens(read(r#"{"access_token":"t","token_type":"bearer"}"#), &asked, Some("r")).unwrap();
        assert_eq!((kept.refresh.unwrap().reveal(), kept.scopes.to_string().as_str()), ("r", "a"));
        assert!(tokens(read(r#"{"access_token":"a\nb","token_type":"Bearer"}"#), &asked, None).is_err());
    }

    #[test]
    fn a_refusal_is_told_apart_by_its_code() {
        let refusal = |body: &str| {
            let error = match answer_of(body.as_bytes()) {
                Ok(answer) => tokens(answer, &Scopes::default(), None).unwrap_err(),
                Err(error) => error,
            };
            (format!("{error:?}").split('(').next().unwrap().to_owned(), error.to_string())
        };
        for (body, kind, said) in [
            (r#"{"error":"invalid_grant","error_description":"it ended"}"#, "InvalidGrant", ": it ended"),
            (r#"{"error":"invalid_client"}"#, "UnknownClient", ": invalid_client"),
            (r#"{"error":"unauthorized_client","other":1}"#, "UnknownClient", ": unauthorized_client"),
            (r#"{"error":"slow_down"}"#, "Refused", ": slow_down"),
            (r#"{"access_token":"secret"}"#, "InvalidResponse", "not the JSON of a token endpoint"),
            ("<html>secret", "InvalidResponse", "not the JSON of a token endpoint"),
            ("", "InvalidResponse", "it is empty"),
        ] {
            let (found, words) = refusal(body);
            assert!(found == kind && words.ends_with(said) && !words.contains("secret"), "{body}: {words}");
        }
    }
}

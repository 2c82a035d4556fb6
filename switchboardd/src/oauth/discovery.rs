//! Finds the authorization server of a server that wants a token.

use url::Url;

use super::bearer_challenge::BearerChallenge;
use super::fetch::{FetchError, FetchResponse, OauthHttp};
use super::metadata::{self, AuthServerMetadata, InvalidMetadata, ResourceMetadata};
use super::well_known;

/// What a login needs to know of both servers.
#[derive(Debug, Clone)]
pub struct DiscoveredServer {
    /// The resource to request tokens for, exactly as the server writes it.
    pub resource: String,
    /// The scopes that the server lists.
    pub scopes: Option<Vec<String>>,
    pub authority: AuthServerMetadata,
}

#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    #[error("{0}")]
    Fetch(#[from] FetchError),
    #[error("{0}")]
    Metadata(#[from] InvalidMetadata),
    #[error("`{0}` does not hold the metadata of an authorization server")]
    NoResource(String),
    #[error("authorization server `{0}` has no metadata at any of the places for it")]
    NoAuthority(String),
}

/// `before`: the issuer of the last token.
pub async fn find(
    fetch: &OauthHttp,
    server: &Url,
    bearer_challenge: Option<&BearerChallenge>,
    before: Option<&str>,
) -> Result<DiscoveredServer, DiscoveryError> {
    match resource(fetch, server, bearer_challenge).await? {
        Some(resource) => {
            let own = well_known::origin(server);
            let issuer = resource.issuer(before).unwrap_or(&own).to_owned();
            let authority = authority(fetch, &issuer)
                .await?
                .ok_or_else(|| DiscoveryError::NoAuthority(issuer.clone()))?;
            Ok(DiscoveredServer { resource: resource.resource, scopes: resource.scopes_supported, authority })
        }
        // No metadata: a server of 2025-03-26 is its own authorization server.
        None => {
            let found = authority(fetch, &well_known::origin(server)).await?;
            let authority = found.unwrap_or_else(|| AuthServerMetadata::default_for(server));
            Ok(DiscoveredServer { resource: canonical(server), scopes: None, authority })
        }
    }
}

/// The server's metadata; `None` if it has none.
pub async fn resource(
    fetch: &OauthHttp,
    server: &Url,
    bearer_challenge: Option<&BearerChallenge>,
) -> Result<Option<ResourceMetadata>, DiscoveryError> {
    if let Some(place) =
        bearer_challenge.and_then(|bearer_challenge| bearer_challenge.resource_metadata.as_deref())
    {
        let place = metadata::endpoint("place of metadata", place)?;
        let found: ResourceMetadata = read(&fetch.document(&place).await?)
            .ok_or_else(|| DiscoveryError::NoResource(super::fetch::shown(&place)))?;
        return Ok(Some(found.checked(server)?));
    }
    for place in well_known::of_resource(server) {
        if let Some(found) = read::<ResourceMetadata>(&fetch.document(&place).await?) {
            return Ok(Some(found.checked(server)?));
        }
    }
    Ok(None)
}

async fn authority(fetch: &OauthHttp, issuer: &str) -> Result<Option<AuthServerMetadata>, DiscoveryError> {
    let base = metadata::endpoint("issuer", issuer)?;
    for place in well_known::of_authority(&base) {
        if let Some(found) = read::<AuthServerMetadata>(&fetch.document(&place).await?) {
            return Ok(Some(found.checked(issuer)?));
        }
    }
    Ok(None)
}

/// Any other document counts as none: many hosts answer every path with something.
fn read<T: serde::de::DeserializeOwned>(fetched: &FetchResponse) -> Option<T> {
    fetched.status.is_success().then(|| serde_json::from_slice(&fetched.body).ok())?
}

/// A server's URL as a resource identifier: no fragment, and no slash where there is no path.
fn canonical(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    let text = url.to_string();
    match text.strip_suffix('/') {
        Some(bare) if url.path() == "/" && url.query().is_none() => bare.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_metadata_is_named_by_its_url() {
        let named = |text| canonical(&Url::parse(text).unwrap());
        assert_eq!(named("https://x/"), "https://x");
        assert_eq!(named("https://x/mcp/#f"), "https://x/mcp/");
        assert_eq!(named("https://x/?a=/"), "https://x/?a=/");
    }
}

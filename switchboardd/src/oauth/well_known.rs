//! URLs at which servers and authorization servers publish their metadata. Pure.

use url::Url;

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const AUTHORITY: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// URLs for a server that named none: with its path, then at the root.
pub fn of_resource(server: &Url) -> Vec<Url> {
    let path = path_of(server);
    let mut places = vec![at(server, &format!("{RESOURCE}{path}"), server.query())];
    if !path.is_empty() || server.query().is_some() {
        places.push(at(server, RESOURCE, None));
    }
    places
}

/// URLs for an authorization server, in the order in which they are tried.
pub fn of_authority(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    if path.is_empty() {
        return [AUTHORITY, OPENID].map(|place| at(issuer, place, None)).into();
    }
    [format!("{AUTHORITY}{path}"), format!("{OPENID}{path}"), format!("{path}{OPENID}")]
        .map(|place| at(issuer, &place, None))
        .into()
}

/// Scheme, host and port, as issuers are written.
pub fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// A path on the same host.
pub fn at(base: &Url, path: &str, query: Option<&str>) -> Url {
    let mut url = base.clone();
    url.set_path(path);
    url.set_query(query);
    url.set_fragment(None);
    url
}

/// The path, empty for the root.
fn path_of(url: &Url) -> &str {
    match url.path() {
        "/" => "",
        path => path,
    }
}

/// Whether `resource` is this server, or a path prefix of it on the same origin.
pub fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    if resource.origin() != server.origin() || resource.fragment().is_some() {
        return false;
    }
    let (outer, inner) = (resource.path().trim_end_matches('/'), server.path().trim_end_matches('/'));
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn texts(places: &[Url]) -> Vec<&str> {
        places.iter().map(Url::as_str).collect()
    }

    #[test]
    fn a_servers_path_is_tried_before_the_root() {
        let base = "https://x/.well-known/oauth-protected-resource";
        assert_eq!(texts(&of_resource(&url("https://x/"))), [base]);
        assert_eq!(texts(&of_resource(&url("https://x/a/mcp"))), [&*format!("{base}/a/mcp"), base]);
        assert_eq!(texts(&of_resource(&url("https://x/mcp?t=1"))), [&*format!("{base}/mcp?t=1"), base]);
    }

    #[test]
    fn an_issuer_with_a_path_has_three_urls() {
        assert_eq!(
            texts(&of_authority(&url("https://x:8443"))),
            [
                "https://x:8443/.well-known/oauth-authorization-server",
                "https://x:8443/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            texts(&of_authority(&url("https://x/tenant/"))),
            [
                "https://x/.well-known/oauth-authorization-server/tenant",
                "https://x/.well-known/openid-configuration/tenant",
                "https://x/tenant/.well-known/openid-configuration"
            ]
        );
        assert_eq!(origin(&url("https://x:443/a?b")), "https://x");
    }

    #[test]
    fn a_resource_covers_what_is_below_it() {
        let server = url("https://x/a/mcp");
        for resource in ["https://x/a/mcp", "https://x/a/mcp/", "https://x/a", "https://x", "https://X:443/"]
        {
            assert!(covers(resource, &server), "{resource}");
        }
        for resource in
            ["https://x/a/m", "https://y/a/mcp", "http://x/a/mcp", "https://x/a/mcp/b", "x", "https://x#f"]
        {
            assert!(!covers(resource, &server), "{resource}");
        }
    }
}

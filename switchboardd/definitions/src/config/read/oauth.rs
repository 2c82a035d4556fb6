//! Reads `oauth`: what a login to a remote server needs.

use std::collections::BTreeMap;
use std::path::Path;

use url::Url;

use super::super::{ClientConfig, OauthConfig};
use crate::document::{Fields, Node};
use crate::expand::{ExpansionContext, Template};

pub(in crate::config) const OAUTH: [&str; 2] = ["clientIdUrl", "clients"];
pub(in crate::config) const CLIENT: [&str; 5] =
    ["clientId", "clientSecret", "issuer", "scopes", "callbackPort"];

pub(super) fn oauth(fields: &Fields<'_>, folder: &Path) -> OauthConfig {
    fields.reject_unknown(&OAUTH);
    let client_id_url = fields.get("clientIdUrl").and_then(|node| {
        let url = node.text()?;
        if !is_document(&url) {
            node.complain(format!("`{url}` is not the `https://` URL of a document"));
            return None;
        }
        Some(url)
    });
    let mut clients = BTreeMap::new();
    for (child, node) in fields.get("clients").and_then(|node| node.object()).iter().flat_map(Fields::entries)
    {
        let before = node.problem_count();
        let read = client(&node, folder).filter(|_| node.problem_count() == before);
        clients.extend(read.map(|client| (child.to_owned(), client)));
    }
    OauthConfig { client_id_url, clients }
}

/// Whether this can be an authorization server: `https`, or `http` on this machine.
fn is_issuer(text: &str) -> bool {
    let is_here = |url: &Url| matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
    Url::parse(text).is_ok_and(|url| {
        url.fragment().is_none()
            && url.query().is_none()
            && (url.scheme() == "https" || url.scheme() == "http" && is_here(&url))
    })
}

/// Whether a URL can be a client id: the `https` URL of a document, which any server can fetch safely.
fn is_document(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        url.scheme() == "https" && url.path() != "/" && url.fragment().is_none() && url.username().is_empty()
    })
}

fn client(node: &Node<'_>, folder: &Path) -> Option<ClientConfig> {
    let fields = node.object()?;
    fields.reject_unknown(&CLIENT);
    let text = |name| fields.get(name).and_then(|node| node.text());
    let issuer = fields.get("issuer").and_then(|node| {
        let issuer = node.text()?;
        if !is_issuer(&issuer) {
            node.complain(format!("`{issuer}` is not the `https://` URL of an authorization server"));
        }
        Some(issuer)
    });
    let client_secret = fields.get("clientSecret").and_then(|node| {
        let places = ExpansionContext {
            folder: folder.to_owned(),
            root: folder.to_owned(),
            ..ExpansionContext::default()
        };
        Template::parse(&node.text()?, &places).map_err(|why| node.complain(why)).ok()
    });
    if client_secret.is_some() && text("clientId").is_none() {
        node.complain("a `clientSecret` needs its `clientId`".to_owned());
    }
    // Without an issuer, the server would decide who receives the secret.
    if client_secret.is_some() && issuer.is_none() {
        node.complain("a `clientSecret` needs the `issuer` that it is for".to_owned());
    }
    Some(ClientConfig {
        client_id: text("clientId"),
        client_secret,
        issuer,
        scopes: fields.get("scopes").and_then(|node| node.texts()),
        callback_port: fields
            .get("callbackPort")
            .and_then(|node| node.number(1024, 65_535))
            .and_then(|port| u16::try_from(port).ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_urls_are_documents() {
        assert!(is_document("https://me.example/client.json"));
        for text in
            ["https://me.example/", "http://me.example/c", "https://u@me.example/c", "me", "https://m/c#f"]
        {
            assert!(!is_document(text), "{text}");
        }
    }
}

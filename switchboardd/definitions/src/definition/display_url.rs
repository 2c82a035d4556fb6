//! A remote server's URL as users, models and logs may see it. Pure.
//!
//! Our own messages show the URL as written in its file. Text from others (a server that repeats the path it
//! was asked for, a certificate that names the host) goes through [`DisplayUrl::redact`] first.

use std::borrow::Cow;

use switchboard_wire::visible::visible;

use super::{Redactor, Remote};
use crate::expand::{PlaceholderValues, Template};
use crate::mask::{MASK, masked_path, masked_query};

/// The URL of a remote server as written, and a redactor for the filled-in values.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct DisplayUrl {
    pub url: String,
    pub redactor: Redactor,
}

/// Does not print the values that it hides.
impl std::fmt::Debug for DisplayUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DisplayUrl").field(&self.url).finish()
    }
}

impl DisplayUrl {
    pub(super) fn new(remote: &Remote, values: &PlaceholderValues) -> Self {
        let templates = std::iter::once(&remote.url).chain(remote.headers.values());
        let filled = templates.flat_map(Template::placeholders).flat_map(|(name, _)| {
            let value = values.get(name).map_or("", |value| value.trim());
            let all = std::iter::once(value.to_owned()).chain(parts(value));
            all.map(move |part| (part, format!("${{{name}}}")))
        });
        let literal = masked_literals(&remote.url).into_iter().map(|text| (text, MASK.to_owned()));
        Self { url: shown_url(&remote.url), redactor: Redactor::new(filled.chain(literal)) }
    }

    /// Replaces every filled-in value in a text by its name.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redactor.redact(text)
    }

    /// Whether a text contains no hidden value.
    pub fn is_clean(&self, text: &str) -> bool {
        self.redactor.is_clean(text)
    }
}

/// The parts of a value that is a whole URL, to be hidden one by one: host, path, query and secrets in them.
fn parts(value: &str) -> Vec<String> {
    let Ok(url) = url::Url::parse(value) else { return Vec::new() };
    let pairs = url.query_pairs().map(|(_, value)| value.into_owned());
    let segments = url.path_segments().into_iter().flatten().filter(|part| masked_path(part) != *part);
    let whole = [url.host_str(), Some(url.path()), url.query(), url.password()].into_iter().flatten();
    whole.chain(segments).map(ToOwned::to_owned).chain(pairs).collect()
}

/// The URL without its password, without secrets in its path, and without its query.
pub fn shown_url(url: &Template) -> String {
    shown_with_query(url, |_| "…".to_owned())
}

/// Like [`shown_url`] with the query, but without what looks like a secret in it: for the user who decides.
pub fn shown_whole_url(url: &Template) -> String {
    shown_with_query(url, masked_query)
}

fn shown_with_query(url: &Template, shown: impl Fn(&str) -> String) -> String {
    let url = url.to_string();
    let (url, query) = match url.split_once('?') {
        Some((url, query)) => (url, format!("?{}", shown(query))),
        None => (url.as_str(), String::new()),
    };
    let url = match url.split_once("://") {
        Some((scheme, rest)) => {
            // The host ends at the first of these; an `@` after them does not belong to it.
            let (host, path) = rest.find(['/', '\\', '#']).map_or((rest, ""), |at| rest.split_at(at));
            let host = host.rsplit_once('@').map_or(host.to_owned(), |(_, host)| format!("…@{host}"));
            format!("{scheme}://{host}{}", masked_path(path))
        }
        None => url.to_owned(),
    };
    visible(&format!("{url}{query}")).into_owned()
}

/// The parts of the URL's path that [`shown_url`] masks.
fn masked_literals(url: &Template) -> Vec<String> {
    let url = url.to_string();
    let path = url.split('?').next().and_then(|url| url.split_once("://"));
    let path = path.and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..])).unwrap_or_default();
    let masked = masked_path(path);
    let pairs = path.split('/').zip(masked.split('/'));
    pairs.filter(|(written, shown)| written != shown).map(|(written, _)| written.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Transport;
    use crate::expand::ExpansionContext;

    fn remote(url: &str, header: &str) -> Remote {
        let parse = |text: &str| Template::parse(text, &ExpansionContext::default()).unwrap();
        let headers = [("x".to_owned(), parse(header))].into();
        Remote { transport: Transport::Http, url: parse(url), headers }
    }

    fn shown(url: &str, header: &str) -> DisplayUrl {
        let values = [("HOOK", "Se/cret One"), ("KEY", "k3y-k3y"), ("TINY", "eu")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
        DisplayUrl::new(&remote(url, header), &values.into())
    }

    #[test]
    fn a_url_is_shown_as_it_is_written() {
        for (url, expect) in [
            ("https://${HOOK}.example/s/${HOOK}/mcp?k=${KEY}", "https://${HOOK}.example/s/${HOOK}/mcp?…"),
            ("https://h/s/ghp_0123456789abcdefghij/mcp", "https://h/s/•••/mcp"),
            ("https://h/${TINY}/mcp", "https://h/${TINY}/mcp"),
        ] {
            assert_eq!(shown(url, "").url, expect);
        }
    }

    #[test]
    fn a_query_is_shown_without_its_secrets() {
        let filled = |text: &str| Template::parse(text, &ExpansionContext::default()).unwrap();
        for (url, expect) in [
            ("https://h/mcp?tools=read,write&mode=1", "https://h/mcp?tools=read,write&mode=1"),
            ("https://h/mcp?api_key=hunter2&x=${KEY}", "https://h/mcp?api_key=•••&x=${KEY}"),
            ("https://h/mcp?api%5Fkey=hunter2", "https://h/mcp?api%5Fkey=•••"),
            ("https://h/mcp?token=${KEY}", "https://h/mcp?token=${KEY}"),
            ("https://h/mcp?token=${KEY:-hunter2}", "https://h/mcp?token=${KEY:-•••}"),
            ("https://h/mcp?s=Y2FuYXJ5MDEyMzQ1Njc4OQ", "https://h/mcp?s=•••"),
            ("https://h/mcp?ghp_0123456789abcdefghij&a", "https://h/mcp?•••&a"),
            // Some servers separate by `;`, for others it may be part of a secret.
            ("https://h/mcp?a=1;token=hunter2", "https://h/mcp?a=1;token=•••"),
            ("https://h/mcp?a=1;token=hunter2;b=hunter3&c=2", "https://h/mcp?a=1;token=•••&c=2"),
            ("https://h/mcp?token=${KEY};hunter2", "https://h/mcp?token=${KEY}•••"),
            ("https://h/mcp?s=Y2FuYXJ5MDEyMzQ1Njc4OQ;hunter2", "https://h/mcp?s=•••"),
            ("https://h/mcp?a=1;;b=2;&c=3;", "https://h/mcp?a=1;;b=2;&c=3;"),
            // The default of a placeholder is one value, whatever it contains.
            ("https://h/mcp?token=${KEY:-a&hunter2}&b=1", "https://h/mcp?token=${KEY:-•••}&b=1"),
            ("https://h/mcp?token=${KEY:-a;hunter2}", "https://h/mcp?token=${KEY:-•••}"),
            ("https://h/mcp?b=${KEY:-c&d}&token=hunter2", "https://h/mcp?b=${KEY:-c&d}&token=•••"),
            // Not placeholders, so `&` inside them separates.
            ("https://h/mcp?b=${!c&token=hunter2}", "https://h/mcp?b=${!c&token=•••"),
            ("https://h/mcp?b=${c&token=hunter2", "https://h/mcp?b=${c&token=•••"),
            ("https://me:pw@h/?a=\u{202e}b", "https://…@h/?a=\\u{202e}b"),
        ] {
            assert_eq!(shown_whole_url(&filled(url)), expect);
        }
    }

    #[test]
    fn values_are_redacted_from_the_text_of_others() {
        let shown =
            shown("https://${HOOK}.example/${HOOK}/${TINY}/ghp_0123456789abcdefghij", "Bearer ${KEY}");
        for said in ["Se/cret One", "Se/cret%20One", "se/cret one", "Se%2Fcret+One"] {
            assert_eq!(shown.redact(&format!("no `/{said}` in eu")), "no `/${HOOK}` in eu", "{said}");
            assert!(!shown.is_clean(said));
        }
        assert_eq!(shown.redact("k3y-k3y ghp_0123456789abcdefghij"), "${KEY} •••");
        assert!(matches!(shown.redact("nothing of it"), Cow::Borrowed(_)) && shown.is_clean("nothing"));
        assert!(!format!("{shown:?}").contains("cret"));
    }

    #[test]
    fn the_shown_host_is_the_real_one() {
        for url in [r"https://evil.example\@github.com/mcp", "https://evil.example#@github.com/mcp"] {
            let shown = shown_url(&Template::text(url));
            assert!(shown.starts_with("https://evil.example"), "{url}: {shown}");
        }
    }
}

//! The URL of a remote child, and where redirects may lead. Pure.

use reqwest::Url;

use switchboard_definitions::definition::ResolvedRemote;

/// The URL of a child, if messages may be sent there; the error says what is wrong with it.
pub fn address(to: &ResolvedRemote) -> Result<Url, String> {
    // The text may contain a secret, so it is not repeated.
    let url = Url::parse(&to.url).map_err(|error| format!("`url` is not valid: {error}"))?;
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) => {}
        "http" => {
            return Err("`url` is not encrypted: `http://` is for this machine (`localhost`, `127.0.0.1`, `[::1]`) only"
                .to_owned());
        }
        // The scheme may contain a secret too, so it is shown only if the definition spells it out.
        other if to.shown.url.starts_with(other) => {
            return Err(format!("`url` cannot be reached by `{other}`; `https` or `http` can"));
        }
        _ => {
            return Err(
                "`url` begins with neither `https` nor `http` once its variables are filled in".to_owned()
            );
        }
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("`url` holds a name or a password; `headers` is the place for credentials".to_owned());
    }
    Ok(url)
}

pub fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        None => false,
    }
}

/// Resolves `location` if it has the same origin as `from`; otherwise returns the other origin
/// for the error message.
pub(super) fn resolve_redirect(from: &Url, location: &str) -> Result<Url, Option<String>> {
    let to = from.join(location).map_err(|_| None)?;
    if to.origin() == from.origin() && matches!(to.scheme(), "http" | "https") {
        return Ok(to);
    }
    // Only the origin: the rest may contain secrets.
    let place =
        to.host_str().map_or_else(|| format!("{}:", to.scheme()), |_| to.origin().ascii_serialization());
    Err(Some(if place == "null" { format!("{}:", to.scheme()) } else { place }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_definitions::definition::{Remote, Transport};
    use switchboard_definitions::expand::{PlaceholderValues, Template};

    fn check(url: &str) -> Result<Url, String> {
        let remote = Remote { transport: Transport::Http, url: Template::text(url), headers: [].into() };
        address(&remote.fill(&PlaceholderValues::new()).unwrap())
    }

    #[test]
    fn only_this_machine_is_spoken_to_in_the_clear() {
        for fine in ["https://x.example/mcp", "http://localhost:1/", "http://127.0.0.9/x", "http://[::1]:8/"]
        {
            assert!(check(fine).is_ok(), "{fine}");
        }
        for refused in [
            "http://x.example/mcp",
            "http://localhost.example/",
            "http://127.0.0.1.example/",
            "http://0.0.0.0/",
            "file:///etc/passwd",
            "ftp://x/",
            "https://me:secret@x.example/",
            "nothing",
            "",
        ] {
            let why = check(refused).unwrap_err();
            assert!(why.starts_with("`url`") && !why.contains("secret"), "{refused}: {why}");
        }
    }

    #[test]
    fn redirects_stay_within_the_origin() {
        let from = Url::parse("https://x.example/a/mcp?k=1").unwrap();
        assert_eq!(resolve_redirect(&from, "/b/").unwrap().as_str(), "https://x.example/b/");
        assert_eq!(resolve_redirect(&from, "https://x.example:443/c").unwrap().path(), "/c");
        for (elsewhere, shown) in [
            ("https://y.example/mcp?token=t", "https://y.example"),
            ("http://x.example/mcp", "http://x.example"),
            ("https://x.example:444/", "https://x.example:444"),
            ("//evil.example/x", "https://evil.example"),
            ("file:///etc/passwd", "file:"),
            ("data:text/plain,x", "data:"),
        ] {
            assert_eq!(resolve_redirect(&from, elsewhere), Err(Some(shown.to_owned())), "{elsewhere}");
        }
    }
}

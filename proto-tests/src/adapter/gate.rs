//! Checks the headers that decide whether a request is accepted: `Host`, `Origin` and media types.

use hyper::HeaderMap;
use hyper::header::{ACCEPT, GetAll, HeaderName, HeaderValue};

/// Exactly one `Host`, and it names this machine and our port.
pub(super) fn host_is_ours(hosts: &GetAll<'_, HeaderValue>, port: u16) -> bool {
    let mut hosts = hosts.iter();
    match (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) {
        (Some(host), None) => is_ours(host, port),
        _ => false,
    }
}

/// No `Origin`, or only our own.
pub(super) fn origin_is_ours(origins: &GetAll<'_, HeaderValue>, port: u16) -> bool {
    origins.iter().all(|origin| {
        origin
            .to_str()
            .ok()
            .and_then(|origin| origin.strip_prefix("http://"))
            .is_some_and(|host| is_ours(host, port))
    })
}

fn is_ours(host: &str, port: u16) -> bool {
    let (name, given) = match host.rsplit_once(':') {
        Some((name, given)) if !given.ends_with(']') => (name, given),
        _ => return false,
    };
    matches!(name.to_ascii_lowercase().as_str(), "localhost" | "127.0.0.1" | "[::1]")
        && given == port.to_string()
}

/// Whether a header lists a media type, or `*/*`.
pub(super) fn names(headers: &HeaderMap, header: HeaderName, wanted: &str) -> bool {
    headers
        .get_all(header)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| {
            let kind = part.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case(wanted) || kind == "*/*"
        })
}

pub(super) fn accepts_both(headers: &HeaderMap) -> bool {
    names(headers, ACCEPT, "application/json") && names(headers, ACCEPT, "text/event-stream")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_with_our_port_is_ours() {
        for host in ["localhost:80", "LocalHost:80", "127.0.0.1:80", "[::1]:80"] {
            assert!(is_ours(host, 80), "{host}");
        }
        for host in [
            "localhost",
            "localhost:81",
            "evil.example.com",
            "evil.example.com:80",
            "[::1]",
            "127.0.0.1.evil:80",
        ] {
            assert!(!is_ours(host, 80), "{host}");
        }
    }

    #[test]
    fn media_types_are_found_in_lists() {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json;q=0.9"));
        assert!(accepts_both(&headers));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        assert!(!accepts_both(&headers));
    }
}

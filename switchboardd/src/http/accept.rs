//! Reads the `Accept` header.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

/// Whether JSON is accepted. No `Accept` accepts anything; of several ranges the most specific one counts.
pub(super) fn takes_json(headers: &HeaderMap) -> bool {
    !headers.contains_key(ACCEPT) || takes(headers, ["application/json", "application/*", "*/*"])
}

/// Whether the caller accepts both an event stream and JSON, as Streamable HTTP requires.
pub(super) fn takes_both(headers: &HeaderMap) -> bool {
    takes_events(headers) && headers.contains_key(ACCEPT) && takes_json(headers)
}

/// Whether an event stream is accepted. A request without `Accept` does not accept one.
pub(super) fn takes_events(headers: &HeaderMap) -> bool {
    takes(headers, ["text/event-stream", "text/*", "*/*"])
}

fn takes(headers: &HeaderMap, names: [&str; 3]) -> bool {
    names
        .into_iter()
        .find_map(|name| {
            let named = ranges(headers).filter(|range| range.is(name)).map(|range| range.accepted);
            named.reduce(|one, other| one || other)
        })
        .unwrap_or(false)
}

/// Whether the caller accepts an event stream and nothing else.
pub(super) fn wants_only_events(headers: &HeaderMap) -> bool {
    let mut welcome = ranges(headers).filter(|range| range.accepted).peekable();
    welcome.peek().is_some() && welcome.all(|range| range.is("text/event-stream"))
}

/// A media range; `accepted` unless it has `q=0`.
struct MediaRange<'a> {
    name: &'a str,
    accepted: bool,
}

impl MediaRange<'_> {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

fn ranges(headers: &HeaderMap) -> impl Iterator<Item = MediaRange<'_>> {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().filter(|name| !name.is_empty())?;
            let refused = parts.any(|part| {
                let quality = part.strip_prefix(['q', 'Q']).and_then(|rest| rest.strip_prefix('='));
                quality.and_then(|quality| quality.parse::<f32>().ok()).is_some_and(|quality| quality <= 0.0)
            });
            Some(MediaRange { name, accepted: !refused })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept: Option<&str>, json: bool, only_events: bool) {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(ACCEPT, accept.parse().unwrap());
        }
        assert_eq!((takes_json(&headers), wants_only_events(&headers)), (json, only_events), "{accept:?}");
    }

    #[test]
    fn events_have_to_be_asked_for() {
        let with = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            (takes_events(&headers), takes_both(&headers))
        };
        assert_eq!(with("application/json, text/event-stream"), (true, true));
        assert_eq!(with("*/*"), (true, true));
        assert_eq!(with("text/event-stream"), (true, false));
        assert_eq!(with("application/json"), (false, false));
        assert!(!takes_both(&HeaderMap::new()) && !takes_events(&HeaderMap::new()));
    }

    #[test]
    fn the_most_specific_range_decides() {
        check(None, true, false);
        check(Some("*/*"), true, false);
        check(Some("application/json, text/event-stream"), true, false);
        check(Some("Application/JSON;q=0.5"), true, false);
        check(Some("text/event-stream"), false, true);
        check(Some("text/html"), false, false);
        check(Some("application/json;q=0, text/html"), false, false);
        check(Some("application/json;q=0"), false, false);
        check(Some(""), false, false);
        check(Some("*/*, application/json;q=0"), false, false);
        check(Some("application/json;Q=0.0, application/*"), false, false);
        check(Some("application/json, */*;q=0"), true, false);
        check(Some("application/*;q=0, */*"), false, false);
        check(Some("text/event-stream, application/json;q=0"), false, true);
    }
}

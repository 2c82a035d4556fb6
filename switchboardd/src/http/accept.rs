//! What a caller is willing to be answered with.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

/// Whether JSON is welcome. No `Accept` means anything is.
pub(super) fn takes_json(headers: &HeaderMap) -> bool {
    !headers.contains_key(ACCEPT)
        || ranges(headers).any(|range| matches!(&*range, "application/json" | "application/*" | "*/*"))
}

/// Whether the caller wants an event stream and would take nothing else.
pub(super) fn wants_only_events(headers: &HeaderMap) -> bool {
    let mut any = false;
    for range in ranges(headers) {
        any = true;
        if &*range != "text/event-stream" {
            return false;
        }
    }
    any
}

/// The media ranges that are not refused by `q=0`, in lower case.
fn ranges(headers: &HeaderMap) -> impl Iterator<Item = String> {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().filter(|name| !name.is_empty())?.to_ascii_lowercase();
            let refused = parts.any(|part| {
                part.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()).is_some_and(|q| q <= 0.0)
            });
            (!refused).then_some(name)
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
    fn accept_is_read_as_it_is_meant() {
        check(None, true, false);
        check(Some("*/*"), true, false);
        check(Some("application/json, text/event-stream"), true, false);
        check(Some("Application/JSON;q=0.5"), true, false);
        check(Some("text/event-stream"), false, true);
        check(Some("text/html"), false, false);
        check(Some("application/json;q=0, text/html"), false, false);
        check(Some("application/json;q=0"), false, false);
        check(Some(""), false, false);
    }
}

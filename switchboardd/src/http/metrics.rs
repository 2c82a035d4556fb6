//! `/metrics`: what Prometheus scrapes. What is told is gathered in `exposition.rs`.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;

use super::gate::Pass;
use super::rescue::Refusal;
use crate::board::Board;
use crate::exposition::{Now, expose};
use crate::measures::text::{Format, Text};

pub(super) async fn metrics(
    State(board): State<Arc<Board>>,
    Extension(pass): Extension<Pass>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    if pass != Pass::Full {
        return Err(Refusal::NoToken);
    }
    let format = format(&headers);
    let weights = board.nursery.budget.weigh().await;
    let now = Now::of(&board, &weights);
    let measures = board.nursery.measures.clone();
    // Thousands of lines take a while: not on the one thread.
    let text = tokio::task::spawn_blocking(move || {
        let mut text = Text::new(format);
        expose(&measures, &now, &mut text);
        text.finish()
    })
    .await;
    let mut response = Response::new(text.unwrap_or_default().into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    Ok(response)
}

/// OpenMetrics for whoever names it, and the old format for everybody else, curl among them.
fn format(headers: &HeaderMap) -> Format {
    let named = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let mut kinds = named.flat_map(|accept| accept.split(','));
    let is_open = |kind: &str| {
        let mut parts = kind.split(';').map(str::trim);
        parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text"))
            && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    };
    if kinds.any(is_open) { Format::OpenMetrics } else { Format::Prometheus }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_those_who_name_it() {
        let of = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            format(&headers)
        };
        assert_eq!(of("*/*"), Format::Prometheus);
        assert_eq!(of("text/plain;version=0.0.4"), Format::Prometheus);
        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(of(prometheus), Format::OpenMetrics);
        assert_eq!(of("application/openmetrics-text;q=0, text/plain"), Format::Prometheus);
        assert_eq!(format(&HeaderMap::new()), Format::Prometheus);
    }
}

//! `/metrics` for Prometheus. `metrics_export.rs` gathers the metrics.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use switchboard_wire::event_loop::try_run_blocking;

use super::auth::Access;
use super::errors::HttpError;
use crate::observe::metrics::text::{MetricsFormat, MetricsText};
use crate::observe::metrics_export::export;
use crate::state::{Daemon, collect_gauges};

pub(super) async fn metrics(
    State(daemon): State<Arc<Daemon>>,
    Extension(access): Extension<Access>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    if access != Access::Full {
        return Err(HttpError::NoToken);
    }
    let format = format(&headers);
    let memory_usage = daemon.services.budget.measure_memory().await;
    let now = collect_gauges(&daemon, &memory_usage);
    let metrics = daemon.services.metrics.clone();
    // Formatting thousands of lines takes a while: not on the event loop.
    let text = try_run_blocking(move || {
        let mut text = MetricsText::new(format);
        export(&metrics, &now, &mut text);
        text.finish()
    })
    .await;
    let mut response = Response::new(text.unwrap_or_default().into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    Ok(response)
}

/// OpenMetrics if the client asks for it; the classic text format for all others, e.g. curl.
fn format(headers: &HeaderMap) -> MetricsFormat {
    let named = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let mut kinds = named.flat_map(|accept| accept.split(','));
    let is_open = |kind: &str| {
        let mut parts = kind.split(';').map(str::trim);
        parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text"))
            && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    };
    if kinds.any(is_open) { MetricsFormat::OpenMetrics } else { MetricsFormat::Prometheus }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_only_for_clients_that_ask_for_it() {
        let of = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            format(&headers)
        };
        assert_eq!(of("*/*"), MetricsFormat::Prometheus);
        assert_eq!(of("text/plain;version=0.0.4"), MetricsFormat::Prometheus);
        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(of(prometheus), MetricsFormat::OpenMetrics);
        assert_eq!(of("application/openmetrics-text;q=0, text/plain"), MetricsFormat::Prometheus);
        assert_eq!(format(&HeaderMap::new()), MetricsFormat::Prometheus);
    }
}

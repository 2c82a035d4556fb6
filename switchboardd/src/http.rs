//! The HTTP front door: which route is whose, and how connections come and go.

mod accept;
mod batch;
mod catch;
mod control;
mod discovery;
mod door;
mod figures;
mod gate;
mod hop;
mod metrics;
mod page;
mod places;
mod proxy;
mod registry;
mod rescue;
mod savings;
mod short;
mod stream;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{any, get, post};

pub use door::{Doors, Listener};

use crate::board::Board;

/// Every route, behind the gate.
fn app(board: &Arc<Board>) -> Router {
    Router::new()
        .route("/proxy", any(proxy::aggregate))
        .route("/proxy/{child}", any(proxy::single))
        .route("/mcp", any(registry::aggregate))
        .route("/mcp/{child}", any(registry::single))
        .route("/hop/session", post(hop::open))
        .route("/hop/mailbox", post(hop::poll))
        .route("/control/{order}", post(control::order))
        .route("/health", get(discovery::health))
        .route("/ready", get(discovery::ready))
        .route("/version", get(discovery::version))
        .route("/suites", get(discovery::suites))
        .route("/suites/{name}", get(discovery::suite))
        .route("/suites/{name}/tools", get(discovery::tools))
        .route("/status", get(discovery::status))
        .route("/metrics", get(metrics::metrics))
        .route(page::FEED, get(page::feed))
        .route("/", get(page::part))
        .route("/page/{part}", get(page::part))
        .route(page::SESSION, post(page::exchange))
        .route("/savings", get(savings::show))
        .fallback(rescue::no_route)
        .method_not_allowed_fallback(rescue::wrong_method)
        .layer(DefaultBodyLimit::disable())
        .layer(axum::middleware::from_fn_with_state(board.clone(), gate::check))
        .with_state(board.clone())
}

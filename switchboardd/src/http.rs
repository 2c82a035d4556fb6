//! The HTTP front door: which route is whose, and how connections come and go.

mod accept;
mod auth;
mod batch;
mod control;
mod discovery;
mod errors;
mod fast_path;
mod hop;
mod metrics;
mod metrics_json;
mod page;
mod proxy;
mod savings;
mod server;
mod stream;
mod streamable;
mod tcp_connections;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{any, get, post};

pub use server::{HttpServer, Listener};

use crate::daemon_state::Daemon;

/// Every route, behind the gate.
fn app(daemon: &Arc<Daemon>) -> Router {
    Router::new()
        .route("/proxy", any(proxy::aggregate))
        .route("/proxy/{child}", any(proxy::single))
        .route("/mcp", any(streamable::aggregate))
        .route("/mcp/{child}", any(streamable::single))
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
        .fallback(errors::no_route)
        .method_not_allowed_fallback(errors::wrong_method)
        .layer(DefaultBodyLimit::disable())
        .layer(axum::middleware::from_fn_with_state(daemon.clone(), auth::check))
        .with_state(daemon.clone())
}

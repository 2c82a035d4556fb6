//! The HTTP server: every route and the module that answers it.

mod accept;
mod auth;
mod batch;
mod call_limit;
mod connection;
mod control;
mod discovery;
mod errors;
mod fast_path;
mod hop;
mod listener;
mod message_log;
mod metrics;
mod metrics_json;
mod page;
mod page_files;
mod paths;
mod proxy;
mod request_body;
mod request_context;
mod savings;
mod server;
mod stream;
mod streamable;
mod tcp_connections;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRef};
use axum::routing::{any, get, post};

pub use listener::{Listener, MemoryConnector, MemoryListener, Peer, PeerAddress};
pub use server::HttpServer;

use crate::reload::Reloader;
use crate::savings::SavingsCache;
use crate::state::Daemon;

/// The state that routes answer from; each route uses the part that it needs.
#[derive(Debug, Clone)]
struct AppState {
    daemon: Arc<Daemon>,
    reloader: Arc<Reloader>,
    savings: Arc<SavingsCache>,
}

impl FromRef<AppState> for Arc<Daemon> {
    fn from_ref(state: &AppState) -> Self {
        state.daemon.clone()
    }
}

impl FromRef<AppState> for Arc<Reloader> {
    fn from_ref(state: &AppState) -> Self {
        state.reloader.clone()
    }
}

impl FromRef<AppState> for Arc<SavingsCache> {
    fn from_ref(state: &AppState) -> Self {
        state.savings.clone()
    }
}

/// All routes, behind the authorization check.
fn app(daemon: &Arc<Daemon>, reloader: &Arc<Reloader>) -> Router {
    let state = AppState { daemon: daemon.clone(), reloader: reloader.clone(), savings: Arc::default() };
    Router::new()
        .route("/proxy", any(proxy::aggregate))
        .route("/proxy/{child}", any(proxy::single))
        .route("/mcp", any(streamable::handle))
        .route("/mcp/{child}", any(streamable::handle))
        .route("/hop/session", post(hop::open))
        .route("/hop/mailbox", post(hop::poll))
        .route("/control/{order}", post(control::run_order))
        .route("/health", get(discovery::health))
        .route("/ready", get(discovery::ready))
        .route("/version", get(discovery::version))
        .route("/suites", get(discovery::suites))
        .route("/suites/{name}", get(discovery::suite))
        .route("/suites/{name}/tools", get(discovery::tools))
        .route("/suites/{name}/details", get(discovery::details))
        .route("/status", get(discovery::status))
        .route("/metrics", get(metrics::metrics))
        .route(paths::PAGE_FEED, get(page::feed))
        .route("/", get(page::part))
        .route(paths::PAGE_PROOF, get(page::proof))
        .route("/page/{part}", get(page::part))
        .route(paths::PAGE_SESSION, post(page::exchange))
        .route("/savings", get(savings::show))
        .fallback(errors::no_route)
        .method_not_allowed_fallback(errors::wrong_method)
        .layer(DefaultBodyLimit::disable())
        .layer(axum::middleware::from_fn_with_state(daemon.clone(), auth::check))
        .with_state(state)
}

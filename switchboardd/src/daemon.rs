//! The serving daemon: takes listeners, serves until it is told to go, and leaves nothing behind.
//!
//! [`run`] knows no signals, files or processes, so that a test can drive a whole daemon in memory (`daemon/simulation.rs`).
//! `daemon/start_up.rs` is the daemon as a process.

mod collector;
mod fatal;
mod listen;
mod locations;
mod lock_file;
mod notify;
mod signals;
pub mod simulation;
mod start_up;
mod successor;
mod token;

pub use fatal::Fatal;
pub(crate) use listen::remove_dead_socket;
pub use locations::{
    config_file, files_in_use, home, running, runtime_paths, runtime_paths_in_use, state_folder, trust_roots,
};
pub use start_up::{serve, start_lock, write_failure_file};

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::hop::Draining;

use crate::daemon_state::{Daemon, Phase};
use crate::event_loop::Serving;
use crate::http::{HttpServer, Listener};
use crate::reload::Reloader;

/// Calls in flight may take this long to finish once the daemon is to go.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// So long a session may take to ask for mail again once it was told that the daemon goes. One that does
/// not hangs, or is held up by its host.
const DRAIN_ACK_TIMEOUT: Duration = Duration::from_secs(1);
/// Requests that were on their way when a session heard of it are answered that they did not start; a
/// connection that closed on them would leave their fate unknown.
const LATE_REQUEST_GRACE: Duration = Duration::from_millis(250);
/// A login that is being renewed may take this long to be written down.
const LOGIN_SAVE_TIMEOUT: Duration = Duration::from_secs(3);
/// Connections that do not close by themselves after that are cut.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Children get their end in stages, and this is more than all of them take.
const CHILD_STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How a daemon is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Calls in flight may finish, and sessions are told what to make of it.
    Drain(Draining),
    /// Calls in flight end with a fault, and no session is waited for.
    AtOnce,
}

/// Serves until `stop` resolves or somebody stops the daemon by a request, then drains and stops the children. Dropping
/// this ends it without either.
pub async fn run(reloader: &Arc<Reloader>, listeners: Vec<Listener>, stop: impl Future<Output = Stop>) {
    let daemon = reloader.daemon();
    let _serving = Serving::begin();
    let server = HttpServer::new(daemon.clone(), reloader.clone());
    listeners.into_iter().for_each(|listener| server.serve_listener(listener));
    let mut phase = daemon.phase();
    let stop = tokio::select! {
        stop = stop => Some(stop),
        _ = phase.wait_for(|phase| *phase != Phase::Serving) => None,
        () = keep_current(reloader) => None,
    };
    match stop {
        Some(Stop::Drain(draining)) => daemon.shutdown.drain(draining),
        Some(Stop::AtOnce) => {
            daemon.shutdown.drain(Draining::Restart);
            daemon.abort_all();
        }
        None => {}
    }
    shut_down(daemon, &server, stop == Some(Stop::AtOnce)).await;
}

/// What goes on beside the requests; never resolves.
async fn keep_current(reloader: &Arc<Reloader>) {
    let daemon = reloader.daemon();
    tokio::join!(
        reloader.run_reload_loop(),
        daemon.list_changes.run(&daemon.sessions),
        daemon.services.budget.watch_memory(),
        daemon.services.savings_recorder.run_flush_loop(),
    );
}

/// The order of leaving: calls in flight finish or fault, connections close, children stop.
async fn shut_down(daemon: &Arc<Daemon>, server: &HttpServer, at_once: bool) {
    tracing::info!(target: "daemon", "draining");
    if at_once {
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, daemon.shutdown.wait_idle()).await;
    } else {
        tokio::join!(finish_requests(daemon), announce_drain(daemon));
    }
    // What an authorization server has given out is written down, or the login is lost.
    let _ = tokio::time::timeout(LOGIN_SAVE_TIMEOUT, daemon.services.logins.settled()).await;
    daemon.shutdown.leave();
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, server.close()).await;
    let _ = tokio::time::timeout(CHILD_STOP_TIMEOUT, daemon.services.registry.stop_all()).await;
}

/// What is under way comes to its end, by itself or by a fault.
async fn finish_requests(daemon: &Daemon) {
    if tokio::time::timeout(DRAIN_TIMEOUT, daemon.shutdown.wait_idle()).await.is_err() {
        daemon.abort_all();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, daemon.shutdown.wait_idle()).await;
    }
}

/// Every session hears of it, and what it sent before it did is answered.
async fn announce_drain(daemon: &Daemon) {
    if daemon.sessions.all().is_empty() {
        return;
    }
    let _ = tokio::time::timeout(DRAIN_ACK_TIMEOUT, daemon.disconnects.wait_for_drain_acks(&daemon.sessions))
        .await;
    tokio::time::sleep(LATE_REQUEST_GRACE).await;
}

//! The serving daemon: takes listeners, serves until it is told to stop, then shuts down.
//!
//! [`run`] handles no signals, files or processes, so that a test can drive a whole daemon in memory
//! (`daemon/simulation.rs`). `daemon/start_up.rs` runs the daemon as a process.

mod collector;
mod command_line;
mod fatal;
mod file_checks;
mod listen;
mod locations;
mod lock_file;
mod notify;
mod signals;
pub mod simulation;
mod start_up;
mod successor;
mod token;

pub use command_line::ServeArgs;
pub use fatal::Fatal;
pub use listen::remove_dead_socket;
pub use locations::{
    config_file, files_in_use, home, running, runtime_paths, runtime_paths_in_use, state_folder, trust_roots,
    usual_folders,
};
pub use start_up::{main, start_lock};

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::event_loop::Serving;
use switchboard_wire::hop::Draining;

use crate::http::{HttpServer, Listener};
use crate::reload::Reloader;
use crate::state::{Daemon, Phase};

/// How long calls in flight may take to finish once the daemon drains.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a session may take to poll again after it was told that the daemon drains. One that does not is
/// hung, or blocked by its host.
const DRAIN_ACK_TIMEOUT: Duration = Duration::from_secs(1);
/// Requests sent before their session heard of the drain are answered as not started; closing the connection
/// would leave their outcome unknown.
const LATE_REQUEST_GRACE: Duration = Duration::from_millis(250);
/// How long saving a login that is being renewed may take.
const LOGIN_SAVE_TIMEOUT: Duration = Duration::from_secs(3);
/// Connections that have not closed after this time are cut.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Children are stopped in stages; this is longer than all of them take.
const CHILD_STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How a daemon stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Calls in flight may finish, and sessions are told whether another daemon follows.
    Drain(Draining),
    /// Calls in flight fail, and the daemon waits for no session.
    AtOnce,
}

/// Serves until `stop` resolves or a request stops the daemon, then drains and stops the children. Dropping
/// this future skips both.
pub async fn run(reloader: &Arc<Reloader>, listeners: Vec<Listener>, stop: impl Future<Output = Stop>) {
    let daemon = reloader.daemon();
    let _serving = Serving::begin();
    let server = HttpServer::new(daemon.clone(), reloader.clone());
    listeners.into_iter().for_each(|listener| server.serve_listener(listener));
    // A task of its own: calls that end while the daemon drains are written as soon as the others.
    let recorder = daemon.call_recorder.clone();
    let recording = tokio::spawn(async move { recorder.run_flush_loop().await });
    let mut phase = daemon.phase();
    let stop = tokio::select! {
        stop = stop => Some(stop),
        _ = phase.wait_for(|phase| *phase != Phase::Serving) => None,
        () = run_background_tasks(reloader) => None,
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
    recording.abort();
}

/// Runs the tasks that do not belong to a request; never resolves.
async fn run_background_tasks(reloader: &Arc<Reloader>) {
    let daemon = reloader.daemon();
    tokio::join!(
        reloader.run_reload_loop(),
        daemon.list_changes.run(&daemon.sessions, &daemon.workspaces),
        daemon.services.budget.watch_memory(),
        daemon.services.savings_recorder.run_flush_loop(),
    );
}

/// Shuts down in order: calls in flight finish or fail, connections close, children stop.
async fn shut_down(daemon: &Arc<Daemon>, server: &HttpServer, at_once: bool) {
    tracing::info!(target: "daemon", "draining");
    if at_once {
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, daemon.shutdown.wait_idle()).await;
    } else {
        tokio::join!(finish_requests(daemon), announce_drain(daemon));
    }
    // Tokens that were issued must be saved, or the login is lost.
    let _ = tokio::time::timeout(LOGIN_SAVE_TIMEOUT, daemon.services.logins.wait_settled()).await;
    daemon.shutdown.close_mailboxes();
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, server.close()).await;
    let _ = tokio::time::timeout(CHILD_STOP_TIMEOUT, daemon.services.registry.stop_all()).await;
}

/// Waits for requests in flight, then aborts those that are left.
async fn finish_requests(daemon: &Daemon) {
    if tokio::time::timeout(DRAIN_TIMEOUT, daemon.shutdown.wait_idle()).await.is_err() {
        daemon.abort_all();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, daemon.shutdown.wait_idle()).await;
    }
}

/// Waits until every session knows of the drain and its earlier requests are answered.
async fn announce_drain(daemon: &Daemon) {
    if daemon.sessions.all().is_empty() {
        return;
    }
    let _ = tokio::time::timeout(DRAIN_ACK_TIMEOUT, daemon.disconnects.wait_for_drain_acks(&daemon.sessions))
        .await;
    tokio::time::sleep(LATE_REQUEST_GRACE).await;
}

//! The signals that the daemon handles.

use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::reload::{ReloadCause, Reloader};

/// Reloads everything at each SIGHUP; never resolves.
pub(super) async fn reload_on_hangup(reloader: &Arc<Reloader>) {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else { return std::future::pending().await };
    while hangup.recv().await.is_some() {
        // Problems were logged where they were found.
        reloader.reload(ReloadCause::Requested).await;
    }
    std::future::pending().await
}

/// SIGTERM and SIGINT, caught from construction on.
pub(super) struct Signals(Option<(Signal, Signal)>);

impl Signals {
    pub(super) fn catch() -> Self {
        Self(signal(SignalKind::terminate()).ok().zip(signal(SignalKind::interrupt()).ok()))
    }

    /// Resolves at the next signal.
    pub(super) async fn next(&mut self) {
        let Some((term, int)) = &mut self.0 else { return std::future::pending().await };
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    }
}

//! The phase of the daemon's shutdown, the requests in flight, and the successor.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use switchboard_wire::hop::Draining;
use tokio::sync::{Notify, watch};

/// How far the daemon's shutdown has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Serving,
    /// Calls in flight finish; new ones are refused.
    Draining(Draining),
    /// They have finished; waiting polls are answered at once.
    Leaving(Draining),
}

impl Phase {
    /// What a shim must do when the daemon leaves; `None` while it serves.
    pub fn draining(self) -> Option<Draining> {
        match self {
            Self::Serving => None,
            Self::Draining(draining) | Self::Leaving(draining) => Some(draining),
        }
    }
}

/// The binary that has replaced this daemon's.
#[derive(Debug, Clone)]
pub struct Successor {
    pub binary: PathBuf,
    pub version: Option<String>,
    /// Why it cannot take over.
    pub problem: Option<String>,
}

#[derive(Debug)]
pub struct Shutdown {
    phase: watch::Sender<Phase>,
    /// Requests in flight.
    requests: AtomicUsize,
    total_requests: AtomicU64,
    /// Notified when the last request in flight has ended.
    idle: Notify,
    // A leaf lock: held to copy or replace it.
    successor: Mutex<Option<Successor>>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Serving),
            requests: AtomicUsize::new(0),
            total_requests: AtomicU64::new(0),
            idle: Notify::new(),
            successor: Mutex::default(),
        }
    }
}

impl Shutdown {
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Whether another daemon follows, for shims; `None` unless this daemon is draining.
    pub fn draining(&self) -> Option<Draining> {
        self.phase.borrow().draining()
    }

    /// Resolves when the daemon begins to drain.
    pub async fn wait_for_drain(&self) -> Draining {
        let mut phase = self.phase();
        let gone = phase.wait_for(|phase| phase.draining().is_some()).await;
        gone.ok().and_then(|phase| phase.draining()).unwrap_or(Draining::Stop)
    }

    /// Begins draining: new requests are refused.
    pub fn drain(&self, draining: Draining) {
        self.phase.send_if_modified(|phase| {
            // A stop overrides a restart, but not the reverse; leaving is final.
            let later = match *phase {
                Phase::Serving => true,
                Phase::Draining(before) => before == Draining::Restart && draining == Draining::Stop,
                Phase::Leaving(_) => false,
            };
            if later {
                *phase = Phase::Draining(draining);
            }
            later
        });
    }

    /// Ends the waiting polls, after all calls have finished.
    pub fn close_mailboxes(&self) {
        self.phase.send_modify(|phase| {
            if let Phase::Draining(draining) = *phase {
                *phase = Phase::Leaving(draining);
            }
        });
    }

    /// Counts a request in the total only.
    pub(super) fn count_request(&self) {
        self.total_requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request in the total and as in flight.
    pub(super) fn request_began(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.count_request();
    }

    pub(super) fn request_ended(&self) {
        if self.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.idle.notify_waiters();
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }

    /// The number of requests since the start.
    pub fn total_requests(&self) -> u64 {
        self.total_requests.load(Ordering::Relaxed)
    }

    /// Resolves when no request is in flight.
    pub async fn wait_idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.is_idle() {
                return;
            }
            idle.await;
        }
    }

    /// The binary that takes over when the daemon is idle, if the daemon's was replaced.
    pub fn successor(&self) -> Option<Successor> {
        self.successor.lock().expect("BUG: a copy panicked").clone()
    }

    pub fn set_successor(&self, successor: Option<Successor>) {
        *self.successor.lock().expect("BUG: a copy panicked") = successor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draining_is_not_undone() {
        let shutdown = Shutdown::default();
        let phase = shutdown.phase();
        shutdown.drain(Draining::Restart);
        shutdown.drain(Draining::Stop);
        assert_eq!(*phase.borrow(), Phase::Draining(Draining::Stop));
        shutdown.drain(Draining::Restart);
        assert_eq!(*phase.borrow(), Phase::Draining(Draining::Stop));
        shutdown.close_mailboxes();
        shutdown.drain(Draining::Restart);
        assert_eq!(*phase.borrow(), Phase::Leaving(Draining::Stop));
    }
}

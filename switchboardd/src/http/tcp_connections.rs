//! Limits the connections on TCP, where any local user can connect. Only connections that have sent a token
//! may stay; the others time out soon, and the oldest of them is closed when there are too many.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

const MAX_CONNECTIONS: usize = 256;
/// Limit of connections without a token; the rest is reserved for those with one.
const MAX_TOKENLESS: usize = 192;
/// Maximum life of a connection without a token. The responses that need none are small and fast.
const TOKENLESS_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct TcpConnections {
    free: Arc<Semaphore>,
    /// Connections without a token, oldest first.
    // A leaf lock: held for an insert, a lookup or a removal.
    tokenless: Mutex<VecDeque<Arc<TokenState>>>,
}

/// Whether one connection has sent a token, or was evicted.
#[derive(Debug, Default)]
struct TokenState {
    has_token: AtomicBool,
    /// Wakes the connection after either flag was set.
    changed: Notify,
    is_evicted: AtomicBool,
}

/// The slot of one connection, released on drop.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    connections: Arc<TcpConnections>,
    token_state: Arc<TokenState>,
    _permit: OwnedSemaphorePermit,
}

impl TcpConnections {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { free: Arc::new(Semaphore::new(MAX_CONNECTIONS)), tokenless: Mutex::default() })
    }

    /// Takes a slot for a new connection, evicting the oldest tokenless one if necessary. Waits only while
    /// connections with a token hold all slots.
    pub(super) async fn take(self: &Arc<Self>) -> ConnectionSlot {
        if self.lock().len() >= MAX_TOKENLESS || self.free.available_permits() == 0 {
            self.evict();
        }
        let permit = self.free.clone().acquire_owned().await.expect("BUG: it is never closed");
        let token_state = Arc::<TokenState>::default();
        self.lock().push_back(token_state.clone());
        ConnectionSlot { connections: self.clone(), token_state, _permit: permit }
    }

    /// Closes the oldest connection without a token.
    fn evict(&self) {
        if let Some(oldest) = self.lock().pop_front() {
            oldest.is_evicted.store(true, Ordering::Relaxed);
            oldest.changed.notify_one();
        }
    }

    fn forget(&self, token_state: &Arc<TokenState>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, token_state));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<TokenState>>> {
        self.tokenless.lock().expect("BUG: bookkeeping panicked")
    }
}

impl ConnectionSlot {
    /// Lifts the time limit from this connection.
    pub(super) fn token_accepted(&self) {
        if !self.token_state.has_token.swap(true, Ordering::Relaxed) {
            self.connections.forget(&self.token_state);
            self.token_state.changed.notify_one();
        }
    }

    /// Resolves when a connection without a token must be closed.
    pub(super) async fn wait_until_over(&self) {
        let end = tokio::time::Instant::now() + TOKENLESS_TIMEOUT;
        loop {
            if self.token_state.has_token.load(Ordering::Relaxed) {
                return std::future::pending().await;
            }
            if self.token_state.is_evicted.load(Ordering::Relaxed) {
                return;
            }
            tokio::select! {
                () = self.token_state.changed.notified() => {}
                () = tokio::time::sleep_until(end) => {
                    if !self.token_state.has_token.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        if !self.token_state.has_token.load(Ordering::Relaxed) {
            self.connections.forget(&self.token_state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_over(place: &ConnectionSlot) -> bool {
        tokio::time::timeout(Duration::from_millis(1), place.wait_until_over()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_connection_without_a_token_is_evicted() {
        let places = TcpConnections::new();
        let mut all = Vec::new();
        for _ in 0..MAX_TOKENLESS {
            all.push(places.take().await);
        }
        all[0].token_accepted();
        let newest = places.take().await;
        assert!(!is_over(&all[1]).await, "the first has a token, so there was room for one");
        let one_more = places.take().await;
        assert!(is_over(&all[1]).await && !is_over(&all[0]).await && !is_over(&all[2]).await);
        assert!(!is_over(&newest).await && !is_over(&one_more).await);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_with_a_token_are_not_evicted() {
        let places = TcpConnections::new();
        let mut all = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            let place = places.take().await;
            place.token_accepted();
            all.push(place);
        }
        let full = tokio::time::timeout(Duration::from_secs(60), places.take()).await;
        assert!(full.is_err() && !is_over(&all[0]).await);
        all.pop();
        drop(places.take().await);
        assert_eq!(places.free.available_permits(), 1);
        assert!(places.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn connections_without_a_token_time_out() {
        let places = TcpConnections::new();
        let (one, other) = (places.take().await, places.take().await);
        other.token_accepted();
        tokio::time::timeout(TOKENLESS_TIMEOUT * 2, one.wait_until_over()).await.unwrap();
        assert!(tokio::time::timeout(TOKENLESS_TIMEOUT * 9, other.wait_until_over()).await.is_err());
    }
}

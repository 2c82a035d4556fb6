//! How many connections there may be on TCP, where anybody on the machine can connect. Only those that have shown a
//! token may stay; all others have a short time, and the oldest of them makes room when there are too many.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

const CONNECTIONS: usize = 256;
/// Those that have shown no token; the rest is for those that have.
const TOKENLESS: usize = 192;
/// How long a connection may last that has shown no token. What can be had without one is small and there at once.
const TOKENLESS_TIME: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// Connections that have shown no token, the oldest first.
    // A leaf lock: held for an insert, a look or a removal.
    tokenless: Mutex<VecDeque<Arc<Standing>>>,
}

/// What one connection has shown.
#[derive(Debug, Default)]
struct Standing {
    has_token: AtomicBool,
    /// It was told to make room, or has shown a token: it looks which.
    changed: Notify,
    is_evicted: AtomicBool,
}

/// The place of one connection, given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    standing: Arc<Standing>,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { free: Arc::new(Semaphore::new(CONNECTIONS)), tokenless: Mutex::default() })
    }

    /// A place for a new connection. Waits only while all of them are taken by those that have shown a token.
    pub(super) async fn take(self: &Arc<Self>) -> Place {
        if self.lock().len() >= TOKENLESS || self.free.available_permits() == 0 {
            self.evict();
        }
        let permit = self.free.clone().acquire_owned().await.expect("BUG: it is never closed");
        let standing = Arc::<Standing>::default();
        self.lock().push_back(standing.clone());
        Place { places: self.clone(), standing, _permit: permit }
    }

    /// The oldest of those without a token goes.
    fn evict(&self) {
        if let Some(oldest) = self.lock().pop_front() {
            oldest.is_evicted.store(true, Ordering::Relaxed);
            oldest.changed.notify_one();
        }
    }

    fn forget(&self, standing: &Arc<Standing>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, standing));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Standing>>> {
        self.tokenless.lock().expect("BUG: bookkeeping panicked")
    }
}

impl Place {
    /// From now on this connection may stay.
    pub(super) fn has_shown_token(&self) {
        if !self.standing.has_token.swap(true, Ordering::Relaxed) {
            self.places.forget(&self.standing);
            self.standing.changed.notify_one();
        }
    }

    /// Resolves when a connection that has shown no token has to go.
    pub(super) async fn is_over(&self) {
        let end = tokio::time::Instant::now() + TOKENLESS_TIME;
        loop {
            if self.standing.has_token.load(Ordering::Relaxed) {
                return std::future::pending().await;
            }
            if self.standing.is_evicted.load(Ordering::Relaxed) {
                return;
            }
            tokio::select! {
                () = self.standing.changed.notified() => {}
                () = tokio::time::sleep_until(end) => {
                    if !self.standing.has_token.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.standing.has_token.load(Ordering::Relaxed) {
            self.places.forget(&self.standing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_over(place: &Place) -> bool {
        tokio::time::timeout(Duration::from_millis(1), place.is_over()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_without_a_token_makes_room() {
        let places = Places::new();
        let mut all = Vec::new();
        for _ in 0..TOKENLESS {
            all.push(places.take().await);
        }
        all[0].has_shown_token();
        let newest = places.take().await;
        assert!(!is_over(&all[1]).await, "the first has a token, so there was room for one");
        let one_more = places.take().await;
        assert!(is_over(&all[1]).await && !is_over(&all[0]).await && !is_over(&all[2]).await);
        assert!(!is_over(&newest).await && !is_over(&one_more).await);
    }

    #[tokio::test(start_paused = true)]
    async fn those_with_a_token_keep_their_places() {
        let places = Places::new();
        let mut all = Vec::new();
        for _ in 0..CONNECTIONS {
            let place = places.take().await;
            place.has_shown_token();
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
    async fn nobody_stays_without_a_token() {
        let places = Places::new();
        let (one, other) = (places.take().await, places.take().await);
        other.has_shown_token();
        tokio::time::timeout(TOKENLESS_TIME * 2, one.is_over()).await.unwrap();
        assert!(tokio::time::timeout(TOKENLESS_TIME * 9, other.is_over()).await.is_err());
    }
}

//! Waits for a condition, with a timeout. Tests never just sleep and hope.

use std::thread;
use std::time::{Duration, Instant};

/// Long enough for anything that happens at all, even on a busy machine.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(30);

const POLL_INTERVAL: Duration = Duration::from_millis(3);

/// Polls until `look` returns something; panics after `bound`.
#[track_caller]
pub fn until<T>(what: &str, bound: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < bound, "{what}: not within {bound:?}");
        thread::sleep(POLL_INTERVAL);
    }
}

/// Like [`until`], for a plain condition.
#[track_caller]
pub fn until_true(what: &str, bound: Duration, mut look: impl FnMut() -> bool) {
    until(what, bound, || look().then_some(()));
}

/// Whether the condition became true within `bound`.
pub fn becomes(bound: Duration, mut look: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if look() {
            return true;
        }
        if start.elapsed() >= bound {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

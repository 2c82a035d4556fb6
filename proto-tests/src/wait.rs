//! Waiting for something to become true, with a bound. Never a sleep in the hope that it did.

use std::thread;
use std::time::{Duration, Instant};

/// Long enough for anything that happens at all, on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(30);

const LOOK_AGAIN: Duration = Duration::from_millis(3);

/// Looks again and again until there is something; panics when it takes longer than `bound`.
#[track_caller]
pub fn until<T>(what: &str, bound: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < bound, "{what}: not within {bound:?}");
        thread::sleep(LOOK_AGAIN);
    }
}

/// Like [`until`], for a plain condition.
#[track_caller]
pub fn until_true(what: &str, bound: Duration, mut look: impl FnMut() -> bool) {
    until(what, bound, || look().then_some(()));
}

/// Whether it became true within `bound`.
pub fn becomes(bound: Duration, mut look: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if look() {
            return true;
        }
        if start.elapsed() >= bound {
            return false;
        }
        thread::sleep(LOOK_AGAIN);
    }
}

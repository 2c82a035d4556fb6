//! Pauses between attempts: each is twice as long as the one before, up to a limit. Does not sleep itself.

use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The pause before the next attempt.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        pause
    }

    /// An attempt succeeded: the next pause is the first one again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// The pause after this many failures in a row, for callers that count failures themselves.
pub fn pause_after(failures: u32, first: Duration, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(200);
    const LONGEST: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::new(FIRST, LONGEST);
        let pauses: Vec<u128> = (0..5).map(|_| backoff.next_pause().as_millis()).collect();
        assert_eq!(pauses, [200, 400, 800, 1000, 1000]);
        backoff.reset();
        assert_eq!(backoff.next_pause(), FIRST);
    }

    #[test]
    fn counted_failures_give_the_same_pauses() {
        let mut backoff = Backoff::new(FIRST, LONGEST);
        for failures in 1..6 {
            assert_eq!(pause_after(failures, FIRST, LONGEST), backoff.next_pause());
        }
        assert_eq!(pause_after(0, FIRST, LONGEST), FIRST);
        assert_eq!(pause_after(u32::MAX, FIRST, LONGEST), LONGEST);
    }
}

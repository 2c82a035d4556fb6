//! When a child that keeps crashing may be started again. Pure: `now` is passed in.
//!
//! Each crash doubles the pause before the next start. Five crashes within a minute open the circuit: callers
//! are refused at once until the longest pause is over.

use std::collections::VecDeque;
use std::time::Duration;

use switchboard_wire::backoff;
use tokio::time::Instant;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// `MAX_CRASHES` crashes within this time open the circuit.
const CRASH_WINDOW: Duration = Duration::from_secs(60);
const MAX_CRASHES: usize = 5;

#[derive(Debug, Default)]
pub(super) struct Breaker {
    crashes: VecDeque<Instant>,
    next_start: Option<Instant>,
}

impl Breaker {
    /// A child crashed. One that had served calls and was `killed` from outside is not part of a crash loop:
    /// earlier crashes are forgotten, and the next child starts after the shortest pause.
    pub(super) fn crashed(&mut self, killed: bool, now: Instant) {
        if killed {
            self.crashes.clear();
        }
        self.forget(now);
        self.crashes.push_back(now);
        self.next_start = Some(now + self.pause());
    }

    /// When the next start is allowed; `None` if it is allowed now.
    pub(super) fn next_start(&self, now: Instant) -> Option<Instant> {
        self.next_start.filter(|start| *start > now)
    }

    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.has_tripped() && self.next_start(now).is_some()
    }

    /// Whether so many crashes were seen that the circuit opened, however long ago: until a start succeeds,
    /// nothing better is known.
    pub(super) fn has_tripped(&self) -> bool {
        self.crashes.len() >= MAX_CRASHES
    }

    /// Forgets all crashes.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    fn pause(&self) -> Duration {
        let count = self.crashes.len();
        if count >= MAX_CRASHES {
            return LONGEST_PAUSE;
        }
        backoff::pause_after(u32::try_from(count).unwrap_or(u32::MAX), FIRST_PAUSE, LONGEST_PAUSE)
    }

    fn forget(&mut self, now: Instant) {
        while self.crashes.front().is_some_and(|crash| now.duration_since(*crash) > CRASH_WINDOW) {
            self.crashes.pop_front();
        }
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the starts per minute of a child that crashes at once and is called all the time.
    #[test]
    fn a_crash_loop_starts_at_most_ten_times_a_minute() {
        let mut breaker = Breaker::default();
        let begin = Instant::now();
        let mut now = begin;
        let mut starts = Vec::new();
        while now < begin + Duration::from_secs(600) {
            if breaker.next_start(now).is_none() {
                starts.push(now);
                breaker.crashed(false, now);
            }
            now += Duration::from_millis(10);
        }
        for start in &starts {
            let minute =
                starts.iter().filter(|other| *other >= start && **other < *start + CRASH_WINDOW).count();
            assert!(minute <= 10, "{minute} starts in a minute");
        }
        assert!(starts.len() > 10, "it is tried again now and then");
    }

    #[test]
    fn a_single_crash_costs_the_shortest_pause_and_is_forgotten() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        breaker.crashed(false, now);
        assert_eq!(breaker.next_start(now), Some(now + FIRST_PAUSE));
        assert!(!breaker.is_open(now));
        let later = now + CRASH_WINDOW + Duration::from_secs(1);
        breaker.crashed(false, later);
        assert_eq!(breaker.next_start(later), Some(later + FIRST_PAUSE));
    }

    #[test]
    fn children_that_served_are_replaced_after_the_shortest_pause_however_often_they_are_killed() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        for _ in 0..1000 {
            breaker.crashed(true, now);
            assert_eq!(breaker.next_start(now), Some(now + FIRST_PAUSE));
            assert!(!breaker.is_open(now));
        }
    }

    #[test]
    fn the_circuit_opens_at_the_fifth_crash_and_closes_for_a_try() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        (0..MAX_CRASHES).for_each(|_| breaker.crashed(false, now));
        assert!(breaker.is_open(now));
        assert!(!breaker.is_open(now + LONGEST_PAUSE));
        breaker.reset();
        assert_eq!(breaker.next_start(now), None);
    }
}

//! When a guard on macOS lists processes: no process may stay unseen for long, and a child that forks all the time may
//! not keep the guard busy.

use std::time::{Duration, Instant};

/// How often processes are listed at most while the child forks, and how often if the kernel does not tell of forks.
pub const LIST_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct LookTimes {
    /// Whether the kernel tells of forks and ends.
    has_events: bool,
    /// Something happened since the last look.
    is_wanted: bool,
    last: Option<Instant>,
}

impl LookTimes {
    /// The first look is due: something may have happened before the processes were watched.
    pub fn new(has_events: bool) -> Self {
        Self { has_events, is_wanted: true, last: None }
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.is_wanted && self.remaining(now).is_zero()
    }

    /// Called before processes are listed: what happens meanwhile is looked at in the next look.
    pub fn begin(&mut self, now: Instant) {
        self.is_wanted = !self.has_events;
        self.last = Some(now);
    }

    /// A process forked or ended.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// How long to wait for an event; `None` if the next look waits for one.
    pub fn pause(&self, now: Instant) -> Option<Duration> {
        self.is_wanted.then(|| self.remaining(now))
    }

    fn remaining(&self, now: Instant) -> Duration {
        self.last
            .map_or(Duration::ZERO, |last| LIST_INTERVAL.saturating_sub(now.saturating_duration_since(last)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::descendants::Descendants;
    use crate::kill_sequence::real_now;
    use crate::process_tree::Process;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn processes_are_listed_first_and_after_events_and_not_too_often() {
        let begin = real_now();
        let mut looks = LookTimes::new(true);
        assert!(looks.is_due(begin));
        looks.begin(begin);
        assert_eq!(looks.pause(begin), None);
        assert!(!looks.is_due(begin + ms(500)), "nothing happened");
        looks.want();
        assert!(looks.is_due(begin + ms(500)), "the first event is looked at without a pause");
        looks.begin(begin + ms(500));
        looks.want();
        assert!(!looks.is_due(begin + ms(520)));
        assert_eq!(looks.pause(begin + ms(520)), Some(ms(30)), "no longer than what is left");
        assert!(looks.is_due(begin + ms(550)));
    }

    #[test]
    fn what_happens_during_a_look_is_looked_at_again() {
        let begin = real_now();
        let mut looks = LookTimes::new(true);
        looks.begin(begin);
        looks.want();
        assert!(looks.is_due(begin + LIST_INTERVAL));
    }

    #[test]
    fn without_events_processes_are_listed_all_the_time() {
        let begin = real_now();
        let mut looks = LookTimes::new(false);
        looks.begin(begin);
        assert_eq!(looks.pause(begin), Some(LIST_INTERVAL));
        assert!(looks.is_due(begin + LIST_INTERVAL));
    }

    /// A whole life, with what the kernel would list and tell: which processes does the guard know at the end?
    fn known_at_the_end(has_events: bool, lists: &[(u64, Vec<Process>)]) -> BTreeSet<u32> {
        let begin = real_now();
        let (mut looks, mut descendants) = (LookTimes::new(has_events), Descendants::of(GUARD, CHILD));
        for millisecond in 0..1000 {
            let now = begin + ms(millisecond);
            if lists.iter().any(|(from, _)| *from == millisecond) {
                looks.want();
            }
            let listed = lists.iter().rev().find(|(from, _)| *from <= millisecond);
            if let Some((_, listed)) = listed.filter(|_| looks.is_due(now)) {
                looks.begin(now);
                descendants.update(listed, &[]);
            }
        }
        descendants.processes().iter().map(|process| process.id).collect()
    }

    const GUARD: u32 = 10;
    const CHILD: u32 = 11;

    fn process(id: u32, parent: u32, session: u32) -> Process {
        Process { id, parent, start_time: 1, group: id, session, zombie: false, stopped: false }
    }

    /// The child starts 12, which leaves session and group and starts 13; then 12 ends and launchd has 13.
    fn double_fork(end_of_12: u64) -> Vec<(u64, Vec<Process>)> {
        let child = process(CHILD, GUARD, GUARD);
        vec![
            (0, vec![child.clone()]),
            (100, vec![child.clone(), process(12, CHILD, 12), process(13, 12, 12)]),
            (end_of_12, vec![child, process(13, 1, 12)]),
        ]
    }

    #[test]
    fn who_leaves_session_and_parent_is_known_if_it_was_seen_before() {
        assert_eq!(known_at_the_end(true, &double_fork(101)), BTreeSet::from([CHILD, 13]));
        assert_eq!(known_at_the_end(false, &double_fork(160)), BTreeSet::from([CHILD, 13]));
        // What the docs say: it can escape while the guard may not look.
        assert_eq!(
            known_at_the_end(false, &double_fork(101)),
            BTreeSet::from([CHILD, 13]),
            "a look fell between"
        );
        let mut too_quick = double_fork(110);
        too_quick.insert(1, (90, vec![process(CHILD, GUARD, GUARD)]));
        assert_eq!(known_at_the_end(true, &too_quick), BTreeSet::from([CHILD]));
    }
}

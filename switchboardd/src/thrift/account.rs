//! What one session was shown, used and fetched.

use super::Mark;

/// Different texts that are remembered for one session; later ones are still part of the whole.
const MOST_FETCHED: usize = 256;

#[derive(Debug, Default)]
pub struct Account {
    /// The catalog whose suites it was shown last.
    generation: Option<u64>,
    shown: Vec<Mark>,
    /// With the number of the start that it last knew of.
    used: Vec<(Mark, u64)>,
    /// How many of them are processes of this machine.
    processes: usize,
    fetched: Vec<(Mark, u64)>,
}

/// How a session came to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It has used it before.
    Known,
    /// For the first time, and it ran already: without us the session would have started one.
    FoundRunning,
    /// For the first time, and it had to be started: so it would have been without us.
    Started,
    /// It used it before and had to wait for another: without us its own would have run on.
    StartedAgain,
}

impl Account {
    /// Those among `suites` that it had not been shown yet. `generation` tells catalogs apart.
    pub fn shows(&mut self, generation: u64, suites: impl Iterator<Item = Mark>) -> Vec<Mark> {
        if self.generation.replace(generation) == Some(generation) {
            return Vec::new();
        }
        let new: Vec<Mark> = suites.filter(|suite| !self.shown.contains(suite)).collect();
        self.shown.extend(&new);
        new
    }

    /// `ran`: whether it did already; `starts`: how often it was started so far; `here`: whether it is a process of
    /// this machine. Calls that wait for one start together count once.
    pub fn uses(&mut self, child: Mark, ran: bool, starts: u64, here: bool) -> Use {
        let Some((_, last)) = self.used.iter_mut().find(|(used, _)| *used == child) else {
            self.used.push((child, starts));
            self.processes += usize::from(here);
            return if ran { Use::FoundRunning } else { Use::Started };
        };
        let is_new = std::mem::replace(last, starts) != starts;
        if is_new && !ran { Use::StartedAgain } else { Use::Known }
    }

    pub fn fetches(&mut self, text: Mark) {
        match self.fetched.iter_mut().find(|(known, _)| *known == text) {
            Some((_, times)) => *times += 1,
            None => self.fetched.push((text, 1)),
        }
        self.fetched.truncate(MOST_FETCHED);
    }

    /// The children that it has used.
    pub fn used(&self) -> impl Iterator<Item = Mark> {
        self.used.iter().map(|(child, _)| *child)
    }

    /// How many processes it would have started for itself.
    pub fn processes(&self) -> usize {
        self.processes
    }

    /// What it fetched, and how often.
    pub fn fetched(&self) -> &[(Mark, u64)] {
        &self.fetched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_use_is_told_from_the_next() {
        let (mut account, one, two) = (Account::default(), Mark::of("1"), Mark::of("2"));
        let mut came = |child, ran, starts| account.uses(child, ran, starts, child == one);
        assert_eq!(came(one, false, 1), Use::Started);
        // Another call of the same session that waited for the same start.
        assert_eq!(came(one, false, 1), Use::Known);
        assert_eq!(came(one, true, 1), Use::Known);
        assert_eq!(came(one, false, 2), Use::StartedAgain);
        assert_eq!(came(one, false, 2), Use::Known);
        // Others had it started anew meanwhile; nobody waited here.
        assert_eq!(came(one, true, 3), Use::Known);
        assert_eq!(came(two, true, 1), Use::FoundRunning);
        assert_eq!(account.used().collect::<Vec<_>>(), [one, two]);
        assert_eq!(account.processes(), 1);
    }

    #[test]
    fn a_suite_counts_once_for_a_session() {
        let (mut account, one, two) = (Account::default(), Mark::of("1"), Mark::of("2"));
        assert_eq!(account.shows(1, [one].into_iter()), [one]);
        assert!(account.shows(1, [one].into_iter()).is_empty());
        assert_eq!(account.shows(2, [one, two].into_iter()), [two]);
    }
}

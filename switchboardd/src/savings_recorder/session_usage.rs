//! What one session was shown, used and fetched.

use super::Fingerprint;

/// Different texts that are remembered for one session; later ones are still part of the whole.
const MAX_FETCHED: usize = 256;

#[derive(Debug, Default)]
pub struct SessionUsage {
    /// The catalog whose suites it was shown last.
    generation: Option<u64>,
    shown: Vec<Fingerprint>,
    /// With the number of the start that it last knew of.
    used: Vec<(Fingerprint, u64)>,
    /// How many of them are processes of this machine.
    processes: usize,
    fetched: Vec<(Fingerprint, u64)>,
}

/// How a session came to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildUse {
    /// It has used it before.
    Known,
    /// For the first time, and it ran already: without us the session would have started one.
    FoundRunning,
    /// For the first time, and it had to be started: so it would have been without us.
    Started,
    /// It used it before and had to wait for another: without us its own would have run on.
    StartedAgain,
}

impl SessionUsage {
    /// Those among `suites` that it had not been shown yet. `generation` tells catalogs apart.
    pub fn record_shown(
        &mut self,
        generation: u64,
        suites: impl Iterator<Item = Fingerprint>,
    ) -> Vec<Fingerprint> {
        if self.generation.replace(generation) == Some(generation) {
            return Vec::new();
        }
        let new: Vec<Fingerprint> = suites.filter(|suite| !self.shown.contains(suite)).collect();
        self.shown.extend(&new);
        new
    }

    /// `ran`: whether it did already; `starts`: how often it was started so far; `here`: whether it is a process of
    /// this machine. Calls that wait for one start together count once.
    pub fn record_use(&mut self, child: Fingerprint, ran: bool, starts: u64, here: bool) -> ChildUse {
        let Some((_, last)) = self.used.iter_mut().find(|(used, _)| *used == child) else {
            self.used.push((child, starts));
            self.processes += usize::from(here);
            return if ran { ChildUse::FoundRunning } else { ChildUse::Started };
        };
        let is_new = std::mem::replace(last, starts) != starts;
        if is_new && !ran { ChildUse::StartedAgain } else { ChildUse::Known }
    }

    pub fn record_fetch(&mut self, text: Fingerprint) {
        match self.fetched.iter_mut().find(|(known, _)| *known == text) {
            Some((_, times)) => *times += 1,
            None => self.fetched.push((text, 1)),
        }
        self.fetched.truncate(MAX_FETCHED);
    }

    /// The children that it has used.
    pub fn used(&self) -> impl Iterator<Item = Fingerprint> {
        self.used.iter().map(|(child, _)| *child)
    }

    /// How many processes it would have started for itself.
    pub fn processes(&self) -> usize {
        self.processes
    }

    /// What it fetched, and how often.
    pub fn fetched(&self) -> &[(Fingerprint, u64)] {
        &self.fetched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_use_is_told_from_the_next() {
        let (mut usage, one, two) = (SessionUsage::default(), Fingerprint::of("1"), Fingerprint::of("2"));
        let mut came = |child, ran, starts| usage.record_use(child, ran, starts, child == one);
        assert_eq!(came(one, false, 1), ChildUse::Started);
        // Another call of the same session that waited for the same start.
        assert_eq!(came(one, false, 1), ChildUse::Known);
        assert_eq!(came(one, true, 1), ChildUse::Known);
        assert_eq!(came(one, false, 2), ChildUse::StartedAgain);
        assert_eq!(came(one, false, 2), ChildUse::Known);
        // Others had it started anew meanwhile; nobody waited here.
        assert_eq!(came(one, true, 3), ChildUse::Known);
        assert_eq!(came(two, true, 1), ChildUse::FoundRunning);
        assert_eq!(usage.used().collect::<Vec<_>>(), [one, two]);
        assert_eq!(usage.processes(), 1);
    }

    #[test]
    fn a_suite_counts_once_for_a_session() {
        let (mut usage, one, two) = (SessionUsage::default(), Fingerprint::of("1"), Fingerprint::of("2"));
        assert_eq!(usage.record_shown(1, [one].into_iter()), [one]);
        assert!(usage.record_shown(1, [one].into_iter()).is_empty());
        assert_eq!(usage.record_shown(2, [one, two].into_iter()), [two]);
    }
}

//! What one session was shown, used and fetched.

use super::Fingerprint;

/// Limit for distinct texts remembered per session; later ones still count in the totals.
const MAX_FETCHED: usize = 256;

#[derive(Debug, Default)]
pub struct SessionUsage {
    /// The catalog whose suites the session was last shown.
    generation: Option<u64>,
    shown: Vec<Fingerprint>,
    /// Each with the number of its start that the session last saw.
    used: Vec<(Fingerprint, u64)>,
    /// How many of them are local processes.
    processes: usize,
    fetched: Vec<(Fingerprint, u64)>,
}

/// How a session reached a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildUse {
    /// The session has used it before.
    Known,
    /// First use, and the child was running: without sharing, the session would have started its own.
    FoundRunning,
    /// First use, and the child had to be started, as it would have been without sharing.
    Started,
    /// The session used it before and had to wait for a new start: its own child would have kept running.
    StartedAgain,
}

impl SessionUsage {
    /// Returns those of `suites` that the session was not shown before. `generation` identifies the catalog.
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

    /// `ran`: the child was running; `starts`: how often it was started so far; `here`: it is a local
    /// process. Calls that wait for the same start count once.
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

    /// The children that the session has used.
    pub fn used(&self) -> impl Iterator<Item = Fingerprint> {
        self.used.iter().map(|(child, _)| *child)
    }

    /// How many processes the session would have started for itself.
    pub fn processes(&self) -> usize {
        self.processes
    }

    /// The texts that the session fetched, and how often.
    pub fn fetched(&self) -> &[(Fingerprint, u64)] {
        &self.fetched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_later_uses_are_distinguished() {
        let (mut usage, one, two) = (SessionUsage::default(), Fingerprint::of("1"), Fingerprint::of("2"));
        let mut came = |child, ran, starts| usage.record_use(child, ran, starts, child == one);
        assert_eq!(came(one, false, 1), ChildUse::Started);
        // Another call of the same session that waited for the same start.
        assert_eq!(came(one, false, 1), ChildUse::Known);
        assert_eq!(came(one, true, 1), ChildUse::Known);
        assert_eq!(came(one, false, 2), ChildUse::StartedAgain);
        assert_eq!(came(one, false, 2), ChildUse::Known);
        // Another session caused a restart; this one did not wait.
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

//! How the last few children of a pool ended, for users.

use std::collections::VecDeque;
use std::time::SystemTime;

/// More than a user would read.
const MAX_ENTRIES: usize = 8;

/// A child that ended, or could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildEnd {
    pub at: SystemTime,
    /// Continues the words "server `name` …".
    pub what: String,
    /// It was not told to end.
    pub bad: bool,
}

impl ChildEnd {
    pub fn age_ms(&self) -> u64 {
        let age = SystemTime::now().duration_since(self.at).unwrap_or_default();
        u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
    }
}

#[derive(Debug, Default)]
pub(super) struct History {
    kept: VecDeque<ChildEnd>,
}

impl History {
    pub(super) fn note(&mut self, what: String, bad: bool) {
        if self.kept.len() == MAX_ENTRIES {
            self.kept.pop_front();
        }
        self.kept.push_back(ChildEnd { at: SystemTime::now(), what, bad });
    }

    /// The latest first.
    pub(super) fn all(&self) -> Vec<ChildEnd> {
        self.kept.iter().rev().cloned().collect()
    }

    pub(super) fn last_bad(&self) -> Option<ChildEnd> {
        self.kept.iter().rev().find(|past| past.bad).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_kept() {
        let mut history = History::default();
        for number in 0..MAX_ENTRIES + 3 {
            history.note(number.to_string(), number % 2 == 0);
        }
        let all = history.all();
        assert_eq!(all.len(), MAX_ENTRIES);
        assert_eq!(all[0].what, (MAX_ENTRIES + 2).to_string());
        assert_eq!(history.last_bad().unwrap().what, (MAX_ENTRIES + 2).to_string());
        history.note("stopped".to_owned(), false);
        assert!(history.last_bad().unwrap().bad);
    }
}

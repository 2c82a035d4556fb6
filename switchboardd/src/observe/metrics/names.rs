//! Interned label values. Their number is bounded: callers can make up any number of names, and the
//! monitoring system would have to store a series for each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Limit for the names of suites, children and tools together.
pub const MAX_NAMES: usize = 2000;

/// Replaces every name above the limit.
pub const OTHER: &str = "_other";

/// An interned name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LabelName(u16);

impl LabelName {
    pub const OTHER: Self = Self(0);
}

#[derive(Debug, Default)]
pub struct LabelNames {
    // A leaf lock: held only for a lookup or an insert.
    known: Mutex<NamesState>,
}

#[derive(Debug, Default)]
struct NamesState {
    numbers: HashMap<Arc<str>, u16>,
    all: Vec<Arc<str>>,
}

impl LabelNames {
    /// Looks up a name without interning it.
    pub fn find(&self, name: &str) -> Option<LabelName> {
        self.lock().numbers.get(name).copied().map(LabelName)
    }

    /// Interns a name; [`LabelName::OTHER`] if the table is full or the name too long.
    pub fn number(&self, name: &str) -> LabelName {
        let mut known = self.lock();
        if let Some(number) = known.numbers.get(name) {
            return LabelName(*number);
        }
        if known.all.len() >= MAX_NAMES || name.len() > MAX_NAME_BYTES {
            return LabelName::OTHER;
        }
        let name: Arc<str> = name.into();
        known.all.push(name.clone());
        let number = u16::try_from(known.all.len()).expect("BUG: there are not that many");
        known.numbers.insert(name, number);
        LabelName(number)
    }

    pub fn text(&self, name: LabelName) -> Arc<str> {
        let at = usize::from(name.0).checked_sub(1);
        at.and_then(|at| self.lock().all.get(at).cloned()).unwrap_or_else(|| OTHER.into())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, NamesState> {
        self.known.lock().expect("BUG: a name panicked")
    }
}

/// In bytes. No user picks longer names.
const MAX_NAME_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interned_names_are_bounded() {
        let names = LabelNames::default();
        let first = names.number("first");
        for number in 0..5000 {
            names.number(&format!("made up {number}"));
        }
        assert_eq!(names.number("first"), first);
        assert_eq!(&*names.text(first), "first");
        assert_eq!(names.number("one too many"), LabelName::OTHER);
        assert_eq!(names.find("one too many"), None);
        assert_eq!(&*names.text(LabelName::OTHER), OTHER);
        assert_eq!(names.lock().all.len(), MAX_NAMES);
        assert_eq!(LabelNames::default().number(&"x".repeat(129)), LabelName::OTHER);
    }
}

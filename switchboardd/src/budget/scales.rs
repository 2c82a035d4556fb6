//! What children and the daemon take of the machine's memory. Looking costs a file for every process, so it happens
//! when somebody asks, beside the one thread, and not more than once a second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::child::descent::{memory_of_each, own_memory};

/// How long a look is good for.
const FRESH: Duration = Duration::from_secs(1);

/// Bytes, as they were at one look.
#[derive(Debug, Default)]
pub struct Weights {
    by_guard: HashMap<u32, u64>,
    /// The daemon's own; `None` where nobody says.
    pub own: Option<u64>,
}

impl Weights {
    /// A child with all it started; `None` if it was not there when somebody looked, or runs elsewhere.
    pub fn of_child(&self, guard: Option<u32>) -> Option<u64> {
        self.by_guard.get(&guard?).copied()
    }

    pub fn of_children(&self) -> u64 {
        self.by_guard.values().sum()
    }
}

#[derive(Debug, Default)]
pub(super) struct Scales {
    // A leaf lock: held to copy or replace the handle.
    last: Mutex<Option<(Instant, Arc<Weights>)>>,
    /// Whoever looks holds it; the others get what was found.
    looking: tokio::sync::Mutex<()>,
}

impl Scales {
    /// One look for all who ask within a second, unless one of `guards` has come since.
    pub(super) async fn weigh(&self, guards: Vec<u32>) -> Arc<Weights> {
        let _looking = self.looking.lock().await;
        let last = self.last.lock().expect("BUG: a copy panicked").clone();
        let is_good = |(when, weights): &(Instant, Arc<Weights>)| {
            when.elapsed() < FRESH && guards.iter().all(|guard| weights.by_guard.contains_key(guard))
        };
        if let Some((_, weights)) = last.filter(is_good) {
            return weights;
        }
        let looked = tokio::task::spawn_blocking(move || Weights {
            by_guard: memory_of_each(&guards).into_iter().collect(),
            own: own_memory(),
        });
        let weights = Arc::new(looked.await.unwrap_or_default());
        *self.last.lock().expect("BUG: a copy panicked") = Some((Instant::now(), weights.clone()));
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_look_serves_all_who_ask_within_a_second() {
        let (scales, me) = (Scales::default(), std::process::id());
        let first = scales.weigh(vec![me]).await;
        assert!(Arc::ptr_eq(&first, &scales.weigh(vec![me]).await));
        assert!(Arc::ptr_eq(&first, &scales.weigh(Vec::new()).await), "one that went needs no new look");
        let parent = std::os::unix::process::parent_id();
        let second = scales.weigh(vec![me, parent]).await;
        assert!(!Arc::ptr_eq(&first, &second), "one that came was not weighed yet");
        assert!(second.of_child(Some(parent)).is_some());
    }
}

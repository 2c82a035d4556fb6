//! Measures the memory of the children and the daemon. This reads a file for every process, so it runs on
//! demand, off the event loop, and not more than once a second unless a child is new.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_wire::event_loop::try_run_blocking;
use tokio::time::Instant;

use switchboard_guard::process_tree::{memory_of_each, own_memory};

/// How long a measurement is valid.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Memory in bytes, at the time of one measurement.
#[derive(Debug, Default)]
pub struct MemoryUsage {
    by_guard: HashMap<u32, u64>,
    /// The daemon's own; `None` if the system does not report it.
    pub own: Option<u64>,
}

impl MemoryUsage {
    /// A child with all its descendants; `None` if it was not measured, or is remote.
    pub fn of_child(&self, guard: Option<u32>) -> Option<u64> {
        self.by_guard.get(&guard?).copied()
    }

    pub fn of_children(&self) -> u64 {
        self.by_guard.values().sum()
    }
}

#[derive(Debug, Default)]
pub(super) struct MemoryProbe {
    // A leaf lock: held to copy or replace the handle.
    last: Mutex<Option<(Instant, Arc<MemoryUsage>)>>,
    /// Held during a measurement; other callers then use its result.
    looking: tokio::sync::Mutex<()>,
}

impl MemoryProbe {
    /// One measurement for all callers within a second, unless one of `guards` is new.
    pub(super) async fn measure(&self, guards: Vec<u32>) -> Arc<MemoryUsage> {
        let _looking = self.looking.lock().await;
        let last = self.last.lock().expect("BUG: a copy panicked").clone();
        let is_good = |(when, memory_usage): &(Instant, Arc<MemoryUsage>)| {
            when.elapsed() < MAX_AGE && guards.iter().all(|guard| memory_usage.by_guard.contains_key(guard))
        };
        if let Some((_, memory_usage)) = last.filter(is_good) {
            return memory_usage;
        }
        let looked = try_run_blocking(move || MemoryUsage {
            by_guard: memory_of_each(&guards).into_iter().collect(),
            own: own_memory(),
        });
        let memory_usage = Arc::new(looked.await.unwrap_or_default());
        *self.last.lock().expect("BUG: a copy panicked") = Some((Instant::now(), memory_usage.clone()));
        memory_usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_look_serves_all_who_ask_within_a_second() {
        let (scales, me) = (MemoryProbe::default(), std::process::id());
        let first = scales.measure(vec![me]).await;
        assert!(Arc::ptr_eq(&first, &scales.measure(vec![me]).await));
        assert!(Arc::ptr_eq(&first, &scales.measure(Vec::new()).await), "one that went needs no new look");
        let parent = std::os::unix::process::parent_id();
        let second = scales.measure(vec![me, parent]).await;
        assert!(!Arc::ptr_eq(&first, &second), "one that came was not weighed yet");
        assert!(second.of_child(Some(parent)).is_some());
    }
}

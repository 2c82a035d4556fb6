//! All children that run: for the status, the budget, and a shutdown that leaves none.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::Child;

#[derive(Debug, Default)]
pub struct ChildRegistry {
    // A leaf lock: held for an insert, a removal or a copy.
    state: Mutex<RegistryState>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct RegistryState {
    /// Identified by pointer, not by pid: a pid may be reused before all processes of the
    /// first child are gone.
    children: Vec<Arc<Child>>,
    reserved: usize,
    /// The daemon shuts down: no child starts any more.
    closed: bool,
}

/// A reserved slot in the budget, for a child that is about to start.
#[derive(Debug)]
pub struct BudgetSlot {
    registry: Arc<ChildRegistry>,
}

impl Drop for BudgetSlot {
    fn drop(&mut self) {
        self.registry.lock().reserved -= 1;
        self.registry.freed.notify_waiters();
    }
}

impl ChildRegistry {
    pub fn reserve(self: &Arc<Self>) -> BudgetSlot {
        self.lock().reserved += 1;
        BudgetSlot { registry: self.clone() }
    }

    /// Adds the child in its reserved slot.
    pub(super) fn add(&self, child: &Arc<Child>, slot: BudgetSlot) {
        let is_closed = {
            let mut state = self.lock();
            state.children.push(child.clone());
            state.closed
        };
        if is_closed {
            child.stop();
        }
        drop(slot);
    }

    /// Whether the daemon shuts down, and nothing may be started any more.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(super) fn remove(&self, child: &Child) {
        remove(&mut self.lock().children, child);
        self.freed.notify_waiters();
    }

    /// Number of children that run or are about to start.
    pub fn slots_in_use(&self) -> usize {
        let state = self.lock();
        state.children.len() + state.reserved
    }

    pub fn all(&self) -> Vec<Arc<Child>> {
        self.lock().children.clone()
    }

    /// Wakes the callers that wait for a slot: the limit may have been raised.
    pub fn recheck_limit(&self) {
        self.freed.notify_waiters();
    }

    /// Resolves when a child is gone, a reserved slot was released, or the limit may have changed.
    pub fn slot_freed(&self) -> tokio::sync::futures::Notified<'_> {
        self.freed.notified()
    }

    /// Stops all children at once, also those that are about to start, and waits until all their processes
    /// are gone. Nothing is started afterwards.
    pub async fn stop_all(&self) {
        self.lock().closed = true;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let children = self.all();
            if children.is_empty() {
                if self.slots_in_use() == 0 {
                    return;
                }
                freed.await;
                continue;
            }
            children.iter().for_each(|child| child.stop());
            for child in children {
                child.wait_cleared().await;
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, RegistryState> {
        self.state.lock().expect("BUG: a registry entry panicked")
    }
}

/// Compares by pointer, not by value.
fn remove<T>(all: &mut Vec<Arc<T>>, gone: &T) {
    all.retain(|known| !std::ptr::eq(&**known, gone));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_a_child_keeps_another_with_the_same_pid() {
        let (first, second) = (Arc::new(4711), Arc::new(4711));
        let mut all = vec![first.clone(), second.clone()];
        remove(&mut all, &*first);
        assert!(all.len() == 1 && Arc::ptr_eq(&all[0], &second));
    }
}

//! Every child that runs, whoever started it: for the status, the budget, and a shutdown that leaves none.

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
    /// Known by what they are, not by their process: its number may be another child's before all of the first is gone.
    children: Vec<Arc<Child>>,
    reserved: usize,
}

/// Room for a child that is about to start.
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

    /// The child takes the place that was kept for it.
    pub(super) fn add(&self, child: &Arc<Child>, slot: BudgetSlot) {
        self.lock().children.push(child.clone());
        drop(slot);
    }

    pub(super) fn remove(&self, child: &Child) {
        remove(&mut self.lock().children, child);
        self.freed.notify_waiters();
    }

    /// Children that run or are about to.
    pub fn slots_in_use(&self) -> usize {
        let state = self.lock();
        state.children.len() + state.reserved
    }

    pub fn all(&self) -> Vec<Arc<Child>> {
        self.lock().children.clone()
    }

    /// There may be more room than before although nobody has gone.
    pub fn recheck_limit(&self) {
        self.freed.notify_waiters();
    }

    /// Resolves when a child has gone, the place of one that never came is free again, or the ceiling was changed.
    pub fn slot_freed(&self) -> tokio::sync::futures::Notified<'_> {
        self.freed.notified()
    }

    /// Stops all of them at once and waits until nothing is left.
    pub async fn stop_all(&self) {
        loop {
            let children = self.all();
            if children.is_empty() {
                return;
            }
            children.iter().for_each(|child| child.stop());
            for child in children {
                child.cleared().await;
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, RegistryState> {
        self.state.lock().expect("BUG: a registry entry panicked")
    }
}

/// Takes out this very one, not another that looks the same.
fn remove<T>(all: &mut Vec<Arc<T>>, gone: &T) {
    all.retain(|known| !std::ptr::eq(&**known, gone));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_does_not_take_another_of_the_same_number_along() {
        let (first, second) = (Arc::new(4711), Arc::new(4711));
        let mut all = vec![first.clone(), second.clone()];
        remove(&mut all, &*first);
        assert!(all.len() == 1 && Arc::ptr_eq(&all[0], &second));
    }
}

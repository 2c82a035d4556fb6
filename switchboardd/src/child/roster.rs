//! Every child that runs, whoever started it: for the status, the budget, and a shutdown that leaves none.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::Child;

#[derive(Debug, Default)]
pub struct Roster {
    // A leaf lock: held for an insert, a removal or a copy.
    state: Mutex<State>,
    left: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Known by what they are, not by their process: its number may be another child's before all of the first is gone.
    children: Vec<Arc<Child>>,
    reserved: usize,
}

/// Room for a child that is about to start.
#[derive(Debug)]
pub struct Place {
    roster: Arc<Roster>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.roster.lock().reserved -= 1;
        self.roster.left.notify_waiters();
    }
}

impl Roster {
    pub fn reserve(self: &Arc<Self>) -> Place {
        self.lock().reserved += 1;
        Place { roster: self.clone() }
    }

    /// The child takes the place that was kept for it.
    pub(super) fn enter(&self, child: &Arc<Child>, place: Place) {
        self.lock().children.push(child.clone());
        drop(place);
    }

    pub(super) fn leave(&self, child: &Child) {
        remove(&mut self.lock().children, child);
        self.left.notify_waiters();
    }

    /// Children that run or are about to.
    pub fn taken(&self) -> usize {
        let state = self.lock();
        state.children.len() + state.reserved
    }

    pub fn all(&self) -> Vec<Arc<Child>> {
        self.lock().children.clone()
    }

    /// There may be more room than before although nobody has gone.
    pub fn may_have_room(&self) {
        self.left.notify_waiters();
    }

    /// Resolves when a child has gone, the place of one that never came is free again, or the ceiling was changed.
    pub fn departure(&self) -> tokio::sync::futures::Notified<'_> {
        self.left.notified()
    }

    /// Stops all of them at once and waits until nothing is left.
    pub async fn clear(&self) {
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

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("BUG: a roster entry panicked")
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

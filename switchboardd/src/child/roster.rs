//! Every child that runs, whoever started it: for the status, and for a shutdown that leaves none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::Child;

#[derive(Debug, Default)]
pub struct Roster {
    // A leaf lock: held for an insert, a removal or a copy.
    children: Mutex<HashMap<u32, Arc<Child>>>,
}

impl Roster {
    pub(super) fn enter(&self, child: &Arc<Child>) {
        self.lock().insert(child.pid(), child.clone());
    }

    pub(super) fn leave(&self, child: &Child) {
        self.lock().remove(&child.pid());
    }

    pub fn all(&self) -> Vec<Arc<Child>> {
        self.lock().values().cloned().collect()
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

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Arc<Child>>> {
        self.children.lock().expect("BUG: a roster entry panicked")
    }
}

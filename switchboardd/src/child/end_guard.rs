//! Ends a child's book-keeping when the task that owns the child ends.

use std::sync::Arc;

use super::Child;
use super::registry::ChildRegistry;

/// Runs however the task ends, even by a panic: fails the calls and removes the child from the registry.
pub(super) struct EndGuard {
    pub(super) child: Arc<Child>,
    pub(super) registry: Arc<ChildRegistry>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.child.end();
        self.child.lifecycle.set_cleared();
        self.registry.remove(&self.child);
    }
}

//! Whom a child works for. Only a child of a single host may know that host's roots.

use std::path::Path;
use std::sync::Arc;

use super::Child;
use crate::caller::Caller;

#[derive(Debug, Clone)]
pub enum Ownership {
    /// Shared by hosts.
    Shared,
    /// Shared by the hosts in one workspace.
    Workspace(Arc<Path>),
    /// Not assigned to a host yet.
    Spare,
    Host(Arc<Caller>),
}

impl Child {
    pub fn ownership(&self) -> Ownership {
        self.ownership.lock().expect("BUG: a copy panicked").clone()
    }

    /// Whether the child belongs to a single host.
    pub fn is_owned(&self) -> bool {
        matches!(*self.ownership.lock().expect("BUG: a look panicked"), Ownership::Host(_))
    }

    /// Whether the child belongs to this host.
    pub fn is_owned_by(&self, caller: &Arc<Caller>) -> bool {
        let ownership = self.ownership.lock().expect("BUG: a look panicked");
        matches!(&*ownership, Ownership::Host(owner) if Arc::ptr_eq(owner, caller))
    }

    /// Assigns a spare child to a host, and tells the child that roots may have changed.
    pub fn assign_to(self: &Arc<Self>, caller: &Arc<Caller>) {
        *self.ownership.lock().expect("BUG: a copy panicked") = Ownership::Host(caller.clone());
        self.roots_changed();
        self.set_subscribed(&self.subscribed(), true);
    }

    /// Whether this caller's calls may go to this child.
    pub fn may_serve(&self, caller: &Arc<Caller>) -> bool {
        match self.ownership() {
            Ownership::Shared | Ownership::Workspace(_) => true,
            Ownership::Host(owner) => Arc::ptr_eq(&owner, caller.owner()),
            Ownership::Spare => false,
        }
    }
}

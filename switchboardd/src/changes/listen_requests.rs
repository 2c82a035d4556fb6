//! The open `subscriptions/listen` requests of modern hosts. Every notification carries the id of the request
//! that it is sent for.

use std::sync::{Arc, Mutex};

use switchboard_mcp::era::subscription::notification;

use crate::caller::Caller;
use crate::caller::mailbox::MessageKind;
use crate::catalog::{Catalog, ListFingerprints};
use crate::session::Session;

#[derive(Debug, Default)]
pub struct ListenRequests {
    // A leaf lock: held for a lookup, an insert or a removal.
    open: Mutex<Vec<Arc<ListenRequest>>>,
}

#[derive(Debug)]
pub struct ListenRequest {
    pub caller: Arc<Caller>,
    /// The id of the request as the host wrote it; it names the subscription.
    pub id: Box<str>,
    /// The notifications that the host wants.
    pub wanted: Vec<&'static str>,
    session: Arc<Session>,
    /// The child whose face the request was sent to; `None` for the aggregate.
    child: Option<Box<str>>,
    // A leaf lock: held to replace it.
    fingerprints: Mutex<ListFingerprints>,
}

impl ListenRequest {
    pub fn new(
        session: &Arc<Session>,
        listener: &Arc<Caller>,
        child: Option<&str>,
        id: &str,
        wanted: Vec<&'static str>,
    ) -> Self {
        Self {
            caller: listener.clone(),
            id: id.into(),
            wanted,
            session: session.clone(),
            child: child.map(Into::into),
            fingerprints: Mutex::new(ListFingerprints::of_face(&seen(session, listener, child), child)),
        }
    }

    /// Notifies the host of lists that changed since the last notification.
    fn notify_changes(&self) {
        let catalog = seen(&self.session, &self.caller, self.child.as_deref());
        let now = ListFingerprints::of_face(&catalog, self.child.as_deref());
        let before =
            std::mem::replace(&mut *self.fingerprints.lock().expect("BUG: a copy panicked"), now.clone());
        for method in now.changed_lists(&before, self.caller.profile().reads_tool_meta()) {
            if self.wanted.contains(&method) {
                self.caller.push(MessageKind::Changed(method), notification(method, "", &self.id));
            }
        }
    }
}

/// What the host that listens sees.
fn seen(session: &Session, listener: &Caller, child: Option<&str>) -> Arc<Catalog> {
    match child {
        Some(_) => session.workspace().catalog(),
        None => session.catalog_for(|| listener.profile().client_name()),
    }
}

/// Keeps the request registered until dropped.
#[derive(Debug)]
pub struct ListenGuard<'a> {
    requests: &'a ListenRequests,
    request: Arc<ListenRequest>,
}

impl ListenRequests {
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub fn open(&self, listen: ListenRequest) -> ListenGuard<'_> {
        let listen = Arc::new(listen);
        self.lock().push(listen.clone());
        ListenGuard { requests: self, request: listen }
    }

    /// Notifies the hosts that see changed lists.
    pub fn notify_changes(&self) {
        let open = self.lock().clone();
        open.iter().for_each(|listen| listen.notify_changes());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<ListenRequest>>> {
        self.open.lock().expect("BUG: bookkeeping panicked")
    }
}

impl Drop for ListenGuard<'_> {
    fn drop(&mut self) {
        self.requests.lock().retain(|open| !Arc::ptr_eq(open, &self.request));
    }
}

//! A child in a pool: its leases, when it was last used, and its unanswered calls that callers gave up on.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::caller::Caller;
use crate::child::{Child, ChildId};

#[derive(Debug)]
pub struct Member {
    child: Arc<Child>,
    leases: AtomicI64,
    /// When it was last leased or returned.
    // A leaf lock: held to copy or replace the time.
    used: Mutex<Instant>,
    /// Notified when the last lease is returned.
    free: Notify,
    /// Calls that wait until their hosts come back with answers to questions.
    suspended_calls: AtomicI64,
    settled_up_to: SettledUpTo,
    /// Records that it answered a host's call.
    served: AtomicBool,
    /// The child was stopped because all children together used too much memory.
    evicted: AtomicBool,
    /// It crashed, and another child was started in its place.
    replaced: AtomicBool,
}

/// Whether a child still owes answers to cancelled calls of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnansweredCalls {
    None,
    /// It has answered a later request: it may never answer the cancelled ones.
    Dropped,
    /// It may still be working on a cancelled call.
    Open,
}

/// Up to which call id the abandoned calls are settled.
#[derive(Debug, Default)]
struct SettledUpTo {
    /// The child has answered a request that was sent after these calls.
    dropped: AtomicU64,
    /// Unanswered calls up to this id no longer count.
    ignored_up_to: AtomicU64,
}

impl std::ops::Deref for Member {
    type Target = Arc<Child>;

    fn deref(&self) -> &Arc<Child> {
        &self.child
    }
}

impl Member {
    pub(super) fn new(child: Arc<Child>) -> Arc<Self> {
        Arc::new(Self {
            used: Mutex::new(child.started_at()),
            child,
            leases: AtomicI64::new(0),
            free: Notify::new(),
            suspended_calls: AtomicI64::new(0),
            settled_up_to: SettledUpTo::default(),
            served: AtomicBool::new(false),
            evicted: AtomicBool::new(false),
            replaced: AtomicBool::new(false),
        })
    }

    pub fn child(&self) -> &Arc<Child> {
        &self.child
    }

    /// Adds a lease (1) or returns one (-1).
    pub(super) fn change_leases(&self, change: i64) {
        *self.used.lock().expect("BUG: a copy panicked") = Instant::now();
        if self.leases.fetch_add(change, Ordering::Relaxed) + change == 0 {
            self.free.notify_waiters();
        }
    }

    pub fn leases(&self) -> i64 {
        self.leases.load(Ordering::Relaxed)
    }

    /// When the last lease was taken or returned. Probes and list fetches do not count as use.
    pub fn last_used(&self) -> Instant {
        *self.used.lock().expect("BUG: a copy panicked")
    }

    /// Whether the child has no leases and no calls in flight.
    pub fn is_idle(&self) -> bool {
        self.leases() == 0 && self.child.in_flight() == 0
    }

    /// Resolves when nobody holds a lease on it.
    pub(super) async fn wait_idle(&self) {
        loop {
            let free = self.free.notified();
            if self.leases() == 0 {
                return;
            }
            free.await;
        }
    }

    /// Whether it can serve callers: it is alive and not retiring.
    pub(super) fn is_serving(&self) -> bool {
        self.child.is_alive() && !self.child.is_retiring()
    }

    /// Counts a call that starts (1) or stops (-1) waiting for its host to come back with answers.
    pub fn change_suspended_calls(&self, change: i64) {
        self.suspended_calls.fetch_add(change, Ordering::Relaxed);
    }

    pub fn has_suspended_calls(&self) -> bool {
        self.suspended_calls.load(Ordering::Relaxed) > 0
    }

    pub fn note_served(&self) {
        self.served.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }

    /// Stops it to save memory.
    pub fn evict(&self) {
        self.evicted.store(true, Ordering::Relaxed);
        self.child.stop();
    }

    pub(super) fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Relaxed)
    }

    pub(super) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Records that another child was started in its place.
    pub(super) fn set_replaced(&self) {
        self.replaced.store(true, Ordering::Relaxed);
    }

    pub(super) fn unanswered_calls(&self) -> UnansweredCalls {
        let Some(ChildId(owed)) = self.child.last_owed() else { return UnansweredCalls::None };
        if owed <= self.settled_up_to.ignored_up_to.load(Ordering::Relaxed) {
            UnansweredCalls::None
        } else if owed <= self.settled_up_to.dropped.load(Ordering::Relaxed) {
            UnansweredCalls::Dropped
        } else {
            UnansweredCalls::Open
        }
    }

    /// Whether an abandoned call up to this one is unanswered.
    pub(super) fn has_unanswered(&self, up_to: ChildId) -> bool {
        self.child.owes_between(self.settled_up_to.ignored_up_to.load(Ordering::Relaxed), up_to)
    }

    /// The child has answered a request that was sent after these calls.
    pub(super) fn mark_dropped(&self, up_to: ChildId) {
        self.settled_up_to.dropped.fetch_max(up_to.0, Ordering::Relaxed);
    }

    /// Abandoned calls up to this one no longer count.
    pub(super) fn ignore_unanswered(&self, up_to: ChildId) {
        self.settled_up_to.ignored_up_to.fetch_max(up_to.0, Ordering::Relaxed);
    }

    /// Whether another host's call is open on it, or about to be, so that its questions and logs could be for
    /// either host.
    pub(super) fn is_crowded_for(&self, caller: &Arc<Caller>) -> bool {
        if !self.child.names_no_call() {
            return false;
        }
        let (own, others_abandoned) = self.child.open_calls_of(caller);
        self.leases() > i64::try_from(own).unwrap_or(i64::MAX) || others_abandoned
    }
}

/// The children of all pools, from handshake to end.
#[derive(Debug, Default)]
pub struct MemberRegistry {
    // A leaf lock: held for an insert, a removal or a copy.
    members: Mutex<Vec<Arc<Member>>>,
}

impl MemberRegistry {
    pub(super) fn add(&self, member: &Arc<Member>) {
        self.lock().push(member.clone());
    }

    pub(super) fn remove(&self, member: &Arc<Member>) {
        self.lock().retain(|known| !Arc::ptr_eq(known, member));
    }

    pub fn all(&self) -> Vec<Arc<Member>> {
        self.lock().clone()
    }

    /// The member of this child; `None` while the child starts, or once it has ended.
    pub fn of_child(&self, child: &Arc<Child>) -> Option<Arc<Member>> {
        self.lock().iter().find(|member| Arc::ptr_eq(&member.child, child)).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Member>>> {
        self.members.lock().expect("BUG: bookkeeping panicked")
    }
}

//! Leases a child: a caller takes one step after another until it may use a child or is refused.

use std::sync::Arc;
use std::time::Duration;

use switchboard_definitions::config::Scope;
use tokio::time::{Instant, timeout_at};

use super::member::{Member, UnansweredCalls};
use super::state::{LeaseStep, Waiter};
use super::{Pool, PoolError, SLOT_WAIT};
use crate::caller::Caller;
use crate::child::{Child, ChildError, Limits};
use crate::observe::metrics::child_metrics::StartReason;

/// The right to use a child. Dropping it gives the child back.
#[derive(Debug)]
pub struct Lease {
    member: Arc<Member>,
    pool: Arc<Pool>,
    /// With scope `call`: how long the child may take to be usable again after a cancelled call.
    comes_back: Option<Duration>,
}

impl std::ops::Deref for Lease {
    type Target = Arc<Child>;

    fn deref(&self) -> &Arc<Child> {
        &self.member
    }
}

impl Lease {
    /// The child as a member of its pool.
    pub fn member(&self) -> &Arc<Member> {
        &self.member
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // If the calls are `Dropped`, another `check_cancel_read` is already running and will ignore them in
        // time.
        if let Some(within) =
            self.comes_back.filter(|_| self.member.unanswered_calls() == UnansweredCalls::Open)
        {
            // There is no runtime when the daemon is exiting.
            let runtime = tokio::runtime::Handle::try_current();
            runtime.into_iter().for_each(|runtime| {
                drop(runtime.spawn(check_cancel_read(self.pool.clone(), self.member.clone(), within)));
            });
        }
        self.member.change_leases(-1);
        self.pool.has_changed();
    }
}

impl Pool {
    /// Leases a child, starting one if necessary. A start continues even if this caller gives up.
    pub async fn lease(self: &Arc<Self>, caller: &Arc<Caller>, limits: Limits) -> Result<Lease, PoolError> {
        self.lease_since(caller, limits, Instant::now()).await
    }

    /// Like [`Pool::lease`], for a call that came in at `asked` and has waited since.
    pub async fn lease_since(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        limits: Limits,
        asked: Instant,
    ) -> Result<Lease, PoolError> {
        if let Some(sent_as) = caller.sent_as()
            && self.settings().scope != Scope::Call
            && let Some(member) = self.members().into_iter().find(|member| {
                // Another process may have its number by now.
                member.pid() == sent_as.pid && sent_as.launch.is_none_or(|launch| launch == member.launch())
            })
        {
            // The host comes back with answers to questions of this child.
            member.change_leases(1);
            return Ok(Lease { member, pool: self.clone(), comes_back: None });
        }
        if self.lacks_workspace() {
            return Err(PoolError::NoWorkspace);
        }
        // A retry has the answers to questions of one server. They are not for another.
        let asked_by = caller.sent_as().and_then(|sent_as| sent_as.launch);
        let caller = caller.owner();
        let mut ran = None;
        let mut waiter = Waiter::new(caller, asked);
        let mut waiting = None;
        loop {
            // Created before the step, so that no change is missed.
            let changed = self.changed.notified();
            let (step, is_call) = {
                let mut state = self.lock();
                let step = state.step(&mut waiter, Instant::now());
                if let LeaseStep::Use(member) = &step {
                    member.change_leases(1);
                    state.spares.on_used();
                    state.want_spares();
                }
                ran.get_or_insert_with(|| {
                    let shares = state.settings.scope != Scope::Session && state.alive().next().is_some();
                    shares || matches!(step, LeaseStep::Use(_))
                });
                (step, state.settings.scope == Scope::Call)
            };
            match step {
                LeaseStep::Use(member) => {
                    let comes_back = is_call.then_some(limits.rpc);
                    let lease = Lease { member, pool: self.clone(), comes_back };
                    if asked_by.is_some_and(|asked_by| asked_by != lease.launch()) {
                        return Err(ChildError::Changed.into());
                    }
                    self.note_use(caller, ran == Some(true));
                    self.fill_up(limits);
                    lease.wait_for_roots().await;
                    return Ok(lease);
                }
                LeaseStep::Start(start) => {
                    drop(tokio::spawn(self.clone().start(start, limits, StartReason::Call)))
                }
                LeaseStep::Refuse(refusal) => return Err(refusal),
                LeaseStep::Rest(until) => tokio::time::sleep_until(until).await,
                LeaseStep::Wait => {
                    // From the second step on, this caller counts as waiting.
                    if waiting.is_none() {
                        waiting = Some(WaitingGuard::new(self));
                        waiter.counted = true;
                        continue;
                    }
                    changed.await;
                }
                LeaseStep::WaitUntil(until) => drop(timeout_at(until, changed).await),
                LeaseStep::WaitForRoom => {
                    if timeout_at(asked + SLOT_WAIT, changed).await.is_err() {
                        return Err(PoolError::Full { max: self.settings().max });
                    }
                }
            }
        }
    }
}

/// A call was cancelled, and its child has not answered it. Many servers never do, but are usable: one that
/// answers a `ping` has read the cancel. One that does not is still busy, or hangs.
async fn check_cancel_read(pool: Arc<Pool>, member: Arc<Member>, within: Duration) {
    let (begin, last) = (Instant::now(), member.last_call());
    if !member.is_responsive(within).await {
        if member.is_alive() && member.has_unanswered(last) {
            tracing::info!(target: "pool", server = member.name(), pid = member.pid(), "does not come back from a cancelled call");
            member.retire();
        }
    } else if member.has_unanswered(last) {
        member.mark_dropped(last);
        pool.has_changed();
        tokio::time::sleep_until(begin + within).await;
        member.ignore_unanswered(last);
    }
    pool.has_changed();
}

/// Counts a caller as waiting.
struct WaitingGuard {
    pool: Arc<Pool>,
}

impl WaitingGuard {
    fn new(pool: &Arc<Pool>) -> Self {
        pool.lock().waiting += 1;
        Self { pool: pool.clone() }
    }
}

impl Drop for WaitingGuard {
    fn drop(&mut self) {
        self.pool.lock().waiting -= 1;
    }
}

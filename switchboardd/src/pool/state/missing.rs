//! The children that are missing although no call needs them: spares, and those with subscribers.

use std::sync::Arc;

use switchboard_definitions::config::Scope;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{PoolState, Start};
use crate::caller::Caller;

impl PoolState {
    /// Registers and returns the missing starts that no call asks for; or when to check again, if they have
    /// to wait. `follows`: whether anybody subscribes to a resource of its children.
    pub(in crate::pool) fn missing_spares(
        &mut self,
        now: Instant,
        follows: impl FnOnce() -> bool,
    ) -> (Vec<Arc<Start>>, Option<Instant>) {
        if self.retired || !self.ran_before {
            return (Vec::new(), None);
        }
        let missing = self.missing(follows);
        if missing.is_empty() || !self.spares.may_start(now) || self.breaker.next_start(now).is_some() {
            let later = self.spares.retry_at(now).max(self.breaker.next_start(now));
            return (Vec::new(), later.filter(|_| !missing.is_empty()));
        }
        (missing.into_iter().map(|owner| self.note_start(owner, None, now)).collect(), None)
    }

    /// When a task has to check for spares that may start at `later`; `None` if a task already does by that
    /// time. A task that was scheduled before may be due much later.
    pub(in crate::pool) fn wake_at(&mut self, later: Option<Instant>) -> Option<Instant> {
        let sooner = later.filter(|later| self.woken_at.is_none_or(|at| *later < at))?;
        self.woken_at = Some(sooner);
        Some(sooner)
    }

    /// Call this when the task of [`PoolState::wake_at`] wakes up. False if a task with an earlier time
    /// replaced it.
    pub(in crate::pool) fn is_woken(&mut self, at: Instant) -> bool {
        self.woken_at.take_if(|woken| *woken == at).is_some()
    }

    /// A start waits for a retry condition. The receiver resolves when another start waits instead,
    /// or the pool is gone.
    pub(in crate::pool) fn await_condition(&mut self) -> oneshot::Receiver<()> {
        let (waits, replaced) = oneshot::channel();
        self.condition_waiter = Some(waits);
        replaced
    }

    /// The owners of missing children: spares, and children with subscribed resources.
    fn missing(&mut self, follows: impl FnOnce() -> bool) -> Vec<Option<Arc<Caller>>> {
        let is_session = self.settings.scope == Scope::Session;
        let there = self.alive().filter(|member| !is_session || !member.is_owned()).count();
        let starting = self.starting.iter().filter(|start| start.owner.is_none()).count();
        let is_shared = matches!(self.settings.scope, Scope::Shared | Scope::Workspace);
        let followed = is_shared && there + starting == 0 && follows();
        let wanted = self.settings.warm.min(self.wanted_spares).max(usize::from(followed));
        let mut room = self.settings.max.saturating_sub(self.alive().count() + self.starting.len());
        let mut missing = Vec::new();
        if is_session && !self.resubscribing.is_empty() {
            let mut owners = std::mem::take(&mut self.resubscribing);
            owners
                .retain(|owner| !owner.is_closed() && !self.alive().any(|member| member.is_owned_by(owner)));
            let idle = owners
                .iter()
                .filter(|owner| !self.starting.iter().any(|start| start.belongs_to(Some(owner))));
            missing.extend(idle.take(room).map(|owner| Some(owner.clone())));
            room -= missing.len();
            self.resubscribing = owners;
        }
        missing.extend(std::iter::repeat_n(None, wanted.saturating_sub(there + starting).min(room)));
        missing
    }
}

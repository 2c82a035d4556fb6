//! The starts of a pool that are in progress or failed recently.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::{LeaseStep, PoolState};
use crate::caller::Caller;
use crate::child::ChildError;
use crate::pool::PoolError;

/// Callers wait for a start that is paused up to this long; a longer pause is reported as an error.
const SHORT_PAUSE: Duration = Duration::from_millis(250);
/// How many failed starts are remembered for calls that came in before the failure. More sessions than this
/// hardly start at once.
const MAX_FAILED_STARTS: usize = 16;

/// One start, registered before it begins. The callers that wait for it hold it: its failure refuses only
/// them, and calls that were queued behind theirs.
#[derive(Debug)]
pub(in crate::pool) struct Start {
    /// The session it is for, with scope `session`; `None` if any caller may have the child.
    pub(in crate::pool) owner: Option<Arc<Caller>>,
    /// Until when it waits for room. `None`: it does not wait, and evicts no other child.
    pub(in crate::pool) room_until: Option<Instant>,
    pub(super) started_at: Instant,
    pub(super) failure: OnceLock<(Instant, PoolError)>,
}

impl Start {
    /// Whether a call has no other child to use. Other starts fail like those of spares.
    pub(in crate::pool) fn is_needed(&self) -> bool {
        self.room_until.is_some()
    }

    pub(super) fn belongs_to(&self, owner: Option<&Arc<Caller>>) -> bool {
        match (&self.owner, owner) {
            (Some(own), Some(owner)) => Arc::ptr_eq(own, owner),
            (None, None) => true,
            _ => false,
        }
    }
}

impl PoolState {
    /// Registers a start, unless the breaker pauses.
    pub(in crate::pool) fn start(
        &mut self,
        owner: Option<Arc<Caller>>,
        room_until: Option<Instant>,
        now: Instant,
    ) -> Result<Arc<Start>, LeaseStep> {
        if let Some(start) = self.breaker.next_start(now) {
            let pause = start - now;
            if pause <= SHORT_PAUSE {
                return Err(LeaseStep::Rest(start));
            }
            let last = self.last_crash.clone().unwrap_or(ChildError::Stopped);
            let ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            return Err(LeaseStep::Refuse(PoolError::CoolingDown { last, ms }));
        }
        Ok(self.note_start(owner, room_until, now))
    }

    pub(super) fn note_start(
        &mut self,
        owner: Option<Arc<Caller>>,
        room_until: Option<Instant>,
        begun: Instant,
    ) -> Arc<Start> {
        let start = Arc::new(Start { owner, room_until, started_at: begun, failure: OnceLock::new() });
        self.starting.push(start.clone());
        self.starts += 1;
        start
    }

    /// A start is over; `failure`: why there is no child, for the callers that wait for it.
    pub(in crate::pool) fn end_start(
        &mut self,
        start: &Arc<Start>,
        failure: Option<&PoolError>,
        now: Instant,
    ) {
        self.starting.retain(|under_way| !Arc::ptr_eq(under_way, start));
        let Some(failure) = failure else {
            self.failed.retain(|failed| !failed.belongs_to(start.owner.as_ref()));
            return;
        };
        let _ = start.failure.set((now, failure.clone()));
        if !start.is_needed() {
            return;
        }
        if self.failed.len() == MAX_FAILED_STARTS {
            self.failed.pop_front();
        }
        self.failed.push_back(start.clone());
    }
}

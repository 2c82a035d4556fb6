//! The starts of a pool that are under way or failed lately.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::{State, Step};
use crate::caller::Caller;
use crate::child::ChildError;
use crate::pool::PoolError;

/// A pause before a start that callers sit out; a longer one is told to them.
const SHORT_PAUSE: Duration = Duration::from_millis(250);
/// Failed starts that calls which came in before are told of. More sessions than this hardly start at once.
const FAILED_KEPT: usize = 16;

/// One start, from when it was noted on. Those who wait for it hold it: its failure is theirs and nobody else's.
#[derive(Debug)]
pub(in crate::pool) struct Start {
    /// The session it is for, with scope `session`; `None` if anybody may have the child.
    pub(in crate::pool) owner: Option<Arc<Caller>>,
    /// Until when it waits for room. `None`: not at all, and it pushes nobody out.
    pub(in crate::pool) room_until: Option<Instant>,
    pub(super) begun: Instant,
    pub(super) failure: OnceLock<(Instant, PoolError)>,
}

impl Start {
    /// Whether a call has no other child to use. Others fail like those of spares.
    pub(in crate::pool) fn is_needed(&self) -> bool {
        self.room_until.is_some()
    }

    pub(super) fn is_for(&self, owner: Option<&Arc<Caller>>) -> bool {
        match (&self.owner, owner) {
            (Some(own), Some(owner)) => Arc::ptr_eq(own, owner),
            (None, None) => true,
            _ => false,
        }
    }
}

impl State {
    /// Notes a start, unless the breaker rests.
    pub(in crate::pool) fn start(
        &mut self,
        owner: Option<Arc<Caller>>,
        room_until: Option<Instant>,
        now: Instant,
    ) -> Result<Arc<Start>, Step> {
        if let Some(start) = self.breaker.next_start(now) {
            let pause = start - now;
            if pause <= SHORT_PAUSE {
                return Err(Step::Rest(start));
            }
            let last = self.last_crash.clone().unwrap_or(ChildError::Stopped);
            let ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            return Err(Step::Refuse(PoolError::CoolingDown { last, ms }));
        }
        Ok(self.note_start(owner, room_until, now))
    }

    pub(super) fn note_start(
        &mut self,
        owner: Option<Arc<Caller>>,
        room_until: Option<Instant>,
        begun: Instant,
    ) -> Arc<Start> {
        let start = Arc::new(Start { owner, room_until, begun, failure: OnceLock::new() });
        self.starting.push(start.clone());
        self.starts += 1;
        start
    }

    /// A start is over; `failure`: why there is no child. Those who wait for it find that out.
    pub(in crate::pool) fn end_start(
        &mut self,
        start: &Arc<Start>,
        failure: Option<&PoolError>,
        now: Instant,
    ) {
        self.starting.retain(|under_way| !Arc::ptr_eq(under_way, start));
        let Some(failure) = failure else {
            self.failed.retain(|failed| !failed.is_for(start.owner.as_ref()));
            return;
        };
        let _ = start.failure.set((now, failure.clone()));
        if !start.is_needed() {
            return;
        }
        if self.failed.len() == FAILED_KEPT {
            self.failed.pop_front();
        }
        self.failed.push_back(start.clone());
    }
}

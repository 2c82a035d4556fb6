//! A child whose resources somebody follows runs although nobody calls it: when it ends, another is started.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Pool;
use super::state::Step;
use crate::caller::Caller;
use crate::child::{Child, Limits, Tie};
use crate::config::Scope;
use crate::measures::child_tally::Reason;

/// The pause after a start that failed, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Pool {
    /// Somebody follows resources of a child that ended: the next one has to tell of them. It stops no other child:
    /// where there is no room it is tried again later.
    pub(super) fn keep_followed(self: &Arc<Self>, ended: &Child, limits: Limits) {
        let owner = match ended.tie() {
            Tie::Nobody => None,
            Tie::Session(owner) if !owner.is_stranger() => Some(owner),
            Tie::Session(_) | Tie::Spare => return,
        };
        if self.settings().scope != Scope::Call && self.is_followed(owner.as_ref()) {
            tokio::spawn(self.clone().start_for_followers(owner, limits));
        }
    }

    async fn start_for_followers(self: Arc<Self>, owner: Option<Arc<Caller>>, limits: Limits) {
        let mut pause = FIRST_PAUSE;
        while self.is_followed(owner.as_ref()) {
            let step = {
                let mut state = self.lock();
                let serves = |of: &Option<Arc<Caller>>| match (of, &owner) {
                    (Some(of), Some(owner)) => Arc::ptr_eq(of, owner),
                    (of, None) => of.is_none(),
                    (None, Some(_)) => false,
                };
                if state.alive().any(|member| serves(&member.owner)) {
                    return;
                }
                if state.starting.iter().any(serves) || state.is_full() {
                    Step::Wait
                } else {
                    state.start(owner.clone(), Instant::now())
                }
            };
            match step {
                Step::Start(owner) => self.clone().start(owner, limits, Reason::Warm).await,
                Step::Rest(until) => {
                    tokio::time::sleep_until(until).await;
                    continue;
                }
                // It keeps dying: the next call starts it, and it is told then.
                Step::Refuse(_) => return,
                _ => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn is_followed(&self, owner: Option<&Arc<Caller>>) -> bool {
        !self.lock().retired
            && !owner.is_some_and(|owner| owner.is_closed())
            && !self.subscriptions.followed(owner).is_empty()
    }
}

//! Cancels calls that no caller waits for any more, and checks whether the child has read the cancels.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use switchboard_mcp::era::ProtocolEra;
use switchboard_mcp::methods;
use switchboard_wire::backoff::Backoff;
use tokio::time::Instant;

use super::calls::ChildId;
use super::questions::CALL_ENDED;
use super::{Child, Limits};

/// How long a child may take to answer the `ping` that shows that it has read a cancel.
const CANCEL_PING_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest pause between two such pings to a child that answers none.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// After this many unanswered pings (some minutes) the child is sent no more until the next cancel: some
/// servers never answer one.
const MOST_PINGS: u32 = 8;

/// How long after a cancel a legacy child may still send messages about the cancelled call.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct CancelWatch {
    /// A task is checking whether the child has read the cancels.
    is_watched: AtomicBool,
}

impl Child {
    /// The caller of this call gave up. True if the child had not answered: it has to be told.
    pub(super) fn abandon(self: &Arc<Self>, id: ChildId) -> bool {
        let now = Instant::now();
        let (open, ended) = {
            let mut calls = self.calls();
            (calls.abandon(id, now), calls.take_ended_questions(now))
        };
        self.withdraw(ended, CALL_ENDED);
        if open {
            self.watch_cancels();
        }
        open
    }

    /// A legacy server need not answer a cancelled call. A `ping` that is sent a moment later and answered
    /// shows that it has read the cancel: from then on its logs are not attributed to the cancelled call. A
    /// server that still works on the cancelled call may not answer for long, so the ping is repeated.
    fn watch_cancels(self: &Arc<Self>) {
        if self.era() == ProtocolEra::Modern
            || self.server_info.get().is_none()
            || self.cancels.is_watched.swap(true, Relaxed)
        {
            return;
        }
        let child = self.clone();
        tokio::spawn(async move {
            let (mut backoff, mut unanswered) = (Backoff::new(CANCEL_GRACE, LONGEST_PAUSE), 0);
            while child.is_alive() && unanswered < MOST_PINGS {
                tokio::time::sleep(backoff.next_pause()).await;
                if !child.calls().has_unread_cancel() {
                    break;
                }
                if child.shows_cancels_read().await {
                    backoff.reset();
                    unanswered = 0;
                } else {
                    unanswered += 1;
                }
            }
            child.cancels.is_watched.store(false, Relaxed);
        });
    }

    /// Pings the child. If it answers, it has read every cancel that was sent before.
    async fn shows_cancels_read(self: &Arc<Self>) -> bool {
        let limits =
            Limits { spawn: CANCEL_PING_TIMEOUT, rpc: CANCEL_PING_TIMEOUT, max: CANCEL_PING_TIMEOUT };
        let Ok(ping) = self.request(methods::PING, b"") else { return false };
        let id = ping.id();
        self.calls().check(id);
        let answered = ping.answer(limits).await.is_ok();
        if answered {
            self.calls().mark_cancels_read(id);
        }
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::super::without_process;
    use super::*;
    use crate::caller::Caller;

    #[tokio::test(start_paused = true)]
    async fn pings_stop_when_a_child_answers_none() {
        let (child, pipe) = without_process();
        let clock = child.clone();
        tokio::spawn(async move { clock.run_timeouts().await });
        let sent = || {
            let mut all = vec![0; 1 << 16];
            let count = pipe.try_read(&mut all).unwrap_or(0);
            String::from_utf8_lossy(&all[..count]).matches(r#""method":"ping""#).count()
        };
        for _ in 0..2 {
            drop(child.open_call_of(&Caller::named()));
            tokio::time::sleep(CANCEL_GRACE + CANCEL_PING_TIMEOUT / 2).await;
            assert!(child.in_flight() == 0, "a ping is nobody's use of it");
            tokio::time::sleep(Duration::from_secs(3600)).await;
            assert_eq!(sent(), MOST_PINGS as usize);
        }
        assert!(child.in_flight() == 0 && child.calls().has_unread_cancel());
    }
}

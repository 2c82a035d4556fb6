//! The lifecycle of a child: running, stopping, ended, cleared; and why it ended.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::{Child, ChildError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LifeStage {
    Alive,
    /// The child sends no more answers; its processes may still be ending.
    Ended,
    /// All processes of the child are gone.
    Cleared,
}

pub(super) struct Lifecycle {
    stage: watch::Sender<LifeStage>,
    stop: watch::Sender<bool>,
    retiring: watch::Sender<bool>,
    /// Why it ends or has ended; the first reason counts.
    reason: OnceLock<ChildError>,
    /// It was told to stop, or has ended. Every call looks at it several times.
    is_over: AtomicBool,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            stage: watch::Sender::new(LifeStage::Alive),
            stop: watch::Sender::new(false),
            retiring: watch::Sender::new(false),
            reason: OnceLock::new(),
            is_over: AtomicBool::new(false),
        }
    }
}

impl Lifecycle {
    /// Records why the child ends; the first reason counts.
    pub(super) fn set_reason(&self, why: ChildError) {
        let _ = self.reason.set(why);
    }

    /// Records that the child has ended: it answers no more calls.
    pub(super) fn set_ended(&self) {
        self.is_over.store(true, Ordering::Release);
        self.stage.send_if_modified(|stage| {
            let changed = *stage == LifeStage::Alive;
            if changed {
                *stage = LifeStage::Ended;
            }
            changed
        });
    }

    /// Records that none of the child's processes is left.
    pub(super) fn set_cleared(&self) {
        self.is_over.store(true, Ordering::Release);
        self.stage.send_replace(LifeStage::Cleared);
    }

    /// Resolves when the child is told to stop.
    pub(super) async fn stop_requested(&self) {
        let mut stop = self.stop.subscribe();
        let _ = stop.wait_for(|stop| *stop).await;
    }

    fn was_not_stopped(&self) -> bool {
        !self.is_over.load(Ordering::Acquire)
    }

    fn was_told_to_stop(&self) -> bool {
        self.reason.get().map_or_else(|| *self.stop.borrow(), |why| *why == ChildError::Stopped)
    }
}

impl Child {
    /// Asks the child to end: closes its stdin, then sends TERM, then KILL.
    pub fn stop(&self) {
        self.lifecycle.is_over.store(true, Ordering::Release);
        self.lifecycle.stop.send_replace(true);
    }

    /// Ends it for a reason that is passed on to its callers and its pool.
    pub fn give_up(&self, why: ChildError) {
        self.lifecycle.set_reason(why);
        self.stop();
    }

    /// Marks the child as retiring: current leases keep it, new callers get a different child.
    pub fn retire(&self) {
        self.lifecycle.retiring.send_replace(true);
    }

    pub fn is_retiring(&self) -> bool {
        *self.lifecycle.retiring.borrow()
    }

    /// Resolves when the child is marked as retiring.
    pub async fn wait_retiring(&self) {
        let mut retiring = self.lifecycle.retiring.subscribe();
        let _ = retiring.wait_for(|retiring| *retiring).await;
    }

    pub fn is_alive(&self) -> bool {
        self.lifecycle.was_not_stopped() && self.transport.is_open()
    }

    /// Whether it ended and the daemon did not stop it.
    pub fn ended_by_itself(&self) -> bool {
        !self.is_alive() && !self.lifecycle.was_told_to_stop()
    }

    /// Resolves when the child has ended; its processes may still be ending.
    pub async fn wait_ended(&self) {
        let mut stage = self.lifecycle.stage.subscribe();
        let _ = stage.wait_for(|stage| *stage != LifeStage::Alive).await;
    }

    /// Resolves when all processes of the child are gone.
    pub async fn wait_cleared(&self) {
        let mut stage = self.lifecycle.stage.subscribe();
        let _ = stage.wait_for(|stage| *stage == LifeStage::Cleared).await;
    }

    /// Waits for its end and returns the reason.
    pub async fn wait_end_reason(&self) -> ChildError {
        self.wait_ended().await;
        self.why_ended()
    }

    /// Why it ended.
    pub fn why_ended(&self) -> ChildError {
        self.lifecycle.reason.get().cloned().unwrap_or(ChildError::Stopped)
    }

    /// The child sends no more answers: fails its calls and withdraws its questions.
    pub(super) fn end(&self) {
        self.lifecycle.set_ended();
        self.transport.close();
        let open = self.calls().close();
        self.reschedule_timeouts();
        self.withdraw_questions(open);
    }
}

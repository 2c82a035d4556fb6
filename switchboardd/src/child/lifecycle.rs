//! How far a child's life is: it runs, is to stop, has ended, is cleared away; and why it ended.

use std::sync::OnceLock;

use tokio::sync::watch;

use super::{Child, ChildError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Alive,
    /// It answers no more; its processes may still be ending.
    Ended,
    /// Nothing of it is left.
    Cleared,
}

pub(super) struct Lifecycle {
    stage: watch::Sender<Stage>,
    stop: watch::Sender<bool>,
    retiring: watch::Sender<bool>,
    /// Why it ends or has ended; the first reason counts.
    reason: OnceLock<ChildError>,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            stage: watch::Sender::new(Stage::Alive),
            stop: watch::Sender::new(false),
            retiring: watch::Sender::new(false),
            reason: OnceLock::new(),
        }
    }
}

impl Lifecycle {
    /// Notes why the child ends, unless a reason was given before.
    pub(super) fn set_reason(&self, why: ChildError) {
        let _ = self.reason.set(why);
    }

    /// It answers no more.
    pub(super) fn set_ended(&self) {
        self.stage.send_if_modified(|stage| {
            let changed = *stage == Stage::Alive;
            if changed {
                *stage = Stage::Ended;
            }
            changed
        });
    }

    /// Nothing of it is left.
    pub(super) fn set_cleared(&self) {
        self.stage.send_replace(Stage::Cleared);
    }

    /// Resolves when it is to stop.
    pub(super) async fn stop_requested(&self) {
        let mut stop = self.stop.subscribe();
        let _ = stop.wait_for(|stop| *stop).await;
    }

    fn was_not_stopped(&self) -> bool {
        *self.stage.borrow() == Stage::Alive && !*self.stop.borrow()
    }

    fn was_told_to_stop(&self) -> bool {
        self.reason.get().map_or_else(|| *self.stop.borrow(), |why| *why == ChildError::Stopped)
    }
}

impl Child {
    /// Asks the child to end: its input is closed, then come TERM and KILL.
    pub fn stop(&self) {
        self.lifecycle.stop.send_replace(true);
    }

    /// Ends it for a reason that its callers and its pool are told.
    pub fn give_up(&self, why: ChildError) {
        self.lifecycle.set_reason(why);
        self.stop();
    }

    /// Has it serve who has it and nobody else: the next callers get another one.
    pub fn retire(&self) {
        self.lifecycle.retiring.send_replace(true);
    }

    pub fn is_retiring(&self) -> bool {
        *self.lifecycle.retiring.borrow()
    }

    /// Resolves when it is to be replaced.
    pub async fn wait_retiring(&self) {
        let mut retiring = self.lifecycle.retiring.subscribe();
        let _ = retiring.wait_for(|retiring| *retiring).await;
    }

    pub fn is_alive(&self) -> bool {
        self.lifecycle.was_not_stopped() && self.transport.is_open()
    }

    /// Whether it is gone and nobody told it to go.
    pub fn ended_by_itself(&self) -> bool {
        !self.is_alive() && !self.lifecycle.was_told_to_stop()
    }

    /// Resolves when it answers no more.
    pub async fn ended(&self) {
        let mut stage = self.lifecycle.stage.subscribe();
        let _ = stage.wait_for(|stage| *stage != Stage::Alive).await;
    }

    /// Resolves when nothing of the child is left.
    pub async fn cleared(&self) {
        let mut stage = self.lifecycle.stage.subscribe();
        let _ = stage.wait_for(|stage| *stage == Stage::Cleared).await;
    }

    /// Waits for its end and tells why.
    pub async fn ending(&self) -> ChildError {
        self.ended().await;
        self.why_ended()
    }

    /// Why it ended, for callers who come or wait at the end.
    pub fn why_ended(&self) -> ChildError {
        self.lifecycle.reason.get().cloned().unwrap_or(ChildError::Stopped)
    }

    /// No more answers will come: everybody who waits is told.
    pub(super) fn end(&self) {
        self.lifecycle.set_ended();
        self.transport.close();
        let open = self.calls().close();
        self.reschedule_timeouts();
        self.withdraw_questions(open);
    }
}

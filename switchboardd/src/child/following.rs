//! Which changes and which logs a child is asked to tell of.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_wire::envelope::quoted;
use tokio::sync::Notify;

use super::{Child, Limits, Ownership};
use crate::era::ProtocolEra;
use crate::log_level::LogLevel;
use crate::methods;
use crate::subscriptions::Subscriptions;

/// How long a modern child may take to say that it tells of a resource.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(2);

/// How long an answer is awaited that nobody reads.
const MINUTE: Duration = Duration::from_secs(60);
const PATIENT: Limits = Limits { spawn: MINUTE, rpc: MINUTE, max: MINUTE };

pub(super) struct FollowState {
    pub(super) subscriptions: Arc<Subscriptions>,
    /// Other resources are followed than before.
    pub(super) refollow: Notify,
    /// A modern child said what it will tell of.
    pub(super) acknowledged: Notify,
    /// The level that it was last told to log from.
    // A leaf lock: held for a look or a change.
    level: Mutex<Option<LogLevel>>,
}

impl FollowState {
    pub(super) fn new(subscriptions: Arc<Subscriptions>) -> Self {
        Self { subscriptions, refollow: Notify::new(), acknowledged: Notify::new(), level: Mutex::default() }
    }
}

impl Child {
    /// Its server has begun with it anew, and knows nothing of what it was told before.
    pub(super) fn on_reinitialized(self: &Arc<Self>) {
        self.follow(&self.followed(), true);
        let level = *self.following.level.lock().expect("BUG: a copy panicked");
        level.into_iter().for_each(|level| self.set_level(level));
        self.tool_cache.invalidate();
        self.offer_cache.invalidate();
    }

    /// The resources that are followed by those whom it serves.
    pub fn followed(&self) -> Vec<Box<str>> {
        match self.ownership() {
            Ownership::Shared => self.following.subscriptions.subscribed_uris(None),
            Ownership::Host(owner) => self.following.subscriptions.subscribed_uris(Some(&owner)),
            Ownership::Spare => Vec::new(),
        }
    }

    /// Somebody whom it serves follows one of its resources: it is needed although nobody calls it.
    pub fn is_followed(&self) -> bool {
        !self.followed().is_empty()
    }

    /// Has it tell of changes of these resources, or no longer. Nobody waits for its answers.
    pub fn follow(self: &Arc<Self>, uris: &[Box<str>], follow: bool) {
        if self.era() == ProtocolEra::Modern {
            if !uris.is_empty() {
                self.following.refollow.notify_one();
            }
            return;
        }
        let method = if follow { methods::SUBSCRIBE } else { methods::UNSUBSCRIBE };
        for uri in uris {
            self.send_unawaited(method, &format!(r#"{{"uri":{}}}"#, quoted(uri)));
        }
    }

    /// The same of a modern child, up to its word that it does, which it has to give soon.
    pub async fn follow_surely(self: &Arc<Self>, uri: &str) {
        let acknowledged = self.following.acknowledged.notified();
        self.follow(&[uri.into()], true);
        let _ = tokio::time::timeout(ACKNOWLEDGED_WITHIN, acknowledged).await;
    }

    /// Has it log from this level on, if it logs at all.
    pub fn set_level(self: &Arc<Self>, level: LogLevel) {
        *self.following.level.lock().expect("BUG: a copy panicked") = Some(level);
        // A modern one is told with every request.
        if self.era() == ProtocolEra::Legacy
            && self.server_info.get().is_some_and(|server_info| server_info.has_capability("logging"))
        {
            let params = format!(r#"{{"level":"{}"}}"#, level.word());
            self.send_unawaited(methods::SET_LEVEL, &params);
        }
    }

    /// Sends a request of our own whose answer changes nothing.
    fn send_unawaited(self: &Arc<Self>, method: &str, params: &str) {
        if let Ok(call) = self.request(method, params.as_bytes()) {
            tokio::spawn(call.answer(PATIENT));
        }
    }
}

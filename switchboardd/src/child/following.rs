//! Which changes and which log levels a child is asked to report.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_mcp::era::ProtocolEra;
use switchboard_mcp::log_level::LogLevel;
use switchboard_mcp::methods;
use switchboard_wire::envelope::quoted;
use tokio::sync::Notify;

use super::{Child, Limits, Ownership};
use crate::caller::subscriptions::Subscriptions;

/// How long a modern child may take to acknowledge a subscription.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the daemon waits for an answer that it does not use.
const UNAWAITED_TIMEOUT: Duration = Duration::from_secs(60);
const UNAWAITED_LIMITS: Limits =
    Limits { spawn: UNAWAITED_TIMEOUT, rpc: UNAWAITED_TIMEOUT, max: UNAWAITED_TIMEOUT };

pub(super) struct SubscriptionState {
    pub(super) subscriptions: Arc<Subscriptions>,
    /// Notified when the set of subscribed resources changed.
    pub(super) subscriptions_changed: Notify,
    /// Notified when a modern child acknowledged a `subscriptions/listen` request.
    pub(super) acknowledged: Notify,
    /// The log level that the child was last sent.
    // A leaf lock: held to read or replace the value.
    level: Mutex<Option<LogLevel>>,
}

impl SubscriptionState {
    pub(super) fn new(subscriptions: Arc<Subscriptions>) -> Self {
        Self {
            subscriptions,
            subscriptions_changed: Notify::new(),
            acknowledged: Notify::new(),
            level: Mutex::default(),
        }
    }
}

impl Child {
    /// A remote server began a new session and has lost all state: sends the subscriptions and the log level
    /// again, and drops the cached lists.
    pub(super) fn on_reinitialized(self: &Arc<Self>) {
        self.set_subscribed(&self.subscribed(), true);
        let level = *self.following.level.lock().expect("BUG: a copy panicked");
        level.into_iter().for_each(|level| self.set_level(level));
        self.tool_cache.invalidate();
        self.offer_cache.invalidate();
    }

    /// The resources that the sessions of this child subscribe to.
    pub fn subscribed(&self) -> Vec<Box<str>> {
        match self.ownership() {
            Ownership::Shared | Ownership::Workspace(_) => self.following.subscriptions.subscribed_uris(None),
            Ownership::Host(owner) => self.following.subscriptions.subscribed_uris(Some(&owner)),
            Ownership::Spare => Vec::new(),
        }
    }

    /// Whether a session of this child subscribes to one of its resources: then it is
    /// needed even without calls.
    pub fn is_subscribed(&self) -> bool {
        !self.subscribed().is_empty()
    }

    /// Subscribes to these resources, or unsubscribes. The answers are not awaited.
    pub fn set_subscribed(self: &Arc<Self>, uris: &[Box<str>], follow: bool) {
        if self.era() == ProtocolEra::Modern {
            if !uris.is_empty() {
                self.following.subscriptions_changed.notify_one();
            }
            return;
        }
        let method = if follow { methods::SUBSCRIBE } else { methods::UNSUBSCRIBE };
        for uri in uris {
            self.send_unawaited(method, &format!(r#"{{"uri":{}}}"#, quoted(uri)));
        }
    }

    /// Subscribes to one resource of a modern child and waits until the child acknowledges
    /// it, up to a timeout.
    pub async fn subscribe_and_wait(self: &Arc<Self>, uri: &str) {
        let acknowledged = self.following.acknowledged.notified();
        self.set_subscribed(&[uri.into()], true);
        let _ = tokio::time::timeout(ACK_TIMEOUT, acknowledged).await;
    }

    /// Sets the log level of a child that has the `logging` capability.
    pub fn set_level(self: &Arc<Self>, level: LogLevel) {
        *self.following.level.lock().expect("BUG: a copy panicked") = Some(level);
        // A modern child gets the level with every request.
        if self.era() == ProtocolEra::Legacy
            && self.server_info.get().is_some_and(|server_info| server_info.has_capability("logging"))
        {
            let params = format!(r#"{{"level":"{}"}}"#, level.as_str());
            self.send_unawaited(methods::SET_LEVEL, &params);
        }
    }

    /// Sends a request of the daemon's own whose answer is ignored.
    fn send_unawaited(self: &Arc<Self>, method: &str, params: &str) {
        if let Ok(call) = self.request(method, params.as_bytes()) {
            tokio::spawn(call.answer(UNAWAITED_LIMITS));
        }
    }
}

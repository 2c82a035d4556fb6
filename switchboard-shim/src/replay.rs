//! What a new daemon must be told to continue the host's session: the host's own messages, unchanged, and
//! only those that were answered. The relay sends unanswered ones again itself.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::methods::{HostMethod, NotificationKind, OutgoingKind};

#[derive(Debug, Default)]
pub(crate) struct Replay {
    initialize: Option<Box<RawValue>>,
    initialized: Option<Box<RawValue>>,
    level: Option<Box<RawValue>>,
    /// Live subscriptions by the raw text of their `uri`.
    subscriptions: Vec<(Box<str>, Box<RawValue>)>,
    /// What the daemon said of the last list of tools that the host got.
    pub(crate) shown: Option<Box<str>>,
}

impl Replay {
    /// Whether [`Replay::note`] needs to see this message once it is answered.
    pub(crate) fn concerns(kind: &OutgoingKind) -> bool {
        match kind {
            OutgoingKind::Request { method, .. } => {
                !matches!(method, HostMethod::Safe | HostMethod::Call | HostMethod::Once | HostMethod::Listen)
            }
            OutgoingKind::Notification(note) => *note == NotificationKind::Initialized,
            OutgoingKind::Response { .. } => false,
        }
    }

    /// Records a message that was answered without an error. The shim does not parse host messages in full,
    /// so a message that is not valid JSON can arrive here; it is dropped, because no daemon could read it.
    pub(crate) fn note(&mut self, kind: &OutgoingKind, body: &Bytes) {
        // A copy: a slice of the read buffer would keep all of it alive for the life of the session.
        let own = || serde_json::from_slice::<Box<RawValue>>(body).ok();
        match kind {
            OutgoingKind::Request { method: HostMethod::Initialize, .. } => {
                *self = Self { initialize: own(), ..Self::default() };
            }
            OutgoingKind::Request { method: HostMethod::SetLevel, .. } => self.level = own(),
            OutgoingKind::Request { method: HostMethod::Subscribe { uri }, .. } => {
                self.forget(uri);
                self.subscriptions.extend(own().map(|body| (uri.clone(), body)));
            }
            OutgoingKind::Request { method: HostMethod::Unsubscribe { uri }, .. } => self.forget(uri),
            OutgoingKind::Notification(NotificationKind::Initialized) => self.initialized = own(),
            _ => {}
        }
    }

    /// Whether the host sent `initialize` and was answered.
    pub(crate) fn is_initialized(&self) -> bool {
        self.initialize.is_some()
    }

    fn forget(&mut self, uri: &str) {
        self.subscriptions.retain(|(live, _)| **live != *uri);
    }

    /// The recorded messages, in the order in which the daemon must process them.
    pub(crate) fn messages(&self) -> Vec<Box<RawValue>> {
        let first = [&self.initialize, &self.initialized, &self.level];
        let subscriptions = self.subscriptions.iter().map(|(_, body)| body);
        first.into_iter().flatten().chain(subscriptions).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: HostMethod) -> OutgoingKind {
        OutgoingKind::Request { id: "1".into(), method }
    }

    #[test]
    fn the_last_message_counts_and_the_order_is_fixed() {
        let mut replay = Replay::default();
        let mut note =
            |kind: OutgoingKind, body: &'static str| replay.note(&kind, &Bytes::from_static(body.as_bytes()));
        note(request(HostMethod::Initialize), r#"{"m":"init"}"#);
        note(request(HostMethod::Subscribe { uri: "a".into() }), r#"{"m":"sub a"}"#);
        note(request(HostMethod::SetLevel), r#"{"m":"level 1"}"#);
        note(OutgoingKind::Notification(NotificationKind::Initialized), r#"{"m":"initialized"}"#);
        note(request(HostMethod::Subscribe { uri: "b".into() }), r#"{"m":"sub b"}"#);
        note(request(HostMethod::SetLevel), r#"{"m":"level 2"}"#);
        note(request(HostMethod::Unsubscribe { uri: "a".into() }), r#"{"m":"unsub a"}"#);
        let messages: Vec<String> = replay.messages().iter().map(|body| body.get().to_owned()).collect();
        let expect = ["init", "initialized", "level 2", "sub b"].map(|name| format!(r#"{{"m":"{name}"}}"#));
        assert_eq!(messages, expect);
    }

    #[test]
    fn invalid_json_is_not_replayed() {
        let mut replay = Replay::default();
        let body = Bytes::from_static(br#"{"a":01}"#);
        for kind in [
            request(HostMethod::Initialize),
            request(HostMethod::SetLevel),
            request(HostMethod::Subscribe { uri: "a".into() }),
            OutgoingKind::Notification(NotificationKind::Initialized),
        ] {
            replay.note(&kind, &body);
            assert!(replay.messages().is_empty() && !replay.is_initialized(), "{kind:?}");
        }
    }
}

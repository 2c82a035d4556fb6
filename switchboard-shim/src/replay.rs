//! What a new daemon has to be told so that the host's session goes on: the host's own messages, as it
//! wrote them, and only those that were answered. Those that were not are still waiting elsewhere.

use bytes::Bytes;

use crate::methods::{Kind, Method, Note};

#[derive(Debug, Default)]
pub(crate) struct Replay {
    initialize: Option<Bytes>,
    initialized: Option<Bytes>,
    level: Option<Bytes>,
    /// Live subscriptions by the raw text of their `uri`.
    subscriptions: Vec<(Box<str>, Bytes)>,
}

impl Replay {
    /// Whether [`Replay::note`] wants to hear of the answer to this message.
    pub(crate) fn concerns(kind: &Kind) -> bool {
        match kind {
            Kind::Request { method, .. } => {
                !matches!(method, Method::Safe | Method::Call | Method::Once | Method::Listen)
            }
            Kind::Notification(note) => *note == Note::Initialized,
            Kind::Response { .. } => false,
        }
    }

    /// Takes in a message that was answered, and not by an error.
    pub(crate) fn note(&mut self, kind: &Kind, body: &Bytes) {
        match kind {
            Kind::Request { method: Method::Initialize, .. } => {
                *self = Self { initialize: Some(own(body)), ..Self::default() };
            }
            Kind::Request { method: Method::SetLevel, .. } => self.level = Some(own(body)),
            Kind::Request { method: Method::Subscribe { uri }, .. } => {
                self.forget(uri);
                self.subscriptions.push((uri.clone(), own(body)));
            }
            Kind::Request { method: Method::Unsubscribe { uri }, .. } => self.forget(uri),
            Kind::Notification(Note::Initialized) => self.initialized = Some(own(body)),
            _ => {}
        }
    }

    fn forget(&mut self, uri: &str) {
        self.subscriptions.retain(|(live, _)| **live != *uri);
    }

    /// Whole messages, in the order they have to be taken in.
    pub(crate) fn messages(&self) -> Vec<Bytes> {
        let first = [&self.initialize, &self.initialized, &self.level];
        let subscriptions = self.subscriptions.iter().map(|(_, body)| body);
        first.into_iter().flatten().chain(subscriptions).cloned().collect()
    }
}

/// A slice of the read buffer would keep all of it alive for the life of the session.
fn own(body: &Bytes) -> Bytes {
    Bytes::copy_from_slice(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method) -> Kind {
        Kind::Request { id: "1".into(), method }
    }

    #[test]
    fn the_last_word_counts_and_the_order_is_fixed() {
        let mut replay = Replay::default();
        let mut note =
            |kind: Kind, body: &'static str| replay.note(&kind, &Bytes::from_static(body.as_bytes()));
        note(request(Method::Initialize), "init");
        note(request(Method::Subscribe { uri: "a".into() }), "sub a");
        note(request(Method::SetLevel), "level 1");
        note(Kind::Notification(Note::Initialized), "initialized");
        note(request(Method::Subscribe { uri: "b".into() }), "sub b");
        note(request(Method::SetLevel), "level 2");
        note(request(Method::Unsubscribe { uri: "a".into() }), "unsub a");
        assert_eq!(replay.messages(), ["init", "initialized", "level 2", "sub b"]);
    }
}

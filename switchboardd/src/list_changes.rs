//! Tells hosts that lists have changed: each host hears of the lists that it sees change, and of each change once.
//!
//! Whoever may have changed a list calls `notify`: a reload, a child, a session that comes to another workspace. What has
//! changed is found out by comparing fingerprints, so nobody is told of a list that is as it was.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::catalog::ListFingerprints;
use crate::listen_requests::ListenRequests;
use crate::mailbox::MessageKind;
use crate::methods;
use crate::session::{Session, Sessions};

/// Changes come in swarms; hosts hear of them once.
const DEBOUNCE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct ListChanges {
    /// Requests that stay open to hear of changes.
    pub listen_requests: ListenRequests,
    /// A list may have changed. Children notify it too.
    changed: Arc<Notify>,
}

impl ListChanges {
    pub fn new(changed: Arc<Notify>) -> Self {
        Self { listen_requests: ListenRequests::default(), changed }
    }

    /// Lists may be other than they were.
    pub fn notify(&self) {
        self.changed.notify_one();
    }

    /// Tells hosts of changed lists, for as long as it is polled.
    pub async fn run(&self, sessions: &Sessions) {
        loop {
            self.changed.notified().await;
            tokio::time::sleep(DEBOUNCE).await;
            self.listen_requests.notify_changes();
            sessions.all().iter().for_each(|session| notify_changes(session));
        }
    }
}

/// Tells a session's host which of its lists changed since it was last shown or told of them.
fn notify_changes(session: &Session) {
    let Some(before) = session.fingerprints() else { return };
    let now = before.refreshed(&session.workspace().catalog(), session.face.child());
    let changed = now.changed_lists(&before);
    session.set_fingerprints(now);
    if !changed.is_empty() && hears_without_asking(session) {
        changed.into_iter().for_each(|method| push_changed(session, method));
    }
}

/// The host was shown prompts or resources, or a child's lists, for the first time: from now on it hears of their changes.
pub fn note_shown(session: &Session) {
    let before = session.fingerprints();
    if session.caller.mailbox().is_none() || before.as_ref().is_some_and(ListFingerprints::has_offers) {
        return;
    }
    let now = ListFingerprints::of_face(&session.workspace().catalog(), session.face.child());
    session.set_fingerprints(match before {
        Some(before) => before.with_offers_of(now),
        None => now,
    });
}

/// A session is to look at all its lists again.
pub fn notify_all_lists_changed(session: &Session) {
    if hears_without_asking(session) {
        push_changed(session, methods::TOOLS_CHANGED);
    }
    if session.caller.profile().revision.is_some() {
        push_changed(session, methods::PROMPTS_CHANGED);
        push_changed(session, methods::RESOURCES_CHANGED);
    }
}

/// A host of the modern era hears nothing that it does not listen for.
fn hears_without_asking(session: &Session) -> bool {
    let host = session.caller.profile();
    !host.is_modern || host.revision.is_some()
}

fn push_changed(session: &Session, method: &'static str) {
    let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
    session.caller.push(MessageKind::Changed(method), body.into_bytes());
}

//! Logs the messages that arrive.

use switchboard_wire::envelope::Message;

/// Logs kind, id, method and size of a message, not its content.
pub(super) fn log(message: &Message<'_>, bytes: usize) {
    if tracing::enabled!(target: "http", tracing::Level::DEBUG) {
        let (kind, id, method) = match message {
            Message::Request { id, method, .. } => ("request", id.get(), method.name()),
            Message::Notification { method, .. } => ("notification", "-", method.name()),
            Message::Response { id, .. } => ("response", id.get(), "-".into()),
        };
        tracing::debug!(target: "http", %method, id, bytes, "{kind}");
    }
}

//! Sends a message to a remote child that needs no answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use switchboard_wire::envelope::Message;
use tokio::time::timeout;

use super::{RemoteConnection, headers};
use crate::child::Child;

/// Timeout of a message that nobody waits for.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends a message that needs no answer; one that cannot be sent is lost.
pub(super) async fn send_notification(child: &Arc<Child>, connection: &Arc<RemoteConnection>, body: Bytes) {
    let state = connection.state();
    let Ok(message) = Message::parse(&body) else { return };
    let headers = headers::of_message(&state, &message, None);
    let sent = timeout(NOTIFICATION_TIMEOUT, connection.post(&state, headers, body.clone(), None)).await;
    let why = match sent {
        Ok(Ok(response)) if response.status().is_success() => return,
        Ok(Ok(response)) => format!("HTTP status {}", response.status().as_u16()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "too slow".to_owned(),
    };
    tracing::debug!(target: "server", server = child.name(), why, "a message was not taken");
}

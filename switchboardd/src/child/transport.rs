//! The transport to a child: a pipe to its stdin, or HTTP. The only place that distinguishes the two when
//! sending; received messages take the same path.

use std::time::Duration;

use tokio::time::Instant;

use super::cancel_notification::cancelled;
use super::outbox::{Outbox, OutboxError};
use super::remote::RemoteHandle;
use super::{Child, ChildId, Protocol};

pub(super) enum ChildTransport {
    Stdio(Outbox),
    Http(RemoteHandle),
}

impl From<RemoteHandle> for ChildTransport {
    fn from(remote: RemoteHandle) -> Self {
        Self::Http(remote)
    }
}

impl ChildTransport {
    /// Sends one message, which ends with a line break; `id` is set for a request. `coalesce`: queue it, to
    /// be written together with others. `yields`: it is a call, which can wait for room instead.
    pub(super) fn send(
        &self,
        id: Option<ChildId>,
        line: Vec<u8>,
        coalesce: bool,
        yields: bool,
    ) -> Result<(), OutboxError> {
        match self {
            Self::Stdio(outbox) => outbox.send(&line, coalesce, yields),
            Self::Http(remote) => remote.send(id, line),
        }
    }

    /// Waits until there may be room for a call, as long as the child keeps reading.
    pub(super) async fn wait_for_room(&self, timeout: Duration, due: Instant) -> Result<(), OutboxError> {
        match self {
            Self::Stdio(outbox) => outbox.room(timeout, due).await,
            Self::Http(_) => Err(OutboxError::Full),
        }
    }

    /// Bytes sent that the child has not read; after the close, those that it never read.
    pub(super) fn unread(&self) -> u64 {
        match self {
            Self::Stdio(outbox) => outbox.unread(),
            Self::Http(_) => 0,
        }
    }

    pub(super) fn close(&self) {
        match self {
            Self::Stdio(outbox) => outbox.close(),
            Self::Http(remote) => remote.close(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Stdio(outbox) => outbox.is_open(),
            Self::Http(remote) => remote.is_open(),
        }
    }

    /// Whether tool arguments are also sent as HTTP headers.
    pub(super) fn repeats_arguments(&self) -> bool {
        match self {
            Self::Stdio(_) => false,
            Self::Http(remote) => remote.protocol() == Protocol::Modern,
        }
    }

    /// Resolves when a write failed because the child closed its input.
    pub(super) async fn broken(&self) {
        match self {
            Self::Stdio(outbox) => outbox.broken().await,
            Self::Http(_) => std::future::pending().await,
        }
    }
}

impl Child {
    /// Cancels a call that nobody waits for. `notify_child`: a cancel notification may be sent.
    pub(super) fn cancel(&self, id: ChildId, notify_child: bool) {
        match &self.transport {
            ChildTransport::Stdio(_) if notify_child => self.notify(&cancelled(id)),
            ChildTransport::Stdio(_) => {}
            ChildTransport::Http(remote) => remote.cancel(id, notify_child),
        }
    }
}

//! The way to a child: a pipe to its standard input, or messages to where it runs. All that knows the difference
//! when a message is sent; what comes back is sorted alike.

use std::time::Duration;

use tokio::time::Instant;

use super::outbox::{Outbox, Unsent};
use super::remote::Line;
use super::{Child, ChildId, Manner};
use crate::methods;

pub(super) enum Way {
    Pipe(Outbox),
    Remote(Line),
}

impl Way {
    /// Sends one message, which ends with a line break; `id` is that of a request. `together`: there are others at
    /// this moment. `yields`: it may wait for room instead.
    pub(super) fn send(
        &self,
        id: Option<ChildId>,
        line: Vec<u8>,
        together: bool,
        yields: bool,
    ) -> Result<(), Unsent> {
        match self {
            Self::Pipe(outbox) => outbox.send(&line, together, yields),
            Self::Remote(remote) => remote.send(id, line),
        }
    }

    /// Waits until there may be room for a call, as long as the child reads.
    pub(super) async fn room(&self, patience: Duration, due: Instant) -> Result<(), Unsent> {
        match self {
            Self::Pipe(outbox) => outbox.room(patience, due).await,
            Self::Remote(_) => Err(Unsent::Full),
        }
    }

    /// Bytes that were sent and that the child has not read, or never did.
    pub(super) fn unread(&self) -> u64 {
        match self {
            Self::Pipe(outbox) => outbox.unread(),
            Self::Remote(_) => 0,
        }
    }

    pub(super) fn close(&self) {
        match self {
            Self::Pipe(outbox) => outbox.close(),
            Self::Remote(remote) => remote.close(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Pipe(outbox) => outbox.is_open(),
            Self::Remote(remote) => remote.is_open(),
        }
    }

    /// Whether arguments of tools are headers too.
    pub(super) fn repeats_arguments(&self) -> bool {
        match self {
            Self::Pipe(_) => false,
            Self::Remote(remote) => remote.manner() == Manner::Modern,
        }
    }

    /// Resolves when a write failed because the child closed its input.
    pub(super) async fn broken(&self) {
        match self {
            Self::Pipe(outbox) => outbox.broken().await,
            Self::Remote(_) => std::future::pending().await,
        }
    }
}

impl Child {
    /// Nobody waits for the answer to this call any more. `tell`: the child may be told so in words.
    pub(super) fn cancel(&self, id: ChildId, tell: bool) {
        match &self.way {
            Way::Pipe(_) if tell => self.notify(cancelled(id).as_bytes()),
            Way::Pipe(_) => {}
            Way::Remote(remote) => remote.cancel(id, tell),
        }
    }
}

/// The notification that takes a request back.
pub(super) fn cancelled(ChildId(id): ChildId) -> String {
    let method = methods::CANCELLED;
    format!(
        r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"requestId":{id},"reason":"the caller no longer waits"}}}}"#
    )
}

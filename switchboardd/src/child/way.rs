//! The way to a child: a pipe to its standard input, or messages to where it runs. All that knows the difference
//! when a message is sent; what comes back is sorted alike.

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
    /// this moment.
    pub(super) fn send(&self, id: Option<ChildId>, line: Vec<u8>, together: bool) -> Result<(), Unsent> {
        match self {
            Self::Pipe(outbox) => outbox.send(&line, together),
            Self::Remote(remote) => remote.send(id, line),
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

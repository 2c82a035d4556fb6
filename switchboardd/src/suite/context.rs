//! The context of a call that a suite handles.

use std::sync::Arc;

use tokio::time::Instant;

use super::SuitePart;
use super::confirm::ConfirmKey;
use crate::caller::Caller;
use crate::child::ChildRequest;
use crate::observe::metrics::OperationNotes;

/// What the tool that a host calls stands for.
#[derive(Debug, Clone, Copy)]
pub struct CallTarget<'a> {
    pub part: SuitePart,
    /// The server's own tool, if it is called by its own name and not through the suite.
    pub own: Option<&'a str>,
    /// The name of the tool that searches all suites; set for [`SuitePart::Found`].
    pub search: Option<&'a str>,
    /// What calls the subtool in the list that the host was shown, if it writes.
    pub instead: Option<&'a ListedName>,
}

/// A tool of the host's list that calls a tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedName {
    /// The server's tool itself is listed, under this name.
    OwnTool(String),
    Suite(String),
}

impl ListedName {
    pub fn as_str(&self) -> &str {
        let (Self::OwnTool(name) | Self::Suite(name)) = self;
        name
    }
}

/// One call: its caller, its time, its tool and its operation.
#[derive(Debug, Clone, Copy)]
pub struct CallContext<'a> {
    pub caller: &'a Arc<Caller>,
    /// When the call arrived; its waiting time counts from here.
    pub asked: Instant,
    /// The child's tool that the call names, if any.
    pub tool: Option<&'a str>,
    /// The host's progress token, as the host wrote it.
    pub token: Option<&'a str>,
    /// Which subtools the host's tool reaches.
    pub part: SuitePart,
    /// Whether the host called the server's own tool, and not the suite.
    pub by_own_name: bool,
    pub search: Option<&'a str>,
    pub instead: Option<&'a ListedName>,
    /// What the user was asked about it and said yes to.
    pub confirmed: Option<&'a ConfirmKey>,
    /// Where its outcome is recorded.
    pub notes: Option<&'a OperationNotes>,
}

impl<'a> CallContext<'a> {
    /// A call that arrives now.
    pub fn new(caller: &'a Arc<Caller>, notes: Option<&'a OperationNotes>) -> Self {
        Self {
            caller,
            asked: Instant::now(),
            tool: None,
            token: None,
            part: SuitePart::Whole,
            by_own_name: false,
            search: None,
            instead: None,
            confirmed: None,
            notes,
        }
    }

    /// The request that forwards this call to a child.
    pub(super) fn to_child(self, method: &'a str) -> ChildRequest<'a> {
        let span = self.notes.and_then(|notes| notes.span);
        ChildRequest { caller: Some(self.caller), method, tool: self.tool, token: self.token, span }
    }
}

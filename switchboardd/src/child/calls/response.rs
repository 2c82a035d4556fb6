//! Ids of calls, and what comes of a call.

use std::ops::Range;

use bytes::Bytes;
use switchboard_wire::envelope::splice;

use crate::child::ChildError;
use crate::era::ProtocolEra;

/// A request id as we issued it to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChildId(pub u64);

/// A child's answer: the whole message, and where its id stands in it.
#[derive(Debug)]
pub struct ChildResponse {
    pub body: Bytes,
    pub id: Range<usize>,
    /// Of the child whose answer it is.
    pub era: ProtocolEra,
    /// What it says of how the call went, for those who count; `None` if all is well.
    pub error: Option<&'static str>,
}

impl ChildResponse {
    /// The same bytes under the id of the host.
    pub fn for_host(&self, host_id: &str) -> Vec<u8> {
        splice(&self.body, self.id.clone(), host_id.as_bytes())
    }

    /// The same child's answer with another result.
    pub fn with_result(&self, result: &str) -> Self {
        let (before, id) = (r#"{"jsonrpc":"2.0","id":"#, "0");
        let body = format!(r#"{before}{id},"result":{result}}}"#);
        Self {
            body: body.into(),
            id: before.len()..before.len() + id.len(),
            era: self.era,
            error: self.error,
        }
    }
}

/// What a waiting caller is handed.
#[derive(Debug)]
pub(in crate::child) enum CallOutcome {
    Response(ChildResponse),
    /// The child answered with more than anybody takes.
    TooLong(u64),
    /// No answer will come; those to other calls may.
    Failed(ChildError),
    /// It took too long. The call stays open until its caller gives up on it.
    Overdue(ChildError),
}

//! Call ids, and the outcome of a call.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use switchboard_mcp::era::ProtocolEra;
use switchboard_wire::envelope::splice;

use crate::child::ChildError;

/// A request id that the daemon issued to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChildId(pub u64);

/// A child's answer: the whole message, and the range of its id.
#[derive(Debug)]
pub struct ChildResponse {
    pub body: Bytes,
    pub id: Range<usize>,
    /// The era of the child.
    pub era: ProtocolEra,
    /// The error for metrics; `None` if the call succeeded.
    pub error: Option<&'static str>,
    /// How long the child waited for answers of the caller's user.
    pub asked: Duration,
}

impl ChildResponse {
    /// The answer with the host's id.
    pub fn for_host(&self, host_id: &str) -> Vec<u8> {
        splice(&self.body, self.id.clone(), host_id.as_bytes())
    }

    /// An answer of this child with another result.
    pub fn with_result(&self, result: &str) -> Self {
        let (before, id) = (r#"{"jsonrpc":"2.0","id":"#, "0");
        let body = format!(r#"{before}{id},"result":{result}}}"#);
        Self {
            body: body.into(),
            id: before.len()..before.len() + id.len(),
            era: self.era,
            error: self.error,
            asked: self.asked,
        }
    }
}

/// What a waiting caller receives.
#[derive(Debug)]
pub(in crate::child) enum CallOutcome {
    Response(ChildResponse),
    /// The child's answer is over the size limit.
    TooLong(u64),
    /// This call gets no answer; other calls still may.
    Failed(ChildError),
    /// The call timed out. It stays open until its caller gives up on it.
    Overdue(ChildError),
}

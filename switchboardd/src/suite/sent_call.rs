//! A call on its way.

use crate::caller::SentAs;
use crate::child::{ChildError, ChildResponse, InFlight, Limits};
use crate::pool::Lease;

/// A request that was sent to a child, with the lease on that child.
pub struct SentCall {
    pub(super) call: InFlight,
    pub(super) lease: Lease,
    /// What the user said yes to before it was sent.
    pub(super) confirmed: Option<Box<str>>,
}

impl SentCall {
    pub(super) fn new(call: InFlight, lease: Lease) -> Self {
        Self { call, lease, confirmed: None }
    }

    /// For a retry of the host.
    pub(super) fn sent_as(&self) -> SentAs {
        let launch = Some(self.lease.launch());
        SentAs { pid: self.lease.pid(), launch, confirmed: self.confirmed.clone() }
    }

    pub async fn answer(self, limits: Limits) -> Result<ChildResponse, ChildError> {
        self.answer_and_lease(limits).await.0
    }

    /// `answer`, for callers that send more requests to the same child.
    pub(super) async fn answer_and_lease(self, limits: Limits) -> (Result<ChildResponse, ChildError>, Lease) {
        let answer = self.call.answer(limits).await;
        match &answer {
            Ok(_) => self.lease.member().note_served(),
            Err(ChildError::Silent { .. }) => self.lease.probe(),
            Err(_) => {}
        }
        (answer, self.lease)
    }
}

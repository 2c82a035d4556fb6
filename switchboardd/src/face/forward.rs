//! Forwards a request of a host to a child.

use std::sync::Arc;

use switchboard_wire::raw::Raw;

use super::HostRequest;
use crate::caller::Caller;
use crate::suite::failure::Failure;
use crate::suite::outgoing::{OutgoingParams, Swap};
use crate::suite::{CallContext, Suite, SuiteReply};

/// Forwards a request unchanged except for ids, progress tokens and `swap`.
pub(super) async fn forward(
    suite: &Suite,
    caller: &Arc<Caller>,
    request: HostRequest<'_>,
    tool: Option<&str>,
    swap: Option<Swap<'_>>,
) -> Result<SuiteReply, Failure> {
    request.set_suite(suite);
    let mut call = CallContext::new(caller, request.notes);
    let send_right = caller.send_queue(suite.child_name()).await;
    let token = request.params.progress_token();
    (call.tool, call.token) = (tool, token.map(Raw::get));
    let lease = suite.lease(call).await?;
    if let Some(notes) = request.notes.filter(|notes| notes.wants_arguments && tool.is_some()) {
        // Once more: now a child runs, and the values that it was given are known.
        suite.note_own_call(request.params, notes);
    }
    let params = OutgoingParams::Forward { params: request.params.raw, token, swap: swap.as_ref() };
    let sent = suite.send(lease, call, request.method, &params).await;
    let sent = sent.map_err(|error| suite.unavailable(tool, error))?;
    drop(send_right);
    suite.await_response(sent, call, request.method, &params).await
}

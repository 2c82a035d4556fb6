//! Forwards a request of a host to a child.

use std::sync::Arc;

use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;

use super::HostRequest;
use crate::caller::Caller;
use crate::suite::failure::Failure;
use crate::suite::outgoing::{OutgoingParams, Swap};
use crate::suite::{CallArguments, CallContext, Suite, SuiteReply};

/// Forwards a request unchanged except for ids, progress tokens and `swap`.
pub(super) async fn forward(
    suite: &Suite,
    caller: &Arc<Caller>,
    request: HostRequest<'_>,
    swap: Option<Swap<'_>>,
) -> Result<SuiteReply, Failure> {
    request.set_suite(suite);
    let mut call = CallContext::new(caller, request.notes);
    let send_right = caller.send_queue(suite.child_name()).await;
    let token = request.params.progress_token();
    call.token = token.map(Raw::get);
    let lease = suite.lease(call).await?;
    let params = OutgoingParams::Forward { params: request.params.raw, token, swap: swap.as_ref() };
    let sent = suite.send(lease, call, request.method, &params).await;
    let sent = sent.map_err(|error| suite.unavailable(None, error))?;
    drop(send_right);
    suite.await_response(sent, call, request.method, &params).await
}

/// Forwards a call of one of the child's tools, unless the tool is held or the user says no.
pub(super) async fn forward_call(
    suite: &Suite,
    caller: &Arc<Caller>,
    request: HostRequest<'_>,
    tool: &str,
) -> Result<SuiteReply, Failure> {
    let token = request.params.progress_token();
    let call = CallContext {
        tool: Some(tool),
        token: token.map(Raw::get),
        ..CallContext::new(caller, request.notes)
    };
    let args = CallArguments::given(match suite.settings.confirm.is_set() {
        true => confirmed_arguments(&request.params.members)?,
        false => request.params.members.get("arguments"),
    });
    let params = OutgoingParams::Forward { params: request.params.raw, token, swap: None };
    suite.run_judged(call, args, params).await
}

/// The arguments of a call that a user is asked about. Repeated ones are refused, so that the user and the child read
/// the same.
fn confirmed_arguments<'a>(params: &Members<'a>) -> Result<Option<Raw<'a>>, Failure> {
    let mut all = params.0.iter().filter(|(key, _)| key == "arguments").map(|(_, value)| *value);
    let args = all.next().filter(|args| !args.is_null());
    let is_object = args.is_none_or(|args| args.get().starts_with('{'));
    if all.next().is_some() || !is_object {
        let why = "`params.arguments` must be there once, and an object".to_owned();
        return Err(Failure::InvalidParams(why));
    }
    Ok(args)
}

//! `resources/subscribe` and `resources/unsubscribe`. The child is subscribed for the first host that follows
//! a resource, and unsubscribed after the last.

use std::sync::Arc;

use switchboard_mcp::era::ProtocolEra;
use switchboard_mcp::methods;
use switchboard_wire::envelope::{Message, Outcome};

use super::HostRequest;
use super::forward::forward;
use super::requested_item::RequestedItem;
use crate::caller::Caller;
use crate::caller::subscriptions::Subscriber;
use crate::suite::failure::Failure;
use crate::suite::{CallContext, Suite, SuiteReply};

/// `own`: the resource's URI as its child knows it.
pub(super) async fn answer(
    suite: &Suite,
    caller: &Arc<Caller>,
    request: HostRequest<'_>,
    named: &RequestedItem<'_>,
    own: &str,
) -> Result<SuiteReply, Failure> {
    let follows = request.method == methods::SUBSCRIBE;
    // A caller without a mailbox cannot be notified, so it is not registered; the child may refuse it.
    let known = suite.pool.as_ref().filter(|_| caller.owner().mailbox().is_some());
    let subscriptions = known.map(|pool| pool.subscriptions());
    let follower = Subscriber::host(caller);
    if let Some(subscriptions) = subscriptions
        && !follows
        && !subscriptions.remove(own, &follower)
    {
        return Ok(SuiteReply::Own("{}".to_owned()));
    }
    if let Some(subscriptions) = subscriptions
        && follows
        && !subscriptions.add(own, &named.text, &follower)
    {
        return Err(Failure::InvalidParams("too many resources are followed".to_owned()));
    }
    // A modern child has no such request; its listen request is changed instead.
    let lease = suite.lease(CallContext::new(caller, None)).await?;
    if lease.era() == ProtocolEra::Modern {
        if follows {
            lease.subscribe_and_wait(own).await;
        } else {
            lease.set_subscribed(&[own.into()], false);
        }
        return Ok(SuiteReply::Own("{}".to_owned()));
    }
    drop(lease);
    // Registered before the request is sent: an update may arrive before the answer.
    let said = forward(suite, caller, request, named.swapped(own)).await;
    if let Some(subscriptions) = subscriptions.filter(|_| follows && !is_done(&said)) {
        subscriptions.remove(own, &follower);
    }
    said
}

fn is_done(said: &Result<SuiteReply, Failure>) -> bool {
    match said {
        Ok(SuiteReply::Child(answer)) => {
            matches!(Message::parse(&answer.body), Ok(Message::Response { outcome: Outcome::Result(_), .. }))
        }
        Ok(SuiteReply::Own(_)) => true,
        Ok(
            SuiteReply::Refused { .. }
            | SuiteReply::Error(_)
            | SuiteReply::NeedsInput(_)
            | SuiteReply::Confirmed(_),
        )
        | Err(_) => false,
    }
}

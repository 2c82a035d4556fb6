//! The last step before a call is sent: what it may do is judged by the list of the very child that it is sent to. A
//! child that ended while idle is replaced, and its replacement is judged again.

use switchboard_definitions::config::Scope;
use switchboard_mcp::methods;
use switchboard_wire::raw::Raw;

use super::confirm::ConfirmKey;
use super::outgoing::OutgoingParams;
use super::sent_call::SentCall;
use super::{CallContext, Suite, SuitePart, SuiteReply};
use crate::child::{ChildError, InFlight};
use crate::pool::Lease;
use crate::suite::failure::Failure;

/// How many children that ended while idle a call may meet: one when its list is asked for, one when it is sent.
const MAX_REPLACED: usize = 2;

/// What became of a call.
pub enum JudgedCall {
    Sent(SentCall),
    /// It is not sent; the reply says why.
    Refused(SuiteReply),
    /// Not sent yet: the user must say yes to this first.
    AskUser(ConfirmKey),
}

/// The same, for one child.
enum JudgedStep {
    Sent(InFlight),
    Refused(SuiteReply),
    AskUser(ConfirmKey),
}

impl Suite {
    /// Sends a call of `call.tool` to a child whose tools allow it. This is no retry: only a call of which not a byte
    /// was written goes to another child.
    pub async fn send_judged(
        &self,
        call: CallContext<'_>,
        args: Option<Raw<'_>>,
        params: &OutgoingParams<'_>,
    ) -> Result<JudgedCall, Failure> {
        // Calls of one session reach a child in the order they arrived, even while it starts. With a process
        // per call there is no order to keep.
        let own_process = self.pool.as_ref().is_some_and(|pool| pool.settings().scope == Scope::Call);
        let send_right = if own_process { None } else { call.caller.send_queue(self.child_name()).await };
        let mut lease = self.lease(call).await?;
        let mut replaced = 0;
        let judged = loop {
            match self.judge_and_send(&lease, call, args, params).await {
                Ok(JudgedStep::Sent(call)) => break JudgedCall::Sent(SentCall { call, lease }),
                Ok(JudgedStep::Refused(reply)) => break JudgedCall::Refused(reply),
                // Nobody waits for a child or for its turn while the user thinks.
                Ok(JudgedStep::AskUser(key)) => break JudgedCall::AskUser(key),
                Err(Failure::Child { error: ChildError::Unsent, .. }) if replaced < MAX_REPLACED => {
                    replaced += 1;
                    let next = self.next_lease(lease, call.caller).await;
                    lease = next.map_err(|error| self.unavailable(call.tool, error))?;
                }
                Err(Failure::Child { error: ChildError::Unsent, .. }) => {
                    return Err(self.failed(call.tool, lease.wait_end_reason().await));
                }
                Err(failure) => return Err(failure),
            }
        };
        drop(send_right);
        Ok(judged)
    }

    async fn judge_and_send(
        &self,
        lease: &Lease,
        call: CallContext<'_>,
        args: Option<Raw<'_>>,
        params: &OutgoingParams<'_>,
    ) -> Result<JudgedStep, Failure> {
        let subtool = call.tool.unwrap_or_default();
        let failed = |error| self.failed(call.tool, error);
        // What is forwarded as it is, the server checks itself.
        let is_forwarded = matches!(params, OutgoingParams::Forward { .. });
        if !is_forwarded
            && self.settings.validate != Some(false)
            && let Some(refusal) = self.check(lease, call, subtool, args).await?
        {
            return Ok(JudgedStep::Refused(refusal));
        }
        self.refuse_changed(lease, subtool, call.asked).await?;
        if call.part != SuitePart::Whole || self.settings.confirm.is_set() {
            let list = match lease.tools(self.limits, call.asked).await {
                Ok(list) => Some(list),
                Err(error) if !is_forwarded || error == ChildError::Unsent => return Err(failed(error)),
                // Without a list, nothing says that the tool is harmless.
                Err(_) => None,
            };
            if call.part == SuitePart::Found
                && let Some(list) = &list
            {
                // The first list of a new server: until it is compared, nothing counts as read-only.
                self.compare_list(list).await;
            }
            let tool = list.as_ref().and_then(|list| list.find(subtool));
            if let Some(refusal) = self.wrong_part(call, subtool, tool) {
                return Err(refusal);
            }
            if !call.confirmed
                && let Some(key) = self.must_confirm(call.caller, subtool, tool)
            {
                return Ok(JudgedStep::AskUser(key));
            }
        }
        if !is_forwarded {
            self.trace_arguments(subtool, args);
        }
        if let Some(notes) = call.notes.filter(|notes| notes.wants_arguments) {
            // Once more: now a child runs, and the values that it was given are known.
            self.note_arguments(args, notes);
        }
        let request = call.to_child(methods::TOOLS_CALL);
        let sent = self.send_when_room(lease, request, |id, out| params.write(id, out)).await;
        sent.map(JudgedStep::Sent).map_err(failed)
    }
}

//! The last step before a call is sent: what it may do is judged by the list of the very child that it is sent to. A
//! child that ended while idle is replaced, and its replacement is judged again.

use switchboard_definitions::config::Scope;
use switchboard_mcp::methods;
use switchboard_wire::raw::Raw;
use tokio::time::Instant;

use super::confirm::{ConfirmKey, ConfirmNeed, Confirmation};
use super::outgoing::OutgoingParams;
use super::sent_call::SentCall;
use super::{CallContext, Suite, SuitePart, SuiteReply};
use crate::caller::SentAs;
use crate::child::{ChildError, InFlight};
use crate::pool::Lease;
use crate::suite::failure::Failure;

/// How many children that ended while idle a call may meet: one when its list is asked for, one when it is sent.
const MAX_REPLACED: usize = 2;

/// The arguments of a call, in the two ways in which they can be read.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallArguments<'a> {
    pub(super) given: Option<Raw<'a>>,
    /// With the suite's own `query`, which is meant for a subtool that takes one. Only the list of the child that gets
    /// the call says whether it does.
    pub(super) with_query: Option<Raw<'a>>,
}

impl<'a> CallArguments<'a> {
    pub fn given(args: Option<Raw<'a>>) -> Self {
        Self { given: args, with_query: None }
    }
}

/// The outcome of judging a call. `S`: the sent call.
enum JudgedCall<'a, S> {
    /// With the params that it was sent with.
    Sent(S, OutgoingParams<'a>),
    /// It is not sent; the reply says why.
    Refused(SuiteReply),
    /// Not sent yet: the user must say yes to this first, with these arguments.
    AskUser(ConfirmKey, Option<Raw<'a>>),
}

impl Suite {
    /// Runs a call of `call.tool`, once the user has said yes where that is needed.
    pub async fn run_judged(
        &self,
        call: CallContext<'_>,
        args: CallArguments<'_>,
        params: OutgoingParams<'_>,
    ) -> Result<SuiteReply, Failure> {
        let (mut confirmed, mut asked) = (None::<ConfirmKey>, call.asked);
        loop {
            let call = CallContext { confirmed: confirmed.as_ref(), asked, ..call };
            match self.send_judged(call, args, params).await? {
                JudgedCall::Sent(sent, params) => {
                    return self.await_response(sent, call, methods::TOOLS_CALL, &params).await;
                }
                JudgedCall::Refused(said) => return Ok(said),
                JudgedCall::AskUser(key, args) => {
                    let subtool = call.tool.unwrap_or_default();
                    match Box::pin(self.ask_user(call, subtool, args, &key)).await? {
                        Confirmation::Asked(asks) => return Ok(asks),
                        // If the tool is another one by now, the user is asked about that.
                        Confirmation::Given => (confirmed, asked) = (Some(key), Instant::now()),
                    }
                }
            }
        }
    }

    /// Sends a call of `call.tool` to a child whose tools allow it. This is no retry: only a call of which not a byte
    /// was written goes to another child.
    async fn send_judged<'a>(
        &self,
        call: CallContext<'_>,
        args: CallArguments<'a>,
        params: OutgoingParams<'a>,
    ) -> Result<JudgedCall<'a, SentCall>, Failure> {
        // Calls of one session reach a child in the order they arrived, even while it starts. With a process
        // per call there is no order to keep.
        let own_process = self.pool.as_ref().is_some_and(|pool| pool.settings().scope == Scope::Call);
        let send_right = if own_process { None } else { call.caller.send_queue(self.child_name()).await };
        let mut lease = self.lease(call).await?;
        let mut replaced = 0;
        let judged = loop {
            match self.judge_and_send(&lease, call, args, params).await {
                Ok(JudgedCall::Sent((call, confirmed), params)) => {
                    break JudgedCall::Sent(SentCall { call, lease, confirmed }, params);
                }
                Ok(JudgedCall::Refused(reply)) => break JudgedCall::Refused(reply),
                // Nobody waits for a child or for its turn while the user thinks.
                Ok(JudgedCall::AskUser(key, args)) => break JudgedCall::AskUser(key, args),
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

    async fn judge_and_send<'a>(
        &self,
        lease: &Lease,
        call: CallContext<'_>,
        args: CallArguments<'a>,
        params: OutgoingParams<'a>,
    ) -> Result<JudgedCall<'a, (InFlight, Option<Box<str>>)>, Failure> {
        let subtool = call.tool.unwrap_or_default();
        let failed = |error| self.failed(call.tool, error);
        // What is forwarded as it is, the server checks itself.
        let is_forwarded = matches!(params, OutgoingParams::Forward { .. });
        let is_checked = !is_forwarded && self.settings.validate != Some(false);
        let mut due = None;
        loop {
            let list = match is_checked || args.with_query.is_some() {
                true => match self.list_with(lease, call, subtool).await {
                    // If nothing is checked, the list only says whether a query is an argument.
                    Err(failure)
                        if is_checked
                            || matches!(failure, Failure::Child { error: ChildError::Unsent, .. }) =>
                    {
                        return Err(failure);
                    }
                    list => list.ok(),
                },
                false => None,
            };
            let takes_query = || list.as_ref()?.find(subtool).filter(|tool| tool.takes("query"));
            let (args, params) = match args.with_query.filter(|_| takes_query().is_some()) {
                Some(with_query) => (Some(with_query), params.with_args(Some(with_query))),
                None => (args.given, params),
            };
            let list = list.filter(|_| is_checked);
            if let Some(list) = &list
                && let Some(refusal) = self.check_tool(list, call, subtool).await?
            {
                return Ok(JudgedCall::Refused(refusal));
            }
            let need = self.judge(lease, call, is_forwarded).await?;
            if let Some(list) = &list
                && let Some(refusal) = self.check_arguments(list, call, subtool, args).await
            {
                return Ok(JudgedCall::Refused(refusal));
            }
            let confirmed = match need {
                ConfirmNeed::Nothing => None,
                ConfirmNeed::Confirmed(key) => Some(key.into_text()),
                // The user's answers to the child's questions were given to the tool as it was.
                ConfirmNeed::Ask(_) if call.caller.sent_as().is_some_and(SentAs::has_answers) => {
                    return Err(failed(ChildError::Changed));
                }
                ConfirmNeed::Ask(key) => return Ok(JudgedCall::AskUser(key, args)),
            };
            if !is_forwarded {
                self.trace_arguments(subtool, args);
            }
            if let Some(notes) = call.notes.filter(|notes| notes.wants_arguments) {
                // Once more: now a child runs, and the values that it was given are known.
                self.note_arguments(args, notes);
            }
            // The tools may change while the child reads what waits for it.
            let write = |id, out: &mut Vec<u8>| params.write(id, out);
            let request = call.to_child(methods::TOOLS_CALL);
            if let Some(sent) = self.send_or_wait(lease, request, &mut due, write).await.map_err(failed)? {
                return Ok(JudgedCall::Sent((sent, confirmed), params));
            }
        }
    }

    /// Judges a call by the list of the child that gets it: whether the host's tool reaches it, and whether the user must
    /// say yes first.
    async fn judge(
        &self,
        lease: &Lease,
        call: CallContext<'_>,
        is_forwarded: bool,
    ) -> Result<ConfirmNeed, Failure> {
        let subtool = call.tool.unwrap_or_default();
        self.refuse_changed(lease, subtool, call.asked).await?;
        if call.part == SuitePart::Whole && !self.settings.confirm.is_set() {
            return Ok(ConfirmNeed::Nothing);
        }
        let list = match lease.tools(self.limits, call.asked).await {
            Ok(list) => Some(list),
            Err(error) if !is_forwarded || error == ChildError::Unsent => {
                return Err(self.failed(call.tool, error));
            }
            // Without a list, nothing says that the tool is harmless.
            Err(_) => None,
        };
        let Some(list) = list else {
            return match self.wrong_part(call, subtool, false) {
                Some(refusal) => Err(refusal),
                None => Ok(self.must_confirm(call, subtool, None)),
            };
        };
        let acceptance = self.compared(&list).await;
        let tool = list.find(subtool);
        match self.wrong_part(call, subtool, tool.is_some_and(|tool| acceptance.reads(tool))) {
            Some(refusal) => Err(refusal),
            None => {
                let tool = tool.map(|tool| (tool, acceptance.annotations(tool)));
                Ok(self.must_confirm(call, subtool, tool))
            }
        }
    }

    /// Judges a call again before it is repeated with the user's answers. The child may have changed its tools since.
    pub(super) async fn judge_again(
        &self,
        lease: &Lease,
        call: CallContext<'_>,
        params: &OutgoingParams<'_>,
    ) -> Result<(), Failure> {
        let is_forwarded = matches!(params, OutgoingParams::Forward { .. });
        match self.judge(lease, call, is_forwarded).await? {
            ConfirmNeed::Nothing | ConfirmNeed::Confirmed(_) => Ok(()),
            ConfirmNeed::Ask(_) => Err(self.failed(call.tool, ChildError::Changed)),
        }
    }
}

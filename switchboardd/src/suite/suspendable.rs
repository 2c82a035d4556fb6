//! Waits for the response to a request that was sent to a child, and handles the child's questions on the
//! way. There are four combinations of eras:
//!
//! | host | child | a question from the child |
//! |---|---|---|
//! | legacy | legacy | is sent to the host directly (`child/inbound.rs`) |
//! | legacy | modern | is put to the host; the call is repeated with the answers (`elicitation.rs`) |
//! | modern | legacy | ends the host's request, not the child's, which is suspended until the host retries |
//! | modern | modern | passes through; the host retries at the same child |

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use switchboard_mcp::era::results::ResultKind;
use switchboard_mcp::era::{ProtocolEra, question};
use switchboard_wire::envelope::{Message, Outcome};
use switchboard_wire::members::Members;

use super::outgoing::OutgoingParams;
use super::sent_call::SentCall;
use super::{CallContext, Suite, SuiteReply};
use crate::caller::{Caller, InputEntry, SentAs, StatelessRequest};
use crate::child::{ChildError, ChildId, ChildResponse};
use crate::pool::Member;
use crate::suite::failure::Failure;

/// Questions that arrive within this time are put to the host together.
const ROUND_WINDOW: Duration = Duration::from_millis(25);

/// The input that a modern host must supply before its request can be answered.
#[derive(Debug)]
pub enum InputNeeded {
    /// A legacy child or the daemon asked; the call is suspended until the host retries.
    Suspended { call: SuspendableCall, inputs: Vec<InputEntry> },
    /// A modern child asked, and its request is over; the host must retry. With pid 0 it is the daemon's login
    /// question.
    Child { answer: ChildResponse, sent_as: SentAs },
}

impl Suite {
    /// Waits for the response to `sent`.
    pub async fn await_response(
        &self,
        sent: SentCall,
        call: CallContext<'_>,
        method: &str,
        params: &OutgoingParams<'_>,
    ) -> Result<SuiteReply, Failure> {
        let failed = |error| self.failed(call.tool, error);
        match (call.caller.era(), sent.lease.era()) {
            (ProtocolEra::Legacy, ProtocolEra::Legacy) => {
                sent.answer(self.limits).await.map(SuiteReply::Child).map_err(failed)
            }
            (ProtocolEra::Legacy, ProtocolEra::Modern) => {
                self.bridge_elicitation(sent, call, method, params).await
            }
            (ProtocolEra::Modern, ProtocolEra::Legacy) => {
                let (limits, child) = (self.limits, Box::from(self.child_name()));
                let subtool = call.tool.map(Into::into);
                let child_call = (sent.lease.member().clone(), sent.call.id());
                let answer = async move {
                    let answer = sent.answer(limits).await;
                    answer.map(SuiteReply::Child).map_err(|error| Failure::Child { child, subtool, error })
                };
                SuspendableCall::new(call.caller, self, Some(child_call), answer).run_until_input().await
            }
            (ProtocolEra::Modern, ProtocolEra::Modern) => {
                let sent_as = sent.sent_as();
                let answer = sent.answer(self.limits).await.map_err(failed)?;
                let asks = match Message::parse(&answer.body) {
                    Ok(Message::Response { outcome: Outcome::Result(result), .. })
                        if ResultKind::of(result) == ResultKind::InputRequired =>
                    {
                        if let Some(why) = question::bad_address_in_inputs(result) {
                            return Err(failed(ChildError::Unusable { why }));
                        }
                        true
                    }
                    _ => false,
                };
                Ok(if asks {
                    SuiteReply::NeedsInput(Box::new(InputNeeded::Child { answer, sent_as }))
                } else {
                    SuiteReply::Child(answer)
                })
            }
        }
    }
}

type ReplyFuture = Pin<Box<dyn Future<Output = Result<SuiteReply, Failure>> + Send>>;

/// A call of a modern host that may be suspended by questions. Dropping it cancels the open questions and the
/// call.
pub struct SuspendableCall {
    waiting: ReplyFuture,
    caller: Arc<Caller>,
    pub child: Box<str>,
    /// The child that runs it, and its id there.
    child_call: Option<(Arc<Member>, ChildId)>,
    suspended: bool,
    /// Its result is a question of a nested call, which stays alive.
    handed_on: bool,
    /// The capability that the host lacks for a question that was not asked.
    missing_capability: Option<&'static str>,
    /// The maximum duration of a call.
    pub longest: Duration,
}

impl SuspendableCall {
    /// `answer` must put its questions to `caller` only.
    pub fn new(
        caller: &Arc<Caller>,
        suite: &Suite,
        child_call: Option<(Arc<Member>, ChildId)>,
        answer: impl Future<Output = Result<SuiteReply, Failure>> + Send + 'static,
    ) -> Self {
        Self {
            waiting: Box::pin(answer),
            caller: caller.clone(),
            child: suite.child_name().into(),
            child_call,
            suspended: false,
            handed_on: false,
            missing_capability: None,
            longest: suite.limits.max,
        }
    }

    /// A call of no suite.
    #[cfg(test)]
    pub(crate) fn hanging(
        caller: &Arc<Caller>,
        answer: impl Future<Output = Result<SuiteReply, Failure>> + Send + 'static,
    ) -> Self {
        Self {
            waiting: Box::pin(answer),
            caller: caller.clone(),
            child: "kid".into(),
            child_call: None,
            suspended: false,
            handed_on: false,
            missing_capability: None,
            longest: Duration::from_secs(3600),
        }
    }

    /// Runs until there is a response or a question.
    pub async fn run_until_input(mut self) -> Result<SuiteReply, Failure> {
        let caller = self.caller.clone();
        let stateless = caller.as_stateless().expect("BUG: only modern requests are suspended");
        loop {
            tokio::select! {
                biased;
                answer = &mut self.waiting => return self.end(answer),
                () = stateless.wait_for_input() => {}
            }
            tokio::select! {
                biased;
                answer = &mut self.waiting => return self.end(answer),
                () = tokio::time::sleep(ROUND_WINDOW) => {}
            }
            let missing_capability = stateless.take_missing_capability();
            let inputs = stateless.inputs();
            if !inputs.is_empty() {
                // The child has already been told that it was refused.
                self.missing_capability = None;
                self.suspend();
                return Ok(SuiteReply::NeedsInput(Box::new(InputNeeded::Suspended { call: self, inputs })));
            }
            self.missing_capability = missing_capability.or(self.missing_capability);
        }
    }

    /// Suspends the call. While the child waits for input, other hosts get another child if possible, because
    /// the child's messages may concern this call.
    fn suspend(&mut self) {
        self.suspended = true;
        self.caller.as_stateless().into_iter().for_each(StatelessRequest::suspend);
        if let Some((child, _)) = &self.child_call {
            child.change_suspended_calls(1);
        }
    }

    /// Continues the call for the retry in `listener`, with progress under its token.
    pub fn resume(&mut self, listener: &Arc<Caller>, token: Option<&str>) {
        if let Some((child, id)) = &self.child_call {
            child.set_progress_token(*id, token);
        }
        self.leave_suspension(listener);
    }

    fn leave_suspension(&mut self, listener: &Arc<Caller>) {
        self.caller.as_stateless().into_iter().for_each(|stateless| stateless.resume(listener));
        if let Some((child, _)) = self.child_call.as_ref().filter(|_| self.suspended) {
            child.change_suspended_calls(-1);
        }
        self.suspended = false;
    }

    /// Passes on the answers that the host's retry brought.
    pub fn supply_inputs(&self, responses: &Members<'_>) {
        if let Some(stateless) = self.caller.as_stateless() {
            for (key, result) in &responses.0 {
                stateless.answer(key, *result);
            }
        }
    }

    fn end(&mut self, answer: Result<SuiteReply, Failure>) -> Result<SuiteReply, Failure> {
        self.handed_on = matches!(answer, Ok(SuiteReply::NeedsInput(_)));
        let missing_capability = self
            .caller
            .as_stateless()
            .and_then(StatelessRequest::take_missing_capability)
            .or(self.missing_capability);
        match missing_capability {
            // Tell the host which capability it lacks, however the child reacted to the refusal. A successful
            // result stands.
            Some(required) if !is_done(&answer) => Err(Failure::LacksCapability { required }),
            _ => answer,
        }
    }
}

fn is_done(answer: &Result<SuiteReply, Failure>) -> bool {
    let Ok(SuiteReply::Child(answer)) = answer else { return false };
    match Message::parse(&answer.body) {
        Ok(Message::Response { outcome: Outcome::Result(result), .. }) => {
            let failed = Members::of(result).and_then(|result| result.get("isError"));
            failed.is_none_or(|failed| failed.get() != "true")
        }
        _ => false,
    }
}

impl Drop for SuspendableCall {
    fn drop(&mut self) {
        // Cancel the questions first; then the call, by dropping its future.
        if let Some(stateless) = self.caller.as_stateless().filter(|_| !self.handed_on) {
            stateless.abandon();
        }
        if let Some((child, _)) = self.child_call.as_ref().filter(|_| self.suspended) {
            child.change_suspended_calls(-1);
        }
    }
}

impl std::fmt::Debug for SuspendableCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SuspendableCall({})", self.child)
    }
}

//! A request that was sent to a child, up to its answer, with whatever the child asks on the way: which of the
//! four ways between the eras it goes is decided here.
//!
//! | host | child | a question |
//! |---|---|---|
//! | legacy | legacy | goes to the host by itself (`child/inbound.rs`) |
//! | legacy | modern | is put to the host, and the call made again with the answers (`elicitation.rs`) |
//! | modern | legacy | ends the host's request, not the child's: that waits until the host comes back |
//! | modern | modern | passes; the host comes back to the same child |

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::envelope::{Message, Outcome};
use switchboard_wire::members::Members;

use super::call::SentCall;
use super::outgoing::OutgoingParams;
use super::{CallContext, Suite, SuiteReply};
use crate::caller::{Caller, InputEntry, StatelessRequest};
use crate::child::{ChildError, ChildId, ChildResponse};
use crate::era::results::Kind;
use crate::era::{ProtocolEra, question};
use crate::error::Failure;
use crate::pool::Member;

/// Questions that come one after the other within this are one round.
const ROUND: Duration = Duration::from_millis(25);

/// What a modern host has to answer before its request is.
#[derive(Debug)]
pub enum InputNeeded {
    /// A legacy child does, and works on when the host comes back.
    Suspended { call: SuspendableCall, inputs: Vec<InputEntry> },
    /// A modern child does, and has answered; the host is to come back to this process.
    Child { answer: ChildResponse, pid: u32 },
}

impl Suite {
    /// Waits for the answer to what was sent.
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
                let pid = sent.lease.pid();
                let answer = sent.answer(self.limits).await.map_err(failed)?;
                let asks = match Message::parse(&answer.body) {
                    Ok(Message::Response { outcome: Outcome::Result(result), .. })
                        if Kind::of(result) == Kind::InputRequired =>
                    {
                        if let Some(why) = question::bad_address_in_inputs(result) {
                            return Err(failed(ChildError::Unusable { why }));
                        }
                        true
                    }
                    _ => false,
                };
                Ok(if asks {
                    SuiteReply::NeedsInput(Box::new(InputNeeded::Child { answer, pid }))
                } else {
                    SuiteReply::Child(answer)
                })
            }
        }
    }
}

type ReplyFuture = Pin<Box<dyn Future<Output = Result<SuiteReply, Failure>> + Send>>;

/// A call of a modern host in which it may be asked something. Dropping it tells those who ask that nobody comes
/// back.
pub struct SuspendableCall {
    waiting: ReplyFuture,
    caller: Arc<Caller>,
    pub child: Box<str>,
    /// The child that works on it, and the call there.
    child_call: Option<(Arc<Member>, ChildId)>,
    suspended: bool,
    /// Its answer is a question of a call within it, which goes on.
    handed_on: bool,
    /// What its host would have to declare for what it was not asked.
    missing_capability: Option<&'static str>,
    /// No call takes longer than this.
    pub longest: Duration,
}

impl SuspendableCall {
    /// `answer` asks `caller`, and only that one.
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

    /// Waits until there is an answer, or a question.
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
                () = tokio::time::sleep(ROUND) => {}
            }
            let missing_capability = stateless.take_missing_capability();
            let inputs = stateless.inputs();
            if !inputs.is_empty() {
                // The child knows already what it has to do without.
                self.missing_capability = None;
                self.suspend();
                return Ok(SuiteReply::NeedsInput(Box::new(InputNeeded::Suspended { call: self, inputs })));
            }
            self.missing_capability = missing_capability.or(self.missing_capability);
        }
    }

    /// Other hosts are served by another child as long as this one waits for a word, if there can be one: what it
    /// says meanwhile may be about this call.
    fn suspend(&mut self) {
        self.suspended = true;
        self.caller.as_stateless().into_iter().for_each(StatelessRequest::suspend);
        if let Some((child, _)) = &self.child_call {
            child.change_suspended_calls(1);
        }
    }

    /// The host came back by a request that hears what is said from now on, progress under this token.
    pub fn resume(&mut self, listener: &Arc<Caller>, token: Option<&str>) {
        if let Some((child, id)) = &self.child_call {
            child.retoken(*id, token);
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

    /// The host came back with these.
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
            // However the child takes a refusal, and however fast: the host is told what it lacks. Work that was
            // done without is done.
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
        // First the questions, then the call, whose own drop cancels it.
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

//! A request that was sent to a child, up to its answer, with whatever the child asks on the way: which of the
//! four ways between the eras it goes is decided here.
//!
//! | host | child | a question |
//! |---|---|---|
//! | legacy | legacy | goes to the host by itself (`child/inbound.rs`) |
//! | legacy | modern | is put to the host, and the call made again with the answers (`interpret.rs`) |
//! | modern | legacy | ends the host's request, not the child's: that waits until the host comes back |
//! | modern | modern | passes; the host comes back to the same child |

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::envelope::{Message, Outcome};
use switchboard_wire::members::Members;

use super::call::Sent;
use super::{Said, Suite};
use crate::caller::{Caller, Input, Once};
use crate::child::{Answer, Child, ChildError, ChildId};
use crate::era::results::Kind;
use crate::era::{Era, question};
use crate::error::Failure;
use crate::telemetry::trace::Context;

/// Questions that come one after the other within this are one round.
const ROUND: Duration = Duration::from_millis(25);

/// What was asked of a child, for those who have to ask it again.
pub struct Asked<'a, P: Fn(ChildId, &mut Vec<u8>)> {
    pub method: &'a str,
    pub subtool: Option<&'a str>,
    pub token: Option<&'a str>,
    /// The span that it is part of.
    pub span: Option<Context>,
    pub params: P,
}

/// What a modern host has to answer before its request is.
#[derive(Debug)]
pub enum Asks {
    /// A legacy child does, and works on when the host comes back.
    Parked { conversation: Conversation, inputs: Vec<Input> },
    /// A modern child does, and has answered; the host is to come back to this process.
    Child { answer: Answer, pid: u32 },
}

impl Suite {
    /// Waits for the answer to what was sent.
    pub async fn converse<P: Fn(ChildId, &mut Vec<u8>)>(
        &self,
        sent: Sent,
        caller: &Arc<Caller>,
        asked: Asked<'_, P>,
    ) -> Result<Said, Failure> {
        let failed = |error| self.failed(asked.subtool, error);
        match (caller.era(), sent.lease.era()) {
            (Era::Legacy, Era::Legacy) => sent.answer(self.limits).await.map(Said::Child).map_err(failed),
            (Era::Legacy, Era::Modern) => self.interpret(sent, caller, asked).await,
            (Era::Modern, Era::Legacy) => {
                let (limits, child) = (self.limits, Box::from(self.child_name()));
                let subtool = asked.subtool.map(Into::into);
                let place = (Arc::clone(&sent.lease), sent.call.id());
                let answer = async move {
                    let answer = sent.answer(limits).await;
                    answer.map(Said::Child).map_err(|error| Failure::Child { child, subtool, error })
                };
                Conversation::new(caller, self, Some(place), answer).go_on().await
            }
            (Era::Modern, Era::Modern) => {
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
                Ok(if asks { Said::Asks(Box::new(Asks::Child { answer, pid })) } else { Said::Child(answer) })
            }
        }
    }
}

type Waiting = Pin<Box<dyn Future<Output = Result<Said, Failure>> + Send>>;

/// A call of a modern host in which it may be asked something. Dropping it tells those who ask that nobody comes
/// back.
pub struct Conversation {
    waiting: Waiting,
    caller: Arc<Caller>,
    pub child: Box<str>,
    /// The child that works on it, and the call there.
    place: Option<(Arc<Child>, ChildId)>,
    parked: bool,
    /// Its answer is a question of a conversation within it, which goes on.
    handed_on: bool,
    /// What its host would have to declare for what it was not asked.
    lacking: Option<&'static str>,
    /// No call takes longer than this.
    pub longest: Duration,
}

impl Conversation {
    /// `answer` asks `caller`, and only that one.
    pub fn new(
        caller: &Arc<Caller>,
        suite: &Suite,
        place: Option<(Arc<Child>, ChildId)>,
        answer: impl Future<Output = Result<Said, Failure>> + Send + 'static,
    ) -> Self {
        Self {
            waiting: Box::pin(answer),
            caller: caller.clone(),
            child: suite.child_name().into(),
            place,
            parked: false,
            handed_on: false,
            lacking: None,
            longest: suite.limits.max,
        }
    }

    /// Waits until there is an answer, or a question.
    pub async fn go_on(mut self) -> Result<Said, Failure> {
        let caller = self.caller.clone();
        let once = caller.as_once().expect("BUG: only modern requests are conversed with");
        loop {
            tokio::select! {
                biased;
                answer = &mut self.waiting => return self.end(answer),
                () = once.asked() => {}
            }
            tokio::select! {
                biased;
                answer = &mut self.waiting => return self.end(answer),
                () = tokio::time::sleep(ROUND) => {}
            }
            let lacking = once.take_lacking();
            let inputs = once.inputs();
            if !inputs.is_empty() {
                // The child knows already what it has to do without.
                self.lacking = None;
                self.park();
                return Ok(Said::Asks(Box::new(Asks::Parked { conversation: self, inputs })));
            }
            self.lacking = lacking.or(self.lacking);
        }
    }

    /// Other hosts are served by another child as long as this one waits for a word, if there can be one: what it
    /// says meanwhile may be about this call.
    fn park(&mut self) {
        self.parked = true;
        self.caller.as_once().into_iter().for_each(Once::park);
        if let Some((child, _)) = &self.place {
            child.parked(1);
        }
    }

    /// The host came back by a request that hears what is said from now on, progress under this token.
    pub fn resume(&mut self, hears: &Arc<Caller>, token: Option<&str>) {
        if let Some((child, id)) = &self.place {
            child.retoken(*id, token);
        }
        self.unpark(hears);
    }

    fn unpark(&mut self, hears: &Arc<Caller>) {
        self.caller.as_once().into_iter().for_each(|once| once.unpark(hears));
        if let Some((child, _)) = self.place.as_ref().filter(|_| self.parked) {
            child.parked(-1);
        }
        self.parked = false;
    }

    /// The host came back with these.
    pub fn hear(&self, responses: &Members<'_>) {
        if let Some(once) = self.caller.as_once() {
            for (key, result) in &responses.0 {
                once.answer(key, *result);
            }
        }
    }

    fn end(&mut self, answer: Result<Said, Failure>) -> Result<Said, Failure> {
        self.handed_on = matches!(answer, Ok(Said::Asks(_)));
        let lacking = self.caller.as_once().and_then(Once::take_lacking).or(self.lacking);
        match lacking {
            // However the child takes a refusal, and however fast: the host is told what it lacks. Work that was
            // done without is done.
            Some(required) if !is_done(&answer) => Err(Failure::LacksCapability { required }),
            _ => answer,
        }
    }
}

fn is_done(answer: &Result<Said, Failure>) -> bool {
    let Ok(Said::Child(answer)) = answer else { return false };
    match Message::parse(&answer.body) {
        Ok(Message::Response { outcome: Outcome::Result(result), .. }) => {
            let failed = Members::of(result).and_then(|result| result.get("isError"));
            failed.is_none_or(|failed| failed.get() != "true")
        }
        _ => false,
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // First the questions, then the call, whose own drop cancels it.
        if let Some(once) = self.caller.as_once().filter(|_| !self.handed_on) {
            once.walk_away();
        }
        if let Some((child, _)) = self.place.as_ref().filter(|_| self.parked) {
            child.parked(-1);
        }
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Conversation({})", self.child)
    }
}

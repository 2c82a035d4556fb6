//! Between a legacy host and a modern child: the child's `input_required` becomes real requests to the host, and
//! the host's answers another request to the child, as that era wants it.

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::envelope::{Message, Outcome};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use tokio::sync::oneshot;

use super::call::Sent;
use super::converse::Asked;
use super::{Said, Suite};
use crate::caller::Caller;
use crate::child::{ChildError, ChildId};
use crate::era::question::{InputRequest, InputRequired, unwilling};
use crate::era::results::{self, Kind};
use crate::era::{retry, schema};
use crate::error::Failure;
use crate::methods;
use crate::pool::Lease;

/// A child that asks more often than this never ends.
const ROUNDS: usize = 8;

/// Why the host's answers did not come together.
enum Unanswered {
    /// The host's own error.
    Refused(String),
    Child(ChildError),
}

impl Suite {
    pub(super) async fn interpret<P: Fn(ChildId, &mut Vec<u8>)>(
        &self,
        mut sent: Sent,
        caller: &Arc<Caller>,
        asked: Asked<'_, P>,
    ) -> Result<Said, Failure> {
        let failed = |error| self.failed(asked.subtool, error);
        let unusable = |why| failed(ChildError::Unusable { why });
        for _ in 0..ROUNDS {
            let (answer, lease) = sent.answer_and_lease(self.limits).await;
            let answer = answer.map_err(failed)?;
            let Ok(Message::Response { outcome: Outcome::Result(result), .. }) = Message::parse(&answer.body)
            else {
                return Ok(Said::Child(answer));
            };
            match Kind::of(result) {
                Kind::Complete => return Ok(Said::Ours(projected(&lease, &asked, result))),
                Kind::Other(kind) => {
                    return Err(unusable(format!(
                        "answered with a `{kind}`, which is none of this host's era"
                    )));
                }
                Kind::InputRequired => {}
            }
            let asks = InputRequired::read(result).map_err(unusable)?;
            let responses = match put(caller, &asks.requests, self.limits.max).await {
                Ok(responses) => responses,
                Err(Unanswered::Refused(error)) => return Ok(Said::Fault(error)),
                Err(Unanswered::Child(error)) => return Err(failed(error)),
            };
            let params = |id, out: &mut Vec<u8>| {
                let mut first = Vec::new();
                (asked.params)(id, &mut first);
                let first = String::from_utf8_lossy(&first);
                out.extend_from_slice(retry::with_answers(&first, &responses, asks.state).as_bytes());
            };
            let again = lease
                .call_with_room(self.limits, asked.span, caller, asked.method, asked.token, params)
                .await;
            sent = match again {
                Ok(call) => Sent { call: call.about(asked.subtool), lease },
                Err(ChildError::Unsent) => return Err(failed(lease.ending().await)),
                Err(error) => return Err(failed(error)),
            };
        }
        Err(unusable(format!("asked for input {ROUNDS} times in one call")))
    }
}

/// A modern child's result as a legacy host takes it.
fn projected<P: Fn(ChildId, &mut Vec<u8>)>(lease: &Lease, asked: &Asked<'_, P>, result: Raw<'_>) -> String {
    let plain = results::for_legacy(result);
    let Some(raw) = Raw::parse(plain.as_bytes()) else { return plain };
    match asked.method {
        methods::TOOLS_CALL => {
            let list = lease.known_tools();
            let tool = asked.subtool.and_then(|name| list.as_ref()?.find(name));
            let wrap = tool.is_some_and(|tool| schema::is_wrapped((&*tool.raw).into()));
            schema::result_for_legacy(raw, wrap).into_owned()
        }
        methods::TOOLS_LIST => schema::list_for_legacy(raw).into_owned(),
        _ => plain,
    }
}

/// Puts all questions to the host at once and waits for every answer.
async fn put(
    caller: &Arc<Caller>,
    requests: &[InputRequest<'_>],
    longest: Duration,
) -> Result<Vec<(String, String)>, Unanswered> {
    let mut open = Open { caller, questions: Vec::new() };
    let mut waiting = Vec::new();
    for request in requests {
        let text = request.to_legacy(|| crate::random::hex(8));
        let Ok(Message::Request { id, params, .. }) = Message::parse(text.as_bytes()) else {
            let why = format!("its input request `{}` cannot be put to anybody", request.key);
            return Err(Unanswered::Child(ChildError::Unusable { why }));
        };
        let (tell, told) = oneshot::channel();
        let heard = move |response: &[u8], _: Raw<'_>| {
            let _ = tell.send(outcome(response));
        };
        let ours = caller.ask(text.as_bytes(), id, &request.method, params, heard);
        open.questions.extend(ours);
        waiting.push((request, told));
    }
    let mut answers = Vec::new();
    for (request, told) in waiting {
        let answer = match tokio::time::timeout(longest, told).await {
            Ok(Ok(Ok(result))) => Some(result),
            Ok(Ok(Err(error))) => match unwilling(&request.method, "cancel") {
                Some(instead) => Some(instead),
                None => return Err(Unanswered::Refused(error)),
            },
            // It could not be asked, or has gone.
            Ok(Err(_)) => unwilling(&request.method, "decline"),
            Err(_) => unwilling(&request.method, "cancel"),
        };
        let Some(answer) = answer else {
            let why = format!("asks for `{}`, which its host did not give", request.method);
            return Err(Unanswered::Child(ChildError::Unusable { why }));
        };
        answers.push((request.key.clone(), answer));
    }
    Ok(answers)
}

/// The host's result, or its error.
fn outcome(response: &[u8]) -> Result<String, String> {
    let response = Raw::parse(response).and_then(Members::of).unwrap_or_default();
    match (response.get("result"), response.get("error")) {
        (Some(result), _) => Ok(result.get().to_owned()),
        (None, Some(error)) => Err(error.get().to_owned()),
        (None, None) => Err(r#"{"code":-32603,"message":"no answer"}"#.to_owned()),
    }
}

/// Questions that are withdrawn when the call ends before they are answered.
struct Open<'a> {
    caller: &'a Arc<Caller>,
    questions: Vec<Box<str>>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        for question in &self.questions {
            self.caller.withdraw(question, "the call that asked has ended");
        }
    }
}

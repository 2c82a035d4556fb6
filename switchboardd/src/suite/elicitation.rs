//! Bridges a legacy host and a modern child: the child's `input_required` becomes requests to the host, and
//! the host's answers become a retry of the call.

use std::sync::Arc;
use std::time::Duration;

use switchboard_mcp::era::question::{InputRequest, InputRequired, declined_result};
use switchboard_mcp::era::results::{self, ResultKind};
use switchboard_mcp::era::{retry, schema};
use switchboard_mcp::methods;
use switchboard_wire::envelope::{Message, Outcome};
use switchboard_wire::members::Members;
use switchboard_wire::raw::Raw;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::outgoing::OutgoingParams;
use super::sent_call::SentCall;
use super::{CallContext, Suite, SuiteReply};
use crate::caller::Caller;
use crate::child::ChildError;
use crate::pool::Lease;
use crate::suite::failure::Failure;

/// Limit of question rounds per call, in case a child never stops asking.
const MAX_ROUNDS: usize = 8;

/// Why the host's answers are incomplete.
enum NoAnswers {
    /// The error that the host answered with.
    Refused(String),
    Child(ChildError),
}

impl Suite {
    pub(super) async fn bridge_elicitation(
        &self,
        mut sent: SentCall,
        call: CallContext<'_>,
        method: &str,
        params: &OutgoingParams<'_>,
    ) -> Result<SuiteReply, Failure> {
        let failed = |error| self.failed(call.tool, error);
        let unusable = |why| failed(ChildError::Unusable { why });
        for _ in 0..MAX_ROUNDS {
            let (answer, lease) = sent.answer_and_lease(self.limits).await;
            let answer = answer.map_err(failed)?;
            let Ok(Message::Response { outcome: Outcome::Result(result), .. }) = Message::parse(&answer.body)
            else {
                return Ok(SuiteReply::Child(answer));
            };
            match ResultKind::of(result) {
                ResultKind::Complete => {
                    return Ok(SuiteReply::Own(projected(&lease, call.tool, method, result)));
                }
                ResultKind::Other(kind) => {
                    return Err(unusable(format!(
                        "answered with a `{kind}`, which this host's revision does not have"
                    )));
                }
                ResultKind::InputRequired => {}
            }
            let asks = InputRequired::read(result).map_err(unusable)?;
            let since = Instant::now();
            let answers = ask_host(call.caller, &asks.requests, self.limits.max).await;
            call.notes.iter().for_each(|notes| notes.record_user_time(since.elapsed()));
            let responses = match answers {
                Ok(responses) => responses,
                Err(NoAnswers::Refused(error)) => return Ok(SuiteReply::Error(error)),
                Err(NoAnswers::Child(error)) => return Err(failed(error)),
            };
            let with_answers = |id, out: &mut Vec<u8>| {
                let mut first = Vec::new();
                params.write(id, &mut first);
                let first = String::from_utf8_lossy(&first);
                out.extend_from_slice(retry::with_answers(&first, &responses, asks.state).as_bytes());
            };
            let mut due = None;
            sent = loop {
                if method == methods::TOOLS_CALL {
                    self.judge_again(&lease, call, params).await?;
                }
                match self.send_or_wait(&lease, call.to_child(method), &mut due, with_answers).await {
                    Ok(Some(call)) => break SentCall::new(call, lease),
                    Ok(None) => {}
                    Err(ChildError::Unsent) => return Err(failed(lease.wait_end_reason().await)),
                    Err(error) => return Err(failed(error)),
                }
            };
        }
        Err(unusable(format!("asked for input {MAX_ROUNDS} times in one call")))
    }
}

/// Converts a modern child's result for a legacy host.
fn projected(lease: &Lease, tool: Option<&str>, method: &str, result: Raw<'_>) -> String {
    let plain = results::for_legacy(result);
    let Some(raw) = Raw::parse(plain.as_bytes()) else { return plain };
    match method {
        methods::TOOLS_CALL => {
            let list = lease.known_tools();
            let tool = tool.and_then(|name| list.as_ref()?.find(name));
            let wrap = tool.is_some_and(|tool| schema::is_wrapped((&*tool.raw).into()));
            schema::result_for_legacy(raw, wrap).into_owned()
        }
        methods::TOOLS_LIST => schema::list_for_legacy(raw).into_owned(),
        _ => plain,
    }
}

/// Sends all questions to the host at once and waits for every answer.
async fn ask_host(
    caller: &Arc<Caller>,
    requests: &[InputRequest<'_>],
    longest: Duration,
) -> Result<Vec<(String, String)>, NoAnswers> {
    let mut open = OpenQuestions { caller, questions: Vec::new() };
    let mut waiting = Vec::new();
    for request in requests {
        let text = request.to_legacy(|| switchboard_wire::random::hex(8));
        let Ok(Message::Request { id, params, .. }) = Message::parse(&text) else {
            let why = format!("its input request `{}` cannot be shown to the user", request.key);
            return Err(NoAnswers::Child(ChildError::Unusable { why }));
        };
        let (tell, told) = oneshot::channel();
        let heard = move |response: &[u8], _: Raw<'_>| {
            let _ = tell.send(outcome(response));
        };
        let ours = caller.ask(&text, id, &request.method, params, heard);
        open.questions.extend(ours);
        waiting.push((request, told));
    }
    let mut answers = Vec::new();
    for (request, told) in waiting {
        let answer = match tokio::time::timeout(longest, told).await {
            Ok(Ok(Ok(result))) => Some(result),
            Ok(Ok(Err(error))) => match declined_result(&request.method, "cancel") {
                Some(instead) => Some(instead),
                None => return Err(NoAnswers::Refused(error)),
            },
            // The host could not be asked, or has left.
            Ok(Err(_)) => declined_result(&request.method, "decline"),
            Err(_) => declined_result(&request.method, "cancel"),
        };
        let Some(answer) = answer else {
            let why = format!("asks for `{}`, which its host did not give", request.method);
            return Err(NoAnswers::Child(ChildError::Unusable { why }));
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

/// Questions to withdraw if the call ends before they are answered.
struct OpenQuestions<'a> {
    caller: &'a Arc<Caller>,
    questions: Vec<Box<str>>,
}

impl Drop for OpenQuestions<'_> {
    fn drop(&mut self) {
        for question in &self.questions {
            self.caller.withdraw(question, "the call that asked has ended");
        }
    }
}

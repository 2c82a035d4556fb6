//! The legacy era: a handshake opens the session, and a question is a request to the host.

use std::sync::Mutex;

use serde_json::{Map, Value, json};

use super::calls::{CallState, Cancelled};
use super::content::failed;
use super::revision::Revision;
use super::step::{Ask, Round, Step};
use super::tool_context::{Level, ToolContext};
use super::wire::{Answer, Fault, Request};
use super::{Child, Era, offers};

/// Limit of rounds of questions, against endless loops.
const ROUNDS: usize = 8;

#[derive(Default)]
pub(crate) struct Session(Mutex<Option<Opened>>);

#[derive(Clone)]
struct Opened {
    revision: Revision,
    client: Value,
    floor: Level,
}

impl Session {
    fn opened(&self) -> Option<Opened> {
        self.0.lock().unwrap().clone()
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.lock().unwrap().is_some()
    }

    /// Batches exist only in revision 2025-03-26.
    pub(super) fn takes_batches(&self) -> bool {
        self.opened().is_some_and(|opened| opened.revision == Revision::V2025_03_26)
    }
}

pub(super) fn initialize(child: &Child, request: &Request) -> Answer {
    if child.options.era == Era::Modern {
        return Err(super::modern::unsupported(&request.params["protocolVersion"]));
    }
    let asked = request.params["protocolVersion"].as_str().and_then(Revision::parse);
    let known = asked.filter(|revision| !revision.is_modern()).unwrap_or(Revision::LAST_LEGACY);
    let revision = child.options.revision.unwrap_or(known);
    let client = request.params["capabilities"].clone();
    *child.session.0.lock().unwrap() = Some(Opened { revision, client, floor: Level::INFO });
    Ok(json!({
        "protocolVersion": revision.as_str(),
        "capabilities": offers::capabilities(revision),
        "serverInfo": offers::server_info(),
        "instructions": offers::INSTRUCTIONS,
    }))
}

/// `None` if the request was cancelled.
pub(super) fn answer(child: &Child, request: &Request, turn: &CallState) -> Option<Answer> {
    match (request.method.as_str(), child.session.opened()) {
        ("ping", _) => Some(Ok(json!({}))),
        ("server/discover" | "subscriptions/listen", _) => Some(Err(Fault::no_method(&request.method))),
        (_, None) => Some(Err(Fault::new(-32600, "`initialize` comes first"))),
        ("logging/setLevel", _) => Some(set_level(child, &request.params["level"])),
        ("resources/subscribe", _) => Some(uri(request).map(|uri| {
            child.watchers.subscribe(uri);
            json!({})
        })),
        ("resources/unsubscribe", _) => Some(uri(request).map(|uri| {
            child.watchers.unsubscribe(uri);
            json!({})
        })),
        (_, Some(opened)) => play(child, request, turn, &opened).ok(),
    }
}

fn set_level(child: &Child, level: &Value) -> Answer {
    let level = Level::parse(level).ok_or_else(|| Fault::invalid("unknown level"))?;
    if let Some(opened) = child.session.0.lock().unwrap().as_mut() {
        opened.floor = level;
    }
    Ok(json!({}))
}

fn uri(request: &Request) -> Result<&str, Fault> {
    request.params["uri"].as_str().ok_or_else(|| Fault::invalid("`uri` is needed"))
}

fn play(child: &Child, request: &Request, turn: &CallState, opened: &Opened) -> Result<Answer, Cancelled> {
    let context = ToolContext {
        child,
        turn,
        progress_token: request.progress_token(),
        floor: Some(opened.floor),
        progress_speaks: opened.revision.has_audio(),
    };
    let mut answers = Map::new();
    for _ in 0..ROUNDS {
        let round = Round {
            child,
            context: &context,
            revision: opened.revision,
            client: &opened.client,
            params: &request.params,
            answers: &answers,
        };
        let Some(step) = offers::play(&round, &request.method) else {
            return Ok(Err(Fault::no_method(&request.method)));
        };
        match step? {
            Step::Done(result) => return Ok(Ok(result)),
            Step::Fail(fault) => return Ok(Err(fault)),
            Step::Ask(ask) => {
                if let Some(missing) = ask.missing(&opened.client) {
                    return Ok(refusal(request, &missing));
                }
                answers.extend(put(child, request, &ask)?);
            }
        }
    }
    Ok(Err(Fault::new(-32603, "asked too often")))
}

/// The client does not support a question: a tool says so in its result.
fn refusal(request: &Request, missing: &Value) -> Answer {
    let words = format!("the client does not support {missing}");
    if request.method == "tools/call" { Ok(failed(words)) } else { Err(Fault::new(-32603, words)) }
}

/// Sends all questions at once and waits for every answer.
fn put(child: &Child, request: &Request, ask: &Ask) -> Result<Map<String, Value>, Cancelled> {
    let mut waiting = Vec::new();
    for question in &ask.questions {
        let (id, answered) = child.calls.ask(&request.id, question.key)?;
        child.outbox.ask(&id, question.method, &question.params);
        waiting.push((question, answered));
    }
    let mut answers = Map::new();
    for (question, answered) in waiting {
        let answer = match answered.recv().map_err(|_| Cancelled)? {
            Ok(answer) if question.fits(&answer) => answer,
            Ok(answer) => json!({"error": {"code": -32602, "message": format!("not an answer: {answer}")}}),
            Err(fault) => json!({"error": fault.to_json()}),
        };
        answers.insert(question.key.to_owned(), answer);
    }
    Ok(answers)
}
